package oauth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// redeclare replaces the declaration of a client.
func (c *client) redeclare(name string, change func(*document.OAuthClient)) {
	c.w.T.Helper()
	change(&c.declared)
	c.w.Put(v1alpha1.KindOAuthClient, name, frontendtest.Deployment, "", c.declared)
}

// refresh presents a refresh token.
func (c *client) refresh(token string, more ...string) answer {
	c.w.T.Helper()
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
	for i := 0; i < len(more); i += 2 {
		form.Add(more[i], more[i+1])
	}
	return c.post("/token", form)
}

// introspect introspects a token.
func (c *client) introspect(token string) answer {
	c.w.T.Helper()
	return c.post("/introspect", url.Values{"token": {token}})
}

// The client's declaration loses scopes, resources and permissions while its tokens are valid.
func TestTokensLoseWhatTheirClientLost(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		api, mcp := "https://api.acme.example", "https://mcp.acme.example/mcp"
		c, p := w.web("reports", func(d *document.OAuthClient) { d.Scopes = &[]string{"openid", "jobs:read", "jobs:run"} }), w.signUp("ada@example.com")
		request := c.request("openid jobs:read jobs:run")
		request["resource"] = []string{api, mcp}
		got := c.post("/token", redeem(p.allow(request).Get("code")))
		request["resource"] = []string{mcp}
		alone := c.post("/token", redeem(p.allow(request).Get("code")))

		c.redeclare("reports", func(d *document.OAuthClient) {
			d.Scopes, d.Resources = &[]string{"openid", "jobs:read"}, &[]string{api}
		})
		w.Eventually("the access token has lost the scope", func() bool { return c.introspect(got.text("access_token")).text("scope") == "openid jobs:read" })
		next := c.refresh(got.text("refresh_token"))
		if next.text("scope") != "openid jobs:read" {
			t.Errorf("refreshed: %s", next.raw)
		}
		if aud := fmt.Sprint(claimsIn(t, w, next.text("access_token"))["aud"]); aud != api {
			t.Errorf("for %s", aud)
		}
		if a := c.refresh(alone.text("refresh_token")); a.text("error") != "invalid_target" {
			t.Errorf("none of the resources is left: %d %s", a.status, a.raw)
		}

		machine := w.declare("machine", func(d *document.OAuthClient) { d.MachinePermissions = []string{"users:read", "users:write"} })
		token := machine.post("/token", url.Values{"grant_type": {"client_credentials"}}).text("access_token")
		machine.redeclare("machine", func(d *document.OAuthClient) { d.MachinePermissions = []string{"users:read"} })
		w.Eventually("the machine has lost the permission", func() bool {
			return fmt.Sprint(machine.introspect(token).body["permissions"]) == "[users:read]"
		})
	})
}

// A thief that uses a copy before its owner, and waits until the owner has refreshed, must not be taken for the owner.
func TestDelayedUseOfCopiedRefreshTokenRevokesFamily(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		for _, thiefFirst := range []bool{false, true} {
			shared := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code"))).text("refresh_token")
			hands := []string{c.refresh(shared).text("refresh_token"), c.refresh(shared).text("refresh_token")}
			if thiefFirst {
				slices.Reverse(hands)
			}
			first := c.refresh(hands[0])
			if first.status != 200 {
				t.Fatal(first.raw)
			}
			w.Clock.Advance(11 * time.Second)
			if a := c.refresh(hands[1]); a.text("error") != "invalid_grant" {
				t.Errorf("the other goes on: %d %s", a.status, a.raw)
			}
			if a := c.refresh(first.text("refresh_token")); a.text("error") != "invalid_grant" {
				t.Errorf("the family goes on: %d %s", a.status, a.raw)
			}
		}
		if w.audited("oauth.refresh_token_reused") != 2 {
			t.Error("it is not in the audit")
		}
	})
}

// Introspection of a refresh token reports what its use would return.
func TestIdleRefreshTokenIsInactive(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	token := c.post("/token", redeem(p.allow(c.request("jobs:read offline_access")).Get("code"))).text("refresh_token")
	if a := c.introspect(token); a.body["active"] != true {
		t.Fatal(a.raw)
	}
	w.Clock.Advance(7*24*time.Hour + time.Second)
	if a := c.introspect(token); a.body["active"] != false {
		t.Errorf("after a week without use: %s", a.raw)
	}
}

