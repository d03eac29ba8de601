package enduser_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// disable disables a user as a backend does.
func (w *world) disable(user string) {
	w.T.Helper()
	id, err := strconv.ParseInt(user, 10, 64)
	w.Must(err)
	w.tx(func(tx people.Tx) error {
		u, _, err := tx.Users().LockUser(id)
		u.Disabled = true
		if err != nil {
			return err
		}
		return tx.Users().UpdateUser(u)
	})
}

func TestChangeNames(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		if me := b.ok("PATCH", "/me", `{"first_name":"Ada","last_name":"Lovelace"}`); me["first_name"] != "Ada" || me["last_name"] != "Lovelace" {
			t.Errorf("%v", me)
		}
		if me := b.ok("PATCH", "/me", `{"last_name":""}`); me["first_name"] != "Ada" || me["last_name"] != "" {
			t.Errorf("%v", me)
		}
		for _, bad := range []string{`{"first_name":null}`, fmt.Sprintf(`{"first_name":"%081d"}`, 0), `{"first_name":"a\u202eb"}`, `{"email":"x@example.com"}`} {
			b.refused(400, "VALIDATION_ERROR", "PATCH", "/me", bad)
		}
	})
}

func TestEmailAddressLifecycle(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		added := b.ok("POST", "/me/email-addresses", `{"email":"Ada@Example.org"}`)
		id := added["id"].(string)
		if added["email"] != "Ada@Example.org" || added["verified"] != false || added["primary"] != false || added["verified_at"] != nil {
			t.Errorf("%v", added)
		}
		path := "/me/email-addresses/" + id
		b.refused(400, "EMAIL_EXISTS", "POST", "/me/email-addresses", `{"email":"ada@example.ORG"}`)
		b.refused(400, "EMAIL_NOT_VERIFIED", "POST", path+"/make-primary", `{}`)
		b.refused(400, "EXPIRED_CODE", "POST", path+"/attempt-verification", `{"code":"123456"}`)
		if sent := b.ok("POST", path+"/prepare-verification", `{}`); sent["sent"] != true || sent["email"] != "Ada@Example.org" || sent["expires_in"] != 600.0 {
			t.Errorf("%v", sent)
		}
		code := w.CodeFor("Ada@Example.org", 1)
		unrelated, _ := w.signedUp("mallory@example.com")
		unrelated.refused(404, "EMAIL_NOT_FOUND", "POST", path+"/attempt-verification", codeBody(code))
		unrelated.refused(404, "EMAIL_NOT_FOUND", "DELETE", path, "")
		unrelated.refused(404, "EMAIL_NOT_FOUND", "POST", path+"/make-primary", `{}`)
		b.refused(404, "EMAIL_NOT_FOUND", "POST", "/me/email-addresses/x/prepare-verification", `{}`)
		b.refused(400, "INVALID_CODE", "POST", path+"/attempt-verification", codeBody(wrong(code)))
		if done := b.ok("POST", path+"/attempt-verification", codeBody(code)); done["verified"] != true || done["email"].(map[string]any)["verified"] != true {
			t.Errorf("%v", done)
		}
		b.refused(400, "ALREADY_VERIFIED", "POST", path+"/prepare-verification", `{}`)
		w.notices("ada@example.com", "was added to your account", 1)
		b.ok("POST", path+"/make-primary", `{}`)
		if me := b.ok("GET", "/me", ""); me["email"] != "Ada@Example.org" {
			t.Errorf("%v", me)
		}
		b.refused(400, "CANNOT_REMOVE_PRIMARY_EMAIL", "DELETE", path, "")
		former := ""
		for _, e := range b.list("/me/email-addresses") {
			if e["primary"] == false {
				former = e["id"].(string)
			}
		}
		b.ok("DELETE", "/me/email-addresses/"+former, "")
		w.notices("ada@example.com", "was removed from your account", 1)
		w.notices("Ada@Example.org", "was removed from your account", 1)
		if left := b.list("/me/email-addresses"); len(left) != 1 {
			t.Errorf("%v", left)
		}
		for n := range 9 {
			b.ok("POST", "/me/email-addresses", fmt.Sprintf(`{"email":"more%d@example.com"}`, n))
		}
		b.refused(400, "EMAIL_LIMIT_REACHED", "POST", "/me/email-addresses", `{"email":"last@example.com"}`)
	})
}

