package enduser_test

import (
	"fmt"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

func TestConnectionWithTheDomainCreatesAnAccountAndFindsItAgain(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) { c.Domains = []string{"globex.example"} })
		ann := identityprovider.User{"sub": "ann", "email": "Ann@globex.example", "given_name": "Ann", "family_name": "Lee"}
		first := w.browser()
		a := first.sso(conn, p, ann)
		if a.Status != 200 || a.user() == "" || a.data()["completed"] != true {
			t.Fatalf("%s", a.Raw)
		}
		me := first.ok("GET", "/me", "")
		if me["email"] != "Ann@globex.example" || me["first_name"] != "Ann" || me["last_name"] != "Lee" {
			t.Errorf("the account is %v", me)
		}
		ann["email"] = "ann@other.example" // the subject is the key, not the address
		second := w.browser()
		again := second.sso(conn, p, ann)
		if again.user() != a.user() {
			t.Errorf("the second sign-in is of %s, want %s: %s", again.user(), a.user(), again.Raw)
		}
		if me := second.ok("GET", "/me", ""); me["email"] != "Ann@globex.example" {
			t.Errorf("the account's address became %v", me["email"])
		}
		if got := w.count("SELECT COUNT(*) FROM emails"); got != 1 {
			t.Errorf("the account has %d addresses", got)
		}
	})
}

func TestAddressWithoutAuthorityIsProvenByACode(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("any", p, nil)
		bob := w.browser()
		victim := bob.signUp("bob@example.com")
		thief := w.browser()
		a := thief.sso(conn, p, identityprovider.User{"sub": "x", "email": "bob@example.com", "email_verified": true})
		if a.user() != "" || a.attempt()["current_step"] != "verify_email" || a.attempt()["method"] != "sso" || a.data()["completed"] != false {
			t.Fatalf("%s", a.Raw)
		}
		id := a.attempt()["id"].(string)
		code := w.CodeFor("bob@example.com", 2)
		thief.refused(400, "INVALID_CODE", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, id, wrong(code)))
		done := thief.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, id, code))
		if done.user() != victim {
			t.Errorf("%s", done.Raw)
		}
		again := w.browser().sso(conn, p, identityprovider.User{"sub": "x"})
		if again.user() != victim {
			t.Errorf("the identity was not added: %s", again.Raw)
		}
	})
}
