package oauth_test

import (
	"fmt"
	"net/url"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// Two factors that the provider of an organization states are enough for tokens of that organization, and stay so at a
// refresh. The level of the tokens remains 1, and amr names the statement.
func TestTokensOfAnOrganizationCountTheFactorsThatItsProviderStates(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.strong(nil)
		w.DeclareOAuthScope("orders-read", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Category: "organization"})
		owner := w.signUp("owner@globex.example")
		owner.ask("POST", "/organizations", map[string]any{"name": "Globex"})
		memberships := owner.ask("GET", "/me/organization-memberships", nil)["data"].([]any)
		organization := memberships[0].(map[string]any)["organization"].(map[string]any)
		slug, allow := organization["slug"].(string), map[string]any{"decision": "allow", "organization_id": organization["id"]}
		provider := w.Provider()
		conn := w.DeclareConnection("globex", provider, func(c *document.Connection) {
			c.Organization, c.Domains, c.AMR = slug, []string{"globex.example"}, []string{"mfa"}
		})
		c, db := w.web("reports", nil), w.Open()
		defer func() { _ = db.Close() }()
		tokensOf := func(sub, amr string) answer {
			t.Helper()
			p := w.anonymous()
			p.sso(conn, provider, identityprovider.User{"sub": sub, "email": sub + "@globex.example", "amr": []string{amr}}, "sign_in")
			_, err := db.ExecContext(t.Context(), `UPDATE organization_memberships SET owner = 1`) // owners have all permissions
			w.Must(err)
			to, err := url.Parse(fmt.Sprint(p.decide(p.authorize(c.request("orders:read offline_access")), allow)["redirect_to"]))
			w.Must(err)
			return c.post("/token", redeem(to.Query().Get("code")))
		}
		strong, weak := tokensOf("ann", "mfa"), tokensOf("bob", "pwd")
		introspected := func(of answer) answer { return c.post("/introspect", url.Values{"token": {of.text("access_token")}}) }
		if got := introspected(strong); got.body["active"] != true || got.text("acr") != "1" || len(got.body["amr"].([]any)) != 2 {
			t.Errorf("introspected: %s", got.raw)
		}
		_, err := db.ExecContext(t.Context(), `UPDATE organizations SET required_level = 2`)
		w.Must(err)
		if got := introspected(strong); got.body["active"] != true {
			t.Errorf("with two factors: %s", got.raw)
		}
		if got := introspected(weak); got.body["active"] != false {
			t.Errorf("with one factor: %s", got.raw)
		}
		refresh := func(of answer) answer {
			return c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {of.text("refresh_token")}})
		}
		if got := refresh(weak); got.text("error") != "invalid_grant" {
			t.Errorf("refreshed with one factor: %s", got.raw)
		}
		if got := refresh(strong); got.status != 200 {
			t.Errorf("refreshed with two factors: %s", got.raw)
		}
	})
}