// The response only shows after verification that another user has the address. The first user to verify it gets it,
// and it is removed from accounts where it is unverified.
func TestAddressBelongsToTheUserWhoVerifiesIt(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		ada, _ := w.signedUp("ada@example.com")
		eve, _ := w.signedUp("eve@example.com")
		add := func(b *browser, address string) string {
			return "/me/email-addresses/" + b.ok("POST", "/me/email-addresses", fmt.Sprintf(`{"email":%q}`, address))["id"].(string)
		}
		taken := add(eve, "ada@example.com")
		eve.ok("POST", taken+"/prepare-verification", `{}`)
		eve.refused(400, "EMAIL_EXISTS", "POST", taken+"/attempt-verification", codeBody(w.CodeFor("ada@example.com", 2)))
		if me := ada.ok("GET", "/me", ""); me["email"] != "ada@example.com" || !ada.alive() {
			t.Errorf("%v", me)
		}

		squatted, own := add(eve, "shared@example.com"), add(ada, "shared@example.com")
		eve.ok("POST", squatted+"/prepare-verification", `{}`)
		ada.ok("POST", own+"/prepare-verification", `{}`)
		w.CodeFor("shared@example.com", 2)
		// The mails do not show which code belongs to which user. A wrong code costs a try.
		if a := ada.do("POST", own+"/attempt-verification", codeBody(w.CodeFor("shared@example.com", 2))); a.Status != 200 {
			ada.ok("POST", own+"/attempt-verification", codeBody(w.CodeFor("shared@example.com", 1)))
		}
		eve.refused(404, "EMAIL_NOT_FOUND", "POST", squatted+"/prepare-verification", `{}`)

		// An unverified address of another account does not prevent a sign-up.
		add(eve, "new@example.com")
		fresh := w.browser()
		fresh.signUp("new@example.com")
		for _, e := range eve.list("/me/email-addresses") {
			if e["email"] == "new@example.com" {
				t.Error("an address is still in another account after its owner verified it")
			}
		}
	})
}

func TestCodesForOwnAddressesAreBounded(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		var paths []string
		for n := range 9 {
			paths = append(paths, "/me/email-addresses/"+b.ok("POST", "/me/email-addresses", fmt.Sprintf(`{"email":"a%d@example.com"}`, n))["id"].(string))
		}
		sent := 0
		for round := range 3 {
			for n, path := range paths {
				b.address = fmt.Sprintf("100.%d.%d.1", 64+round, n) // so that no limit on a client is reached
				if a := b.do("POST", path+"/prepare-verification", `{}`); a.Status == 200 {
					sent++
				} else if a.code() != "RATE_LIMITED" {
					t.Fatal(a.Raw)
				}
			}
			w.Clock.Advance(10 * time.Minute)
		}
		if sent != 20 {
			t.Errorf("%d codes a day for the addresses of one account", sent)
		}
	})
}

func TestListAndEndOwnSignIns(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		one, two, three := w.browser(), w.browser(), w.browser()
		for _, other := range []*browser{one, two, three} {
			w.Clock.Advance(time.Second)
			other.signIn("ada@example.com")
		}
		eve, _ := w.signedUp("eve@example.com")
		w.Clock.Advance(time.Second)
		eve.signIn("ada@example.com") // several accounts in one session
		list := b.list("/me/signins")
		if len(list) != 5 || list[0]["current"] != false || list[4]["current"] != true || list[4]["method"] != "password" || list[4]["user_agent"] != "test browser" || list[4]["user_id"] != user {
			t.Fatalf("%v", list)
		}
		current, first := list[4]["id"].(string), list[3]["id"].(string)
		b.refused(400, "CURRENT_SESSION_SIGNOUT", "PATCH", "/me/signins/"+current+"/signout", `{}`)
		for _, id := range []string{"1", "x", eve.list("/session/accounts")[0]["signin_id"].(string)} {
			b.refused(404, "SIGNIN_NOT_FOUND", "PATCH", "/me/signins/"+id+"/signout", `{}`)
		}
		if done := b.ok("PATCH", "/me/signins/"+first+"/signout", `{}`); done["signed_out"] != true || one.alive() || !two.alive() {
			t.Errorf("%v", done)
		}
		b.refused(404, "SIGNIN_NOT_FOUND", "PATCH", "/me/signins/"+first+"/signout", `{}`)
		if done := b.ok("POST", "/me/signins/signout-others", `{}`); done["revoked"] != 3.0 || two.alive() || three.alive() || !b.alive() {
			t.Errorf("%v", done)
		}
		if !eve.alive() || eve.ok("GET", "/me", "")["email"] != "eve@example.com" {
			t.Error("another account of a session was signed out with it")
		}
		if now, ever := b.list("/me/signins"), b.list("/me/signins?include_expired=true"); len(now) != 1 || len(ever) != 5 || ever[4]["id"] != current || ever[3]["id"] != first {
			t.Errorf("%v\n%v", now, ever)
		}
	})
}

