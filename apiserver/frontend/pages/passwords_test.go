package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

const otherPassword = "a staple of horses and batteries"

func TestForgottenPasswordPage(t *testing.T) {
	w := newWorld(t, nil)
	elsewhere := w.browser()
	elsewhere.signUp("ada@example.com")
	b := w.browser()
	b.open("/sign-in")
	b.submit("email", "email", "ada@example.com")
	link := b.page.find(func(n *node) bool { return n.Data == "a" && strings.HasPrefix(attr(n, "href"), "/forgot-password") })
	if link == nil {
		t.Fatalf("the page has no link for a forgotten password: %s", b.page.text())
	}
	b.open(attr(link, "href"))
	if b.page.value("email") != "ada@example.com" {
		t.Error("the address has to be typed again")
	}
	b.submit("forgotten", "email", "nobody")
	b.refused(http.StatusBadRequest, "email", "Enter an email address")
	b.submit("forgotten", "email", "ada@example.com")
	b.at("/forgot-password/code")
	code := w.CodeFor("ada@example.com", 2)
	b.submit("code", "code", wrong(code))
	b.refused(http.StatusBadRequest, "code", "4 tries are left")
	w.Clock.Advance(31e9)
	b.submit("resend")
	b.says("A code is on its way.")
	to, values := b.fill("code", "code", w.CodeFor("ada@example.com", 3))
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.at("/forgot-password/new")
	b.follow(b.send(http.MethodPost, to, values.Encode())) // the second of two clicks
	b.at("/forgot-password/new")
	b.submit("reset", "password", "short", "sign_out_others", "")
	b.refused(http.StatusBadRequest, "password", "Choose another password: at least 15 characters")
	if box := b.page.find(func(n *node) bool { return attr(n, "name") == "sign_out_others" }); hasAttr(box, "checked") {
		t.Error("the box is ticked again")
	}
	b.submit("reset", "password", otherPassword, "sign_out_others", "1")
	b.at("/sign-in")
	b.says("Your password was changed. Sign in with the new one.")
	if b.page.value("email") != "ada@example.com" {
		t.Error("the address has to be typed again")
	}
	elsewhere.open("/account")
	elsewhere.at("/sign-in")
	b.submit("email", "email", "ada@example.com")
	b.submit("password", "password", goodPassword)
	b.refused(http.StatusUnauthorized, "", "The email address or the password is wrong.")
	b.submit("password", "password", otherPassword)
	b.at("/account")
}

// A reset can keep other sign-ins. The attempt ends when the new password is set.
func TestResetPageCanKeepOtherSignIns(t *testing.T) {
	w := newWorld(t, nil)
	elsewhere := w.browser()
	elsewhere.signUp("ada@example.com")
	b := w.browser()
	b.open("/forgot-password")
	b.submit("forgotten", "email", "ada@example.com")
	b.submit("code", "code", w.CodeFor("ada@example.com", 2))
	to, values := b.fill("reset", "password", otherPassword)
	if values.Get("sign_out_others") != "1" {
		t.Error("the box is not ticked to begin with")
	}
	values.Del("sign_out_others")
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.at("/sign-in")
	elsewhere.open("/account")
	elsewhere.at("/account")
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.at("/forgot-password")
	b.says("This attempt is over.")
	for _, path := range []string{"/forgot-password/new", "/forgot-password/new?attempt=1", "/forgot-password/code?attempt=x"} {
		b.open(path)
		b.at("/forgot-password")
	}
	// A browser cannot use an attempt of another browser.
	other := w.browser()
	other.follow(other.send(http.MethodGet, to, ""))
	other.at("/forgot-password")
}

func TestForgottenPasswordOfUnknownAddressGetsTheSamePage(t *testing.T) {
	w := newWorld(t, nil)
	w.browser().signUp("ada@example.com")
	see := func(email string) (texts []string) {
		b := w.browser()
		b.open("/forgot-password")
		b.submit("forgotten", "email", email)
		b.at("/forgot-password/code")
		texts = append(texts, strings.ReplaceAll(b.page.text(), email, "EMAIL"))
		b.submit("code", "code", "000000")
		return append(texts, strings.ReplaceAll(b.page.text(), email, "EMAIL"))
	}
	known, unknown := see("ada@example.com"), see("eve@example.com")
	for i := range known {
		if known[i] != unknown[i] {
			t.Errorf("step %d:\n%s\n%s", i, known[i], unknown[i])
		}
	}
}

func TestForgottenPasswordPageNeedsPasswords(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		d.SignIn = &document.SignInSettings{EmailCode: true, PasswordMinLength: 15}
	})
	b := w.browser()
	b.open("/forgot-password")
	b.says("Passwords cannot be reset here at the moment.")
	if form, _ := b.page.form("forgotten"); form != nil {
		t.Error("the page has a form although passwords are disabled")
	}
}
