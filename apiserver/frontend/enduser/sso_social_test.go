package enduser_test

import (
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// Published clients read connections to the providers of consumers, and identities there, in a shape of their own.
func TestSocialConnectionsHaveThePublishedShape(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		social := w.connection("gitlab", p, func(c *document.Connection) {
			c.Type, c.TrustsEmail, c.Scopes = "GitLab", true, []string{"openid", "email"}
		})
		w.connection("company", p, nil)
		w.connection("globex", p, ofOrganization("globex", "globex.example"))
		b := w.browser()
		user := b.sso(social, p, identityprovider.User{"sub": "1", "email": "ann@example.org", "email_verified": true}).user()
		if user == "" {
			t.Fatal("the user is not signed in")
		}
		help, foreign := w.desk("help", deploymentName, "users:read", "users:write", "connections:read"), w.desk("foreign", anotherName, "*")
		page := help.expect(200, "GET", "/settings/social-connections", "")
		list := page["data"].([]any)
		if len(list) != 1 || page["total"] != 1. || page["has_more"] != false {
			t.Fatalf("%v", page)
		}
		one := list[0].(map[string]any)
		credentials := one["credentials"].(map[string]any)
		if one["id"] != social || one["provider"] != "gitlab_oauth" || one["enabled"] != true || credentials["client_id"] != identityprovider.ClientID || credentials["client_secret"] != "********" || credentials["redirect_uri"] == "" {
			t.Errorf("%v", one)
		}
		if other := foreign.expect(200, "GET", "/settings/social-connections", "")["data"].([]any); len(other) != 0 {
			t.Errorf("another deployment has %v", other)
		}

		path := "/users/" + user + "/social-connections"
		have := help.expect(200, "GET", path, "")["data"].([]any)
		if len(have) != 1 {
			t.Fatalf("%v", have)
		}
		identity := have[0].(map[string]any)
		if identity["provider"] != "gitlab_oauth" || identity["email_address"] != "ann@example.org" || identity["user_id"] != user || identity["user_email_address_id"] == "" {
			t.Errorf("%v", identity)
		}
		foreign.expect(404, "GET", path, "")
		foreign.expect(404, "DELETE", path+"/"+identity["id"].(string), "")
		help.expect(204, "DELETE", path+"/"+identity["id"].(string), "")
		if b.isSignedIn() {
			t.Error("the sign-in by the identity goes on")
		}
		if left := help.expect(200, "GET", path, "")["data"].([]any); len(left) != 0 {
			t.Errorf("%v", left)
		}
	})
}
