package pages_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// A user whose other session turned the second step on is led to the page that asks for it.
func TestHeldUserIsLedToTheRequiredPage(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	w.Clock.Advance(time.Minute)
	held := w.browser()
	held.open("/sign-in")
	held.signIn("ada@example.com")
	held.open("/organizations/new")
	form, values := held.fill("create", "name", "Kept over the proof")
	a, _ := b.addApp()

	held.follow(held.send(http.MethodPost, form, values.Encode()))
	held.at("/account/security/required")
	held.says("You asked for a second step at each sign-in.")
	held.open("/account/phones")
	held.at("/account/security/required")
	held.open(held.link("/reauthenticate"))
	held.at("/reauthenticate")
	held.submit("totp", "code", a.next())
	held.at("/account/phones")
	held.open("/organizations/new")
	if held.page.value("name") != "Kept over the proof" {
		t.Errorf("what was typed is gone: %s", held.page.text())
	}
}

// A deployment that requires two factors leads an account without one to the enrollment, and back.
func TestRequiredEnrollmentPages(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		strong(d)
		d.Assurance.Required = &document.Requirement{Level: "two_factors"}
	})
	b := w.browser()
	b.open("/sign-up?continue=%2Forganizations")
	b.submit("signup", "email", "ada@example.com", "password", goodPassword)
	b.submit("code", "code", w.CodeFor("ada@example.com", 1))
	b.at("/account/security/required")
	b.says("Acme requires more of a sign-in.")
	b.says("Add an authenticator app")
	b.open(b.link("/account/security/totp"))
	b.submit("begin")
	a := b.secretOn()
	b.submit("confirm", "code", a.next())
	b.codesOn()
	b.open(b.link("/organizations"))
	b.at("/organizations")
	b.open("/account/security")
	b.says("It is required here, and cannot be turned off.")
	b.submit("remove-totp")
	b.refused(http.StatusBadRequest, "", "You need a second factor for this.")
}

// An organization whose owners need two factors is opened after the enrollment, or after the proof.
func TestWithheldOrganizationLeadsToTheProof(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/organizations/new")
	b.submit("create", "name", "Harbour")
	w.DeclareB2B(document.B2BSettings{
		Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, OwnerAssurance: &document.Requirement{Level: "two_factors"},
	})
	b.open("/organizations/harbour")
	b.at("/account/security/required")
	b.says("Your organization requires more of a sign-in.")
	b.open("/account")
	b.at("/account") // the account itself stays open
	b.open("/organizations/new")
	b.submit("create", "name", "Kept over the enrollment")
	b.at("/account/security/required")
	b.open(b.link("/account/security/totp"))
	b.submit("begin")
	a := b.secretOn()
	b.submit("confirm", "code", a.next())
	b.open(b.link("/organizations/new"))
	if b.page.value("name") != "Kept over the enrollment" {
		t.Errorf("what was typed is gone: %s", b.page.text())
	}
	b.open("/organizations/harbour")
	b.at("/organizations/harbour")
}

// An address with a level that the sign-in has already leads on, and never in a circle.
func TestRequiredPageLeadsOnWhenNothingIsMissing(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	for _, path := range []string{"", "?level=one_factor", "?level=nonsense"} {
		b.open("/account/security/required" + path)
		b.at("/account")
	}
	b.open("/account/security/required?level=phishing_resistant&continue=https%3A%2F%2Fevil.example%2F")
	b.at("/account/security/required")
	if strings.Contains(b.page.raw, "evil.example") {
		t.Error("the page links to another site")
	}
}

// A held user shows the second factor before a client is answered, and then decides the request.
func TestHeldUserShowsTheFactorBeforeAnAuthorization(t *testing.T) {
	w := authorizing(t)
	d := w.Settings()
	strong(&d)
	w.Declare(d)
	asks, b := w.client("Reports", nil), w.browser()
	b.signUp("ada@example.com")
	w.Clock.Advance(time.Minute)
	held := w.browser()
	held.open("/sign-in")
	held.signIn("ada@example.com")
	held.comes(asks("orders:read"))
	held.says("Reports would like access")
	open := held.page
	a, _ := b.addApp()

	held.page = open
	held.submit("allow")
	held.at("/account/security/required")
	held.comes(asks("orders:read"))
	held.at("/account/security/required")
	held.open(held.link("/reauthenticate"))
	held.submit("totp", "code", a.next())
	held.says("Reports would like access")
	held.submit("allow")
	if held.answered().Get("code") == "" {
		t.Errorf("after the proof: %s", held.page.url)
	}
}

// An owner requires a second factor of the members from a date on.
func TestOwnerRequiresMoreOnTheSettingsPage(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/organizations/new")
	b.submit("create", "name", "Harbour")
	settings := b.page.url.Path + "/settings"
	b.open(settings)
	b.submit("require", "level", "two_factors")
	b.at("/account/security/required")
	b.open("/account/security/totp")
	b.submit("begin")
	a := b.secretOn()
	b.submit("confirm", "code", a.next())
	b.open(settings)
	b.submit("require", "level", "two_factors", "from", "tomorrow")
	b.refused(http.StatusBadRequest, "from", "Enter a date such as 2030-01-02, or nothing.")
	b.submit("require", "level", "two_factors", "from", "2031-02-03")
	b.at(settings)
	if got := b.page.value("from"); got != "2031-02-03" {
		t.Errorf("the date is %q", got)
	}
	b.says("All members are ready.")
	b.submit("require", "level", "one_factor")
	b.at(settings)
	if strings.Contains(b.page.text(), "All members are ready.") || b.page.value("from") != "" {
		t.Errorf("the requirement is still shown: %s", b.page.text())
	}
}
