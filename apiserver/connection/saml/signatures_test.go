package saml

import (
	"crypto/rsa"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/beevik/etree"
	dsig "github.com/russellhaering/goxmldsig"
)

// plain returns the shapes in which an attacker can change the outermost signature.
func plain() (found []shape) {
	for _, s := range shapes {
		if !s.encrypts || s.response {
			found = append(found, s)
		}
	}
	return found
}

// outer returns the outermost signature.
func outer(root *etree.Element) *etree.Element { return at(root, "Signature") }

// changed are attacks on the outermost signature, with the reason of the refusal, "" for any.
func changed() map[string]stated {
	remove := func(tag string) func(*etree.Element) {
		return func(root *etree.Element) {
			el := at(outer(root), tag)
			el.Parent().RemoveChild(el)
		}
	}
	empty := func(tag string) func(*etree.Element) {
		return func(root *etree.Element) { at(outer(root), tag).SetText("") }
	}
	algorithm := func(tag, name string) func(*etree.Element) {
		return func(root *etree.Element) { at(outer(root), tag).CreateAttr("Algorithm", name) }
	}
	return map[string]stated{
		"an empty value":             {empty("SignatureValue"), ReasonSignature},
		"no value":                   {remove("SignatureValue"), ReasonStructure},
		"a value that is not base64": {func(root *etree.Element) { at(outer(root), "SignatureValue").SetText("%") }, ReasonSignature},
		"a value of another content": {func(root *etree.Element) {
			at(outer(root), "SignatureValue").SetText(base64.StdEncoding.EncodeToString(random(256)))
		}, ReasonSignature},
		"no SignedInfo":                {remove("SignedInfo"), ReasonStructure},
		"no reference":                 {remove("Reference"), ReasonSignature},
		"no digest":                    {remove("DigestValue"), ReasonSignature},
		"an empty digest":              {empty("DigestValue"), ""},
		"no transforms":                {remove("Transforms"), ReasonSignature},
		"no canonicalization":          {remove("CanonicalizationMethod"), ReasonSignature},
		"another reference":            {func(root *etree.Element) { at(outer(root), "Reference").CreateAttr("URI", "#_other") }, ReasonSignature},
		"a reference to the document":  {func(root *etree.Element) { at(outer(root), "Reference").CreateAttr("URI", "") }, ReasonSignature},
		"an Object":                    {func(root *etree.Element) { outer(root).AddChild(wrapped("ds:Object")) }, ReasonSignature},
		"two KeyInfos":                 {func(root *etree.Element) { outer(root).AddChild(at(outer(root), "KeyInfo").Copy()) }, ReasonStructure},
		"two SignedInfos":              {func(root *etree.Element) { outer(root).AddChild(at(outer(root), "SignedInfo").Copy()) }, ReasonStructure},
		"two values":                   {func(root *etree.Element) { outer(root).AddChild(at(outer(root), "SignatureValue").Copy()) }, ReasonStructure},
		"a stated method of HMAC":      {algorithm("SignatureMethod", hmacSHA256), ReasonSignature},
		"a stated method of SHA-1":     {algorithm("SignatureMethod", dsig.RSASHA1SignatureMethod), ReasonSignature},
		"a stated digest of SHA-1":     {algorithm("DigestMethod", sha1Digest), ReasonSignature},
		"a stated inclusive form":      {algorithm("CanonicalizationMethod", inclusive), ReasonSignature},
		"another ID of the element":    {func(root *etree.Element) { outer(root).Parent().CreateAttr("ID", "_x") }, ReasonSignature},
		"a changed version":            {func(root *etree.Element) { outer(root).Parent().CreateAttr("Version", "2.1") }, ReasonSignature},
		"a further attribute":          {func(root *etree.Element) { outer(root).Parent().CreateAttr("Consent", "x") }, ReasonSignature},
		"another element":              {func(root *etree.Element) { outer(root).Parent().CreateElement("saml:Extra") }, ReasonSignature},
		"another namespace of a value": {func(root *etree.Element) { outer(root).Parent().CreateElement("samlp:Extensions").CreateAttr("a", "b") }, ReasonSignature},
	}
}

func TestChangedSignaturesAreRefused(t *testing.T) {
	t.Parallel()
	for name, tc := range changed() {
		for _, s := range plain() {
			refused(t, s.name+", "+name, answer{shape: s, attack: tc.states}.xml(), expected(), tc.reason)
		}
	}
	for _, s := range shapes {
		if s.encrypts {
			continue
		}
		attack := func(root *etree.Element) {
			_ = walk(root, func(el *etree.Element) error {
				for _, signature := range children(el, nsSignature, "Signature") {
					el.RemoveChild(signature)
				}
				return nil
			})
		}
		refused(t, s.name+", no signature", answer{shape: s, attack: attack}.xml(), expected(), ReasonSignature)
	}
}

