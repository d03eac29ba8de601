package saml

import (
	"bytes"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
)

// Stated returns the metadata of an identity provider of which a user stated these three values. Requests go to signOn
// by HTTP-Redirect. The caller checks the values.
func Stated(entityID, signOn string, certificate *x509.Certificate) *Metadata {
	return &Metadata{
		EntityID: entityID, SignOn: []Endpoint{{Binding: BindingRedirect, URL: signOn, ResponseURL: signOn}},
		Certificates: []*x509.Certificate{certificate},
	}
}

// ReadCertificate reads a certificate for signatures as a user enters it: one in PEM, or its DER in base64 with or
// without line breaks. The key is RSA of at least 2048 bits, or P-256 or stronger. The error says how to fix it.
func ReadCertificate(text string) (*x509.Certificate, error) {
	if len(text) > maxPEM {
		return nil, errors.New("must have at most 16384 bytes")
	}
	der, err := certificateDER(text)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	switch {
	case err != nil:
		return nil, errors.New("must be an X.509 certificate, in PEM or base64")
	case !strong(certificate):
		return nil, errors.New("must have an RSA key of at least 2048 bits, or a key on P-256 or a stronger curve")
	}
	return certificate, nil
}

func certificateDER(text string) ([]byte, error) {
	if !strings.Contains(text, "-----BEGIN") {
		der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err != nil {
			return nil, errors.New("must be an X.509 certificate, in PEM or base64")
		}
		return der, nil
	}
	block, rest := pem.Decode([]byte(text))
	switch {
	case block == nil || block.Type != "CERTIFICATE":
		return nil, errors.New("must be PEM of the type CERTIFICATE: a private key or another object is not accepted")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, errors.New("must be one certificate: send metadata_xml if the identity provider has several")
	}
	return block.Bytes, nil
}
