package browser

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// An owner makes a setup link. Its user, without an account, connects the identity provider, proves the domain, tests
// and enforces the connection, all by keyboard, with and without scripts.
func TestUserOfASetupLinkConnectsAProvider(t *testing.T) {
	for _, tt := range []struct {
		look    look
		scripts bool
	}{{look{360, true}, true}, {look{1280, false}, false}} {
		t.Run(tt.look.String(), func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, func(d *document.Deployment) {
				connections := document.DefaultConnections()
				connections.SelfService = true
				d.Connections = &connections
			})
			p := w.Provider()
			p.SetUser(identityprovider.User{"sub": "it", "email": "it@globex.example", "given_name": "Ivy"})
			owner := arrives(t, w, tt.look, tt.scripts)
			link := owner.makesASetupLink("Make a link")
			v := arrives(t, w, tt.look, tt.scripts)
			v.goes(link)
			v.at("Set up your organization", "setup-link")
			v.presses("Send the code")
			v.sees("We sent a code to it@globex.example")
			v.at("Set up your organization", "setup-code")
			v.types("Code", w.CodeFor("it@globex.example", 1))
			v.keys(kb.Enter)
			v.sees("You can set this up for")
			v.at("Set up your organization", "setup")
			v.connectsTheProvider(p)
			v.provesTheDomain(w)
			v.enforcesTheConnection()
		})
	}
}

// An owner makes a setup link for a directory too. Its user, without an account, sets up the directory, all by
// keyboard, with and without scripts.
func TestUserOfASetupLinkSetsUpADirectory(t *testing.T) {
	for _, tt := range []struct {
		look    look
		scripts bool
	}{{look{360, false}, true}, {look{1280, true}, false}} {
		t.Run(tt.look.String(), func(t *testing.T) {
			t.Parallel()
			w := frontendtest.New(t, func(d *document.Deployment) {
				connections := document.DefaultConnections()
				connections.SelfService = true
				d.Connections = &connections
			})
			owner := arrives(t, w, tt.look, tt.scripts)
			link := owner.makesASetupLink("Directory (SCIM)", "Make a link")
			v := arrives(t, w, tt.look, tt.scripts)
			v.goes(link)
			v.at("Set up your organization", "setup-link")
			v.presses("Send the code")
			v.sees("We sent a code to it@globex.example")
			v.types("Code", w.CodeFor("it@globex.example", 1))
			v.keys(kb.Enter)
			v.sees("You can set this up for")
			v.at("Set up your organization", "setup-of-directory")
			v.setsUpTheDirectory(w)
			owner.goesToOrganization("globex")
			owner.at("Globex", "organization-with-directory")
			owner.presses("Directory (SCIM)")
			owner.at("Directory (SCIM)", "directory-of-owner")
			owner.changesTheDirectory()
		})
	}
}

// setsUpTheDirectory sets up a directory with a token, by which the identity provider adds a user.
func (v *person) setsUpTheDirectory(w *frontendtest.World) {
	v.t.Helper()
	v.presses("Directory (SCIM)")
	v.at("Directory (SCIM)", "directory-empty")
	v.presses("Set up")
	v.sees("The directory is set up.")
	v.at("Directory (SCIM)", "directory-new")
	v.presses("Make a token")
	v.sees("Copy it now: it is not shown again.")
	v.at("Directory (SCIM)", "directory-token")
	token := eval[string](v.tab, `document.querySelector("#token").textContent`)
	id := eval[string](v.tab, `document.querySelector("h2[id^=directory-]").id.replace("directory-", "")`)
	if status, _, raw := w.SCIM("localhost", id, token, "POST", "/Users", `{"userName":"ann@globex.example"}`); status != http.StatusCreated {
		v.t.Fatalf("status %d: %s", status, raw)
	}
	v.goes(eval[string](v.tab, `location.pathname`))
	v.sees("one user")
	v.at("Directory (SCIM)", "directory-used")
	if strings.Contains(eval[string](v.tab, `document.documentElement.outerHTML`), token) {
		v.t.Error("the page shows the token again")
	}
	v.presses("Revoke the token that ends in " + token[len(token)-4:])
	v.sees("The token was revoked.")
}

