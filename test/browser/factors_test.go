package browser

import (
	"context"
	"encoding/base32"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/totp"
)

// strong enables every kind of factor.
func strong(d *document.Deployment) {
	d.Assurance = &document.Assurance{Passkey: true, TOTP: true, SMS: true, RelyingParty: "localhost", TOTPIssuer: "Acme"}
}

// platform is an authenticator in the user's device, which keeps passkeys and verifies its user.
func platform() webauthn.VirtualAuthenticatorOptions {
	return webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true,
		HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}
}

// device gives the person's browser the authenticator platform, and returns its id.
func (v *person) device() webauthn.AuthenticatorID {
	v.t.Helper()
	return v.attaches(platform())
}

// attaches gives the person's browser an authenticator, and returns its id.
func (v *person) attaches(options webauthn.VirtualAuthenticatorOptions) webauthn.AuthenticatorID {
	v.t.Helper()
	v.run(set(webauthn.Enable, webauthn.EnableParams{}))
	var id webauthn.AuthenticatorID
	v.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		added, err := cdp.Call(ctx, t, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &options})
		id = added.AuthenticatorID
		return err
	}))
	return id
}

// present sets whether the person confirms what the device asks.
func (v *person) present(id webauthn.AuthenticatorID, enabled bool) {
	v.t.Helper()
	v.run(set(webauthn.SetAutomaticPresenceSimulation, webauthn.SetAutomaticPresenceSimulationParams{AuthenticatorID: id, Enabled: enabled}))
}

// verifies sets whether the device recognizes the person.
func (v *person) verifies(id webauthn.AuthenticatorID, verified bool) {
	v.t.Helper()
	v.run(set(webauthn.SetUserVerified, webauthn.SetUserVerifiedParams{AuthenticatorID: id, IsUserVerified: verified}))
}

// says returns a text of the pages in the person's language. pairs are names and values of its placeholders.
func (v *person) says(key string, pairs ...string) string {
	v.t.Helper()
	if !v.words.Has(key) {
		v.t.Fatalf("the pages have no text %q", key)
	}
	return v.words.Text(key, pairs...)
}

// opens opens a page, and waits for it by the key of its heading.
func (v *person) opens(path, heading string, pairs ...string) {
	v.t.Helper()
	v.goes(path)
	v.reaches(v.says(heading, pairs...))
}

// becomesUser creates an account, in any language.
func (v *person) becomesUser(email string) {
	v.t.Helper()
	v.email = email
	v.opens("/sign-up", "signup.title", "name", "Acme")
	v.types(v.says("field.email"), email)
	v.types(v.says("field.password"), passphrase)
	v.keys(kb.Enter)
	v.reaches(v.says("code.title"))
	v.types(v.says("field.code"), v.mail.CodeFor(email, 1))
	v.keys(kb.Enter)
	v.reaches(v.says("account.title"))
}

// entersPassword signs in as far as the password, starting on the sign-in page.
func (v *person) entersPassword() {
	v.t.Helper()
	v.reaches(v.says("signin.title", "name", "Acme"))
	v.types(v.says("field.email"), v.email)
	v.keys(kb.Enter)
	v.reaches(v.says("password.title"))
	v.types(v.says("field.password"), passphrase)
	v.keys(kb.Enter)
}

// leaves signs the person out. The sign-in page that follows may ask for a passkey by itself.
func (v *person) leaves() {
	v.t.Helper()
	v.opens("/sign-out", "signout.title")
	v.presses(v.says("signout.confirm"))
}

// signsOut signs the person out, in a browser in which no passkey answers the autofill.
func (v *person) signsOut() {
	v.t.Helper()
	v.leaves()
	v.sees(v.says("notice.signed_out"))
}

// withoutAutofill makes the browser one whose autofill offers no passkeys.
func (v *person) withoutAutofill() {
	v.t.Helper()
	v.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: "PublicKeyCredential.isConditionalMediationAvailable = undefined",
		})
		return err
	}))
}

// holds waits until the page of sessions shows a level for the current session.
func (v *person) holds(level string) {
	v.t.Helper()
	v.opens("/account/sessions", "signins.title")
	v.until(`document.querySelector(".rows")?.innerText.includes(` + quoted(v.says("level."+level)) + `)`)
}

// turnsOn turns the second step on, starting on the page of factors.
func (v *person) turnsOn() {
	v.t.Helper()
	v.presses(v.says("security.turn_on"))
	v.reaches(v.says("codes.title"))
	v.presses(v.says("codes.kept"))
	v.reaches(v.says("security.title"))
}

// authenticatorApp is an authenticator app that a person has set up.
type authenticatorApp struct {
	w      *frontendtest.World
	secret []byte
	// shown is the secret as the page showed it, and codes are the recovery codes that came with it.
	shown string
	codes []string
}

// addsApp adds an authenticator app, starting on its page. The page with the recovery codes stays open.
func (v *person) addsApp(w *frontendtest.World) authenticatorApp {
	v.t.Helper()
	v.reaches(v.says("authenticator.title"))
	v.types(v.says("field.name"), "Phone")
	v.keys(kb.Enter)
	v.until(`document.readyState === "complete" && document.querySelector(".qr svg") !== null`)
	a := authenticatorApp{w: w, shown: strings.ReplaceAll(eval[string](v.tab, `document.querySelector("#secret").textContent`), " ", "")}
	var err error
	if a.secret, err = base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(a.shown); err != nil {
		v.t.Fatal(err)
	}
	v.types(v.says("field.code"), a.next())
	v.keys(kb.Enter)
	v.reaches(v.says("codes.title"))
	a.codes = strings.Fields(eval[string](v.tab, `[...document.querySelectorAll("#codes code")].map((c) => c.textContent).join(" ")`))
	return a
}

// next returns the code of a time step that was not used before.
func (a authenticatorApp) next() string {
	a.w.Clock.Advance(31 * time.Second)
	return a.at(a.w.Clock.Now())
}

// at returns the code of a time.
func (a authenticatorApp) at(now time.Time) string {
	p := totp.Default()
	return totp.Code(p, a.secret, p.Step(now))
}
