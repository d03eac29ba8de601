// Package samlprovider is an identity provider of SAML 2.0 for tests, over real HTTP. It signs users in without asking,
// verifies the signatures of requests, and can be made to lie. It writes its XML in canonical form, so that it needs no
// XML library; the tests of real providers are in test/integration.
package samlprovider

import (
	"compress/flate"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/rsapool"
)

// PersistentFormat is the format of the NameID of a User that states none.
const PersistentFormat = "urn:oasis:names:tc:SAML:2.0:nameid-format:persistent"

// User is what the provider states about a user.
type User struct {
	NameID, Format string
	// Attributes are texts of attributes, in the order of their names.
	Attributes map[string][]string
	// ClassRef is the authentication context, PasswordProtectedTransport if it is "".
	ClassRef string
	// Session is the SessionIndex, "" for none.
	Session string
	// SessionFor is how long the session lasts, 0 for no statement.
	SessionFor time.Duration
	// AuthenticatedAgo is how long ago the user authenticated.
	AuthenticatedAgo time.Duration
}

// Request is a request of a service provider.
type Request struct {
	ID, Issuer, ACSURL, RelayState, NameIDFormat string
	ForceAuthn                                   bool
	ClassRefs                                    []string
}

// Provider is an identity provider.
type Provider struct {
	// URL is its entity ID, and URL+"/metadata" its metadata.
	URL    string
	server *httptest.Server
	clock  func() time.Time

	mu sync.Mutex
	// keys sign: the last one signs, all are in the metadata.
	keys     []signer
	loan     rsapool.Loan
	down     bool
	postOnly bool
	change   func(assertion string) string
	fetched  int
	body     string
}

type signer struct {
	key  *rsa.PrivateKey
	cert []byte
}

// Start starts a provider on loopback.
func Start(clock func() time.Time) *Provider {
	p := &Provider{clock: clock}
	p.Rotate()
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	p.URL = p.server.URL
	return p
}

// Close ends the provider.
func (p *Provider) Close() {
	p.server.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = nil
	p.loan.Return()
}

// SetDown makes the provider answer every request with 502, or serve again.
func (p *Provider) SetDown(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
}

// Rotate adds a key, which signs from now on. The metadata have it beside the former ones.
func (p *Provider) Rotate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := p.loan.Take()
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "idp"}, NotBefore: now.AddDate(-30, 0, 0), NotAfter: now.AddDate(30, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	p.keys = append(p.keys, signer{key, der})
}

// PostOnly makes the metadata offer HTTP-POST alone for requests.
func (p *Provider) PostOnly() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.postOnly = true
}

// Lie sets a function that changes every assertion before it is signed, nil for none.
func (p *Provider) Lie(change func(assertion string) string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change = change
}

// ServeMetadata replaces the metadata, "" for the provider's own.
func (p *Provider) ServeMetadata(body string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.body = body
}

// Fetched returns how often the metadata were fetched.
func (p *Provider) Fetched() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fetched
}

