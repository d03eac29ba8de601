package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
)

const newPassphrase = "a better sentence than before"

// A user changes the primary email address and the password, signs the other browser out, resets a forgotten password
// and deletes the account, all by keyboard.
func TestUsersManageTheirAccount(t *testing.T) {
	for _, tt := range []struct {
		look    look
		scripts bool
	}{{look{360, true}, true}, {look{1280, false}, true}, {look{1280, false}, false}} {
		name := tt.look.String()
		if !tt.scripts {
			name += "-plain"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, nil)
			v := arrives(t, w, tt.look, tt.scripts)
			v.signsUp("ada@example.com")
			v.addsAnAddress("ada@example.org")
			v.changesThePassword()

			other := arrives(t, w, tt.look, tt.scripts)
			other.signsIn("ada@example.com", newPassphrase)
			v.signsOutElsewhere(other)
			v.visitsTheOrganizationsPages()
			other.forgetsThePassword("ada@example.com", 2)
			v.goes("/account")
			v.until(`document.querySelector("h1")?.innerText === "Sign in to Acme"`) // the reset ended all sessions
			v.signsIn("ada@example.com", passphrase)
			v.leavesForGood("ada@example.com")
		})
	}
}

func (v *person) signsIn(email, secret string) {
	v.t.Helper()
	v.goes("/sign-in")
	v.until(`document.querySelector("h1")?.innerText === "Sign in to Acme"`)
	v.types("Email address", email)
	v.keys(kb.Enter)
	v.at("Enter your password", "password")
	v.types("Password", secret)
	v.keys(kb.Enter)
	v.until(`document.querySelector("h1")?.innerText === "Your account"`)
}

func (v *person) addsAnAddress(email string) {
	v.t.Helper()
	v.goes("/account/emails")
	v.at("Email addresses", "emails")
	v.types("Email address", email)
	v.keys(kb.Enter)
	v.at("Verify your address", "email-code")
	v.types("Code", v.mail.CodeFor(email, 1))
	v.keys(kb.Enter)
	v.sees("Your address is verified")
	v.presses("Make primary: " + email)
	v.sees("Your primary address was changed")
	v.at("Email addresses", "emails-two")
	v.presses("Make primary: ada@example.com")
	v.until(`document.querySelector(".rows")?.innerText.replace(/\s+/g, " ").includes("ada@example.com Primary")`)
}

func (v *person) changesThePassword() {
	v.t.Helper()
	v.goes("/account/password")
	v.at("Password", "own-password")
	v.types("Current password", "not the password at all")
	v.types("New password", newPassphrase)
	v.keys(kb.Enter)
	v.sees("Please check what you entered")
	v.at("Password", "own-password-refused")
	v.types("Current password", passphrase)
	v.types("New password", newPassphrase)
	v.keys(kb.Enter)
	v.sees("Your password was saved")
}

func (v *person) signsOutElsewhere(other *person) {
	v.t.Helper()
	v.goes("/account/sessions")
	v.at("Sessions", "sessions")
	v.presses("Sign out everywhere else")
	v.sees("You are signed out everywhere else")
	v.goes("/account/sessions?ended=1")
	v.at("Sessions", "sessions-ended")
	other.goes("/account")
	other.until(`document.querySelector("h1")?.innerText === "Sign in to Acme"`)
}

// visitsTheOrganizationsPages opens the pages that an owner of an organization manages.
func (v *person) visitsTheOrganizationsPages() {
	v.t.Helper()
	v.goes("/organizations/new")
	v.until(`document.querySelector("h1")?.innerText === "New organization"`)
	v.types("Name of the organization", "Looked at")
	v.keys(kb.Enter)
	v.sees("The organization was created")
	address := eval[string](v.tab, `location.pathname`)
	v.goes(address + "/settings")
	v.at("Settings", "organization-settings")
	v.goes(address)
	v.until(`document.querySelector("h1")?.innerText.startsWith("Looked at")`)
	for _, of := range []string{"members", "workspaces"} {
		v.goes(eval[string](v.tab, `document.querySelector('a[href*="/`+of+`/"]').getAttribute("href")`))
		v.whole()
		v.at(eval[string](v.tab, `document.querySelector("h1").innerText`), "organization-"+of)
		v.goes(address)
		v.until(`document.querySelector("h1")?.innerText.startsWith("Looked at")`)
	}
}

func (v *person) forgetsThePassword(email string, nth int) {
	v.t.Helper()
	v.goes("/forgot-password")
	v.at("Forgot your password?", "forgotten")
	v.types("Email address", email)
	v.keys(kb.Enter)
	v.at("Check your email", "forgotten-code")
	v.types("Code", v.mail.CodeFor(email, nth))
	v.keys(kb.Enter)
	v.at("Choose a new password", "new-password")
	v.types("New password", passphrase)
	v.keys(kb.Enter)
	v.sees("Your password was changed. Sign in with the new one.")
}

func (v *person) leavesForGood(email string) {
	v.t.Helper()
	v.goes("/account/delete")
	v.at("Delete your account", "delete")
	v.types("Type "+email+" to confirm", email)
	v.keys(kb.Enter)
	v.sees("Your account was deleted")
	v.goes("/account")
	v.until(`document.querySelector("h1")?.innerText === "Sign in to Acme"`)
}
