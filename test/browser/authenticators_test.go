package browser

import (
	"context"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
)

// authenticatorKind is a kind of authenticator, and what the pages offer with it.
type authenticatorKind struct {
	name     string
	language string
	options  webauthn.VirtualAuthenticatorOptions
	// passkey reports that it can keep a passkey: it has resident keys and verifies its user.
	passkey bool
	// synced reports that its passkeys are backed up.
	synced bool
}

// authenticatorKinds returns the kinds of authenticators that Chromium simulates.
func authenticatorKinds() []authenticatorKind {
	usb := func(resident, verification bool) webauthn.VirtualAuthenticatorOptions {
		out := platform()
		out.Transport, out.HasResidentKey, out.HasUserVerification, out.IsUserVerified = webauthn.AuthenticatorTransportUsb, resident, verification, verification
		return out
	}
	backup := func(eligible, state bool) webauthn.VirtualAuthenticatorOptions {
		out := platform()
		out.DefaultBackupEligibility, out.DefaultBackupState = eligible, state
		return out
	}
	u2f := usb(false, false)
	u2f.Protocol = webauthn.AuthenticatorProtocolU2f
	return []authenticatorKind{
		{"in the device", "de", backup(false, false), true, false},
		{"in the device, not yet synced", "en", backup(true, false), true, false},
		{"in the device, synced", "de", backup(true, true), true, true},
		{"USB, with keys and verification", "en", usb(true, true), true, false},
		{"USB, without keys", "de", usb(false, true), false, false},
		{"USB, without verification", "en", usb(true, false), false, false},
		{"USB, without keys and verification", "de", usb(false, false), false, false},
		{"U2F", "en", u2f, false, false},
	}
}

// Every kind of authenticator is registered, is used and is removed by keyboard: as a passkey if it keeps keys and
// verifies its user, otherwise as a security key, which is only a second step.
func TestEveryKindOfAuthenticatorSignsIn(t *testing.T) {
	for n, kind := range authenticatorKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, strong)
			v := arrivesReading(t, kind.language, localhost(w.Server), w, everyLook[n%len(everyLook)], true)
			v.attaches(kind.options)
			v.becomesUser("ada@example.com")
			v.registers(kind)
			v.turnsOn()
			v.signsInAlone(kind)
			v.entersPassword()
			v.at(v.says("secondfactor.title"), "authenticator-second-step")
			v.presses(v.says("passkey.use"))
			v.reaches(v.says("account.title"))
			v.holds("phishing_resistant")
			v.removes()
		})
	}
}

// registers adds the authenticator as a passkey, or as a security key if it cannot keep a passkey.
func (v *person) registers(kind authenticatorKind) {
	v.t.Helper()
	v.opens("/account/security", "security.title")
	v.presses(v.says("security.add_passkey"))
	v.reaches(v.says("newpasskey.title"))
	v.types(v.says("field.name"), " (mine)")
	v.presses(v.says("newpasskey.create"))
	if !kind.passkey {
		v.sees(v.says("passkey.nothing"))
		v.presses(v.says("newpasskey.key_instead"))
		v.sees(v.says("newpasskey.key_lead"))
		v.at(v.says("newpasskey.title"), "authenticator-key")
		v.presses(v.says("newpasskey.key"))
	}
	v.sees(v.says("notice.passkey_added"))
	v.reaches(v.says("security.title"))
	if where := eval[string](v.tab, `document.querySelector("#passkeys + p + .rows p.fine").innerText`); kind.synced != v.shows(v.says("security.synced")) ||
		kind.synced == v.shows(v.says("security.one_device")) {
		v.t.Errorf("the page says: %s", where)
	}
	if kind.passkey == v.shows(v.says("security.second_only")) {
		v.t.Errorf("only as a second step: %v", kind.passkey)
	}
	v.at(v.says("security.title"), "authenticator-added")
}

// signsInAlone signs out, and in with the authenticator alone: by the autofill, which offers the passkeys of the
// device, and by the button. Afterwards the person is signed out.
func (v *person) signsInAlone(kind authenticatorKind) {
	v.t.Helper()
	if kind.passkey && kind.options.Transport == webauthn.AuthenticatorTransportInternal {
		v.leaves()
		v.reaches(v.says("account.title")) // the sign-in page asks for a passkey by itself
		v.holds("phishing_resistant")
	}
	v.withoutAutofill()
	v.signsOut()
	v.reaches(v.says("signin.title", "name", "Acme"))
	v.presses(v.says("passkey.use"))
	if !kind.passkey {
		v.sees(v.says("passkey.nothing"))
		return
	}
	v.reaches(v.says("account.title"))
	v.holds("phishing_resistant")
	v.signsOut()
}

// removes removes the only authenticator, which turns the second step off: a password is enough then.
func (v *person) removes() {
	v.t.Helper()
	v.opens("/account/security", "security.title")
	v.tabTo(eval[string](v.tab, `document.querySelector("button[value=remove-passkey]").getAttribute("aria-label")`))
	v.keys(kb.Enter)
	v.sees(v.says("notice.passkey_removed"))
	v.sees(v.says("security.no_passkey"))
	v.signsOut()
	v.entersPassword()
	v.reaches(v.says("account.title"))
	v.holds("one_factor")
}

// credentials returns what an authenticator keeps.
func (v *person) credentials(id webauthn.AuthenticatorID) (kept []*webauthn.Credential) {
	v.t.Helper()
	v.run(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		read, err := cdp.Call(ctx, t, webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: id})
		kept = read.Credentials
		return err
	}))
	return kept
}

// A passkey that begins to be synced is accepted and shown as synced from its next use on, also if it was registered as
// one that cannot be. When the account removes it, the browser removes it too.
func TestPasskeyBecomesSynced(t *testing.T) {
	for _, eligible := range []bool{false, true} {
		t.Run(map[bool]string{false: "which was bound to the device", true: "which could be synced"}[eligible], func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, strong)
			v := arrives(t, w, look{width: 1280}, true)
			options := platform()
			options.DefaultBackupEligibility = eligible
			id := v.attaches(options)
			v.becomesUser("ada@example.com")
			v.opens("/account/security/passkey", "newpasskey.title")
			v.createsPasskey()
			v.sees(v.says("security.one_device"))

			kept := v.credentials(id)
			if len(kept) != 1 || kept[0].RpID != "localhost" || !kept[0].IsResidentCredential || len(kept[0].UserHandle) != 32 || kept[0].UserName != v.email {
				t.Fatalf("the device keeps %+v", kept)
			}
			v.run(set(webauthn.SetCredentialProperties, webauthn.SetCredentialPropertiesParams{
				AuthenticatorID: id, CredentialID: kept[0].CredentialID, BackupEligibility: ptr.To(true), BackupState: ptr.To(true),
			}))
			v.withoutAutofill()
			v.signsOut()
			v.reaches(v.says("signin.title", "name", "Acme"))
			v.presses(v.says("passkey.use"))
			v.reaches(v.says("account.title"))
			v.opens("/account/security", "security.title")
			v.sees(v.says("security.synced"))

			v.tabTo(eval[string](v.tab, `document.querySelector("button[value=remove-passkey]").getAttribute("aria-label")`))
			v.keys(kb.Enter)
			v.sees(v.says("notice.passkey_removed"))
			w.Eventually("the device keeps no passkey", func() bool { return len(v.credentials(id)) == 0 })
		})
	}
}
