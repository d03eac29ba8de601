package oauth_test

import (
	"encoding/json"
	"fmt"
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

func TestServerMetadata(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.declare("machine", nil)
	first := ""
	for _, path := range []string{
		"/oauth/portal/.well-known/openid-configuration", "/oauth/portal/.well-known/oauth-authorization-server",
		"/.well-known/oauth-authorization-server/oauth/portal", "/.well-known/openid-configuration/oauth/portal",
	} {
		a := w.get(path)
		if a.status != 200 || a.text("issuer") != issuer || a.text("token_endpoint") != issuer+"/token" || a.header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
		if first == "" {
			first = a.raw
		}
		if a.raw != first {
			t.Errorf("%s says something else: %s", path, a.raw)
		}
	}
	for _, endpoint := range []string{"token", "introspection", "revocation"} {
		if !strings.Contains(first, `"`+endpoint+`_endpoint_auth_signing_alg_values_supported":["ES256"`) {
			t.Errorf("%s: no algorithms for private_key_jwt: %s", endpoint, first)
		}
	}
	if strings.Contains(first, "old") || !strings.Contains(first, "jobs:run") {
		t.Errorf("scopes: %s", first)
	}
	for _, path := range []string{"/oauth/nope/.well-known/openid-configuration", "/oauth/portal", "/oauth/portal/nope", "/.well-known/oauth-authorization-server/oauth/portal/x"} {
		if a := w.get(path); a.status != 404 {
			t.Errorf("%s: %d %s", path, a.status, a.raw)
		}
	}
}

// keys returns the published key set.
func (w *world) keys() *jose.JSONWebKeySet {
	w.T.Helper()
	var set jose.JSONWebKeySet
	w.Must(json.Unmarshal([]byte(w.get("/oauth/portal/jwks").raw), &set))
	return &set
}

func TestClientCredentialsGrant(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.declare("machine", nil)
	a := c.post("/token", url.Values{"grant_type": {"client_credentials"}, "scope": {"jobs:run jobs:read"}, "resource": {"https://api.acme.example"}})
	if a.status != 200 || a.text("token_type") != "Bearer" || a.body["expires_in"] != 600.0 || a.text("scope") != "jobs:run jobs:read" || a.header.Get("Cache-Control") != "no-store" || a.body["refresh_token"] != nil {
		t.Fatalf("%d %s", a.status, a.raw)
	}
	parsed, err := jwt.ParseSigned(a.text("access_token"), []jose.SignatureAlgorithm{jose.ES256})
	w.Must(err)
	if parsed.Headers[0].ExtraHeaders[jose.HeaderType] != "at+jwt" {
		t.Errorf("header %+v", parsed.Headers[0])
	}
	claims := map[string]any{}
	if err := parsed.Claims(w.keys(), &claims); err != nil {
		t.Fatal(err)
	}
	if claims["iss"] != issuer || claims["sub"] != c.id || claims["client_id"] != c.id || fmt.Sprint(claims["aud"]) != "https://api.acme.example" && fmt.Sprint(claims["aud"]) != "[https://api.acme.example]" ||
		claims["scope"] != "jobs:run jobs:read" || fmt.Sprint(claims["permissions"]) != "[users:read]" || claims["exp"].(float64)-claims["iat"].(float64) != 600 || claims["jti"] == "" {
		t.Errorf("%v", claims)
	}
	introspected := c.post("/introspect", url.Values{"token": {a.text("access_token")}})
	if introspected.body["active"] != true || introspected.text("client_id") != c.id || introspected.text("scope") != "jobs:run jobs:read" || introspected.text("iss") != issuer {
		t.Errorf("%s", introspected.raw)
	}
	w.Clock.Advance(10 * time.Minute)
	if introspected := c.post("/introspect", url.Values{"token": {a.text("access_token")}}); introspected.raw != `{"active":false}` {
		t.Errorf("after its expiry: %s", introspected.raw)
	}
}

func TestClientCredentialsRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.declare("machine", func(c *document.OAuthClient) {
		c.Scopes, c.Resources = &[]string{"jobs:run", "orders:read"}, &[]string{"https://api.acme.example"}
	})
	person := w.declare("person", func(c *document.OAuthClient) {
		c.GrantTypes = []string{string(v1alpha1.GrantTypeAuthorizationCode)}
	})
	if a := c.post("/token", url.Values{"grant_type": {"client_credentials"}}); a.text("scope") != "jobs:run" {
		t.Errorf("without scope: %s", a.raw)
	}
	for name, tc := range map[string]struct {
		from *client
		form url.Values
		want string
	}{
		"a scope of people":         {c, url.Values{"scope": {"orders:read"}}, "invalid_scope"},
		"another client's scope":    {c, url.Values{"scope": {"jobs:read"}}, "invalid_scope"},
		"an archived scope":         {c, url.Values{"scope": {"old"}}, "invalid_scope"},
		"an unknown scope":          {c, url.Values{"scope": {"jobs:run nope"}}, "invalid_scope"},
		"a scope that is none":      {c, url.Values{"scope": {"jobs:run\t"}}, "invalid_scope"},
		"an unknown resource":       {c, url.Values{"resource": {"https://evil.example"}}, "invalid_target"},
		"another client's resource": {c, url.Values{"resource": {"https://api.acme.example", "https://mcp.acme.example/mcp"}}, "invalid_target"},
		"a doubled scope":           {c, url.Values{"scope": {"jobs:run", "jobs:run"}}, "invalid_request"},
		"a doubled grant type":      {c, url.Values{"grant_type": {"client_credentials", "client_credentials"}}, "invalid_request"},
		"no grant type":             {c, url.Values{"grant_type": nil}, "invalid_request"},
		"another grant type":        {c, url.Values{"grant_type": {"password"}}, "unsupported_grant_type"},
		"a client that may not":     {person, url.Values{}, "unauthorized_client"},
	} {
		form := url.Values{"grant_type": {"client_credentials"}}
		for member, values := range tc.form {
			form[member] = values
		}
		if a := tc.from.post("/token", form); a.status != 400 || a.text("error") != tc.want || a.text("error_description") == "" {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
}

// altered returns a secret with another last character.
func altered(secret string) string {
	last := "x"
	if strings.HasSuffix(secret, last) {
		last = "y"
	}
	return secret[:len(secret)-1] + last
}

func TestClientAuthentication(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.declare("machine", nil)
	inactive := w.declare("inactive", func(c *document.OAuthClient) { c.Active = false })
	public := &client{w: w, id: c.id}
	form := url.Values{"grant_type": {"client_credentials"}}
	with := func(more url.Values) url.Values {
		all := url.Values{"grant_type": {"client_credentials"}}
		for member, values := range more {
			all[member] = values
		}
		return all
	}
	if a := public.post("/token", with(url.Values{"client_id": {c.id}, "client_secret": {c.secret}})); a.status != 200 {
		t.Errorf("the secret in the body: %d %s", a.status, a.raw)
	}
	for name, a := range map[string]answer{
		"nothing":                 public.post("/token", form),
		"an id alone":             public.post("/token", with(url.Values{"client_id": {c.id}})),
		"a wrong secret":          (&client{w: w, id: c.id, secret: altered(c.secret)}).post("/token", form),
		"an empty secret":         public.post("/token", with(url.Values{"client_id": {c.id}, "client_secret": {""}})),
		"another's secret":        (&client{w: w, id: inactive.id, secret: c.secret}).post("/token", form),
		"an inactive client":      inactive.post("/token", form),
		"an unknown client":       (&client{w: w, id: "1", secret: c.secret}).post("/token", form),
		"an id with a zero":       (&client{w: w, id: "0" + c.id, secret: c.secret}).post("/token", form),
		"two names":               c.post("/token", with(url.Values{"client_id": {"1"}})),
		"a bearer token":          public.post("/token", form, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+c.secret) }),
		"basic that is no base64": public.post("/token", form, func(r *http.Request) { r.Header.Set("Authorization", "Basic !!") }),
	} {
		if a.status != 401 || a.text("error") != "invalid_client" || !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Basic") || strings.Contains(a.raw, c.secret) {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
	if a := c.post("/token", with(url.Values{"client_secret": {c.secret}})); a.status != 400 || a.text("error") != "invalid_request" {
		t.Errorf("in two ways: %d %s", a.status, a.raw)
	}
	if a := c.post("/token", form, func(r *http.Request) { r.Header.Set("Content-Type", "application/json") }); a.status != 400 {
		t.Errorf("JSON: %d %s", a.status, a.raw)
	}
	if a := c.post("/token", url.Values{"grant_type": {strings.Repeat("x", 100<<10)}}); a.status != 413 {
		t.Errorf("a long body: %d %s", a.status, a.raw)
	}
	if strings.Contains(w.Logs.String(), c.secret) {
		t.Error("a secret is in the log")
	}
}

// Wrong secrets of one client from one address are throttled; other clients and addresses are not affected.
func TestWrongSecretsAreThrottled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, other := w.declare("machine", nil), w.declare("other", nil)
	form := url.Values{"grant_type": {"client_credentials"}}
	from := func(address string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("X-Forwarded-For", address) }
	}
	guess := &client{w: w, id: c.id, secret: c.secret + "x"}
	slowed := 0
	for range 40 {
		if a := guess.post("/token", form, from("192.0.2.1")); a.status == 429 && a.header.Get("Retry-After") != "" {
			slowed++
		} else if a.status != 401 {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	if slowed != 20 {
		t.Errorf("%d of 40 wrong secrets were throttled, want 20", slowed)
	}
	if a := c.post("/token", form, from("192.0.2.2")); a.status != 200 {
		t.Errorf("the client from elsewhere: %d %s", a.status, a.raw)
	}
	if a := other.post("/token", form, from("192.0.2.1")); a.status != 200 {
		t.Errorf("another client from there: %d %s", a.status, a.raw)
	}
}

// claimsIn returns the claims of a token of the app, verified with the published keys.
func claimsIn(t *testing.T, w *world, token string) map[string]any {
	t.Helper()
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256, jose.RS256})
	w.Must(err)
	claims := map[string]any{}
	w.Must(parsed.Claims(w.keys(), &claims))
	return claims
}
