package saml

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/beevik/etree"
	gosaml2 "github.com/russellhaering/gosaml2"
	dsig "github.com/russellhaering/goxmldsig"
)

// library is gosaml2 as a service provider, with the first certificate that is trusted.
func library(at time.Time) *gosaml2.SAMLServiceProvider {
	k := keys()
	sp := &gosaml2.SAMLServiceProvider{
		IdentityProviderIssuer: testIDP, ServiceProviderIssuer: testSP, AudienceURI: testSP, AssertionConsumerServiceURL: testACS,
		IDPCertificateStore: &dsig.MemoryX509CertificateStore{Roots: []*x509.Certificate{k.idp.cert}}, Clock: dsig.NewFakeClockAt(at),
	}
	sp.SPKeyStore = dsig.TLSCertKeyStore(tls.Certificate{Certificate: [][]byte{k.sp.Certificate.Raw}, PrivateKey: k.sp.Private})
	return sp
}

// byLibrary returns what gosaml2 decides on a response, with its warnings. A panic is an error.
func byLibrary(xml []byte, at time.Time) (info *gosaml2.AssertionInfo, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return library(at).RetrieveAssertionInfo(encode(xml))
}

// gosaml2 accepts every right response as well, so the signatures of these tests are those of others.
func TestLibraryAcceptsRightResponses(t *testing.T) {
	t.Parallel()
	for _, s := range shapes {
		info, err := byLibrary(answer{shape: s}.xml(), now)
		if err != nil || info.NameID != testSubject || info.WarningInfo.InvalidTime || info.WarningInfo.NotInAudience {
			t.Errorf("%s: %+v, %v", s.name, info, err)
		}
	}
}

// These are why the evaluation does not use gosaml2. If one of them changes, the comment of verify or decrypt is
// wrong.
func TestWhatTheLibraryDoesNotDo(t *testing.T) {
	t.Parallel()
	k := keys()
	short := gcm
	short.change = func([]byte) []byte { return []byte("short") }
	rsa15 := gcm
	rsa15.transport = nsEncryption + "rsa-1_5"
	for name, xml := range map[string][]byte{
		"another request":        answer{shape: shapes[0], states: set("SubjectConfirmationData", "InResponseTo", "_other")}.xml(),
		"no audience":            answer{shape: shapes[0], states: remove("AudienceRestriction")}.xml(),
		"SHA-1":                  answer{shape: shapes[0], signs: signatureOptions{method: dsig.RSASHA1SignatureMethod, digest: sha1Digest}}.xml(),
		"RSA 1.5":                answer{shape: encrypted(rsa15)}.xml(),
		"two references":         answer{shape: shapes[0], signs: signatureOptions{references: 2}}.xml(),
		"a DOCTYPE":              append([]byte("<!DOCTYPE x>"), answer{shape: shapes[0]}.xml()...),
		"a transient NameID":     answer{shape: shapes[0], states: set("NameID", "Format", FormatTransient)}.xml(),
		"c14n with comments":     answer{shape: shapes[0], signs: signatureOptions{transforms: []string{enveloped, withComments}}}.xml(),
		"an undeclared relative": answer{shape: shapes[0], states: func(root *etree.Element) { at(root, "Status").CreateAttr("xmlns:x", "1") }}.xml(),
	} {
		if _, err := byLibrary(xml, now); err != nil {
			t.Errorf("gosaml2 refuses %s now: %v", name, err)
		}
		refused(t, name, xml, expected(), "")
	}
	for name, tc := range map[string]struct {
		xml      []byte
		at       time.Duration
		accepted bool
	}{
		"an expired certificate":           {answer{shape: shapes[0], states: shift(2 * 365 * 24 * time.Hour)}.xml(), 2 * 365 * 24 * time.Hour, true},
		"KeyInfo without a certificate":    {answer{shape: shapes[0], signs: signatureOptions{keyInfo: "<ds:KeyInfo><ds:KeyName>k</ds:KeyName></ds:KeyInfo>"}}.xml(), 0, true},
		"a short text, which is a panic":   {answer{shape: encrypted(short)}.xml(), 0, false},
		"a digest of SHA-256 in RSA-OAEP":  {answer{shape: encrypted(encryption{content: "aes256-gcm", key: 32, hash: sha256Digest})}.xml(), 0, true},
		"1,100 values before a signature":  {answer{shape: shapes[0], signs: signatureOptions{last: true}, states: values(1100)}.xml(), 0, true},
		"a value of base64 that is spaced": {answer{shape: shapes[0], attack: func(root *etree.Element) { el := at(root, "SignatureValue"); el.SetText(" " + el.Text()) }}.xml(), 0, true},
	} {
		if _, err := byLibrary(tc.xml, now.Add(tc.at)); err == nil {
			t.Errorf("gosaml2 accepts %s now", name)
		}
		want := expected()
		want.Now = now.Add(tc.at)
		if _, err := evaluate(tc.xml, want); (err == nil) != tc.accepted {
			t.Errorf("%s: %v", name, err)
		}
	}
	if key, err := dsigECDSA(k.p256); err == nil {
		t.Errorf("goxmldsig accepts an ECDSA signature of XML Signature now: %v", key)
	}
}

// values returns a change that adds values of the attribute groups.
func values(n int) func(*etree.Element) {
	return func(root *etree.Element) {
		for range n {
			at(root, "Attribute").AddChild(element(`<saml:AttributeValue xmlns:saml="` + nsAssertion + `">x</saml:AttributeValue>`))
		}
	}
}

// dsigECDSA lets goxmldsig verify a response by an ECDSA key.
func dsigECDSA(by signer) (*etree.Element, error) {
	validation := dsig.NewDefaultValidationContext(&dsig.MemoryX509CertificateStore{Roots: []*x509.Certificate{by.cert}})
	validation.Clock = dsig.NewFakeClockAt(now)
	return validation.Validate(element(string(answer{shape: shapes[1], by: &by}.xml())))
}

// BenchmarkLibrary evaluates the responses of BenchmarkEvaluate by gosaml2 alone.
func BenchmarkLibrary(b *testing.B) {
	sp := library(now)
	for _, s := range shapes {
		field := encode(answer{shape: s}.xml())
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := sp.RetrieveAssertionInfo(field); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