// changesTheDirectory changes what happens to deleted users, and deletes the directory, which needs a confirmation.
func (v *person) changesTheDirectory() {
	v.t.Helper()
	v.types("When the identity provider deletes a user", "Erase")
	v.keys(kb.Tab)
	v.presses("Save")
	v.sees("The directory was changed.")
	if chosen := eval[string](v.tab, `document.querySelector("select[name=on_delete]").value`); chosen != "Erase" {
		v.t.Errorf("on_delete is %s", chosen)
	}
	v.presses("Delete")
	v.sees("Tick the box to confirm.")
	v.at("Directory (SCIM)", "directory-refused")
	v.tabTo(eval[string](v.tab, `document.querySelector("input[name=confirmation]").labels[0].textContent`))
	v.keys(" ")
	v.presses("Delete")
	v.sees("The directory was deleted.")
}

// makesASetupLink creates an organization, and returns the path of a setup link. presses are the boxes to tick in the
// form of the link, and its button.
func (v *person) makesASetupLink(presses ...string) string {
	v.t.Helper()
	v.signsUp("ada@example.com")
	v.goes("/organizations/new")
	v.at("New organization", "new-organization")
	v.types("Name of the organization", "Globex")
	v.keys(kb.Enter)
	v.sees("The organization was created")
	v.presses("Single sign-on")
	v.at("Single sign-on", "sso-empty")
	v.types("Email address of the administrator", "it@globex.example")
	for _, one := range presses {
		v.tabTo(one)
		v.keys(" ")
	}
	v.sees("Send this address to it@globex.example.")
	v.at("Single sign-on", "sso-link")
	to, err := url.Parse(strings.TrimSpace(eval[string](v.tab, `document.querySelector("#setup-url").textContent`)))
	if err != nil {
		v.t.Fatal(err)
	}
	return to.Path
}

func (v *person) connectsTheProvider(p *identityprovider.Provider) {
	v.t.Helper()
	v.presses("Single sign-on")
	v.at("Single sign-on", "sso-of-link")
	v.types("Name", "Globex")
	v.keys(kb.Enter)
	v.sees("The connection is there.")
	v.at("Globex", "sso-new")
	v.types("Issuer", p.URL)
	v.types("Client ID", identityprovider.ClientID)
	v.types("Client secret", identityprovider.ClientSecret)
	v.keys(kb.Enter)
	v.sees("The connection was changed.")
	v.at("Globex", "sso-connected")
}

func (v *person) provesTheDomain(w *frontendtest.World) {
	v.t.Helper()
	v.goes("/setup")
	v.at("Set up your organization", "setup")
	v.presses("Domains")
	v.at("Domains", "domains-of-link")
	v.types("Domain", "globex.example")
	v.keys(kb.Enter)
	v.sees("The domain was added")
	w.Carrier.DNS().Set(domain.RecordName("globex.example"), eval[string](v.tab, `document.querySelector("code[id^=value-]").textContent`))
	v.presses("Verify now: globex.example")
	v.sees("The domain is verified")
}

// enforcesTheConnection tests the connection, and requires it of everybody in the domain.
func (v *person) enforcesTheConnection() {
	v.t.Helper()
	v.goes("/setup")
	v.at("Set up your organization", "setup")
	v.presses("Single sign-on")
	v.at("Single sign-on", "sso-of-link")
	v.presses("Globex")
	v.at("Globex", "sso-connected")
	v.presses("Test the connection")
	v.continuesAtTheProvider()
	v.at("Globex", "sso-tested")
	v.types("Who must sign in this way", "Users")
	v.keys(kb.Tab)
	v.keys(kb.Enter)
	v.sees("The connection was changed.")
	if chosen := eval[string](v.tab, `document.querySelector("select[name=enforcement]").value`); chosen != "Domains" {
		v.t.Errorf("the enforcement is %s", chosen)
	}
}
