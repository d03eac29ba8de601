package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

func TestChangeNamePage(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.says("No name yet")
	b.submit("rename", "first_name", strings.Repeat("a", 81), "last_name", "Lovelace")
	b.refused(http.StatusBadRequest, "first_name", "Use at most 80 characters")
	if b.page.value("last_name") != "Lovelace" {
		t.Error("what was typed is gone")
	}
	b.submit("rename", "first_name", " Ada ", "last_name", "Lovelace")
	b.at("/account")
	b.says("Your name was saved.")
	b.says("Ada Lovelace")
	b.submit("rename", "first_name", "", "last_name", "")
	b.says("No name yet")
}

func TestEmails(t *testing.T) {
	w := newWorld(t, strong)
	w.browser().signUp("taken@example.com")
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/account/emails")
	b.says("Primary")
	if b.page.find(func(n *node) bool { return n.Data == "button" && attr(n, "value") == "remove" }) != nil {
		t.Error("the primary address can be removed")
	}
	b.submit("add", "email", "ada at work")
	b.refused(http.StatusBadRequest, "email", "Enter an email address")
	b.submit("add", "email", "ADA@example.com")
	b.refused(http.StatusBadRequest, "email", "This address is in use already.")
	b.submit("add", "email", " ada@work.example ")
	here := b.page.url.Path
	b.says("A code is on its way.")
	code := w.CodeFor("ada@work.example", 1)
	b.submit("code", "code", wrong(code))
	b.refused(http.StatusBadRequest, "code", "4 tries are left")
	b.submit("resend")
	b.refused(http.StatusTooManyRequests, "", "Please wait 30 seconds.")
	to, values := b.fill("code", "code", code)
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.at("/account/emails")
	b.says("Your address is verified.")
	b.follow(b.send(http.MethodPost, to, values.Encode())) // the second of two clicks
	b.at("/account/emails")
	b.open(here)
	b.at("/account/emails")
	w.insertPasskey("ada@example.com")
	b.submit("primary")
	b.says("Your primary address was changed.")
	b.says("Signed in as ada@work.example")
	reported := func() *node {
		return b.page.find(func(n *node) bool { return attr(n, "data-signal") == "signalCurrentUserDetails" })
	}
	if n := reported(); n == nil || !strings.Contains(attr(n, "data-with"), `"displayName":"ada@work.example"`) {
		t.Error("the new address is not reported to the browser's passkeys")
	}
	b.open("/account/emails")
	if reported() != nil {
		t.Error("the address is reported again")
	}
	b.submit("remove")
	b.says("The address was removed.")
	if strings.Contains(b.page.text(), "ada@example.com") {
		t.Error("the address is still there")
	}

	// Until the code sent to an address is entered, the page does not reveal that another user has the address.
	b.submit("add", "email", "taken@example.com")
	b.says("A code is on its way.")
	b.submit("code", "code", w.CodeFor("taken@example.com", 2))
	b.refused(http.StatusBadRequest, "", "This address is in use already.")
	b.open("/account/emails/123")
	if b.page.status != http.StatusNotFound {
		t.Errorf("an unknown address: %d", b.page.status)
	}
	stranger := w.browser()
	stranger.signUp("eve@example.com")
	stranger.open(here)
	if stranger.page.status != http.StatusNotFound {
		t.Errorf("the address of another user: %d", stranger.page.status)
	}
}

// The entered data is kept until the user has authenticated again. A password alone does not add an address.
func TestAddAddressNeedsRecentAuthentication(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	w.Clock.Advance(11 * 60e9)
	b.open("/account/emails")
	b.submit("add", "email", "ada@work.example")
	b.at("/reauthenticate")
	b.submit("code")
	b.submit("code", "code", w.CodeFor("ada@example.com", 2))
	b.at("/account/emails")
	b.says("What you had typed was kept.")
	if b.page.value("email") != "ada@work.example" && !strings.Contains(b.page.raw, `value="ada@work.example"`) {
		t.Error("what was typed is gone")
	}
	b.submit("add")
	b.says("A code is on its way.")
}

func TestPasswordPage(t *testing.T) {
	w := newWorld(t, nil)
	elsewhere := w.browser()
	elsewhere.signUp("ada@example.com")
	b := w.browser()
	b.open("/sign-in")
	b.signIn("ada@example.com")
	b.open("/account/password")
	b.submit("change", "current_password", "wrong wrong wrong wrong", "new_password", otherPassword)
	b.refused(http.StatusBadRequest, "current_password", "This is not your current password.")
	b.submit("change", "current_password", goodPassword, "new_password", "short")
	b.refused(http.StatusBadRequest, "new_password", "Choose another password")
	b.submit("change", "current_password", goodPassword, "new_password", goodPassword)
	b.refused(http.StatusBadRequest, "new_password", "This is your password already.")
	if strings.Contains(b.page.raw, goodPassword) {
		t.Error("a password is shown again")
	}
	b.submit("change", "current_password", goodPassword, "new_password", otherPassword)
	b.at("/account/password")
	b.says("Your password was saved.")
	elsewhere.open("/account")
	elsewhere.at("/sign-in")

	b.submit("remove", "current_password", goodPassword)
	b.refused(http.StatusBadRequest, "current_password", "This is not your current password.")
	b.submit("remove", "current_password", otherPassword)
	b.says("Your password was removed.")
	b.says("You have no password yet")
	w.Clock.Advance(11 * 60e9)
	b.open("/account/password")
	b.submit("change", "new_password", goodPassword)
	b.at("/reauthenticate")
	b.submit("code")
	b.submit("code", "code", w.CodeFor("ada@example.com", 2))
	b.at("/account/password")
	b.submit("change", "new_password", goodPassword)
	b.says("Your password was saved.")
}