// TestParametersWithoutAValueAreOmitted: a parameter without a value counts as omitted (RFC 6749 3.1 and 3.2).
func TestParametersWithoutAValueAreOmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	public, p := w.declarePublic("page", callback), w.signUp("ada@example.com")
	request := public.request("jobs:read")
	for _, name := range []string{"max_age", "response_mode", "request", "request_uri", "prompt", "resource", "nonce", "login_hint"} {
		request.Set(name, "")
	}
	form := redeem(p.allow(request).Get("code"))
	for _, name := range []string{"client_secret", "scope", "resource", "client_assertion"} {
		form.Set(name, "")
	}
	if a := public.post("/token", form); a.status != 200 || a.text("scope") != "jobs:read" {
		t.Errorf("%d %s", a.status, a.raw)
	}
	machine := w.declare("machine", func(d *document.OAuthClient) { d.Scopes = &[]string{"jobs:run"} })
	if a := machine.post("/token", url.Values{"grant_type": {"client_credentials"}, "scope": {""}}); a.text("scope") != "jobs:run" {
		t.Errorf("%d %s", a.status, a.raw)
	}
}

// If the organization or workspace of a token was deleted or no longer has the user, the token keeps only the scopes
// without a category.
func TestDecisionOmitsPlacesThatTheUserLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	own := p.ask("POST", "/organizations", map[string]any{"name": "Own"})["data"].(map[string]any)["organization"].(map[string]any)["id"].(string)
	done := p.decide(p.authorize(c.request("jobs:read orders:read")), map[string]any{"decision": "allow", "organization_id": own})
	to, err := url.Parse(fmt.Sprint(done["redirect_to"]))
	w.Must(err)
	token := c.post("/token", redeem(to.Query().Get("code"))).text("access_token")
	organization := func() any {
		raw, err := json.Marshal(map[string]any{"principal": map[string]any{"type": "oauth_access_token", "value": token}, "method": "GET", "resource": "/jobs", "required_permissions": []string{"jobs:read"}})
		w.Must(err)
		answer, said := httptest.NewRecorder(), map[string]any{}
		r := httptest.NewRequest("POST", "/v1/authz/check", bytes.NewReader(raw))
		r.Header.Set("Content-Type", "application/json")
		w.Decision.ServeHTTP(answer, r)
		w.Must(json.Unmarshal(answer.Body.Bytes(), &said))
		if said["allowed"] != true {
			t.Fatalf("%v", said)
		}
		return said["identity"].(map[string]any)["organization_id"]
	}
	if got := organization(); got != own {
		t.Fatalf("in %v", got)
	}
	p.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "password", "password": goodPassword})
	p.ask("DELETE", "/organizations/"+own, map[string]any{"confirmation": w.Numbered("own")})
	w.Eventually("the organization is no longer in the response", func() bool {
		w.Clock.Advance(time.Second)
		return organization() == nil
	})
}

// An access token that is verified offline expires no later than introspection reports.
func TestAccessTokenDoesNotOutliveItsAuthorization(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", func(d *document.OAuthClient) { d.RefreshTokenSeconds = 900 }), w.signUp("ada@example.com")
	got := c.post("/token", redeem(p.allow(c.request("openid jobs:read")).Get("code")))
	w.Clock.Advance(10 * time.Minute)
	next := c.refresh(got.text("refresh_token"))
	if left, _ := next.body["expires_in"].(float64); left > 300 || left < 290 {
		t.Errorf("good for %v s: %s", left, next.raw)
	}
	access := claimsIn(t, w, next.text("access_token"))
	if left := access["exp"].(float64) - access["iat"].(float64); left > 300 {
		t.Errorf("it says %v s", left)
	}
}

// A redirect URI that was removed from a client is not used, even for earlier requests.
func TestRemovedRedirectURIIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	page := p.authorize(c.request("jobs:read"))
	c.redeclare("reports", func(d *document.OAuthClient) { d.RedirectURIs = []string{"https://other.example/callback"} })
	w.Eventually("the request is over", func() bool {
		status, _, _ := p.send("GET", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), nil)
		return status == 404
	})
	if status, _, raw := p.send("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), map[string]any{"decision": "allow"}); status != 404 {
		t.Errorf("%d %s", status, raw)
	}
}

// Unknown claims are omitted (OpenID Connect Core 5.3.2).
func TestUnknownClaimsAreOmitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	claims := claimsIn(t, w, c.post("/token", redeem(p.allow(c.request("openid profile email phone")).Get("code"))).text("id_token"))
	for name, value := range claims {
		if value == "" || value == nil {
			t.Errorf("%s is %v", name, value)
		}
	}
	if claims["email"] != "ada@example.com" {
		t.Errorf("%v", claims)
	}
}

