package oauth_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// Configuration and rows may change between the request, the consent, the redemption and the refresh.
func TestChangesDuringAuthorization(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.DeclareOAuthScope("orders-read", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Category: "organization", OrganizationPermission: "billing:read"})
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		own := p.ask("POST", "/organizations", map[string]any{"name": "Own"})["data"].(map[string]any)["organization"].(map[string]any)["id"].(string)
		allow := func() string {
			data := p.decide(p.authorize(c.request("openid jobs:read orders:read")), map[string]any{"decision": "allow", "organization_id": own})
			to, err := url.Parse(data["redirect_to"].(string))
			w.Must(err)
			return to.Query().Get("code")
		}

		// The client is deactivated while one request waits for the user's decision, and the code of another request
		// waits to be redeemed.
		page, code := p.authorize(c.request("jobs:read")), allow()
		w.switchOff("reports", c)
		w.Eventually("the client is out of use", func() bool {
			return c.post("/token", url.Values{"grant_type": {"x"}}).text("error") == "invalid_client"
		})
		if a := c.post("/token", redeem(code)); a.text("error") != "invalid_client" {
			t.Errorf("redeemed by a client out of use: %s", a.raw)
		}
		if status, _, raw := p.send("POST", "/session/authorizations/"+page.Path[len("/authorize/"):], map[string]any{"decision": "allow"}); status != 404 {
			t.Errorf("allowed for a client out of use: %d %s", status, raw)
		}
		c.declared.Active = true
		w.Put(v1alpha1.KindOAuthClient, "reports", frontendtest.Deployment, "", c.declared)
		w.Eventually("the client is in use again", func() bool {
			return c.post("/token", url.Values{"grant_type": {"x"}}).text("error") == "unsupported_grant_type"
		})
		if a := c.post("/token", redeem(code)); a.status != 200 { // the code was not consumed
			t.Errorf("not redeemed by a client in use again: %s", a.raw)
		}

		// A scope is archived between consent and redemption.
		code = allow()
		w.DeclareOAuthScope("jobs-read", document.OAuthScope{Scope: "jobs:read", DisplayName: "x", Archived: true})
		w.Eventually("the scope is archived", func() bool { return p.authorize(c.request("jobs:read")).Query().Get("error") == "invalid_scope" })
		if a := c.post("/token", redeem(code)); a.text("scope") != "openid orders:read" {
			t.Errorf("after the scope was archived: %s", a.raw)
		}
		w.DeclareOAuthScope("jobs-read", document.OAuthScope{Scope: "jobs:read", DisplayName: "x"})
		w.Eventually("the scope is back", func() bool { return p.authorize(c.request("jobs:read")).Query().Get("error") == "" })

		// The organization is deleted between consent and redemption: the token lacks the scopes that were granted in it.
		code = allow()
		p.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "password", "password": goodPassword})
		p.ask("DELETE", "/organizations/"+own, map[string]any{"confirmation": w.Numbered("own")})
		if a := c.post("/token", redeem(code)); a.text("scope") != "openid jobs:read" {
			t.Errorf("after the organization's end: %s", a.raw)
		}

		// The user is deleted or signed out between consent and redemption.
		code = p.allow(c.request("jobs:read")).Get("code")
		other := w.signUp("eve@example.com")
		theirs := other.allow(c.request("jobs:read")).Get("code")
		p.ask("DELETE", "/me/account", map[string]any{"confirmation": "DELETE_MY_ACCOUNT"})
		other.ask("POST", "/session/sign-out", map[string]any{})
		for what, code := range map[string]string{"a deleted account": code, "a session that ended": theirs} {
			if a := c.post("/token", redeem(code)); a.text("error") != "invalid_grant" {
				t.Errorf("the code of %s: %s", what, a.raw)
			}
		}
	})
}

// CORS for declared origins and for those of clients that registered themselves.
func TestCORSOfClients(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	declared := w.web("page", func(c *document.OAuthClient) {
		c.Authentication, c.Verifiers, c.AllowedOrigins = string(v1alpha1.ClientAuthenticationNone), nil, []string{"https://page.example"}
	})
	from := func(origin string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set("Origin", origin) }
	}
	preflight := func(origin string) string {
		r, err := http.NewRequest("OPTIONS", w.Server.URL+"/oauth/portal/token", nil)
		w.Must(err)
		from(origin)(r)
		return w.send(r).header.Get("Access-Control-Allow-Origin")
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {"x"}, "redirect_uri": {callback}, "code_verifier": {verifier}}
	allowed := func(c *client, origin string) string {
		return c.post("/token", form, from(origin)).header.Get("Access-Control-Allow-Origin")
	}
	if got := allowed(declared, "https://page.example"); got != "https://page.example" {
		t.Errorf("a declared origin: %q", got)
	}
	for _, origin := range []string{"https://evil.example", "null", "https://page.example.evil.example"} {
		if got := allowed(declared, origin); got != "" || preflight(origin) != "" {
			t.Errorf("%s: %q", origin, got)
		}
	}
	w.openToAll()
	made := w.ask("POST", "/register", "", map[string]any{"redirect_uris": []string{"https://inspector.example/cb"}, "token_endpoint_auth_method": "none"})
	own := &client{w: w, id: made.text("client_id")}
	if got := preflight("https://inspector.example"); got != "https://inspector.example" {
		t.Errorf("the preflight of a registered client: %q", got)
	}
	if got := allowed(own, "https://inspector.example"); got != "https://inspector.example" {
		t.Errorf("a registered client's page: %q", got)
	}
	if got := allowed(own, "https://evil.example"); got != "" {
		t.Errorf("another page in a registered client's name: %q", got)
	}
	if got := allowed(declared, "https://inspector.example"); got != "" {
		t.Errorf("a registered client's page with the id of a declared client: %q", got)
	}
}
