package pages

import (
	"errors"
	"net/http"
	"unicode/utf8"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

// signInPage is the page on which a sign-in begins, with an account of the session or with an email address.
type signInPage struct {
	Accounts []enduserapi.Account
	// Email is the address that is filled in.
	Email string
	// SignUp is the address of the sign-up page, "" if sign-ups are not possible.
	SignUp string
	// Passkey are the options for a passkey as JSON, "" if the deployment has no passkeys.
	Passkey string
	// Reload is after how many seconds an untouched page is loaded again, 0 for never.
	Reload int
	// Signals are messages for the browser's passkeys.
	Signals []signal
	// Connections are those that are offered to everybody. Only reports that users can sign in by connections and passkeys
	// only.
	Connections []connectionButton
	Only        bool
}

// signInReload is after how many seconds an untouched sign-in page is loaded again: a minute before its challenge
// expires.
const signInReload = 14 * 60

// Autocomplete returns the autocomplete attribute of the address, with which browsers also offer passkeys.
func (own signInPage) Autocomplete() string {
	if own.Passkey == "" {
		return "username"
	}
	return "username webauthn"
}

// maxHint is the maximum length of a login hint, in bytes.
const maxHint = 320

// ways reports whether users can sign in with a password and with an emailed code.
func ways(v *visit) (password, code bool) {
	settings := v.tenant.Settings.EffectiveSignIn()
	return settings.Password, settings.EmailCode && mails(v)
}

// mails reports whether the deployment sends mail, which sign-ups need.
func mails(v *visit) bool { return v.tenant.Settings.Email != nil }

func showSignIn(v *visit) error {
	var own signInPage
	switch {
	case mails(v) && invitation(v) != "":
		own.SignUp = v.link("/sign-up", "invitation", invitation(v))
	case mails(v):
		own.SignUp = v.link("/sign-up")
	}
	var err error
	if own.Email, err = invitedEmail(v); err != nil {
		return err
	}
	if own.Email == "" && v.state.Flow != nil {
		own.Email = v.state.Flow.Email
	}
	if hint := v.r.URL.Query().Get("login_hint"); own.Email == "" && len(hint) <= maxHint && utf8.ValidString(hint) {
		own.Email = hint
	}
	if v.who.User != nil && !v.r.URL.Query().Has("add") && (v.form == nil || v.form.Action != "email") {
		accounts, err := v.api.ListAccounts(v.r.Context())
		if err != nil {
			return err
		}
		own.Accounts = accounts.Data
		return v.render("choose", v.text.Text("choose.title"), own)
	}
	own.Passkey = signInOptions(v)
	if own.Connections, err = connectionButtons(v); err != nil {
		return err
	}
	own.Only = v.tenant.Settings.EffectiveSignIn().ConnectionsOnly
	if v.form == nil { // a page that answers a form cannot be loaded again
		own.Reload = signInReload
	}
	if v.unknown != "" {
		own.Signals = append(own.Signals, unknownCredential(v, v.unknown))
	}
	return v.render("signin", v.text.Text("signin.title", "name", v.name()), own)
}

func takeSignIn(v *visit) error {
	sent := v.form
	if sent.Action == "choose" {
		if err := switchSignIn(v, sent); err != nil {
			return v.again(sent, err)
		}
		return v.onward("/account")
	}
	if sent.Action == "passkey" {
		return signInByPasskey(v, sent)
	}
	sent.Action = "email"
	email, err := text.Email(sent.value("email"))
	if err != nil {
		sent.fail("email", v.text.Text("invalid.email"))
		return v.show(sent, http.StatusBadRequest)
	}
	if done, err := discovered(v, email); done || err != nil {
		return err
	}
	if v.tenant.Settings.EffectiveSignIn().ConnectionsOnly {
		sent.fail("email", v.text.Text("signin.no_connection"))
		return v.show(sent, http.StatusBadRequest)
	}
	if password, _ := ways(v); !password {
		return signIn(v, sent, enduserapi.SignIn{Strategy: enduserapi.SignInStrategyEmailOtp, Email: email})
	}
	v.state.begin(flow{Email: email}, v.now)
	return v.redirect("", "/sign-in/password", adding(v)...)
}

// adding returns the query parameter that adds an account to the session, if the page's query has it.
func adding(v *visit) []string {
	if v.r.URL.Query().Has("add") {
		return []string{"add", "1"}
	}
	return nil
}

// passwordPage asks for the password of an address.
type passwordPage struct {
	Email string
	// Code reports that the user can request a code instead, and Reset that a forgotten password can be replaced.
	Code, Reset bool
}

func showPassword(v *visit) error {
	own := passwordPage{Email: v.form.value("email")}
	if own.Email == "" && v.state.Flow != nil {
		own.Email = v.state.Flow.Email
	}
	if own.Email == "" {
		return v.redirect("", "/sign-in", adding(v)...)
	}
	_, own.Code = ways(v)
	own.Reset = canReset(v)
	return v.render("password", v.text.Text("password.title"), own)
}

func takePassword(v *visit) error {
	sent := v.form
	email := sent.trimmed("email")
	if sent.Action == "code" {
		return signIn(v, sent, enduserapi.SignIn{Strategy: enduserapi.SignInStrategyEmailOtp, Email: email})
	}
	sent.Action = "password"
	if sent.value("password") == "" {
		sent.fail("password", v.text.Text("invalid.password"))
		return v.show(sent, http.StatusBadRequest)
	}
	return signIn(v, sent, enduserapi.SignIn{Strategy: enduserapi.SignInStrategyPassword, Email: email, Password: given(sent.value("password"))})
}

// signIn requests a sign-in and redirects the browser: after a completed sign-in to the page where the user wanted to
// go, otherwise to the page that asks for the code.
func signIn(v *visit, sent *form, body enduserapi.SignIn) error {
	known := map[string]bool{}
	for _, g := range v.api.session.Signins {
		known[g.Id] = true
	}
	if _, err := v.api.SignIn(v.r.Context(), body); err != nil {
		return v.again(sent, err)
	}
	if active := v.api.session.ActiveSignin; active != nil && !known[active.Id] {
		v.state.Flow, v.state.changed = nil, true
		offerPasskey(v)
		return v.onward("/account")
	}
	attempts := v.api.session.SigninAttempts
	if len(attempts) == 0 {
		// Signed in again with an account that is already in the session.
		return v.onward("/account")
	}
	newest := attempts[0]
	if newest.CurrentStep == stepSecondFactor {
		return toSecondFactor(v, newest.Id)
	}
	v.state.begin(flow{Email: body.Email, Attempt: newest.Id, Sends: 1, SentAt: v.now.Unix()}, v.now)
	return v.redirect("", "/sign-in/code", append(adding(v), "attempt", newest.Id)...)
}

// signOutPage asks whether to sign out.
type signOutPage struct{ Several bool }

func showSignOut(v *visit) error {
	return v.render("signout", v.text.Text("signout.title"), signOutPage{len(v.api.session.Signins) > 1})
}

func takeSignOut(v *visit) error {
	sent, body := v.form, enduserapi.SignOut{}
	if sent.Action == "one" {
		if v.api.session.ActiveSignin == nil {
			return errors.New("signed in without an active sign-in")
		}
		body.SigninId = &v.api.session.ActiveSignin.Id
	}
	done, err := v.api.SignOut(v.r.Context(), body)
	if err != nil {
		return v.again(sent, err)
	}
	v.state.Draft, v.state.Flow, v.state.changed = nil, nil, true
	if done.Data.EndSessionUrl != nil {
		v.location(*done.Data.EndSessionUrl)
		return nil
	}
	if target, ok := target(v, v.r.URL.Query().Get("continue")); ok {
		v.location(target)
		return nil
	}
	return v.redirect("signed_out", "/sign-in")
}
