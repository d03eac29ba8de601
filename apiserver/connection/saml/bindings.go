package saml

import (
	"bytes"
	"compress/flate"
	"crypto"
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"net/url"
	"strings"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

// redirect returns the address of a request by the binding HTTP-Redirect. The signature covers the query as it is sent
// (SAML bindings 3.4.4.1).
func redirect(root *etree.Element, destination, relayState string, key Key) (string, error) {
	raw, err := etree.NewDocumentWithRoot(root).WriteToBytes()
	if err != nil {
		return "", fmt.Errorf("write a request: %w", err)
	}
	var deflated bytes.Buffer
	w, err := flate.NewWriter(&deflated, flate.BestCompression)
	if err != nil {
		return "", fmt.Errorf("compress a request: %w", err)
	}
	if _, err = w.Write(raw); err != nil {
		return "", fmt.Errorf("compress a request: %w", err)
	}
	if err = w.Close(); err != nil {
		return "", fmt.Errorf("compress a request: %w", err)
	}
	query := "SAMLRequest=" + url.QueryEscape(base64.StdEncoding.EncodeToString(deflated.Bytes()))
	if relayState != "" {
		query += "&RelayState=" + url.QueryEscape(relayState)
	}
	query += "&SigAlg=" + url.QueryEscape(dsig.RSASHA256SignatureMethod)
	signature, err := rsa.SignPKCS1v15(nil, key.Private, crypto.SHA256, sum(crypto.SHA256, []byte(query)))
	if err != nil {
		return "", fmt.Errorf("sign a request: %w", err)
	}
	separator := "?"
	if strings.Contains(destination, "?") {
		separator = "&"
	}
	return destination + separator + query + "&Signature=" + url.QueryEscape(base64.StdEncoding.EncodeToString(signature)), nil
}

// post returns a message for the binding HTTP-POST: with an enveloped signature after Issuer, in base64.
func post(root *etree.Element, key Key) (string, error) {
	signing, err := dsig.NewSigningContext(key.Private, [][]byte{key.Certificate.Raw})
	if err != nil {
		return "", fmt.Errorf("sign a message: %w", err)
	}
	signing.Canonicalizer = dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList("")
	signature, err := signing.ConstructSignature(root.Copy(), true) // the canonical form changes what it is given
	if err != nil {
		return "", fmt.Errorf("sign a message: %w", err)
	}
	root.InsertChildAt(1, signature)
	raw, err := etree.NewDocumentWithRoot(root).WriteToBytes()
	if err != nil {
		return "", fmt.Errorf("write a message: %w", err)
	}
	return base64.StdEncoding.EncodeToString(raw), nil
}