// The login hint is taken from the pushed request.
func TestPushedRequestKeepsLoginHint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	request := c.request("jobs:read")
	request.Set("login_hint", "ada@example.com")
	pushed := c.post("/par", request)
	page := p.authorize(url.Values{"client_id": {c.id}, "request_uri": {pushed.text("request_uri")}})
	if page.Query().Get("login_hint") != "ada@example.com" {
		t.Errorf("led to %s", page)
	}
}

// Any caller can push in the name of a public client.
func TestPushedRequestsOfOtherNetworksAreNotEvicted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.declarePublic("page", callback), w.signUp("ada@example.com")
	push := func(from string) answer {
		return c.post("/par", c.request("jobs:read"), func(r *http.Request) { r.Header.Set("X-Forwarded-For", from) })
	}
	own := push("198.51.100.7")
	for range 1000 {
		if a := push("203.0.113.9"); a.status != 201 {
			t.Fatal(a.raw)
		}
	}
	if page := p.authorize(url.Values{"client_id": {c.id}, "request_uri": {own.text("request_uri")}}); !strings.HasPrefix(page.Path, "/authorize/") {
		t.Errorf("led to %s", page)
	}
}

// A refresh with nothing left of a grant ends the token family. A later grant needs a new consent.
func TestLapsedGrantDoesNotReturn(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		token := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code"))).text("refresh_token")
		kept := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code"))).text("refresh_token")
		w.DeclareOAuthScope("jobs-read", document.OAuthScope{Scope: "jobs:read", DisplayName: "x", Archived: true})
		w.Eventually("the scope is archived", func() bool { return p.authorize(c.request("jobs:read")).Query().Get("error") == "invalid_scope" })
		if a := c.refresh(token); a.text("error") != "invalid_grant" {
			t.Errorf("with nothing left: %s", a.raw)
		}
		w.DeclareOAuthScope("jobs-read", document.OAuthScope{Scope: "jobs:read", DisplayName: "x"})
		w.Eventually("the scope is back", func() bool { return p.authorize(c.request("jobs:read")).Query().Get("error") == "" })
		if a := c.refresh(token); a.text("error") != "invalid_grant" {
			t.Errorf("the lapsed token family is valid again: %s", a.raw)
		}
		if a := c.refresh(kept); a.status != 200 {
			t.Errorf("a family without a refresh in between: %s", a.raw)
		}
	})
}

// A token for an application's resource must not reveal the user to that application.
func TestUserinfoRefusesTokensForOtherResources(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	status := func(resources ...string) int {
		request := c.request("openid email")
		request["resource"] = resources
		token := c.post("/token", redeem(p.allow(request).Get("code"))).text("access_token")
		r, err := http.NewRequest("GET", w.Server.URL+"/oauth/portal/userinfo", nil)
		w.Must(err)
		r.Header.Set("Authorization", "Bearer "+token)
		return w.send(r).status
	}
	const api = "https://api.acme.example"
	if status() != 200 || status(api) != 401 || status(api, issuer) != 200 {
		t.Errorf("without a resource %d, for another %d, for both %d", status(), status(api), status(api, issuer))
	}
}

// An app of a deployment without frontend hosts only serves clients' own tokens.
func TestAppWithoutFrontendHostServesOnlyMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.app.FQDN, w.app.Issuer, w.app.FrontendURL, w.app.AllowDynamicClientRegistration = "machines.localhost", "https://machines.localhost", "", true
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
	at := func(method, path string, form url.Values) answer {
		r, err := http.NewRequest(method, w.Server.URL+path, strings.NewReader(form.Encode()))
		w.Must(err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(withHost(r, "machines.localhost"))
		w.Must(err)
		defer response.Body.Close() //nolint:errcheck // read whole
		a := answer{status: response.StatusCode}
		w.Must(json.NewDecoder(response.Body).Decode(&a.body))
		return a
	}
	w.Eventually("the app has its own host", func() bool { return at("GET", "/jwks", nil).status == 200 })
	metadata := at("GET", "/.well-known/openid-configuration", nil)
	for _, name := range []string{"authorization_endpoint", "registration_endpoint", "userinfo_endpoint", "device_authorization_endpoint", "pushed_authorization_request_endpoint"} {
		if metadata.body[name] != nil {
			t.Errorf("%s is advertised", name)
		}
	}
	for _, path := range []string{"/register", "/par", "/device_authorization", "/userinfo"} {
		if a := at("POST", path, url.Values{}); a.status != 404 {
			t.Errorf("%s: %d %v", path, a.status, a.body)
		}
	}
	if a := at("POST", "/token", url.Values{"grant_type": {"client_credentials"}}); a.text("error") != "invalid_client" {
		t.Errorf("tokens: %d %v", a.status, a.body)
	}
}

func withHost(r *http.Request, host string) *http.Request {
	r.Host = host
	return r
}