// The value of an ECDSA signature is r and s, each as long as the order of the curve.
func TestChangedECDSASignaturesAreRefused(t *testing.T) {
	t.Parallel()
	by := keys().p256
	for name, change := range map[string]func([]byte) []byte{
		"another r":       func(value []byte) []byte { value[10] ^= 1; return value },
		"another s":       func(value []byte) []byte { value[40] ^= 1; return value },
		"a zero before s": func(value []byte) []byte { return slices.Insert(value, 32, 0) },
		"a shorter s":     func(value []byte) []byte { return value[:63] },
	} {
		for _, s := range plain() {
			want := expected()
			want.Provider = provider(by)
			attack := func(root *etree.Element) {
				el := at(outer(root), "SignatureValue")
				value, err := base64.StdEncoding.DecodeString(el.Text())
				if err != nil || len(value) != 64 {
					t.Fatalf("%s, %s: a signature of %d bytes: %v", s.name, name, len(value), err)
				}
				el.SetText(base64.StdEncoding.EncodeToString(change(value)))
			}
			refused(t, s.name+", "+name, answer{shape: s, by: &by, attack: attack}.xml(), want, ReasonSignature)
		}
	}
}

// weakSignature is a signature by a key of the metadata, in a way that is not accepted.
type weakSignature struct {
	signs signatureOptions
	by    signer
}

func weakSignatures() map[string]weakSignature {
	k := keys()
	return map[string]weakSignature{
		"SHA-1":                             {signatureOptions{method: dsig.RSASHA1SignatureMethod, digest: sha1Digest}, k.idp},
		"a method with SHA-1":               {signatureOptions{method: dsig.RSASHA1SignatureMethod}, k.idp},
		"a digest by SHA-1":                 {signatureOptions{digest: sha1Digest}, k.idp},
		"HMAC with the certificate":         {signatureOptions{method: hmacSHA256}, k.idp},
		"RSA of 1024 bits":                  {signatureOptions{}, k.weak},
		"P-224":                             {signatureOptions{}, k.p224},
		"ECDSA with SHA-1":                  {signatureOptions{method: dsig.ECDSASHA1SignatureMethod}, k.p256},
		"no reference":                      {signatureOptions{noReference: true}, k.idp},
		"two references":                    {signatureOptions{references: 2}, k.idp},
		"a reference to the document":       {signatureOptions{uri: "-"}, k.idp},
		"a reference to another element":    {signatureOptions{uri: "#_other"}, k.idp},
		"a reference by XPointer":           {signatureOptions{uri: "#xpointer(/)"}, k.idp},
		"of Issuer alone":                   {signatureOptions{covers: func(el *etree.Element) *etree.Element { return at(el, "Issuer") }}, k.idp},
		"no transforms":                     {signatureOptions{transforms: []string{}}, k.idp},
		"without the exclusive form":        {signatureOptions{transforms: []string{enveloped}}, k.idp},
		"without enveloped":                 {signatureOptions{transforms: []string{exclusive}}, k.idp},
		"the transforms in another order":   {signatureOptions{transforms: []string{exclusive, enveloped}}, k.idp},
		"a transform twice":                 {signatureOptions{transforms: []string{enveloped, enveloped, exclusive}}, k.idp},
		"XSLT":                              {signatureOptions{transforms: []string{enveloped, "http://www.w3.org/TR/1999/REC-xslt-19991116", exclusive}}, k.idp},
		"XPath":                             {signatureOptions{transforms: []string{enveloped, "http://www.w3.org/TR/1999/REC-xpath-19991116"}}, k.idp},
		"XPath filter 2":                    {signatureOptions{transforms: []string{enveloped, "http://www.w3.org/2002/06/xmldsig-filter2", exclusive}}, k.idp},
		"a decoding of base64":              {signatureOptions{transforms: []string{enveloped, "http://www.w3.org/2000/09/xmldsig#base64"}}, k.idp},
		"the form with comments":            {signatureOptions{transforms: []string{enveloped, withComments}}, k.idp},
		"the inclusive form":                {signatureOptions{transforms: []string{enveloped, inclusive}}, k.idp},
		"the form with comments, of itself": {signatureOptions{canonicalization: withComments}, k.idp},
		"the inclusive form, of itself":     {signatureOptions{canonicalization: inclusive}, k.idp},
	}
}

