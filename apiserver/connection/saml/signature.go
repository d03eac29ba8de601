package saml

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"math/big"
	"strings"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

// The signature methods and digests that are accepted: SHA-256 or stronger.
var (
	rsaMethods = map[string]crypto.Hash{
		dsig.RSASHA256SignatureMethod: crypto.SHA256, dsig.RSASHA384SignatureMethod: crypto.SHA384, dsig.RSASHA512SignatureMethod: crypto.SHA512,
	}
	ecdsaMethods = map[string]crypto.Hash{
		dsig.ECDSASHA256SignatureMethod: crypto.SHA256, dsig.ECDSASHA384SignatureMethod: crypto.SHA384, dsig.ECDSASHA512SignatureMethod: crypto.SHA512,
	}
	digests = map[string]crypto.Hash{
		"http://www.w3.org/2001/04/xmlenc#sha256": crypto.SHA256, "http://www.w3.org/2001/04/xmldsig-more#sha384": crypto.SHA384,
		"http://www.w3.org/2001/04/xmlenc#sha512": crypto.SHA512,
	}
)

// enveloped and exclusive are the transforms that are accepted, and exclusive the canonicalization.
const (
	enveloped = string(dsig.EnvelopedSignatureAltorithmId)
	exclusive = string(dsig.CanonicalXML10ExclusiveAlgorithmId)
)

// verify verifies the signature of an element by the keys of certificates. It returns the tree of the signed bytes,
// which alone may be read, and the certificate. The error is a *connection.Fault.
//
// It uses the canonical form of goxmldsig without its Validate, which takes the certificate from KeyInfo, refuses
// certificates that have expired, and reads ECDSA signatures in another form than XML Signature has. gosaml2 calls
// it.
func verify(el *etree.Element, trusted []*x509.Certificate) (*etree.Element, *x509.Certificate, error) {
	signature, err := required(el, nsSignature, "Signature")
	if err != nil {
		return nil, nil, fault(ReasonSignature, "no signature", "a signature of "+el.Tag+" or of the message around it")
	}
	info, value, err := parts(signature)
	if err != nil {
		return nil, nil, err
	}
	// The methods and the reference are read from the bytes that the signature covers.
	canonical, err := canonicalize(detach(info), prefixes(info, "CanonicalizationMethod"))
	if err != nil {
		return nil, nil, err
	}
	if info, err = parse(canonical, messageBounds); err != nil {
		return nil, nil, err
	}
	ref, err := readInfo(info, attribute(el, "ID"))
	if err != nil {
		return nil, nil, err
	}
	certificate := ref.signer(canonical, value, trusted)
	if certificate == nil {
		return nil, nil, unknownSigner(signature, trusted)
	}
	signed, err := ref.signed(el)
	return signed, certificate, err
}

// maxInfo bounds the elements of SignedInfo, which is canonicalized before anything is verified.
const maxInfo = 16

// parts returns SignedInfo and the value of a signature.
func parts(signature *etree.Element) (*etree.Element, []byte, error) {
	for _, part := range signature.ChildElements() {
		if part.NamespaceURI() != nsSignature || part.Tag != "SignedInfo" && part.Tag != "SignatureValue" && part.Tag != "KeyInfo" {
			return nil, nil, fault(ReasonSignature, part.Tag+" in Signature", "SignedInfo, SignatureValue and KeyInfo")
		}
	}
	info, err := required(signature, nsSignature, "SignedInfo")
	if err != nil {
		return nil, nil, err
	}
	elements := 0
	_ = walk(info, func(*etree.Element) error { elements++; return nil })
	if elements > maxInfo {
		return nil, nil, fault(ReasonSignature, "more elements in SignedInfo", "one reference")
	}
	encoded, err := required(signature, nsSignature, "SignatureValue")
	if err != nil {
		return nil, nil, err
	}
	if _, err = only(signature, nsSignature, "KeyInfo"); err != nil {
		return nil, nil, err
	}
	value, err := base64.StdEncoding.DecodeString(compact(encoded))
	if err != nil || len(value) == 0 {
		return nil, nil, fault(ReasonSignature, "no value", "a value in base64")
	}
	return info, value, nil
}

// reference is what a signature covers, and how.
type reference struct {
	method   string
	digest   crypto.Hash
	value    []byte
	prefixes string
}

// readInfo reads SignedInfo, which must have exactly one reference: to the element with the ID that the signature is
// in.
func readInfo(info *etree.Element, id string) (r reference, err error) {
	if !is(info, nsSignature, "SignedInfo") || len(info.ChildElements()) != 3 {
		return r, fault(ReasonSignature, "another number of references", "one reference")
	}
	if err = method(info, "CanonicalizationMethod", func(name string) bool { return name == exclusive }, exclusive); err != nil {
		return r, err
	}
	known := func(name string) bool { return rsaMethods[name] != 0 || ecdsaMethods[name] != 0 }
	if err = method(info, "SignatureMethod", known, dsig.RSASHA256SignatureMethod); err != nil {
		return r, err
	}
	ref, err := required(info, nsSignature, "Reference")
	if err != nil {
		return r, err
	}
	if uri := attribute(ref, "URI"); !identifier.MatchString(id) || uri != "#"+id || len(ref.ChildElements()) != 3 {
		return r, fault(ReasonSignature, "a reference to "+uri, "a reference to the element that the signature is in")
	}
	if err = method(ref, "DigestMethod", func(name string) bool { return digests[name] != 0 }, "http://www.w3.org/2001/04/xmlenc#sha256"); err != nil {
		return r, err
	}
	if r.prefixes, err = transforms(ref); err != nil {
		return r, err
	}
	signing, _ := only(info, nsSignature, "SignatureMethod")
	digest, _ := only(ref, nsSignature, "DigestMethod")
	r.method, r.digest = attribute(signing, "Algorithm"), digests[attribute(digest, "Algorithm")]
	value, err := required(ref, nsSignature, "DigestValue")
	if err != nil {
		return r, err
	}
	if r.value, err = base64.StdEncoding.DecodeString(compact(value)); err != nil {
		return r, fault(ReasonSignature, "a digest that is not base64", "")
	}
	return r, nil
}

