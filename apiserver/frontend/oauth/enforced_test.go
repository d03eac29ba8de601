package oauth_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// A grant remembers the connection of its sign-in. Once a domain of the organization is enforced, tokens of a sign-in
// by password are neither active nor refreshed, and those of a sign-in by the connection are both.
func TestEnforcedDomainCoversGrantsOfClients(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.DeclareOAuthScope("orders-read", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Category: "organization"})
		byPassword := w.signUp("owner@globex.example")
		byPassword.ask("POST", "/organizations", map[string]any{"name": "Globex"})
		organization := byPassword.ask("GET", "/me/organization-memberships", nil)["data"].([]any)[0].(map[string]any)["organization"].(map[string]any)
		provider := w.Provider()
		enforce := func(enforcement string) string {
			return w.DeclareConnection("globex", provider, func(c *document.Connection) {
				c.Organization, c.Domains, c.Enforcement = organization["slug"].(string), []string{"globex.example"}, enforcement
			})
		}
		conn := enforce("Optional")
		c, bySSO := w.web("reports", nil), w.anonymous()
		bySSO.sso(conn, provider, identityprovider.User{"sub": "1", "email": "owner@globex.example"}, "sign_in")
		tokens := func(p *person) answer {
			t.Helper()
			done := p.decide(p.authorize(c.request("orders:read offline_access")), map[string]any{"decision": "allow", "organization_id": organization["id"]})
			to, err := url.Parse(fmt.Sprint(done["redirect_to"]))
			w.Must(err)
			issued := c.post("/token", redeem(to.Query().Get("code")))
			if issued.status != http.StatusOK || c.introspect(issued.text("access_token")).body["active"] != true {
				t.Fatalf("%s", issued.raw)
			}
			return issued
		}
		refused, kept := tokens(byPassword), tokens(bySSO)
		enforce("Domains")
		w.Eventually("the enforcement is in effect", func() bool {
			return c.introspect(refused.text("access_token")).body["active"] == false
		})
		if got := c.introspect(refused.text("refresh_token")); got.body["active"] != false {
			t.Errorf("the refresh token of a sign-in by password is active: %s", got.raw)
		}
		if got := c.refresh(refused.text("refresh_token")); got.status != http.StatusBadRequest || got.text("error") != "invalid_grant" {
			t.Errorf("the token of a sign-in by password is refreshed: %d %s", got.status, got.raw)
		}
		if got := c.introspect(kept.text("access_token")); got.body["active"] != true {
			t.Errorf("the token of a sign-in by the connection is not active: %s", got.raw)
		}
		if got := c.refresh(kept.text("refresh_token")); got.status != http.StatusOK || c.introspect(got.text("access_token")).body["active"] != true {
			t.Errorf("the token of a sign-in by the connection is not refreshed: %d %s", got.status, got.raw)
		}
	})
}
