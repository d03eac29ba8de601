package pages_test

import (
	"encoding/base32"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/totp"
)

// strong enables every kind of factor.
func strong(d *document.Deployment) {
	d.Assurance = &document.Assurance{Passkey: true, TOTP: true, SMS: true, RelyingParty: "localhost", TOTPIssuer: "Acme"}
}

// app is an authenticator app.
type app struct {
	w      *world
	secret []byte
}

// next returns the code of a time step that was not used before.
func (a app) next() string {
	a.w.Clock.Advance(31 * time.Second)
	p := totp.Default()
	return totp.Code(p, a.secret, p.Step(a.w.Clock.Now()))
}

// secretOn returns the app whose secret the page shows.
func (b *browser) secretOn() app {
	b.w.T.Helper()
	shown := b.page.find(func(n *node) bool { return attr(n, "id") == "secret" })
	if shown == nil {
		b.w.T.Fatalf("%s shows no secret: %s", b.page.url, b.page.text())
	}
	raw, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll((shownNode(shown)).text(), " ", ""))
	b.w.Must(err)
	return app{b.w, raw}
}

func shownNode(n *node) shown { return shown{root: n} }

var recoveryCode = regexp.MustCompile(`[0-9a-z]{4}(-[0-9a-z]{4}){5}`)

// codesOn returns the recovery codes that the page shows.
func (b *browser) codesOn() []string {
	b.w.T.Helper()
	codes := recoveryCode.FindAllString(b.page.text(), -1)
	if len(codes) != 10 {
		b.w.T.Fatalf("%s shows %d codes: %s", b.page.url, len(codes), b.page.text())
	}
	return codes
}

// addApp adds an authenticator app to the account, and returns it with the recovery codes.
func (b *browser) addApp() (app, []string) {
	b.w.T.Helper()
	b.open("/account/security/totp")
	b.submit("begin", "name", "Phone")
	a := b.secretOn()
	b.submit("confirm", "code", a.next())
	return a, b.codesOn()
}

func TestAuthenticatorAppEnrollmentPage(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/account")
	if b.page.find(func(n *node) bool { return n.Data == "a" && attr(n, "href") == "/account/security" }) == nil {
		t.Error("the account page has no link to the security page")
	}
	b.open("/account/security")
	b.says("You have no authenticator app yet.")
	b.open("/account/security/totp")
	b.submit("begin", "name", "Phone")
	b.at("/account/security/totp")
	a := b.secretOn()
	if b.page.find(func(n *node) bool { return n.Data == "svg" && attr(n, "role") == "img" }) == nil {
		t.Error("the page has no QR code")
	}
	secret := b.page.find(func(n *node) bool { return attr(n, "id") == "secret" })
	if text := shownNode(secret).text(); len(strings.Fields(text)) != 8 || len(strings.Fields(text)[0]) != 4 {
		t.Errorf("the secret is not in groups of four: %s", text)
	}
	b.submit("confirm", "code", wrong(a.next()))
	b.refused(http.StatusBadRequest, "code", "This is not the code that your app shows.")
	if string(b.secretOn().secret) != string(a.secret) {
		t.Error("the refused form shows another secret")
	}
	b.submit("confirm", "code", "hello")
	b.refused(http.StatusBadRequest, "code", "Enter the digits that your authenticator app shows.")
	b.submit("confirm", "code", a.next())
	codes := b.codesOn()
	if strings.Contains(b.page.url.String(), codes[0]) {
		t.Error("a code is in the address")
	}
	b.open("/account/security")
	b.says("Phone")
	b.says("10 codes are left.")
	b.says("After your password or an emailed code, we ask for a second factor.")
	if strings.Contains(b.page.raw, codes[0]) {
		t.Error("the codes are shown again")
	}
	b.submit("remove-totp")
	b.at("/account/security")
	b.says("It was removed.")
	b.says("You have no authenticator app yet.")
}

