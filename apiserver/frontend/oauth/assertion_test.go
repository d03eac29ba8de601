package oauth_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestClientAssertionAuthenticatesOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	unrelated, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: "one", Algorithm: "ES256", Use: "sig"}}})
	w.Must(err)
	declared := w.declare("other", nil)
	c := w.signing("signer", set)
	assertion := func(key *ecdsa.PrivateKey, change func(*jwt.Claims)) string {
		claims := jwt.Claims{
			Issuer: c.id, Subject: c.id, Audience: jwt.Audience{issuer}, IssuedAt: jwt.NewNumericDate(w.Clock.Now()), Expiry: jwt.NewNumericDate(w.Clock.Now().Add(time.Minute)), ID: rand.Text(),
		}
		change(&claims)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "one"}}, nil)
		w.Must(err)
		signed, err := jwt.Signed(signer).Claims(claims).Serialize()
		w.Must(err)
		return signed
	}
	same := func(*jwt.Claims) {}
	form := func(assertion string) url.Values {
		return url.Values{
			"grant_type": {"client_credentials"}, "client_assertion": {assertion}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
		}
	}
	bare := func(f url.Values) answer { return c.post("/token", f) }
	w.Eventually("the client is known", func() bool { return bare(form(assertion(key, same))).status == http.StatusOK })
	good := assertion(key, same)
	if a := bare(form(good)); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	for what, a := range map[string]answer{
		"replayed":                  bare(form(good)),
		"by another key":            bare(form(assertion(unrelated, same))),
		"for another issuer":        bare(form(assertion(key, func(c *jwt.Claims) { c.Audience = jwt.Audience{"https://evil.example"} }))),
		"expired":                   bare(form(assertion(key, func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(w.Clock.Now().Add(-time.Minute)) }))),
		"without an end":            bare(form(assertion(key, func(c *jwt.Claims) { c.Expiry = nil }))),
		"good for too long":         bare(form(assertion(key, func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(w.Clock.Now().Add(time.Hour)) }))),
		"without an id":             bare(form(assertion(key, func(c *jwt.Claims) { c.ID = "" }))),
		"from another issuer":       bare(form(assertion(key, func(c *jwt.Claims) { c.Issuer = "x" }))),
		"for another client":        bare(form(assertion(key, func(c *jwt.Claims) { c.Subject = declared.id }))),
		"of another type":           bare(func() url.Values { f := form(assertion(key, same)); f.Set("client_assertion_type", "x"); return f }()),
		"of no algorithm":           bare(form(strings.Replace(assertion(key, same), "e", "f", 1))),
		"a secret in place":         bare(url.Values{"grant_type": {"client_credentials"}, "client_secret": {declared.secret}}),
		"nothing":                   bare(url.Values{"grant_type": {"client_credentials"}}),
		"of a client with a secret": declared.post("/token", form(good), func(r *http.Request) { r.Header.Del("Authorization") }),
	} {
		if a.status != 401 || a.text("error") != "invalid_client" {
			t.Errorf("%s: %d %s", what, a.status, a.raw)
		}
	}
	both := form(assertion(key, same))
	both.Set("client_secret", "x")
	if a := bare(both); a.text("error") != "invalid_request" {
		t.Errorf("two ways at once: %s", a.raw)
	}
	if a := bare(form(assertion(key, func(c *jwt.Claims) { c.Audience = jwt.Audience{issuer + "/token"} }))); a.status != 200 {
		t.Errorf("for the token endpoint: %s", a.raw)
	}
}

// signing declares a client that authenticates with signed assertions (private_key_jwt).
func (w *world) signing(name string, set []byte) *client {
	w.T.Helper()
	return w.declare(name, func(d *document.OAuthClient) {
		d.Authentication, d.Verifiers, d.JWKS = string(v1alpha1.ClientAuthenticationPrivateKeyJWT), nil, set
	})
}

func TestPushedRequestIgnoresTheQuery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.web("reports", func(d *document.OAuthClient) { d.RequirePAR = true })
	other, p := w.web("unrelated", nil), w.signUp("ada@example.com")
	if to := p.authorize(c.request("jobs:read")); to.Query().Get("error") != "invalid_request" {
		t.Errorf("by the browser: %s", to)
	}
	push := func(change func(url.Values)) answer {
		form := c.request("jobs:read")
		change(form)
		return c.post("/par", form)
	}
	for what, change := range map[string]func(url.Values){
		"another redirect URI": func(f url.Values) { f.Set("redirect_uri", "https://evil.example") },
		"another request":      func(f url.Values) { f.Set("request_uri", "x") },
		"no challenge":         func(f url.Values) { f.Del("code_challenge") },
	} {
		if a := push(change); a.status != 400 || a.text("error") != "invalid_request" {
			t.Errorf("%s: %d %s", what, a.status, a.raw)
		}
	}
	if a := push(func(f url.Values) { f.Set("scope", "nope") }); a.text("error") != "invalid_scope" {
		t.Errorf("an unknown scope: %s", a.raw)
	}
	pushed := push(func(url.Values) {})
	if pushed.status != 201 || pushed.body["expires_in"] != 60.0 || !strings.HasPrefix(pushed.text("request_uri"), "urn:ietf:params:oauth:request_uri:") {
		t.Fatalf("%d %s", pushed.status, pushed.raw)
	}
	open := func(id, uri string) (int, string) {
		query := url.Values{"client_id": {id}, "request_uri": {uri}, "scope": {"jobs:run"}, "redirect_uri": {"https://evil.example"}}
		status, header, _ := p.send("GET", "/oauth/portal/authorize?"+query.Encode(), nil)
		return status, header.Get("Location")
	}
	if status, to := open(other.id, pushed.text("request_uri")); status != 400 {
		t.Errorf("another client's: %d %s", status, to)
	}
	if status, to := open(c.id, pushed.text("request_uri")+"x"); status != 400 {
		t.Errorf("another request: %d %s", status, to)
	}
	status, to := open(c.id, pushed.text("request_uri"))
	page, err := url.Parse(to)
	w.Must(err)
	if status != 303 {
		t.Fatalf("%d", status)
	}
	if shown := p.ask("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil)["data"].(map[string]any); shown["redirect_host"] != "client.example" || len(shown["scopes"].([]any)) != 1 {
		t.Errorf("%v", shown)
	}
	if status, to := open(c.id, pushed.text("request_uri")); status != 400 {
		t.Errorf("a second time: %d %s", status, to)
	}
	late := push(func(url.Values) {})
	w.Clock.Advance(time.Minute)
	if status, to := open(c.id, late.text("request_uri")); status != 400 {
		t.Errorf("after its time: %d %s", status, to)
	}
}
