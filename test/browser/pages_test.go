package browser

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/frontend/pages/texts"
)

const passphrase = "correct horse battery staple"

// person is a user with a browser and a keyboard, but no mouse.
type person struct {
	*tab
	// mail is the person's inbox; base is the base URL of the pages.
	mail inbox
	base string
	// scripts reports whether the browser runs scripts, which axe needs.
	scripts bool
	// suffix is part of the names of pictures. mark makes the names of the person's organizations unique.
	suffix, mark string
	// email is the person's address.
	email string
	// words are the texts of the pages in the person's language.
	words *texts.Language
}

// inbox returns the codes and invitations that users receive.
type inbox interface {
	// CodeFor waits for the nth code to a recipient. InvitationFor waits for the nth invitation, and returns its token.
	CodeFor(to string, nth int) string
	InvitationFor(to string, nth int) string
}

// localhost returns a server's address with the host name that the deployment has.
func localhost(server *httptest.Server) string {
	return strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// arrives opens a browser for a new user.
func arrives(t testing.TB, w *frontendtest.World, l look, scripts bool) *person {
	t.Helper()
	return arrivesAt(t, localhost(w.Server), w, l, scripts)
}

// arrivesAt is like arrives, for pages at another base URL.
func arrivesAt(t testing.TB, base string, mail inbox, l look, scripts bool) *person {
	t.Helper()
	return arrivesReading(t, "en", base, mail, l, scripts)
}

// arrivesReading is arrivesAt for a user with a preferred language.
func arrivesReading(t testing.TB, language, base string, mail inbox, l look, scripts bool) *person {
	t.Helper()
	catalogues, err := texts.Load()
	if err != nil {
		t.Fatal(err)
	}
	v := &person{tab: open(t, l, language), mail: mail, base: base, scripts: scripts, suffix: l.String(), words: catalogues.Choose("", language)}
	v.expects("status of 400 (Bad Request)") // a browser logs this for every form that is shown again
	if !scripts {
		v.suffix += "-plain"
		v.run(set(emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}))
	}
	return v
}

func (v *person) goes(path string) {
	v.t.Helper()
	v.run(chromedp.Navigate(v.base + path))
}

// goesToOrganization follows the link to an organization on the page that lists them.
func (v *person) goesToOrganization(name string) {
	v.t.Helper()
	link := `document.querySelector('a[href^="/organizations/` + name + v.mark + `-"]')`
	v.until(link + " !== null")
	v.goes(eval[string](v.tab, link+`.getAttribute("href")`))
}

// at waits for a page with a heading, keeps a picture of it, and checks its width and accessibility.
func (v *person) at(heading, name string) {
	v.t.Helper()
	v.until(`document.readyState === "complete" && document.querySelector("h1")?.innerText.replace(/\s+/g, " ").startsWith(` + quoted(heading) + `)`)
	v.expectNarrow(name)
	v.picture("pages-" + name + "-" + v.suffix)
	if v.scripts {
		v.expectAccessible(name)
	}
}

// types moves to a field of the whole page by Tab, unless it already has the focus, and types. A label may continue
// with "(optional)".
func (v *person) types(label, text string) {
	v.t.Helper()
	v.whole()
	whole := eval[string](v.tab, `[...document.querySelectorAll("label")].map((l) => l.textContent.trim()).find((l) => l.startsWith(`+quoted(label)+`)) ?? `+quoted(label))
	if !eval[bool](v.tab, `(document.activeElement.labels?.[0]?.textContent ?? "").trim() === `+quoted(whole)) {
		v.tabTo(whole)
	}
	v.keys(text)
}

// presses moves to a button or a link by Tab and presses Enter.
func (v *person) presses(name string) {
	v.t.Helper()
	v.tabTo(name)
	v.keys(kb.Enter)
}

// signsUp creates an account, from the first page to the account page.
func (v *person) signsUp(email string) {
	v.t.Helper()
	v.goes("/")
	v.at("Sign in to Acme", "sign-in")
	v.presses("Create an account")
	v.at("Create your Acme account", "sign-up")
	v.types("Email address", "not an address")
	v.types("Password", "short")
	v.keys(kb.Enter)
	v.sees("Please check what you entered")
	v.at("Create your Acme account", "sign-up-refused")
	v.goes("/sign-up")
	v.whole()
	v.types("Email address", email)
	v.email = email
	v.types("First name", "Ada")
	v.types("Password", passphrase)
	v.keys(kb.Enter)
	v.at("Check your email", "code")
	v.types("Code", v.mail.CodeFor(email, 1))
	v.keys(kb.Enter)
	v.at("Your account", "account")
}

