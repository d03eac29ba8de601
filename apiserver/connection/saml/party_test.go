package saml

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"math/big"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/beevik/etree"

	"github.com/cardea-iam/cardea/apiserver/connection"
)

// now is the time of the tests.
var now = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

const (
	testIDP     = "https://idp.globex.example/saml"
	testSP      = "https://acme.example/sso/conn_1/metadata"
	testACS     = "https://acme.example/sso/conn_1/acs"
	testSLO     = "https://acme.example/sso/conn_1/slo"
	testRequest = "_3f786850e387550fdab836ed7e6dc881de23001b"
	testSubject = "ann@globex.example"
	// evilSubject is the user that attacks claim to be.
	evilSubject = "admin@globex.example"
)

// signer is a key with a certificate.
type signer struct {
	key  crypto.Signer
	cert *x509.Certificate
}

func newSigner(key crypto.Signer) signer { return newSignerAt(key, now) }

// newSignerAt returns a key with a certificate that is valid around a time.
func newSignerAt(key crypto.Signer, at time.Time) signer {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(at.UnixNano()), Subject: pkix.Name{CommonName: "idp"}, NotBefore: at.AddDate(-1, 0, 0), NotAfter: at.AddDate(1, 0, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	return signer{key, cert}
}

func newRSA(bits int) *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		panic(err)
	}
	return key
}

// keyring has the keys of all tests, made once.
type keyring struct {
	idp, next, attacker, weak, p256, p384, p521, p224 signer
	sp, spNext                                        Key
}

var keys = sync.OnceValue(func() *keyring {
	curve := func(c elliptic.Curve) signer {
		key, err := ecdsa.GenerateKey(c, rand.Reader)
		if err != nil {
			panic(err)
		}
		return newSigner(key)
	}
	k := &keyring{
		idp: newSigner(newRSA(2048)), next: newSigner(newRSA(2048)), attacker: newSigner(newRSA(2048)), weak: newSigner(newRSA(1024)),
		p256: curve(elliptic.P256()), p384: curve(elliptic.P384()), p521: curve(elliptic.P521()), p224: curve(elliptic.P224()),
	}
	for key, bits := range map[*Key]int{&k.sp: keyBits, &k.spNext: 2048} {
		made, err := certify(newRSA(bits), "acme.example", now)
		if err != nil {
			panic(err)
		}
		*key = made
	}
	return k
})

func provider(signers ...signer) *Metadata {
	m := &Metadata{EntityID: testIDP}
	for _, s := range signers {
		m.Certificates = append(m.Certificates, s.cert)
	}
	return m
}

func expected() Expected {
	k := keys()
	return Expected{
		RequestID: testRequest, ACSURL: testACS, EntityID: testSP, Provider: provider(k.idp, k.next), Keys: []Key{k.sp}, Skew: time.Minute, Now: now,
	}
}

// shape is what of a response is signed and encrypted.
type shape struct {
	name                          string
	assertion, response, encrypts bool
	how                           encryption
}

// shapes are all shapes of right responses.
var shapes = []shape{
	{"assertion signed", true, false, false, encryption{}},
	{"response signed", false, true, false, encryption{}},
	{"both signed", true, true, false, encryption{}},
	{"assertion signed and encrypted by GCM", true, false, true, gcm},
	{"assertion signed and encrypted by CBC", true, false, true, cbc},
	{"encrypted in a signed response", false, true, true, gcm},
	{"signed and encrypted by CBC in a signed response", true, true, true, cbc},
}

// answer makes a response. The functions change the tree, nil for no change.
type answer struct {
	shape
	// states is what the identity provider states: before anything is signed.
	states func(response *etree.Element)
	// inside changes the assertion after it was signed, before it is encrypted.
	inside func(response *etree.Element)
	// attack changes the response as it is sent.
	attack func(response *etree.Element)
	// signs are how the assertion and the response are signed.
	signs signatureOptions
	by    *signer
}

// element reads XML.
func element(xml string) *etree.Element {
	doc := etree.NewDocument()
	if err := doc.ReadFromString(xml); err != nil {
		panic(err)
	}
	return doc.Root()
}

