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
