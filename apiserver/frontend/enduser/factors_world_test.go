package enduser_test

import (
	"encoding/base32"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/totp"
)

// strong are settings that enable every kind of factor.
func strong() *document.Assurance {
	return &document.Assurance{Passkey: true, TOTP: true, SMS: true, RelyingParty: "localhost", TOTPIssuer: "Acme"}
}

// open declares the world's deployment with every kind of factor and a signing key, after change.
func (w *world) open(change func(*document.Deployment)) {
	w.T.Helper()
	d := w.signedDeployment()
	d.Assurance = strong()
	if change != nil {
		change(&d)
	}
	w.Declare(d)
	w.Eventually("the settings are known", func() bool {
		config := w.browser().ok("GET", "/auth/config", "")
		required := "one_factor"
		if d.Assurance.Required.Effective().InForce(w.Clock.Now()) {
			required = d.Assurance.Required.Effective().Level.String()
		}
		second := config["second_factor"].(map[string]any)
		return second["totp"] == d.Assurance.TOTP && second["required"] == required && config["passkey"].(map[string]any)["enabled"] == d.Assurance.Passkey
	})
}

// app is an authenticator app.
type app struct {
	w      *world
	secret []byte
	id     string
}

// code returns the app's code at the world's time.
func (a *app) code() string {
	p := totp.Default()
	return totp.Code(p, a.secret, p.Step(a.w.Clock.Now()))
}

// next returns the code of the next time step, after the present one was used.
func (a *app) next() string {
	a.w.Clock.Advance(31 * time.Second)
	return a.code()
}

// addApp adds an authenticator app to the signed-in account, and returns it with the new recovery codes.
func (b *browser) addApp() (*app, []any) {
	b.w.T.Helper()
	begun := b.ok("POST", "/me/second-factors/totp", `{"name":"Phone"}`)
	a := &app{w: b.w, secret: secretOf(b.w, begun), id: begun["id"].(string)}
	confirmed := b.ok("POST", "/me/second-factors/totp/"+a.id+"/confirm", fmt.Sprintf(`{"code":%q}`, a.code()))
	codes, _ := confirmed["codes"].([]any)
	return a, codes
}

// secretOf returns the secret of an app that was begun to add.
func secretOf(w *world, begun map[string]any) []byte {
	w.T.Helper()
	secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(begun["secret"].(string))
	w.Must(err)
	return secret
}

// device is an authenticator with a passkey.
type device struct {
	w    *world
	rp   virtualwebauthn.RelyingParty
	auth virtualwebauthn.Authenticator
	key  virtualwebauthn.Credential
}

func (w *world) device() *device {
	return &device{
		w: w, rp: virtualwebauthn.RelyingParty{ID: "localhost", Name: "Acme", Origin: "http://localhost"}, key: frontendtest.NewCredential(),
		auth: virtualwebauthn.NewAuthenticatorWithOptions(virtualwebauthn.AuthenticatorOptions{BackupEligible: true, BackupState: true}),
	}
}

func optionsOf(w *world, data map[string]any) string {
	raw, err := json.Marshal(map[string]any{"publicKey": data["public_key"]})
	w.Must(err)
	return string(raw)
}

// created answers the options for a new passkey.
func (d *device) created(data map[string]any) string {
	d.w.T.Helper()
	options, err := virtualwebauthn.ParseAttestationOptions(optionsOf(d.w, data))
	d.w.Must(err)
	handle := data["public_key"].(map[string]any)["user"].(map[string]any)["id"].(string)
	d.auth.Options.UserHandle = decoded(d.w, handle)
	d.auth.AddCredential(d.key)
	return virtualwebauthn.CreateAttestationResponse(d.rp, d.auth, d.key, *options)
}

// shown answers the options for an assertion.
func (d *device) shown(data map[string]any) string {
	d.w.T.Helper()
	options, err := virtualwebauthn.ParseAssertionOptions(optionsOf(d.w, data))
	d.w.Must(err)
	return virtualwebauthn.CreateAssertionResponse(d.rp, d.auth, d.key, *options)
}

// addPasskey adds a passkey to the signed-in account, and returns its id.
func (b *browser) addPasskey(d *device) string {
	b.w.T.Helper()
	credential := d.created(b.ok("POST", "/me/passkeys/options", `{}`))
	return b.ok("POST", "/me/passkeys", fmt.Sprintf(`{"name":"Laptop","credential":%s}`, credential))["passkey"].(map[string]any)["id"].(string)
}

// signInByPasskey signs in with a passkey.
func (b *browser) signInByPasskey(d *device) {
	b.w.T.Helper()
	b.ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"passkey","credential":%s}`, d.shown(b.ok("POST", "/auth/passkey-options", `{}`))))
}

// firstStep signs in by password to an account with a second factor, and returns the id of the attempt.
func (b *browser) firstStep(email string) string {
	b.w.T.Helper()
	b.w.Clock.Advance(time.Millisecond) // the newest attempt comes first
	b.signIn(email)
	session := b.last.Body.Session
	if len(session.SignInAttempts) == 0 || session.SignInAttempts[0]["current_step"] != "second_factor" || session.ActiveSignIn != nil {
		b.w.T.Fatalf("the sign-in asks for no second factor: %s", b.last.Raw)
	}
	return session.SignInAttempts[0]["id"].(string)
}

func secondStep(attempt, strategy, code string) string {
	return fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":%q,"code":%q}`, attempt, strategy, code)
}

// isSignedIn reports whether GET /session shows a user.
func (b *browser) isSignedIn() bool {
	b.w.T.Helper()
	return b.ok("GET", "/session", "")["user"] != nil
}

func onFactors(t *testing.T, change func(*document.Deployment), story func(t *testing.T, w *world)) {
	t.Helper()
	onEngines(t, func(t *testing.T, w *world) {
		w.open(change)
		story(t, w)
	})
}
