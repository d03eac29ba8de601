package browser

import (
	"encoding/base32"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/totp"
)

// A user adds a passkey, signs in with it by button and by autofill, uses it as second step and to authenticate again,
// renames it and removes it, all by keyboard.
func TestUsersSignInWithPasskeys(t *testing.T) {
	for _, l := range []look{{360, true}, {1280, false}} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, strong)
			v := arrives(t, w, l, true)
			v.signsUp("ada@example.com")
			device := v.device()

			v.goes("/account/security")
			v.at("Security", "security-empty")
			v.presses("Add a passkey")
			v.at("Add a passkey", "passkey-new")
			v.verifies(device, false) // the device does not recognize the person
			v.presses("Create the passkey")
			v.sees("Nothing happened. Try again, or use another way.")
			v.at("Add a passkey", "passkey-nothing")
			v.verifies(device, true)
			v.types("Name", " at home")
			v.keys(kb.Enter)
			v.sees("Your passkey was added.")
			v.sees("On one device only")
			v.at("Security", "security-passkey")

			v.present(device, false)
			v.signsOut()
			v.at("Sign in to Acme", "sign-in-passkey")
			v.present(device, true) // that is for later requests: the one of the autofill is pending
			v.presses("Use a passkey")
			v.until(`document.querySelector("h1")?.innerText === "Your account"`)
			v.goes("/account/sessions")
			v.until(`document.querySelector(".rows")?.innerText.includes("Passkey")`)

			v.leaves() // the sign-in page asks for a passkey by itself, and the person is present
			v.until(`document.querySelector("h1")?.innerText === "Your account"`)

			v.goes("/account/security")
			v.presses("Turn on")
			v.at("Recovery codes", "codes")
			v.presses("I have kept them")
			v.at("Security", "security-on")

			v.present(device, false)
			v.signsOut()
			v.types("Email address", "ada@example.com")
			v.keys(kb.Enter)
			v.until(`document.querySelector("h1")?.innerText === "Enter your password"`)
			v.types("Password", passphrase)
			v.keys(kb.Enter)
			v.at("Second step", "second-step-passkey")
			v.present(device, true)
			v.presses("Use a passkey")
			v.until(`document.querySelector("h1")?.innerText === "Your account"`)

			w.Clock.Advance(time.Hour)
			v.goes("/account/security/codes")
			v.presses("Make new codes")
			v.at("Is it you?", "reauthenticate-passkey")
			v.presses("Use a passkey")
			v.sees("Thank you.")

			v.goes("/account/security")
			v.until(`document.querySelector(".rename summary") !== null`)
			v.tabTo(eval[string](v.tab, `document.querySelector(".rename summary").getAttribute("aria-label")`))
			v.keys(kb.Enter)
			v.until(`document.querySelector(".rename").open`)
			v.do(`document.querySelector(".rename input[name=name]").value = ""`)
			v.types("Name", "Laptop")
			v.keys(kb.Enter)
			v.sees("The passkey was renamed.")
			v.presses("Remove Laptop")
			v.sees("The passkey was removed.")
			v.at("Security", "security-removed")
		})
	}
}

// A user adds an authenticator app and signs in with its code, by keyboard, with and without scripts.
func TestUsersSignInWithAuthenticatorApps(t *testing.T) {
	for _, scripts := range []bool{true, false} {
		l := look{1280, true}
		name := l.String()
		if !scripts {
			name += "-plain"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, strong)
			v := arrives(t, w, l, scripts)
			v.signsUp("ada@example.com")
			v.goes("/account/security")
			v.until(`document.querySelector("h1")?.innerText === "Security"`)
			v.presses("Add an authenticator app")
			v.at("Add an authenticator app", "app-name")
			v.types("Name", "Phone")
			v.keys(kb.Enter)
			v.until(`document.querySelector(".qr svg") !== null`)
			v.at("Add an authenticator app", "app-secret")
			secret, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(eval[string](v.tab, `document.querySelector("#secret").textContent`), " ", ""))
			if err != nil {
				t.Fatal(err)
			}
			next := func() string {
				w.Clock.Advance(31 * time.Second)
				p := totp.Default()
				return totp.Code(p, secret, p.Step(w.Clock.Now()))
			}
			v.types("Code", next())
			v.keys(kb.Enter)
			v.at("Recovery codes", "app-codes")
			recovery := eval[string](v.tab, `document.querySelector("#codes code").textContent`)
			v.presses("I have kept them")
			v.sees("10 codes are left.")
			v.at("Security", "security-app")

			for _, recover := range []bool{false, true} {
				v.signsOut()
				v.types("Email address", "ada@example.com")
				v.keys(kb.Enter)
				v.until(`document.querySelector("h1")?.innerText === "Enter your password"`)
				v.types("Password", passphrase)
				v.keys(kb.Enter)
				v.at("Second step", "second-step-app")
				if !recover {
					v.types("Code", next())
					v.keys(kb.Enter)
					v.until(`document.querySelector("h1")?.innerText === "Your account"`)
					continue
				}
				v.presses("Use a recovery code")
				v.at("Second step", "second-step-recovery")
				v.types("Recovery code", recovery)
				v.keys(kb.Enter)
				v.sees("The recovery code is used up.")
			}
		})
	}
}

// A deployment that requires a passkey leads its users to add one, and then to where they wanted to go.
func TestRequiredPasskeyLeadsToEnrollment(t *testing.T) {
	w := frontendtest.New(t, func(d *document.Deployment) {
		strong(d)
		d.Assurance.Required = &document.Requirement{Level: "phishing_resistant"}
	})
	v := arrives(t, w, look{width: 360}, true)
	v.device()
	v.goes("/sign-up?continue=%2Forganizations")
	v.whole()
	v.types("Email address", "ada@example.com")
	v.types("Password", passphrase)
	v.keys(kb.Enter)
	v.until(`document.querySelector("h1")?.innerText === "Check your email"`)
	v.types("Code", v.mail.CodeFor("ada@example.com", 1))
	v.keys(kb.Enter)
	v.at("One more step", "required")
	v.presses("Add a passkey")
	v.until(`document.querySelector("h1")?.innerText === "Add a passkey"`)
	v.presses("Create the passkey")
	v.until(`document.querySelector("h1")?.innerText === "Organizations"`)
}
