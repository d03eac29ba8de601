package decision

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// signing declares a signing key and a default scheme for the deployment, and returns a signer of its session tokens.
func (w *world) signing() (token func(change func(*jwt.Claims)) string) {
	w.T.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.Must(err)
	public, err := (&jose.JSONWebKey{Key: key.Public(), KeyID: "k1", Algorithm: "ES256"}).MarshalJSON()
	w.Must(err)
	w.Put(v1alpha1.KindRateLimitScheme, "people", tenant, "people", document.RateLimitScheme{Slug: "people", Name: "People", Rules: []scheme.Rule{{Unit: "minute", Duration: 1, MaxRequests: 2}}})
	w.Put(v1alpha1.KindIdentityDeployment, "acme", tenant, "", document.Deployment{
		DisplayName: "Acme", FrontendHosts: []string{"app.acme.test"}, DefaultScheme: "people", SigningKeys: []document.SigningKey{{ID: "k1", Public: public}},
	})
	w.Eventually("the signing key is known", func() bool {
		e, found := w.api.Snapshots.Current().Deployment(tenant)
		return found && len(snapshot.ContentOf[document.Deployment](e).SigningKeys) == 1
	})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: "k1"}}, (&jose.SignerOptions{}).WithType("JWT"))
	w.Must(err)
	return func(change func(*jwt.Claims)) string {
		now := w.Clock.Now()
		claims := jwt.Claims{
			Issuer: "https://app.acme.test", Subject: "42", Audience: jwt.Audience{"cardea:apps:acme"},
			IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Minute)),
		}
		change(&claims)
		raw, err := jwt.Signed(signer).Claims(claims).Claims(map[string]any{"organization": "7", "workspace": nil, "permissions": []string{"orders:read"}}).Claims(w.stated).Serialize()
		w.Must(err)
		return raw
	}
}

// A session token is accepted only within the deployment that signed it.
func TestSessionToken(t *testing.T) {
	w := newWorld(t)
	token := w.signing()
	ask := func(token, more string) answer {
		return w.ask("POST", "/v1/authz/check", `{"principal":{"type":"session_token","value":"`+token+`"},"method":"GET","resource":"/"`+more+`}`)
	}
	good := token(func(*jwt.Claims) {})
	a := ask(good, `,"required_permissions":["orders:read"]`)
	identity, _ := a.body["identity"].(map[string]any)
	if a.body["allowed"] != true || identity["owner_user_id"] != "42" || identity["organization_id"] != "7" || len(a.body["rate_limits"].([]any)) != 1 {
		t.Fatalf("%d %v", a.StatusCode, a.body)
	}
	if a = ask(good, `,"required_permissions":["orders:write"]`); a.body["reason"] != "permission_denied" {
		t.Errorf("a permission that no role gives: %v", a.body)
	}
	forward := w.ask("GET", "/v1/forward/caddy", "", "X-Forwarded-Method: GET", "X-Forwarded-Uri: /", "Authorization: Bearer "+token(func(c *jwt.Claims) { c.ID = "another" }))
	if forward.StatusCode != 200 || forward.Header.Get("X-Cardea-Owner-User-Id") != "42" {
		t.Errorf("through a gateway: %d %v", forward.StatusCode, forward.Header)
	}
	if a = ask(good, ""); a.body["reason"] != "rate_limited" {
		t.Errorf("the person's limit counts over all their tokens: %v", a.body)
	}
	for name, change := range map[string]func(*jwt.Claims){
		"another audience": func(c *jwt.Claims) { c.Audience = jwt.Audience{"cardea:apps:other"} }, "another host": func(c *jwt.Claims) { c.Issuer = "https://evil.test" },
		"plain http": func(c *jwt.Claims) { c.Issuer = "http://app.acme.test" }, "no subject": func(c *jwt.Claims) { c.Subject = "" },
		"expired": func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(w.Clock.Now().Add(-time.Second)) },
	} {
		if a = ask(token(change), ""); a.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d %v", name, a.StatusCode, a.body)
		}
	}
	if a = w.check(good, "GET", "/"); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("presented as an API key: %d", a.StatusCode)
	}
	w.Clock.Advance(time.Minute)
	if a = ask(good, ""); a.StatusCode != http.StatusUnauthorized {
		t.Errorf("a minute later: %d %v", a.StatusCode, a.body)
	}
}

// After a hundred bad tokens a minute, an address gets 429. Valid tokens from there are still accepted, and an expired
// one is always answered as expired.
func TestForgedTokens(t *testing.T) {
	w := newWorld(t)
	token := w.signing()
	ask := func(token, client string) answer {
		return w.ask("POST", "/v1/authz/check", `{"principal":{"type":"session_token","value":"`+token+`"},"method":"GET","resource":"/","client_ip":"`+client+`"}`)
	}
	forged := func(id string) string {
		good := token(func(c *jwt.Claims) { c.ID = id })
		return good[:strings.LastIndexByte(good, '.')+1] + strings.Repeat("A", 86)
	}
	expired := token(func(c *jwt.Claims) { c.Expiry = jwt.NewNumericDate(w.Clock.Now().Add(-time.Second)) })
	soon := token(func(c *jwt.Claims) { c.Subject, c.Expiry = "44", jwt.NewNumericDate(w.Clock.Now().Add(time.Second)) })
	if a := ask(soon, "2001:db8::1"); a.body["allowed"] != true {
		t.Fatalf("%d %v", a.StatusCode, a.body)
	}
	w.Clock.Advance(time.Second)
	for i := range 150 { // expired tokens are not counted
		for _, over := range []string{expired, soon} {
			if a := ask(over, "2001:db8::1"); a.StatusCode != http.StatusUnauthorized {
				t.Fatalf("expired, %d: %d %v", i, a.StatusCode, a.body)
			}
		}
	}
	for i := range 100 {
		if a := ask(forged(strconv.Itoa(i)), "2001:db8::1"); a.StatusCode != http.StatusUnauthorized {
			t.Fatalf("forged, %d: %d %v", i, a.StatusCode, a.body)
		}
	}
	for name, tc := range map[string]struct {
		token, client string
		want          int
	}{
		"forged": {forged("more"), "2001:db8::2", 429}, "forged elsewhere": {forged("more"), "2001:db8:0:1::1", 401}, "no token": {"eyJh.e30.x", "2001:db8::2", 429},
		"good": {token(func(c *jwt.Claims) { c.Subject = "43" }), "2001:db8::3", 200}, "expired": {expired, "2001:db8::3", 401},
	} {
		if a := ask(tc.token, tc.client); a.StatusCode != tc.want || tc.want == 429 && a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: %d %v, want %d", name, a.StatusCode, a.body, tc.want)
		}
	}
}
