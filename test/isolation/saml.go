package isolation

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
)

// samlResponse is a kind of expensive response of an identity provider of SAML.
type samlResponse struct {
	name string
	how  samlprovider.How
	// accepted reports that the response is right, so that it is read in full. All others are refused.
	accepted bool
}

// declarations returns n declarations of namespaces with a length in bytes, with the prefixes n0, n1 and so on.
func declarations(n, length int) string {
	all := ""
	for i := range n {
		all += fmt.Sprintf(` xmlns:n%d="urn:%02d%s"`, i, i, strings.Repeat("x", length-len("urn:00")))
	}
	return all
}

// prefixed returns n empty attributes, each in a namespace of declarations.
func prefixed(n int) string {
	all := ""
	for i := range n {
		all += fmt.Sprintf(` n%d:a=""`, i)
	}
	return all
}

// withIn returns a function that adds XML at the end of an assertion.
func withIn(xml string) func(string) string {
	return func(assertion string) string {
		return strings.Replace(assertion, "</saml:Assertion>", xml+"</saml:Assertion>", 1)
	}
}

// samlResponses returns the most expensive responses known, within the bounds of one: 256 KiB, 5,000 elements and
// attributes, a depth of 32. Encrypted ones are for the certificate of a service provider. The server refuses XML that
// is added to a signed text, after it made the canonical form.
func samlResponses(to *x509.Certificate) []samlResponse {
	const elements = 4800
	filled := func(element string) string { return "<x>" + strings.Repeat(element, elements) + "</x>" }
	declares := func(all string) func(string) string {
		return func(response string) string { return strings.Replace(response, "<x>", "<x"+all+">", 1) }
	}
	// once declares a namespace once that the canonical form declares at each element.
	short := declarations(1, 75)
	once := func(response string) string { return declares(short)(strings.ReplaceAll(response, short, "")) }
	encrypted := func(assertion string) string { return encrypt(assertion, to) }
	deep := strings.Repeat("<x>", 28) + strings.Repeat("</x>", 28)
	return []samlResponse{
		{"undecryptable", samlprovider.How{Assertion: func(string) string { return samlprovider.Undecryptable }}, false},
		{"attributes with prefixes", samlprovider.How{
			Signed: withIn("<x" + declarations(16, 256) + ">" + strings.Repeat("<y"+prefixed(16)+"/>", elements/16) + "</x>"),
		}, false},
		{"a long canonical form", samlprovider.How{
			Signed: withIn("<x" + declarations(1, 256) + ">" + strings.Repeat("<n0:y/>", elements) + "</x>"),
		}, false},
		{"many elements", samlprovider.How{Assertion: withIn(filled("<y></y>")), Sent: declares(declarations(16, 256)), SignsResponse: true}, true},
		{"a namespace of many elements", samlprovider.How{Assertion: withIn(filled("<n0:y" + short + "></n0:y>")), Sent: once, SignsResponse: true}, true},
		{"deep elements", samlprovider.How{
			Assertion: withIn("<x>" + strings.Repeat(deep, elements/28) + "</x>"), Sent: declares(declarations(16, 256)), SignsResponse: true,
		}, true},
		{"one text", samlprovider.How{Assertion: withIn("<x>" + strings.Repeat("x", 240<<10) + "</x>"), SignsResponse: true}, true},
		{"encrypted", samlprovider.How{Assertion: withIn(filled("<y>" + strings.Repeat("x", 24) + "</y>")), Signed: encrypted, SignsResponse: true}, true},
	}
}