// A user gets from sign-up to an organization with a second member by keyboard only, at both sizes and in both color
// schemes, with and without scripts.
func TestUsersSignUpAndSignInByKeyboard(t *testing.T) {
	for _, l := range []look{{360, false}, {1280, true}} {
		for _, scripts := range []bool{true, false} {
			name := l.String()
			if !scripts {
				name += "-plain"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := frontendtest.New(t, nil)
				v := arrives(t, w, l, scripts)
				v.signsUp("ada@example.com")
				v.provesANumber("+12025550123")
				v.invitesSomebody("bob@example.com")

				other := arrives(t, w, l, scripts)
				other.followsTheInvitation("bob@example.com")
				v.switchesBackAndSignsOut()
			})
		}
	}
}

func (v *person) provesANumber(number string) {
	v.t.Helper()
	v.goes("/account/phones")
	v.at("Phone numbers", "phones")
	v.types("Phone number", "12")
	v.keys(kb.Enter)
	v.sees("Enter a mobile number with its country code")
	v.goes("/account/phones")
	v.whole()
	v.types("Phone number", number)
	v.keys(kb.Enter)
	v.at("Verify your number", "phone-code")
	v.types("Code", "000000")
	v.keys(kb.Enter)
	v.sees("This is not the code that we sent")
	v.types("Code", v.mail.CodeFor(number, 1))
	v.keys(kb.Enter)
	v.sees("Your number is verified")
	v.at("Phone numbers", "phones-verified")
}

func (v *person) invitesSomebody(email string) {
	v.t.Helper()
	v.goes("/organizations")
	v.at("Organizations", "organizations-empty")
	for _, name := range []string{"First", "Second"} {
		v.goes("/organizations/new")
		v.at("New organization", "new-organization")
		v.types("Name of the organization", name+v.mark)
		v.keys(kb.Enter)
		v.sees("The organization was created")
	}
	v.goes("/organizations")
	v.at("Organizations", "organizations")
	v.goesToOrganization("second")
	v.at("Second", "organization")
	v.types("Email address to invite", email)
	v.keys(kb.Enter)
	v.sees("The invitation is on its way")
}

func (v *person) followsTheInvitation(email string) {
	v.t.Helper()
	v.goes("/invitations/" + v.mail.InvitationFor(email, 1))
	v.at("Join Second", "invitation")
	v.presses("Create an account")
	v.until(`document.querySelector("h1")?.innerText.startsWith("Create your Acme account")`)
	v.until(`document.querySelector("input[name=email]").value === ` + quoted(email)) // the form is filled with the recipient's address
	v.types("Password", passphrase)
	v.keys(kb.Enter)
	v.until(`document.querySelector("h1")?.innerText === "Check your email"`)
	v.types("Code", v.mail.CodeFor(email, 1))
	v.keys(kb.Enter)
	v.at("Organizations", "organizations-joined")
	v.sees("Second")
}

func (v *person) switchesBackAndSignsOut() {
	v.t.Helper()
	v.goes("/organizations")
	v.goesToOrganization("first")
	v.until(`document.querySelector("h1")?.innerText.startsWith("First")`)
	v.presses("Switch to this organization")
	v.sees("Switched.")
	v.goes("/sign-out")
	v.at("Sign out?", "sign-out")
	v.presses("Sign out")
	v.sees("You are signed out")
	// A cached page would show now.
	v.run(chromedp.NavigateBack(), chromedp.NavigateBack())
	v.whole()
	if v.shows(v.email) {
		v.t.Errorf("the button back shows who was signed in:\n%s", v.text())
	}
}

// shows reports whether the page shows a text now.
func (v *person) shows(text string) bool {
	return eval[bool](v.tab, `document.body.innerText.includes(`+quoted(text)+`)`)
}

// The input of a form survives the sign-in that follows if the session ended meanwhile.
func TestFormInputSurvivesTheEndOfTheSession(t *testing.T) {
	w := frontendtest.New(t, nil)
	v := arrives(t, w, look{width: 1280}, true)
	v.signsUp("ada@example.com")
	v.goes("/organizations/new")
	v.at("New organization", "new-organization")
	v.types("Name of the organization", "Kept over the sign-in")
	w.Clock.Advance(8 * 24 * time.Hour) // the session is over
	v.keys(kb.Enter)
	v.until(`document.querySelector("h1")?.innerText === "Sign in to Acme"`)
	v.types("Email address", "ada@example.com")
	v.keys(kb.Enter)
	v.at("Enter your password", "password")
	v.types("Password", passphrase)
	v.keys(kb.Enter)
	v.sees("What you had typed was kept")
	v.at("New organization", "kept")
	v.tabTo("Name of the organization")
	v.keys(kb.Enter)
	v.sees("The organization was created")
}

func TestUnknownPageIs404(t *testing.T) {
	w := frontendtest.New(t, nil)
	v := arrives(t, w, look{width: 360, dark: true}, true)
	v.expects("404")
	v.goes("/nothing")
	v.at("There is nothing here", "not-found")
	v.sees("Request")
}
