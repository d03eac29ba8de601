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

	ada.submit("add", "display_name", "Engines ID")
	it.open(directoryPath)
	connection := it.page.options("connection")["Engines ID"]
	it.submit("rules-"+id, "connection", connection, "on_delete", "Erase", "is_active", "1")
	it.submit("map-"+id, "group", "Engineering", "role", it.page.options("role")["engineer"])
	ada.open(directoryPath)
	if got := ada.page.selected("connection"); got != connection || ada.page.selected("on_delete") != "Erase" || !strings.Contains(ada.page.text(), "Engineering") {
		t.Errorf("connection %q, on_delete %q: %s", got, ada.page.selected("on_delete"), ada.page.text())
	}
	it.submit("delete-"+id, "confirmation", "1")
	it.says("Your organization has no directory yet.")
	ada.open("/organizations/engines/sso")
	ada.submit("unlink")
	it.open(directoryPath)
	it.at("/sign-in")
}

func TestSetupLinkShowsTheDomainsOfADirectoryWithTheirIntent(t *testing.T) {
	w := newWorld(t, connectable)
	ada, _ := w.engines()
	for email, intents := range map[string][]string{"a@example.com": {"directory", "domains"}, "b@example.com": {"directory", "sso"}} {
		it := ada.delegates(email, intents...)
		id := it.setsUpDirectory()
		want := intents[1] == "domains"
		if strings.Contains(it.page.text(), "Your organization has no verified domain yet.") != want || it.links("/organizations/engines/domains") != want {
			t.Errorf("%v: the hint about the domains: %s", intents, it.page.text())
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
