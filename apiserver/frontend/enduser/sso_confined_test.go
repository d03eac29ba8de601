package enduser_test

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

func TestConfinedSignInOutsideOfItsOrganizationHasNoToken(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, globex, slug := w.customer("globex")
		p := w.provider()
		conn := w.connection("globex", p, ofOrganization(slug, "globex.example"))
		victim := w.browser()
		user := victim.signUp("victim@example.com")
		if a := victim.ssoFor(conn, p, identityprovider.User{"sub": "v"}, `,"intent":"link"`); a.Status != 200 {
			t.Fatalf("%s", a.Raw)
		}
		b := w.browser()
		if a := b.sso(conn, p, identityprovider.User{"sub": "v"}); a.user() != user {
			t.Fatalf("%s", a.Raw)
		}
		if a := b.do("POST", "/session/token", ""); a.code() != "UNAVAILABLE" { // only the key is missing
			t.Errorf("in the organization: %s", a.Raw)
		}
		for _, m := range owner.list("/organizations/" + globex + "/members") {
			if m["user"].(map[string]any)["id"] == user {
				owner.ok("DELETE", "/organizations/"+globex+"/members/"+m["id"].(string), "")
			}
		}
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/session/token", "")
		b.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
		if a := b.do("POST", "/session/token", ""); a.code() != "UNAVAILABLE" {
			t.Errorf("after the password: %s", a.Raw)
		}
	})
}