func TestDeleteAccount(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		other := w.browser()
		other.signIn("ada@example.com")
		alone, shared := b.organization("Alone"), b.organization("Shared")
		b.ok("POST", "/organizations/"+shared+"/invitations", `{"email":"bob@example.com"}`)
		bob, _ := w.signedUp("bob@example.com")
		bob.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor("bob@example.com", 1)))
		signUps := w.count("SELECT COUNT(*) FROM events WHERE kind = 'signup'")

		b.refused(400, "INVALID_CONFIRMATION", "DELETE", "/me/account", `{"confirmation":"yes"}`)
		b.refused(400, "OWNER_REMOVAL", "DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`)
		if !other.alive() || w.count("SELECT COUNT(*) FROM organizations WHERE id = "+alone) != 1 {
			t.Fatal("a refused deletion was partly performed")
		}
		membership := ""
		for _, m := range b.list("/organizations/" + shared + "/members") {
			if m["user"].(map[string]any)["email"] == "bob@example.com" {
				membership = m["id"].(string)
			}
		}
		b.ok("PATCH", "/organizations/"+shared+"/members/"+membership, `{"owner":true}`)
		b.ok("DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`)
		if b.alive() || other.alive() || b.cookie() != "" {
			t.Error("a session is signed in to a deleted account")
		}
		w.notices("ada@example.com", "was deleted", 1)
		if n := w.count("SELECT COUNT(*) FROM organizations WHERE id = " + alone); n != 0 {
			t.Error("an organization without an owner is left")
		}
		if members := bob.list("/organizations/" + shared + "/members"); len(members) != 1 {
			t.Errorf("%v", members)
		}
		if now := w.count("SELECT COUNT(*) FROM events WHERE kind = 'signup'"); now != signUps {
			t.Errorf("%d sign-ups counted, %d before", now, signUps)
		}
		if a := w.browser().password("ada@example.com", goodPassword); a.code() != "INVALID_CREDENTIALS" {
			t.Errorf("%s", a.Raw)
		}
	})
}

func TestDeletedAccountKeepsOtherSignInsOfItsSession(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("eve@example.com")
		b, _ := w.signedUp("ada@example.com")
		w.Clock.Advance(time.Second)
		b.signIn("eve@example.com")
		if all := b.list("/session/accounts"); len(all) != 2 || all[1]["active"] != true || all[1]["user"].(map[string]any)["email"] != "eve@example.com" {
			t.Errorf("%v", all)
		}
		b.ok("DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`)
		if me := b.ok("GET", "/me", ""); me["email"] != "ada@example.com" {
			t.Errorf("%v", me)
		}
	})
}

// A tab that shows one organization does nothing in another.
func TestActiveOrganizationAssertion(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		one := b.organization("One")
		two := b.organization("Two") // active now
		const header = "X-Active-Organization"
		b.ok("GET", "/session", "", header, two)
		b.refused(409, "ACTIVE_ORGANIZATION_CHANGED", "GET", "/session", "", header, one)
		b.refused(409, "ACTIVE_ORGANIZATION_CHANGED", "PATCH", "/me", `{"first_name":"Nobody"}`, header, one)
		if me := b.ok("GET", "/me", ""); me["first_name"] != "" {
			t.Errorf("%v", me)
		}
		b.refused(400, "VALIDATION_ERROR", "GET", "/session", "", header, "one")
		w.browser().ok("GET", "/session", "", header, one)
		preflight := b.do("OPTIONS", "/me", "", "Origin", "https://app.example.com", "Access-Control-Request-Method", "PATCH")
		if allowed := preflight.Header.Get("Access-Control-Allow-Headers"); allowed != "Content-Type, X-Request-Id, X-Active-Organization, X-Active-User" {
			t.Errorf("allowed headers: %s", allowed)
		}
	})
}

