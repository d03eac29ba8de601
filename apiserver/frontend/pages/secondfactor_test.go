package pages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// A sign-in by password goes on with the app's code, or with a recovery code.
func TestSecondStepPages(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	a, codes := b.addApp()

	other := w.browser()
	other.open("/account/phones")
	other.signIn("ada@example.com")
	other.at("/sign-in/second-factor")
	other.says("The digits that your authenticator app shows now.")
	if code := other.page.find(func(n *node) bool { return attr(n, "name") == "code" }); attr(code, "autocomplete") != "one-time-code" {
		t.Error("the field has no autocomplete")
	}
	other.submit("totp", "code", "12")
	other.refused(http.StatusBadRequest, "code", "Enter the digits that your authenticator app shows.")
	right := a.next()
	other.submit("totp", "code", wrong(right))
	other.refused(http.StatusBadRequest, "code", "4 tries are left")
	page := other.page
	other.open("/account")
	other.at("/sign-in")
	other.page = page
	other.submit("totp", "code", right[:3]+" "+right[3:])
	other.at("/account/phones")

	third := w.browser()
	third.open("/sign-in")
	third.signIn("ada@example.com")
	third.submit("totp", "code", right)
	third.refused(http.StatusBadRequest, "code", "This code was used already. Wait for the next code.")
	third.open(third.page.url.RequestURI() + "&way=recovery_code")
	third.submit("recovery_code", "code", "not a code")
	third.refused(http.StatusBadRequest, "code", "Enter a recovery code of 24 letters and digits")
	third.submit("recovery_code", "code", strings.ToUpper(codes[3]))
	third.at("/account/security")
	third.says("The recovery code is used up.")
	third.says("9 codes are left.")
}

func TestSecondStepBeginsAgainAfterTooManyCodes(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	a, _ := b.addApp()
	other := w.browser()
	other.open("/sign-in")
	other.signIn("ada@example.com")
	bad := wrong(a.next())
	for range 5 {
		if other.page.url.Path != "/sign-in/second-factor" {
			break
		}
		other.submit("totp", "code", bad)
	}
	if other.page.url.Path == "/sign-in/second-factor" {
		other.submit("totp", "code", bad)
	}
	other.at("/sign-in")
	other.says("There were too many wrong codes.")
}

func TestSecondStepAfterEmailedCode(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	a, _ := b.addApp()
	other := w.browser()
	other.open("/sign-in")
	other.submit("email", "email", "ada@example.com")
	other.submit("code")
	other.at("/sign-in/code")
	other.submit("code", "code", w.CodeFor("ada@example.com", 2))
	other.at("/sign-in/second-factor")
	other.submit("totp", "code", a.next())
	other.at("/account")
}

func TestReauthenticationByAuthenticatorApp(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	a, _ := b.addApp()
	w.Clock.Advance(time.Hour)
	b.open("/account/security/codes")
	b.submit("make")
	b.at("/reauthenticate")
	if b.page.find(func(n *node) bool { return attr(n, "type") == "password" }) != nil {
		t.Error("a password is asked for, which is not enough")
	}
	b.submit("totp", "code", wrong(a.next()))
	b.refused(http.StatusBadRequest, "code", "This is not the code that your app shows.")
	b.submit("totp", "code", a.next())
	b.at("/account/security/codes")
	b.says("Thank you.")
	b.submit("make")
	b.codesOn()
}

// Adding a factor needs more than the password of a sign-in: the page asks for an emailed code.
func TestPasswordAloneAddsNoFactor(t *testing.T) {
	w := newWorld(t, strong)
	w.browser().signUp("ada@example.com")
	b := w.browser()
	b.open("/sign-in")
	b.signIn("ada@example.com")
	b.open("/account/security/totp")
	b.submit("begin")
	b.at("/reauthenticate")
	if b.page.find(func(n *node) bool { return attr(n, "type") == "password" }) != nil {
		t.Error("a password is asked for, which is not enough")
	}
	b.submit("code")
	b.submit("code", "code", w.CodeFor("ada@example.com", 2))
	b.at("/account/security/totp")
	b.submit("begin")
	b.secretOn()
}

func TestTextsAsSecondStepPages(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/account/phones")
	b.submit("add", "phone_number", number)
	b.submit("code", "code", w.CodeFor(number, 1))
	b.open("/account/security")
	b.says("Phone numbers can be taken over by others.")
	b.submit("add-text")
	b.codesOn()
	other := w.browser()
	other.open("/sign-in")
	other.signIn("ada@example.com")
	other.says("We text a code to")
	w.Clock.Advance(time.Minute)
	other.submit("send")
	other.at("/sign-in/second-factor")
	other.says("23")
	code := w.CodeFor(number, 2)
	other.submit("sms", "code", wrong(code))
	other.refused(http.StatusBadRequest, "code", "This is not the code that we sent.")
	other.submit("sms", "code", code)
	other.at("/account")

	w.Clock.Advance(time.Hour)
	other.open("/account/security/codes")
	other.submit("make")
	other.at("/reauthenticate")
	other.submit("send")
	other.at("/reauthenticate/text")
	other.submit("sms", "code", w.CodeFor(number, 3))
	other.at("/account/security/codes")
}
