package enduser_test

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// requiresTwoFactors makes an organization of the browser's user require two factors of its members from now on. The
// user, an owner, adds an authenticator app for that.
func (b *browser) requiresTwoFactors(organization string) {
	b.w.T.Helper()
	b.addApp()
	b.ok("PATCH", "/organizations/"+organization, `{"required_assurance":"two_factors"}`)
}

// The provider of an organization may state two factors for what that organization requires, and for nothing else:
// neither another organization nor the deployment has chosen the provider.
func TestTwoFactorsOfAnOrganizationsProviderCountInThatOrganizationAlone(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		p := w.provider()
		owner, globex, slug := w.customer("globex")
		other, initech, _ := w.customer("initech")
		conn := w.connection("globex", p, func(c *document.Connection) {
			ofOrganization(slug, "globex.example")(c)
			c.AMR = []string{"mfa"}
		})
		owner.requiresTwoFactors(globex)
		other.invites(initech, "ann@globex.example")
		token := w.InvitationFor("ann@globex.example", 1)

		signIn := func(amr ...string) *browser {
			t.Helper()
			b := w.browser()
			if a := b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example", "amr": amr}); a.user() == "" {
				t.Fatalf("%s", a.Raw)
			}
			return b
		}
		strong, weak := signIn("mfa"), signIn("pwd")
		strong.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, token))
		other.requiresTwoFactors(initech)
		place := fmt.Sprintf(`{"organization_id":%q}`, globex)
		strong.ok("POST", "/session/switch-organization", place)
		if got := strong.ok("GET", "/session/assurance", ""); got["level"] != "one_factor" || got["required"] != "two_factors" || got["satisfied"] != true {
			t.Errorf("in the organization: %v", got)
		}
		strong.ok("GET", "/organizations/"+globex+"/members", "")
		weak.refused(403, "ENROLLMENT_REQUIRED", "POST", "/session/switch-organization", place)
		weak.refused(403, "ENROLLMENT_REQUIRED", "GET", "/organizations/"+globex+"/members", "")
		strong.refused(403, "ENROLLMENT_REQUIRED", "POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, initech))
		strong.refused(403, "ENROLLMENT_REQUIRED", "GET", "/organizations/"+initech+"/members", "")
		satisfied := map[string]string{}
		for _, m := range strong.list("/me/organization-memberships") {
			satisfied[m["organization"].(map[string]any)["id"].(string)] = fmt.Sprint(m["assurance"])
		}
		if satisfied[globex] != "map[required:two_factors satisfied:true]" || satisfied[initech] != "map[required:two_factors satisfied:false]" {
			t.Errorf("the memberships: %v", satisfied)
		}

		// The provider's statement is not one about the account: what the deployment requires is not met.
		w.open(func(d *document.Deployment) { d.Assurance.Required = &document.Requirement{Level: "two_factors"} })
		w.Eventually("the deployment requires two factors", func() bool {
			return strong.ok("GET", "/session/assurance", "")["satisfied"] == false
		})
		strong.refused(403, "ENROLLMENT_REQUIRED", "GET", "/organizations/"+globex+"/members", "")
	})
}

// A user may have identities at the providers of two organizations: what one of them states does not count in the
// other.
func TestTwoFactorsOfAnotherOrganizationsProviderDoNotCount(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		p := w.provider()
		owner, globex, slug := w.customer("globex")
		_, _, second := w.customer("initech")
		declare := func(name, slug string) string {
			return w.connection(name, p, func(c *document.Connection) {
				ofOrganization(slug, name+".example")(c)
				c.AMR = []string{"mfa"}
			})
		}
		conn, other := declare("globex", slug), declare("initech", second)
		b := w.browser()
		if a := b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example", "amr": []string{"pwd"}}); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		if a := b.ssoFor(other, p, identityprovider.User{"sub": "2"}, `,"intent":"link"`); len(b.identities()) != 2 {
			t.Fatalf("%s", a.Raw)
		}
		owner.requiresTwoFactors(globex)
		members := "/organizations/" + globex + "/members"
		b.refused(403, "ENROLLMENT_REQUIRED", "GET", members, "")
		again := func(conn, sub string) {
			t.Helper()
			user := identityprovider.User{"sub": sub, "auth_time": w.Clock.Now().Unix(), "amr": []string{"mfa"}}
			if a := b.ssoFor(conn, p, user, `,"intent":"reauthenticate"`); a.Status != 200 {
				t.Fatalf("%s", a.Raw)
			}
		}
		again(other, "2")
		b.refused(403, "ENROLLMENT_REQUIRED", "GET", members, "")
		again(conn, "1")
		b.ok("GET", members, "")
	})
}

// A role that requires two factors is declared by the deployment: the provider of an organization does not meet it.
func TestTwoFactorsOfAnOrganizationsProviderDoNotMeetARole(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		p := w.provider()
		owner, globex, slug := w.customer("globex")
		conn := w.connection("globex", p, func(c *document.Connection) {
			ofOrganization(slug, "globex.example")(c)
			c.AMR = []string{"mfa"}
		})
		owner.requiresTwoFactors(globex)
		b := w.browser()
		if a := b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example", "amr": []string{"mfa"}}); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		b.ok("GET", "/organizations/"+globex+"/members", "")
		_, membership := owner.memberAt(globex, "ann@globex.example")
		owner.ok("PATCH", "/organizations/"+globex+"/members/"+membership, `{"owner":true}`)
		b.ok("GET", "/organizations/"+globex+"/members", "")
		w.DeclareB2B(document.B2BSettings{Enabled: true, OwnerAssurance: &document.Requirement{Level: "two_factors"}})
		w.Eventually("owners need two factors", func() bool {
			return b.do("GET", "/organizations/"+globex+"/members", "").Status == 403
		})
	})
}