func (p *Provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	down := p.down
	if r.URL.Path == "/metadata" {
		p.fetched++
	}
	p.mu.Unlock()
	switch {
	case down:
		w.WriteHeader(http.StatusBadGateway)
	case r.URL.Path == "/metadata":
		w.Header().Set("Content-Type", "application/samlmetadata+xml")
		_, _ = io.WriteString(w, p.Metadata()) // an error means that the client disconnected
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

// Metadata returns the metadata of the provider.
func (p *Provider) Metadata() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.body != "" {
		return p.body
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<md:EntityDescriptor xmlns:md="urn:oasis:names:tc:SAML:2.0:metadata" xmlns:ds="http://www.w3.org/2000/09/xmldsig#" entityID="%s"><md:IDPSSODescriptor protocolSupportEnumeration="urn:oasis:names:tc:SAML:2.0:protocol">`, p.URL)
	for _, s := range p.keys {
		fmt.Fprintf(&b, `<md:KeyDescriptor use="signing"><ds:KeyInfo><ds:X509Data><ds:X509Certificate>%s</ds:X509Certificate></ds:X509Data></ds:KeyInfo></md:KeyDescriptor>`, base64.StdEncoding.EncodeToString(s.cert))
	}
	for _, endpoint := range []struct{ tag, path string }{{"SingleLogoutService", "/slo"}, {"SingleSignOnService", "/sso"}} {
		for _, binding := range []string{"HTTP-Redirect", "HTTP-POST"} {
			if p.postOnly && binding == "HTTP-Redirect" {
				continue
			}
			fmt.Fprintf(&b, `<md:%s Binding="urn:oasis:names:tc:SAML:2.0:bindings:%s" Location="%s"/>`, endpoint.tag, binding, p.URL+endpoint.path)
		}
	}
	b.WriteString(`</md:IDPSSODescriptor></md:EntityDescriptor>`)
	return b.String()
}

// Certificate returns the certificate of the key that signs, in base64.
func (p *Provider) Certificate() string {
	return base64.StdEncoding.EncodeToString(p.signing().cert)
}

func (p *Provider) signing() signer {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.keys[len(p.keys)-1]
}

// ReadRedirect reads a request of the binding HTTP-Redirect, and verifies its signature by the certificate (DER) of the
// service provider.
func (p *Provider) ReadRedirect(address string, certificate *x509.Certificate) (Request, error) {
	u, err := url.Parse(address)
	if err != nil {
		return Request{}, err
	}
	signed, encoded, found := strings.Cut(u.RawQuery, "&Signature=")
	if !found {
		return Request{}, errors.New("the request is not signed")
	}
	text, err := url.QueryUnescape(encoded)
	if err != nil {
		return Request{}, err
	}
	signature, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return Request{}, err
	}
	sum := sha256.Sum256([]byte(signed))
	if err := rsa.VerifyPKCS1v15(certificate.PublicKey.(*rsa.PublicKey), crypto.SHA256, sum[:], signature); err != nil {
		return Request{}, fmt.Errorf("the signature of the request: %w", err)
	}
	deflated, err := base64.StdEncoding.DecodeString(u.Query().Get("SAMLRequest"))
	if err != nil {
		return Request{}, err
	}
	xml, err := io.ReadAll(io.LimitReader(flate.NewReader(strings.NewReader(string(deflated))), 1<<16))
	if err != nil {
		return Request{}, err
	}
	return readRequest(string(xml), u.Query().Get("RelayState"))
}

// ReadForm reads a request from the page with a form of the binding HTTP-POST.
func (p *Provider) ReadForm(page string) (Request, error) {
	field := func(name string) string {
		found := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
		if found == nil {
			return ""
		}
		return html.UnescapeString(found[1])
	}
	xml, err := base64.StdEncoding.DecodeString(field("SAMLRequest"))
	if err != nil {
		return Request{}, err
	}
	if !strings.Contains(string(xml), "<ds:Signature") {
		return Request{}, errors.New("the request is not signed")
	}
	return readRequest(string(xml), field("RelayState"))
}

func readRequest(xml, relayState string) (Request, error) {
	one := func(pattern string) string {
		found := regexp.MustCompile(pattern).FindStringSubmatch(xml)
		if found == nil {
			return ""
		}
		return html.UnescapeString(found[1])
	}
	r := Request{
		ID: one(` ID="([^"]*)"`), Issuer: one(`<saml:Issuer>([^<]*)<`), ACSURL: one(` AssertionConsumerServiceURL="([^"]*)"`), RelayState: relayState,
		NameIDFormat: one(`NameIDPolicy Format="([^"]*)"`), ForceAuthn: one(` ForceAuthn="([^"]*)"`) == "true",
	}
	for _, found := range regexp.MustCompile(`<saml:AuthnContextClassRef>([^<]*)<`).FindAllStringSubmatch(xml, -1) {
		r.ClassRefs = append(r.ClassRefs, html.UnescapeString(found[1]))
	}
	if r.ID == "" || r.Issuer == "" {
		return r, fmt.Errorf("not a request: %s", xml)
	}
	return r, nil
}