func TestPasswordPageNeedsPasswords(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		d.SignIn = &document.SignInSettings{EmailCode: true, PasswordMinLength: 15}
	})
	b := w.browser()
	b.open("/sign-up")
	b.submit("signup", "email", "ada@example.com")
	b.submit("code", "code", w.CodeFor("ada@example.com", 1))
	b.at("/account")
	if strings.Contains(b.page.raw, "/account/password") {
		t.Error("the account page links to the password page")
	}
	b.open("/account/password")
	if b.page.status != http.StatusNotFound {
		t.Errorf("status %d", b.page.status)
	}
}

func TestSessions(t *testing.T) {
	w := newWorld(t, nil)
	first := w.browser()
	first.header["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	first.signUp("ada@example.com")
	second, third := w.browser(), w.browser()
	for _, b := range []*browser{second, third} {
		b.header["User-Agent"] = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile/15E148 Safari/604.1<script>"
		b.open("/sign-in")
		b.signIn("ada@example.com")
	}
	first.open("/account/sessions")
	first.says("Firefox on Linux This browser")
	if n := strings.Count(first.page.text(), "Safari on iPhone"); n != 2 {
		t.Errorf("%d others: %s", n, first.page.text())
	}
	first.says(second.address)
	first.says(third.address)
	to, values := first.fill("end")
	first.follow(first.send(http.MethodPost, to, values.Encode()))
	first.at("/account/sessions")
	first.says("The session was ended.")
	first.send(http.MethodPost, to, values.Encode())
	first.refused(http.StatusNotFound, "", "This session has ended already.")
	first.submit("others")
	first.says("You are signed out everywhere else.")
	if strings.Contains(first.page.text(), "Safari on iPhone") {
		t.Error("others are still there")
	}
	for _, b := range []*browser{second, third} {
		b.open("/account")
		b.at("/sign-in")
	}
	link := first.page.find(func(n *node) bool {
		return n.Data == "a" && strings.HasPrefix(attr(n, "href"), "/account/sessions?ended")
	})
	first.open(attr(link, "href"))
	if n := strings.Count(first.page.text(), "Safari on iPhone"); n != 2 {
		t.Errorf("%d that ended: %s", n, first.page.text())
	}
	first.submit("one")
	first.at("/sign-in")
}

func TestDeleteAccountPage(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/account/delete")
	for _, typed := range []string{"", "DELETE_MY_ACCOUNT", "eve@example.com", hostile} {
		b.submit("delete", "confirmation", typed)
		b.refused(http.StatusBadRequest, "confirmation", "Nothing was deleted: type ada@example.com.")
	}
	w.Clock.Advance(11 * 60e9)
	b.open("/account/delete")
	b.submit("delete", "confirmation", "ada@example.com")
	b.at("/reauthenticate")
	b.submit("password", "password", goodPassword)
	b.at("/account/delete")
	if b.page.value("confirmation") != "ada@example.com" {
		t.Error("what was typed is gone")
	}
	b.submit("delete")
	b.at("/sign-in")
	b.says("Your account was deleted.")
	b.submit("email", "email", "ada@example.com")
	b.submit("password", "password", goodPassword)
	b.refused(http.StatusUnauthorized, "", "The email address or the password is wrong.")
}

func TestOnlyOwnerAmongMembersCannotDeleteAccount(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/organizations/new")
	b.submit("create", "name", "Engines")
	b.submit("invite", "email", "bob@example.com")
	bob := w.browser()
	bob.signUp("bob@example.com")
	bob.open("/invitations/" + w.InvitationFor("bob@example.com", 1))
	bob.submit("accept")
	b.open("/account/delete")
	b.submit("delete", "confirmation", "ada@example.com")
	b.refused(http.StatusBadRequest, "", "An organization needs an owner")
}

// insertPasskey adds a passkey to the account of an address.
func (w *world) insertPasskey(email string) {
	w.T.Helper()
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		user, found, err := tx.Users().UserByEmail(email)
		if err != nil || !found {
			return fmt.Errorf("%s: %w", email, err)
		}
		return tx.Factors().InsertPasskey(people.Passkey{
			ID: 1, User: user.ID, RelyingParty: "localhost", Credential: []byte("credential"), Handle: []byte("handle"), PublicKey: frontendtest.NewCredential().Key.AttestationData(),
			BackupEligible: 1, BackedUp: true, Verified: true, AAGUID: make([]byte, 16), Name: "Laptop", CreatedAt: w.Clock.Now(),
		})
	}))
}