// encrypt returns an encrypted assertion in canonical form: AES-256-GCM, with a key that RSA-OAEP encrypts.
func encrypt(assertion string, to *x509.Certificate) string {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // 32 bytes are a key
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // the cipher is AES
	}
	text := func(raw []byte) string {
		return "<xenc:CipherData><xenc:CipherValue>" + base64.StdEncoding.EncodeToString(raw) + "</xenc:CipherValue></xenc:CipherData>"
	}
	encryptedKey, err := rsa.EncryptOAEP(sha256.New(), rand.Reader, to.PublicKey.(*rsa.PublicKey), key, nil)
	if err != nil {
		panic(err) // the keys of connections are long enough
	}
	const ds, xenc, xenc11 = "http://www.w3.org/2000/09/xmldsig#", "http://www.w3.org/2001/04/xmlenc#", "http://www.w3.org/2009/xmlenc11#"
	return `<saml:EncryptedAssertion xmlns:saml="urn:oasis:names:tc:SAML:2.0:assertion"><xenc:EncryptedData xmlns:xenc="` + xenc + `" Type="` + xenc + `Element">` +
		`<xenc:EncryptionMethod Algorithm="` + xenc11 + `aes256-gcm"></xenc:EncryptionMethod><ds:KeyInfo xmlns:ds="` + ds + `"><xenc:EncryptedKey>` +
		`<xenc:EncryptionMethod Algorithm="` + xenc11 + `rsa-oaep"><ds:DigestMethod Algorithm="` + xenc + `sha256"></ds:DigestMethod>` +
		`<xenc11:MGF xmlns:xenc11="` + xenc11 + `" Algorithm="` + xenc11 + `mgf1sha256"></xenc11:MGF></xenc:EncryptionMethod>` + text(encryptedKey) +
		`</xenc:EncryptedKey></ds:KeyInfo>` + text(aead.Seal(nil, nil, []byte(assertion), nil)) + `</xenc:EncryptedData></saml:EncryptedAssertion>`
}

// samlMetadata serves the most expensive metadata known, and what hostile APIs answer, each below a path of its name.
type samlMetadata struct {
	*httptest.Server
	documents map[string]string
	others    http.Handler

	mu      sync.Mutex
	fetched map[string]int
}

func newSAMLMetadata(others http.Handler) (*samlMetadata, error) {
	certificates, err := largeCertificates(16)
	if err != nil {
		return nil, err
	}
	const most = 20_000 // elements and attributes
	within := func(padding string, certificates ...string) string {
		keys := ""
		for _, one := range certificates {
			keys += "<KeyDescriptor><ds:KeyInfo><ds:X509Data><ds:X509Certificate>" + one + "</ds:X509Certificate></ds:X509Data></ds:KeyInfo></KeyDescriptor>"
		}
		return `<EntitiesDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#">` + padding +
			`<EntityDescriptor entityID="https://idp.attacker.example"><IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">` + keys +
			`<SingleSignOnService Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-Redirect" Location="https://idp.attacker.example/"/></IDPSSODescriptor></EntityDescriptor></EntitiesDescriptor>`
	}
	wide := func(elements int) string {
		return "<x" + declarations(24, 256) + ">" + strings.Repeat("<y"+prefixed(24)+"/>", elements) + "</x>"
	}
	m := &samlMetadata{others: others, fetched: map[string]int{}, documents: map[string]string{
		"certificates": within("", certificates...),
		"attributes":   within(wide(most/24-10), certificates[0]),
		"elements":     within("<x>"+strings.Repeat("<y/>", most-50)+"</x>", certificates[0]),
		"beyond":       within(wide((1<<20-100<<10)/len("<y"+prefixed(24)+"/>")), certificates[0]),
	}}
	m.Server = httptest.NewServer(m)
	return m, nil
}

// ServeHTTP implements http.Handler.
func (m *samlMetadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	m.mu.Lock()
	m.fetched[name]++
	m.mu.Unlock()
	document, found := m.documents[name]
	if !found {
		m.others.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/samlmetadata+xml")
	_, _ = fmt.Fprint(w, document) // an error means that the client disconnected
}

// counts returns how often each document was fetched.
func (m *samlMetadata) counts() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.fetched)
}

func (m *samlMetadata) close() {
	m.CloseClientConnections() // endless answers end
	m.Close()
}

// largeCertificates returns n certificates of almost 16 KiB, in base64.
func largeCertificates(n int) ([]string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now, all := time.Now(), make([]string, n)
	for i := range all {
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: "idp"}, NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
			ExtraExtensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 55555, 1}, Value: make([]byte, 15<<10)}},
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		if err != nil {
			return nil, err
		}
		all[i] = base64.StdEncoding.EncodeToString(der)
	}
	return all, nil
}
