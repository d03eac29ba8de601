package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// continuesAtTheProvider waits for the page of the identity provider and follows its link back.
func (v *person) continuesAtTheProvider() {
	v.t.Helper()
	v.until(`document.readyState === "complete" && document.querySelector("h1")?.innerText === "Sign in at Globex"`)
	v.presses("Continue")
}

// A user signs in by the address, by a button, and with an identity whose provider states no address, adds and removes
// identities, and is refused by the provider, all by keyboard.
func TestUsersSignInByTheirIdentityProvider(t *testing.T) {
	for _, tt := range []struct {
		look    look
		scripts bool
	}{{look{360, true}, true}, {look{1280, false}, true}, {look{1280, false}, false}} {
		name := tt.look.String()
		if !tt.scripts {
			name += "-plain"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, nil)
			globex, social := w.Provider(), w.Provider()
			w.DeclareConnection("globex", globex, func(c *document.Connection) {
				c.Domains, c.Name, c.Enforcement = []string{"globex.example"}, "Globex", "Domains"
			})
			w.DeclareConnection("partner", globex, func(c *document.Connection) { c.Domains, c.Name = []string{"partner.example"}, "Partner" })
			w.DeclareConnection("social", social, func(c *document.Connection) { c.Name = "Social" })
			globex.SetUser(identityprovider.User{"sub": "1", "email": "ann@globex.example", "given_name": "Ann"})
			v := arrives(t, w, tt.look, tt.scripts)
			v.signsInByAddress()
			v.managesIdentities(social)
			v.signsInByButton(w, social)
			v.isRefused(social)
		})
	}
}

// signsInByAddress enters an address whose domain requires the connection, and one of a domain that only offers it.
func (v *person) signsInByAddress() {
	v.t.Helper()
	v.goes("/sign-in")
	v.at("Sign in to Acme", "sign-in-buttons")
	v.types("Email address", "ann@globex.example")
	v.keys(kb.Enter)
	v.until(`document.querySelector("p")?.innerText === "ann@globex.example"`)
	v.continuesAtTheProvider()
	v.at("Your account", "account-by-provider")
	v.goes("/sign-in?add=1")
	v.until(`document.querySelector("h1") !== null && document.readyState === "complete"`)
	v.types("Email address", "eve@partner.example")
	v.keys(kb.Enter)
	v.at("Choose how to sign in", "sign-in-connection")
	v.presses("Sign in another way")
	v.until(`document.querySelector("h1")?.innerText === "Enter your password"`)
}

// managesIdentities adds an identity of another provider and removes it.
func (v *person) managesIdentities(social *identityprovider.Provider) {
	v.t.Helper()
	social.SetUser(identityprovider.User{"sub": "ann"})
	v.goes("/account/identities")
	v.at("Sign-in with others", "identities")
	v.presses("Add Social")
	v.continuesAtTheProvider()
	v.sees("It was added. You can sign in with it now.")
	v.at("Sign-in with others", "identities-two")
	v.presses("Remove Social")
	v.sees("It was removed.")
}

// signsInByButton signs in with a provider that states no address, and proves one.
func (v *person) signsInByButton(w *frontendtest.World, social *identityprovider.Provider) {
	v.t.Helper()
	social.SetUser(identityprovider.User{"sub": "carl"})
	v.goes("/sign-in?add=1")
	v.presses("Continue with Social")
	v.continuesAtTheProvider()
	v.at("Your email address", "sign-in-email")
	v.types("Email address", "carl@example.com")
	v.keys(kb.Enter)
	v.at("Check your email", "sign-in-email-code")
	v.types("Code", w.CodeFor("carl@example.com", 1))
	v.keys(kb.Enter)
	v.until(`document.querySelector("h1")?.innerText === "Your account" && document.body.innerText.includes("carl@example.com")`)
}

// isRefused comes back from a provider that did not sign the user in.
func (v *person) isRefused(social *identityprovider.Provider) {
	v.t.Helper()
	social.SetUser(nil)
	v.goes("/sign-in?add=1")
	v.presses("Continue with Social")
	v.continuesAtTheProvider()
	v.sees("The identity provider did not sign you in. Try again, or use another way.")
}