func TestWeakOrPartialSignaturesAreRefused(t *testing.T) {
	t.Parallel()
	k := keys()
	for name, tc := range weakSignatures() {
		for _, s := range shapes {
			want := expected()
			want.Provider.Certificates = append(want.Provider.Certificates, k.weak.cert, k.p224.cert, k.p256.cert)
			reason := ""
			if tc.signs.method == hmacSHA256 && !s.encrypts {
				reason = ReasonSignature
			}
			refused(t, s.name+", "+name, answer{shape: s, signs: tc.signs, by: &tc.by}.xml(), want, reason)
		}
	}
}

// KeyInfo is not a source of keys, whatever is in it.
func TestForeignKeysAreRefused(t *testing.T) {
	t.Parallel()
	k := keys()
	certificate := func(s signer) string {
		return fmt.Sprintf(`<ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo>`, base64.StdEncoding.EncodeToString(s.cert.Raw))
	}
	keyValue := `<ds:KeyInfo><ds:KeyValue><ds:RSAKeyValue><ds:Modulus>` + base64.StdEncoding.EncodeToString(k.attacker.key.Public().(*rsa.PublicKey).N.Bytes()) + `</ds:Modulus></ds:RSAKeyValue></ds:KeyValue></ds:KeyInfo>`
	for name, tc := range map[string]struct{ keyInfo, reason string }{
		"the attacker's certificate":      {certificate(k.attacker), ReasonCertificate},
		"the provider's certificate":      {certificate(k.idp), ReasonSignature},
		"no KeyInfo":                      {"-", ReasonCertificate},
		"the attacker's key":              {keyValue, ReasonCertificate},
		"both certificates":               {strings.Replace(certificate(k.idp), "<ds:X509Data>", "<ds:X509Data><ds:X509Certificate>"+base64.StdEncoding.EncodeToString(k.attacker.cert.Raw)+"</ds:X509Certificate>", 1), ReasonCertificate},
		"a certificate that is not valid": {`<ds:KeyInfo><ds:X509Data><ds:X509Certificate>AAAA</ds:X509Certificate></ds:X509Data></ds:KeyInfo>`, ReasonCertificate},
	} {
		for _, s := range shapes {
			reason := tc.reason
			if s.encrypts && !s.response {
				reason = ReasonDecryption
			}
			refused(t, s.name+", "+name, answer{shape: s, signs: signatureOptions{keyInfo: tc.keyInfo}, by: &k.attacker}.xml(), expected(), reason)
		}
	}
	want := expected()
	want.Provider.Certificates = nil
	for _, s := range shapes {
		refused(t, s.name+", metadata without certificates", answer{shape: s}.xml(), want, "")
	}
	_, err := evaluate(answer{shape: shapes[0], by: &k.attacker}.xml(), expected())
	if err == nil || !strings.Contains(err.Error(), Fingerprint(k.attacker.cert)) || !strings.Contains(err.Error(), Fingerprint(k.idp.cert)) {
		t.Errorf("the fault does not name the certificates: %v", err)
	}
}

// The canonical form of SignedInfo is made before a key is checked, so an attacker must not make it costly.
func TestLargeSignedInfoIsRefusedBeforeItsCanonicalForm(t *testing.T) {
	t.Parallel()
	attack := func(root *etree.Element) {
		for range 20 {
			at(outer(root), "Reference").CreateElement("ds:x")
		}
	}
	for _, s := range plain() {
		_, err := evaluate(answer{shape: s, attack: attack}.xml(), expected())
		if err == nil || !strings.Contains(err.Error(), "more elements in SignedInfo") {
			t.Errorf("%s: %v", s.name, err)
		}
	}
}

// A verification returns the tree of the signed bytes: without comments, and without the signature.
func TestVerifiedTreeIsThatOfTheSignedBytes(t *testing.T) {
	t.Parallel()
	attack := func(root *etree.Element) { at(root, "Subject").CreateComment("not signed") }
	root := element(string(answer{shape: shapes[1], attack: attack}.xml()))
	signed, certificate, err := verify(root, provider(keys().next, keys().idp).Certificates)
	if err != nil || !certificate.Equal(keys().idp.cert) {
		t.Fatal(err)
	}
	if xml := string(render(signed)); strings.Contains(xml, "not signed") || strings.Contains(xml, "Signature") || !strings.Contains(xml, testSubject) {
		t.Errorf("%s", xml)
	}
}

// If the response and the assertion are signed, a wrong signature of the assertion is not covered up by the response's.
func TestBothSignaturesAreVerified(t *testing.T) {
	t.Parallel()
	for s, reason := range map[int]string{2: ReasonSignature, 6: ReasonDecryption} {
		refused(t, shapes[s].name, answer{shape: shapes[s], inside: setText("NameID", evilSubject)}.xml(), expected(), reason)
	}
}
