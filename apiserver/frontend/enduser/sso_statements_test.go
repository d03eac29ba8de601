package enduser_test

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// A connection that enforces its domains costs GET /session of a member who signed in otherwise no statement more,
// however many addresses the member has.
func TestEnforcedDomainsCostNoStatement(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		_, id, slug := w.customer("initech")
		p := w.provider()
		conn := w.connection("globex", p, ofOrganization(slug, "globex.example"))
		carl := w.browser()
		carl.signUp("carl@example.com")
		for n := range 3 {
			address := fmt.Sprintf("carl%d@elsewhere.example", n)
			path := "/me/email-addresses/" + carl.ok("POST", "/me/email-addresses", fmt.Sprintf(`{"email":%q}`, address))["id"].(string)
			carl.ok("POST", path+"/prepare-verification", `{}`)
			carl.ok("POST", path+"/attempt-verification", codeBody(w.CodeFor(address, 1)))
		}
		if a := carl.ssoFor(conn, p, identityprovider.User{"sub": "c"}, `,"intent":"link"`); a.Status != 200 {
			t.Fatalf("%s", a.Raw)
		}
		carl.sso(conn, p, identityprovider.User{"sub": "c"}) // becomes a member
		byPassword := w.browser()
		byPassword.signIn("carl@example.com")
		byPassword.ok("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, id))
		session := func(enforcement string) int {
			t.Helper()
			w.connection("globex", p, func(c *document.Connection) { ofOrganization(slug, "globex.example")(c); c.Enforcement = enforcement })
			byPassword.ok("GET", "/session", "") // records the use of the session
			return len(w.traced.of(func() {
				if got := byPassword.ok("GET", "/session", ""); got["organization"] == nil {
					t.Errorf("the organization does not count: %v", got)
				}
			}))
		}
		if optional, enforced := session("Optional"), session("Domains"); optional == 0 || enforced != optional {
			t.Errorf("%d statements, %d with enforcement", optional, enforced)
		}
	})
}
