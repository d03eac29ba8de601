package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// delegates makes a setup link with intents for the organization engines, and returns the browser that opened it.
func (b *browser) delegates(email string, intents ...string) *browser {
	b.w.T.Helper()
	b.open("/organizations/engines/sso")
	to, sent := b.fill("link", "email", email)
	values := url.Values{}
	for _, kept := range append([]string{"email", "action", "form_token", "form_user"}, intents...) {
		values.Set(kept, sent.Get(kept))
	}
	for _, intent := range intents {
		values.Set(intent, "1")
	}
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.says("Send this address to " + email + ".")
	it := b.w.browser()
	it.open(b.shownSetupAddress())
	it.submit("send")
	it.submit("code", "code", b.w.CodeFor(email, 1))
	it.at("/setup")
	return it
}

func TestUserWithASetupLinkSetsUpADirectory(t *testing.T) {
	w := newWorld(t, connectable)
	w.role("engineer", v1alpha1.RoleLevelOrganization, "billing:read")
	ada, _ := w.engines()
	it := ada.delegates("it@example.com", "directory")
	ada.open("/organizations/engines/sso")
	ada.says("Directory (SCIM) · Until")
	for _, path := range []string{"/organizations/engines/sso", "/organizations/engines/domains"} {
		if it.links(path) {
			t.Errorf("the page links to %s", path)
		}
		it.open(path)
		it.at("/sign-in")
	}
	it.open("/setup")
	it.click("Directory (SCIM)")
	it.at(directoryPath)
	id := it.setsUpDirectory()
	if it.links("/organizations/engines/domains") || strings.Contains(it.page.text(), "no verified domain") {
		t.Error("the page shows the domains")
	}
	it.says("The admins of the organization choose the connection and the roles of groups.")
	token := it.makesToken(id, "year")
	w.provisions(http.StatusOK, id, token, "GET", "/Users", "")
	it.open(directoryPath)
	if strings.Contains(it.page.raw, token) {
		t.Error("the page shows the token again")
	}
	it.unticks("rules-"+id, "is_active", "on_delete", "Keep")
	it.says("The directory was changed.")
	w.provisions(http.StatusForbidden, id, token, "GET", "/Users", "")
	it.submit("revoke-" + id)
	it.says("The token was revoked.")

	// What the admins chose stays when the user of the link changes the rest.
	ada.submit("add", "display_name", "Engines ID")
	ada.open(directoryPath)
	connection := ada.page.options("connection")["Engines ID"]
	ada.submit("rules-"+id, "connection", connection, "on_delete", "Keep")
	it.open(directoryPath)
	it.submit("rules-"+id, "on_delete", "Erase", "is_active", "1")
	ada.open(directoryPath)
	if got := ada.page.selected("connection"); got != connection || ada.page.selected("on_delete") != "Erase" {
		t.Errorf("connection %q, on_delete %q", got, ada.page.selected("on_delete"))
	}
	it.submit("delete-"+id, "confirmation", "1")
	it.says("Your organization has no directory yet.")
	ada.open("/organizations/engines/sso")
	ada.submit("unlink")
	it.open(directoryPath)
	it.at("/sign-in")
}

func TestSetupLinkShowsOfTheDirectoryWhatItsOtherIntentsPermit(t *testing.T) {
	w := newWorld(t, connectable)
	ada, _ := w.engines()
	const unproven, assigned = "Your organization has no verified domain yet.", "The admins of the organization choose the connection"
	for email, tt := range map[string]struct {
		intents         []string
		domains, assign bool
	}{
		"a@example.com": {intents: []string{"directory", "domains"}, domains: true},
		"b@example.com": {intents: []string{"directory", "sso"}, assign: true},
		"c@example.com": {intents: []string{"directory", "domains", "sso"}, domains: true, assign: true},
	} {
		it := ada.delegates(email, tt.intents...)
		id := it.setsUpDirectory()
		if strings.Contains(it.page.text(), unproven) != tt.domains || it.links("/organizations/engines/domains") != tt.domains {
			t.Errorf("%v: the hint about the domains: %s", tt.intents, it.page.text())
		}
		form, _ := it.page.form("map-" + id)
		if strings.Contains(it.page.text(), assigned) == tt.assign || (form != nil) != tt.assign {
			t.Errorf("%v: the roles and connections: %s", tt.intents, it.page.text())
		}
		it.submit("delete-"+id, "confirmation", "1")
		it.says("The directory was deleted.")
	}
	it := ada.delegates("d@example.com", "sso", "domains")
	if it.links(directoryPath) {
		t.Error("the page links to the directory")
	}
	it.open(directoryPath)
	it.at("/sign-in")
}