// method checks the algorithm of the only child with a name.
func method(el *etree.Element, tag string, accepts func(string) bool, expected string) error {
	found, err := required(el, nsSignature, tag)
	if err != nil {
		return err
	}
	if name := attribute(found, "Algorithm"); !accepts(name) {
		return fault(ReasonSignature, tag+" "+name, expected+", or stronger")
	}
	return nil
}

// transforms checks the transforms of a reference: enveloped signature, then exclusive canonical form without
// comments. It returns the prefixes that are canonicalized as the inclusive form does.
func transforms(ref *etree.Element) (string, error) {
	list, err := required(ref, nsSignature, "Transforms")
	if err != nil {
		return "", err
	}
	all := list.ChildElements()
	for i, want := range []string{enveloped, exclusive} {
		if len(all) != 2 || !is(all[i], nsSignature, "Transform") || attribute(all[i], "Algorithm") != want {
			return "", fault(ReasonSignature, "other transforms", "enveloped-signature and "+exclusive)
		}
	}
	if len(all[0].ChildElements()) > 0 {
		return "", fault(ReasonSignature, "other transforms", "enveloped-signature and "+exclusive)
	}
	return prefixes(list, "Transform"), nil
}

// prefixes returns the PrefixList of the last child with a name.
func prefixes(el *etree.Element, tag string) string {
	all := children(el, nsSignature, tag)
	if len(all) == 0 {
		return ""
	}
	if list, err := only(all[len(all)-1], exclusive, "InclusiveNamespaces"); err == nil && list != nil {
		return attribute(list, "PrefixList")
	}
	return ""
}

// signer returns the certificate whose key made a signature, nil if there is none.
func (r reference) signer(signed, value []byte, trusted []*x509.Certificate) *x509.Certificate {
	for _, certificate := range trusted {
		switch key := certificate.PublicKey.(type) {
		case *rsa.PublicKey:
			hash, ok := rsaMethods[r.method]
			if ok && strong(certificate) && rsa.VerifyPKCS1v15(key, hash, sum(hash, signed), value) == nil {
				return certificate
			}
		case *ecdsa.PublicKey:
			hash, ok := ecdsaMethods[r.method]
			if size := (key.Curve.Params().BitSize + 7) / 8; ok && strong(certificate) && len(value) == 2*size &&
				ecdsa.Verify(key, sum(hash, signed), new(big.Int).SetBytes(value[:size]), new(big.Int).SetBytes(value[size:])) {
				return certificate
			}
		}
	}
	return nil
}

// strong reports whether a certificate's key is RSA of 2048 to 8192 bits, or of P-256, P-384 or P-521.
func strong(certificate *x509.Certificate) bool {
	switch key := certificate.PublicKey.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen() >= 2048 && key.N.BitLen() <= 8192
	case *ecdsa.PublicKey:
		return key.Curve == elliptic.P256() || key.Curve == elliptic.P384() || key.Curve == elliptic.P521()
	}
	return false
}

// signed returns the tree of the bytes that a reference to an element covers, if they have the digest.
func (r reference) signed(el *etree.Element) (*etree.Element, error) {
	whole := detach(el)
	signature, err := required(whole, nsSignature, "Signature")
	if err != nil {
		return nil, err
	}
	whole.RemoveChild(signature)
	canonical, err := canonicalize(whole, r.prefixes)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(sum(r.digest, canonical), r.value) {
		return nil, fault(ReasonSignature, "a digest of other content", "the signed content, unchanged")
	}
	return parse(canonical, bounds{2 * MaxMessage, messageBounds.depth, messageBounds.elements, messageBounds.attributes, messageBounds.declarations})
}

func canonicalize(el *etree.Element, prefixes string) ([]byte, error) {
	canonical, err := dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList(prefixes).Canonicalize(el)
	if err != nil {
		return nil, fault(ReasonXML, "no canonical form", "")
	}
	return canonical, nil
}

func sum(hash crypto.Hash, data []byte) []byte {
	h := hash.New()
	h.Write(data)
	return h.Sum(nil)
}

// unknownSigner returns the fault of a signature by none of the keys. KeyInfo only makes the fault clearer.
func unknownSigner(signature *etree.Element, trusted []*x509.Certificate) error {
	var known []string
	for _, certificate := range trusted {
		known = append(known, Fingerprint(certificate))
	}
	expected := "a certificate of the metadata, sha256 " + strings.Join(known, ", ")
	var stated *x509.Certificate
	_ = walk(signature, func(el *etree.Element) error {
		if der, err := base64.StdEncoding.DecodeString(compact(el)); el.Tag == "X509Certificate" && err == nil && stated == nil {
			stated, _ = x509.ParseCertificate(der)
		}
		return nil
	})
	if stated == nil {
		return fault(ReasonCertificate, "not stated", expected)
	}
	for _, certificate := range trusted {
		if certificate.Equal(stated) {
			return fault(ReasonSignature, "not valid by the certificate that it states, sha256 "+Fingerprint(stated), "the signed content, unchanged")
		}
	}
	return fault(ReasonCertificate, "sha256 "+Fingerprint(stated), expected)
}
