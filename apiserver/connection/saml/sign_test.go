package saml

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

const (
	sha1Digest   = "http://www.w3.org/2000/09/xmldsig#sha1"
	sha256Digest = "http://www.w3.org/2001/04/xmlenc#sha256"
	hmacSHA256   = "http://www.w3.org/2001/04/xmldsig-more#hmac-sha256"
	withComments = exclusive + "WithComments"
	inclusive    = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"
)

// signatureOptions is how an element is signed; the zero value is right.
type signatureOptions struct {
	// method, digest, canonicalization and transforms are the stated algorithms, "" and nil for the right ones.
	method, digest, canonicalization string
	transforms                       []string
	// prefixes is the PrefixList of the reference.
	prefixes string
	// uri is the reference, "" for that of the element and "-" for an empty one; references is how many there are, 0 for
	// one.
	uri        string
	references int
	// noReference leaves the reference out.
	noReference bool
	// covers is the element that the digest is of, nil for the signed one.
	covers func(*etree.Element) *etree.Element
	// keyInfo is the XML of KeyInfo; "-": none; "": the certificate.
	keyInfo string
	// last puts the signature at the end, which schemas do not allow.
	last bool
}

func or(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}

// sign signs an element as XML Signature says.
func (o signatureOptions) sign(el *etree.Element, by signer) {
	covered := el
	if o.covers != nil {
		covered = o.covers(el)
	}
	digest := or(o.digest, sha256Digest)
	canonical := o.canonical(detach(covered), o.prefixes)
	value := sum(crypto.SHA256, canonical)
	switch digest {
	case sha1Digest:
		s := sha1.Sum(canonical)
		value = s[:]
	case "http://www.w3.org/2001/04/xmlenc#sha512":
		value = sum(crypto.SHA512, canonical)
	case "http://www.w3.org/2001/04/xmldsig-more#sha384":
		value = sum(crypto.SHA384, canonical)
	}
	transforms := ""
	for i, name := range o.names() {
		inclusive := ""
		if o.prefixes != "" && i == 1 {
			inclusive = fmt.Sprintf(`<ec:InclusiveNamespaces xmlns:ec=%q PrefixList=%q></ec:InclusiveNamespaces>`, exclusive, o.prefixes)
		}
		transforms += fmt.Sprintf(`<ds:Transform Algorithm=%q>%s</ds:Transform>`, name, inclusive)
	}
	reference := fmt.Sprintf(`<ds:Reference URI=%q><ds:Transforms>%s</ds:Transforms><ds:DigestMethod Algorithm=%q></ds:DigestMethod><ds:DigestValue>%s</ds:DigestValue></ds:Reference>`,
		strings.TrimPrefix(or(o.uri, "#"+el.SelectAttrValue("ID", "")), "-"), transforms, digest, base64.StdEncoding.EncodeToString(value))
	references := strings.Repeat(reference, max(o.references, 1))
	if o.noReference {
		references = ""
	}
	method := o.method
	if method == "" {
		method = dsig.RSASHA256SignatureMethod
		if _, ec := by.key.(*ecdsa.PrivateKey); ec {
			method = dsig.ECDSASHA256SignatureMethod
		}
	}
	info := fmt.Sprintf(`<ds:SignedInfo xmlns:ds=%q><ds:CanonicalizationMethod Algorithm=%q></ds:CanonicalizationMethod><ds:SignatureMethod Algorithm=%q></ds:SignatureMethod>%s</ds:SignedInfo>`,
		nsSignature, or(o.canonicalization, exclusive), method, references)
	signed := o.canonical(element(info), "")
	keyInfo := fmt.Sprintf(`<ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo>`, base64.StdEncoding.EncodeToString(by.cert.Raw))
	if o.keyInfo != "" {
		keyInfo = strings.TrimPrefix(o.keyInfo, "-")
	}
	signature := element(fmt.Sprintf(`<ds:Signature xmlns:ds=%q>%s<ds:SignatureValue>%s</ds:SignatureValue>%s</ds:Signature>`,
		nsSignature, signed, base64.StdEncoding.EncodeToString(signValue(method, signed, by)), keyInfo))
	if o.last {
		el.AddChild(signature)
	} else {
		el.InsertChildAt(at(el, "Issuer").Index()+1, signature)
	}
}

func (o signatureOptions) names() []string {
	if o.transforms != nil {
		return o.transforms
	}
	return []string{enveloped, exclusive}
}

// canonical returns the canonical form that the options state, the exclusive one for what has none.
func (o signatureOptions) canonical(el *etree.Element, prefixes string) []byte {
	form := dsig.MakeC14N10ExclusiveCanonicalizerWithPrefixList(prefixes)
	switch names := o.names(); {
	case len(names) > 0 && names[len(names)-1] == withComments:
		form = dsig.MakeC14N10ExclusiveWithCommentsCanonicalizerWithPrefixList(prefixes)
	case len(names) > 0 && names[len(names)-1] == inclusive:
		form = dsig.MakeC14N10RecCanonicalizer()
	}
	canonical, err := form.Canonicalize(el)
	if err != nil {
		panic(err)
	}
	return canonical
}

// signValue signs bytes by a method; ECDSA as XML Signature has it, r and s of the same length.
func signValue(method string, signed []byte, by signer) []byte {
	hashes := map[string]crypto.Hash{
		dsig.RSASHA1SignatureMethod: crypto.SHA1, dsig.RSASHA384SignatureMethod: crypto.SHA384, dsig.RSASHA512SignatureMethod: crypto.SHA512,
		dsig.ECDSASHA1SignatureMethod: crypto.SHA1, dsig.ECDSASHA384SignatureMethod: crypto.SHA384, dsig.ECDSASHA512SignatureMethod: crypto.SHA512,
	}
	hash, known := hashes[method]
	if !known {
		hash = crypto.SHA256
	}
	if method == hmacSHA256 {
		mac := hmac.New(sha256.New, by.cert.Raw)
		mac.Write(signed)
		return mac.Sum(nil)
	}
	switch key := by.key.(type) {
	case *rsa.PrivateKey:
		value, err := rsa.SignPKCS1v15(nil, key, hash, sum(hash, signed))
		if err != nil {
			panic(err)
		}
		return value
	case *ecdsa.PrivateKey:
		r, s, err := ecdsa.Sign(rand.Reader, key, sum(hash, signed))
		if err != nil {
			panic(err)
		}
		size := (key.Curve.Params().BitSize + 7) / 8
		return append(r.FillBytes(make([]byte, size)), s.FillBytes(make([]byte, size))...)
	}
	panic("another key")
}
