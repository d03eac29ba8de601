package enduser_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
)

// An ID token, an assertion and an answer of the userinfo endpoint with 10,000 groups are beyond their bounds. With
// 1,000 of the userinfo endpoint, the last one gives its role.
func TestTenThousandGroupsAreRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, _, slug := w.customer("globex")
		w.role("clerk", "Organization", "billing:read")
		p, samlIDP := w.provider(), w.SAMLProvider()
		declare := func(c *document.Connection) {
			ofOrganization(slug, "globex.example")(c)
			c.Membership.JustInTime, c.Membership.RoleExpression = true, `"clerks" in claims.groups ? ["clerk"] : []`
		}
		conn, samlConn := w.connection("globex", p, declare), w.DeclareSAML("globex-saml", samlIDP, declare)
		var groups []string
		for n := range 9999 {
			groups = append(groups, fmt.Sprintf("group-%04d", n))
		}
		groups = append(groups, "clerks")
		many := identityprovider.User{"sub": "1", "email": "ann@globex.example", "groups": groups}
		if a := w.browser().sso(conn, p, many); a.Status != http.StatusBadRequest || a.code() != "SSO_RESPONSE_INVALID" || a.user() != "" {
			t.Errorf("in the ID token: %s", a.Raw)
		}
		form := samlIDP.Respond(w.browser().samlRequest(samlConn, samlIDP, ""), samlprovider.User{NameID: "lee", Attributes: map[string][]string{"mail": {"lee@globex.example"}, "groups": groups}})
		if status, to := w.samlPost(samlConn, form); status < 400 {
			t.Errorf("in the assertion: %d %s", status, to)
		}
		p.Lie(func(claims map[string]any) { delete(claims, "groups"); delete(claims, "email") })
		if a := w.browser().sso(conn, p, many); a.Status != http.StatusBadRequest || a.code() != "SSO_RESPONSE_INVALID" || a.user() != "" {
			t.Errorf("at the userinfo endpoint: %s", a.Raw)
		}
		many["groups"] = groups[len(groups)-1000:]
		b := w.browser()
		if a := b.sso(conn, p, many); a.user() == "" {
			t.Fatalf("1,000 groups at the userinfo endpoint: %s", a.Raw)
		}
		if role, _ := b.list("/me/organization-memberships")[0]["role"].(map[string]any); role["name"] != "clerk" {
			t.Errorf("the role is %v", role)
		}
	})
}