func TestRecoveryCodesPage(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	_, first := b.addApp()
	b.open("/account/security/codes")
	b.says("10 codes are left.")
	b.submit("make")
	codes := b.codesOn()
	if codes[0] == first[0] {
		t.Error("the new codes are the old ones")
	}
	to, values := b.fill("download")
	file := b.send(http.MethodPost, to, values.Encode())
	if file.status != http.StatusOK || !strings.HasPrefix(file.header.Get("Content-Type"), "text/plain") || !strings.HasPrefix(file.header.Get("Content-Disposition"), "attachment") {
		t.Errorf("the download: %d %v", file.status, file.header)
	}
	if !strings.Contains(file.raw, strings.Join(codes, "\n")) {
		t.Errorf("the file: %s", file.raw)
	}
	values.Set("codes", "<script>alert(1)</script>")
	if file := b.send(http.MethodPost, to, values.Encode()); file.status != http.StatusBadRequest {
		t.Errorf("a download of other text: %d", file.status)
	}
	values.Set("codes", strings.Join(codes, "\n"))
	b.header["Origin"] = "https://evil.example"
	if file := b.send(http.MethodPost, to, values.Encode()); file.status != http.StatusForbidden || strings.Contains(file.raw, codes[0]) {
		t.Errorf("a download for another site: %d", file.status)
	}
	delete(b.header, "Origin")
	for _, cookie := range b.client.Jar.Cookies(b.url("/")) {
		if strings.Contains(cookie.Value, codes[0]) {
			t.Error("a code is in a cookie")
		}
	}
}

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

func TestSessionsShowTheirLevel(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/account/sessions")
	b.says("One factor")
	b.addApp()
	b.open("/account/sessions")
	b.says("Two factors")
}

// The sign-in page has a challenge and the attributes that the script needs. Without a relying party it has neither.
func TestSignInPageOffersPasskeys(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.open("/sign-in")
	form := b.page.find(func(n *node) bool { return n.Data == "form" && hasAttr(n, "data-passkey") })
	if form == nil || !strings.Contains(attr(form, "data-options"), `"challenge"`) || attr(form, "data-reload") != "840" {
		t.Fatalf("the form of the passkey: %s", b.page.raw)
	}
	email := b.page.find(func(n *node) bool { return attr(n, "name") == "email" })
	if attr(email, "autocomplete") != "username webauthn" {
		t.Errorf("the address has autocomplete=%q", attr(email, "autocomplete"))
	}
	if policy := b.page.header.Get("Permissions-Policy"); policy != "publickey-credentials-get=(self), publickey-credentials-create=(self)" {
		t.Errorf("Permissions-Policy: %q", policy)
	}
	for n := range form.Descendants() {
		if n.Data == "button" && !hasAttr(n, "hidden") {
			t.Error("the button is visible without scripts")
		}
	}
	to, values := b.fill("email", "action", "passkey", "credential", "{")
	b.send(http.MethodPost, to, values.Encode())
	b.refused(http.StatusBadRequest, "", "This passkey was not accepted.")
	values.Set("credential", `{"id":"AAAA"}`)
	b.send(http.MethodPost, to, values.Encode())
	b.refused(http.StatusBadRequest, "", "This passkey was not accepted.")
}

func TestDeploymentWithoutPasskeysOffersNone(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.open("/sign-in")
	if strings.Contains(b.page.raw, "data-passkey") || strings.Contains(b.page.raw, "webauthn") {
		t.Error("the sign-in page offers passkeys")
	}
	b.signUp("ada@example.com")
	b.open("/account/security")
	if b.page.status != http.StatusNotFound {
		t.Errorf("the security page: %d", b.page.status)
	}
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

func TestSecurityPagesInGerman(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/account/security?ui_locales=de")
	b.says("Zweiter Schritt bei der Anmeldung")
	b.open("/account/security/totp?ui_locales=de")
	b.submit("begin")
	b.says("Scannen Sie dieses Bild mit der App.")
	a := b.secretOn()
	b.submit("confirm", "code", a.next())
	b.says("Bewahren Sie diese Codes dort auf")
	other := w.browser()
	other.open("/sign-in?ui_locales=de")
	other.signIn("ada@example.com")
	other.says("Anderer Weg")
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

// The account page offers a passkey once after a sign-in without one, and not in a browser whose user declined.
func TestAccountPageOffersAPasskeyOnce(t *testing.T) {
	w := newWorld(t, strong)
	b := w.browser()
	b.signUp("ada@example.com")
	const offer = "Sign in with a passkey next time?"
	b.says(offer)
	declines := b.page
	b.open("/account")
	if strings.Contains(b.page.text(), offer) {
		t.Error("the offer is shown twice")
	}
	b.page = declines
	b.submit("not-now")
	b.at("/account")
	b.submit("all") // signs out
	b.open("/sign-in")
	b.signIn("ada@example.com")
	b.at("/account")
	if strings.Contains(b.page.text(), offer) {
		t.Error("the offer is shown after it was declined")
	}
	other := w.browser()
	other.open("/sign-in")
	other.signIn("ada@example.com")
	other.says(offer)
}