// response returns what the identity provider sends, before anything is signed.
func response() *etree.Element {
	return element(strings.NewReplacer("{acs}", testACS, "{idp}", testIDP, "{sp}", testSP, "{request}", testRequest, "{subject}", testSubject).Replace(
		`<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion" ID="_response" Version="2.0" IssueInstant="2026-11-26T12:00:00Z" Destination="{acs}" InResponseTo="{request}">
  <saml:Issuer>{idp}</saml:Issuer>
  <samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"/></samlp:Status>
  <saml:Assertion xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xs="http://www.w3.org/2001/XMLSchema" ID="_assertion" Version="2.0" IssueInstant="2026-11-26T12:00:00Z">
    <saml:Issuer>{idp}</saml:Issuer>
    <saml:Subject>
      <saml:NameID Format="urn:oasis:names:tc:SAML:2.0:nameid-format:persistent" NameQualifier="q" SPNameQualifier="{sp}">{subject}</saml:NameID>
      <saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer">
        <saml:SubjectConfirmationData NotOnOrAfter="2026-11-26T12:05:00Z" Recipient="{acs}" InResponseTo="{request}"/>
      </saml:SubjectConfirmation>
    </saml:Subject>
    <saml:Conditions NotBefore="2026-11-26T11:59:30Z" NotOnOrAfter="2026-11-26T12:05:00Z">
      <saml:AudienceRestriction><saml:Audience>{sp}</saml:Audience></saml:AudienceRestriction>
    </saml:Conditions>
    <saml:AuthnStatement AuthnInstant="2026-11-26T11:58:00Z" SessionIndex="session-1" SessionNotOnOrAfter="2026-11-26T20:00:00Z">
      <saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport</saml:AuthnContextClassRef></saml:AuthnContext>
    </saml:AuthnStatement>
    <saml:AttributeStatement>
      <saml:Attribute Name="mail"><saml:AttributeValue xsi:type="xs:string">ann@globex.example</saml:AttributeValue></saml:Attribute>
      <saml:Attribute Name="givenName"><saml:AttributeValue xsi:type="xs:string">Ann</saml:AttributeValue></saml:Attribute>
      <saml:Attribute Name="sn"><saml:AttributeValue xsi:type="xs:string">Lee</saml:AttributeValue></saml:Attribute>
      <saml:Attribute Name="groups"><saml:AttributeValue>eng</saml:AttributeValue><saml:AttributeValue>ops</saml:AttributeValue></saml:Attribute>
    </saml:AttributeStatement>
  </saml:Assertion>
</samlp:Response>`))
}

func apply(change func(*etree.Element), to *etree.Element) {
	if change != nil {
		change(to)
	}
}

// xml returns the response as it is sent.
func (a answer) xml() []byte {
	by := keys().idp
	if a.by != nil {
		by = *a.by
	}
	root := response()
	apply(a.states, root)
	root = element(string(render(root))) // as one reads it, without sections of CDATA
	if a.assertion {
		a.signs.sign(at(root, "Assertion"), by)
	}
	apply(a.inside, root)
	if a.encrypts {
		for _, el := range root.ChildElements() {
			if el.Tag == "Assertion" {
				a.how.encrypt(el, keys().sp)
			}
		}
	}
	if a.response {
		a.signs.sign(root, by)
	}
	apply(a.attack, root)
	return render(root)
}

func render(root *etree.Element) []byte {
	raw, err := etree.NewDocumentWithRoot(root.Copy()).WriteToBytes()
	if err != nil {
		panic(err)
	}
	return raw
}

// at returns the first element with a tag.
func at(root *etree.Element, tag string) *etree.Element {
	if root.Tag == tag {
		return root
	}
	for _, el := range root.ChildElements() {
		if found := at(el, tag); found != nil {
			return found
		}
	}
	return nil
}

// evaluate reads and evaluates a response.
func evaluate(xml []byte, want Expected) (*Assertion, error) {
	r, err := ReadResponse(encode(xml))
	if err != nil {
		return nil, err
	}
	return r.Evaluate(want)
}

// refused checks that a response is refused, for a reason unless that is "".
func refused(t *testing.T, name string, xml []byte, want Expected, reason string) {
	t.Helper()
	a, err := evaluate(xml, want)
	expectFault(t, name, a, err, reason)
}

func expectFault(t *testing.T, name string, got any, err error, reason string) {
	t.Helper()
	var f *connection.Fault
	switch {
	case err == nil:
		t.Errorf("%s: accepted: %+v", name, got)
	case !errors.As(err, &f):
		t.Errorf("%s: %v is no fault", name, err)
	case reason != "" && f.Reason != reason:
		t.Errorf("%s: %v, want the reason %s", name, err, reason)
	case len(f.Got) > 310 || len(f.Expected) > 310:
		t.Errorf("%s: the fault is too long: %v", name, err)
	}
}

func encode(xml []byte) string { return base64.StdEncoding.EncodeToString(xml) }
