package oauth_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// sso signs in by a connection, or with an intent links an identity.
func (p *person) sso(conn string, provider *identityprovider.Provider, user identityprovider.User, intent string) {
	p.w.T.Helper()
	begun := p.ask("POST", "/auth/sso", map[string]any{"connection_id": conn, "intent": intent})["data"].(map[string]any)
	values, err := provider.Authorize(begun["authorization_url"].(string), user)
	p.w.Must(err)
	p.ask("GET", "/sso/"+conn+"/callback?"+values.Encode(), nil)
}

// offered returns the status and the body of a signed-in user's request for the next step of an authorization.
func (p *person) offered(request url.Values) (int, string) {
	p.w.T.Helper()
	status, _, raw := p.send("GET", "/session/authorizations/"+strings.TrimPrefix(p.authorize(request).Path, "/authorize/"), nil)
	return status, string(raw)
}

// The subject of an ID token stands for the account at the client, and not only in the organization whose provider
// signed the user in. A sign-in that is confined to the organization therefore grants no scope of OpenID Connect.
func TestConfinedSignInGrantsNoPersonalScopes(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.DeclareOAuthScope("orders-read", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Category: "organization"})
		owner := w.signUp("owner@globex.example")
		owner.ask("POST", "/organizations", map[string]any{"name": "Globex"})
		memberships := owner.ask("GET", "/me/organization-memberships", nil)["data"].([]any)
		slug := memberships[0].(map[string]any)["organization"].(map[string]any)["slug"].(string)
		provider := w.Provider()
		conn := w.DeclareConnection("globex", provider, func(c *document.Connection) { c.Organization, c.Domains = slug, []string{"globex.example"} })
		victim := w.signUp("victim@example.com")
		victim.sso(conn, provider, identityprovider.User{"sub": "v"}, "link")
		c, confined := w.web("reports", nil), w.anonymous()
		confined.sso(conn, provider, identityprovider.User{"sub": "v"}, "sign_in")
		check := func(scope string, refused bool) {
			t.Helper()
			status, body := confined.offered(c.request(scope))
			if want := status == http.StatusForbidden && strings.Contains(body, "REAUTHENTICATION_REQUIRED"); want != refused || !refused && status != http.StatusOK {
				t.Errorf("%s: %d %s", scope, status, body)
			}
		}
		for _, personal := range []string{"openid", "profile", "email", "phone", "groups", "openid offline_access"} {
			check(personal, true)
			check(personal+" orders:read", true)
		}
		check("orders:read", false)
		check("orders:read offline_access", false)
		page := confined.authorize(c.request("openid orders:read"))
		status, _, raw := confined.send("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), map[string]any{"decision": "allow"})
		if status != http.StatusForbidden {
			t.Errorf("allowed: %d %s", status, raw)
		}
		silent := c.request("openid orders:read")
		silent.Set("prompt", "none")
		to, err := url.Parse(fmt.Sprint(confined.decide(confined.authorize(silent), map[string]any{"decision": "continue"})["redirect_to"]))
		w.Must(err)
		if to.Query().Get("code") != "" || to.Query().Get("error") != "login_required" {
			t.Errorf("without a page: %s", to)
		}
		confined.ask("POST", "/session/reauthenticate", map[string]any{"strategy": "password", "password": goodPassword})
		check("openid orders:read", false)
		if got := fmt.Sprint(confined.ask("GET", "/me", nil)["data"].(map[string]any)["id"]); got != victim.id {
			t.Errorf("the account is %s, want %s", got, victim.id)
		}
	})
}