// A tab that shows one account does nothing for another to which the browser switched.
func TestActiveUserAssertion(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("work@example.com")
		b, _ := w.signedUp("home@example.com")
		home := b.ok("GET", "/me", "")["id"].(string)
		w.Clock.Advance(time.Second)
		b.signIn("work@example.com") // active now
		work := b.ok("GET", "/me", "")["id"].(string)
		const header = "X-Active-User"
		b.ok("GET", "/session", "", header, work)
		b.refused(409, "ACTIVE_ACCOUNT_CHANGED", "GET", "/session", "", header, home)
		b.refused(409, "ACTIVE_ACCOUNT_CHANGED", "PATCH", "/me", `{"first_name":"Nobody"}`, header, home)
		b.refused(400, "VALIDATION_ERROR", "GET", "/session", "", header, "home")
		b.refused(409, "ACTIVE_ACCOUNT_CHANGED", "DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`, header, home)
		b.refused(409, "ACTIVE_ACCOUNT_CHANGED", "DELETE", "/me/account", fmt.Sprintf(`{"confirmation":"DELETE_MY_ACCOUNT","user_id":%q}`, home))
		b.refused(409, "ACTIVE_ACCOUNT_CHANGED", "DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT","email":"home@example.com"}`)
		b.refused(400, "VALIDATION_ERROR", "DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT","user_id":"home"}`)
		b.refused(400, "VALIDATION_ERROR", "DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT","name":"Home"}`)
		if me := b.ok("GET", "/me", ""); me["id"] != work || me["first_name"] != "" {
			t.Errorf("%v", me)
		}
		if all := b.list("/session/accounts"); len(all) != 2 {
			t.Errorf("%v", all)
		}
		b.ok("DELETE", "/me/account", fmt.Sprintf(`{"confirmation":"DELETE_MY_ACCOUNT","user_id":%q,"email":"Work@example.com"}`, work), header, work)
		if me := b.ok("GET", "/me", "", header, home); me["id"] != home {
			t.Errorf("%v", me)
		}
		w.browser().ok("GET", "/session", "", header, home)
	})
}

// Changing a number needs a recent authentication, and the owner is notified at a verified address.
func TestPhoneChangeNeedsRecentAuthenticationAndSendsMail(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		first, second := b.addPhone(number), b.addPhone("+12025550124")
		for phone, to := range map[string]string{first: number, second: "+12025550124"} {
			b.ok("POST", verifyPath(phone), codeBody(b.prepare(phone, to, 1)))
		}
		w.notices("ada@example.com", "was added to your account", 2)
		secondary, promote := second, "/me/phone-numbers/"
		for _, p := range b.list("/me/phone-numbers") {
			if p["primary"] == false {
				secondary = p["id"].(string)
			}
		}
		w.Clock.Advance(10 * time.Minute)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/me/phone-numbers", `{"phone_number":"+12025550125"}`)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", promote+secondary+"/make-primary", `{}`)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "DELETE", promote+secondary, "")
		b.reauthenticate()
		b.addPhone("+12025550125")
		b.ok("POST", promote+secondary+"/make-primary", `{}`)
		w.notices("ada@example.com", "is the primary one of your account now", 1)
		for _, p := range b.list("/me/phone-numbers") {
			if p["primary"] == false && p["verified"] == true {
				b.ok("DELETE", promote+p["id"].(string), "")
			}
		}
		w.notices("ada@example.com", "was removed from your account", 1)
		for _, m := range w.Carrier.Messages("ada@example.com") {
			if strings.Contains(m.Body, "+1202555") {
				t.Errorf("a mail contains a complete phone number: %s", m.Body)
			}
		}
	})
}

func TestTestNumberHasItsOwnCode(t *testing.T) {
	onSQLite(t, func(w *world) {
		d := w.Settings()
		d.SMS.TestNumbers = []document.TestNumber{{Number: number, Code: "424242"}}
		d.SMS.DailyBudget = 0
		w.Declare(d)
		b, _ := w.signedUp("ada@example.com")
		w.Eventually("the number is declared", func() bool {
			phone := b.addPhone(number)
			done := b.do("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`).Status == 200
			if !done {
				b.ok("DELETE", "/me/phone-numbers/"+phone, "")
			}
			return done
		})
		phone := b.list("/me/phone-numbers")[0]["id"].(string)
		for round := range 6 { // no cool-down, and no lock after 20 wrong codes: five tries per code are the only limit
			for range 5 {
				b.refused(400, "INVALID_CODE", "POST", verifyPath(phone), codeBody("111111"))
			}
			b.refused(429, "TOO_MANY_ATTEMPTS", "POST", verifyPath(phone), codeBody("424242"))
			if round < 6 {
				b.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
			}
		}
		b.ok("POST", verifyPath(phone), codeBody("424242"))
		if sent := w.Carrier.Messages(number); len(sent) != 0 {
			t.Errorf("%d texts went to a test number", len(sent))
		}
	})
}
