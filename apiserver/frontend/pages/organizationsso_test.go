package pages_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

func connectable(d *document.Deployment) {
	manageable(d)
	d.OrganizationPermissions = append(d.OrganizationPermissions, "connection:manage")
	d.Connections = &document.OrganizationConnections{SelfService: true, Types: []string{"OIDC"}, MaxPerOrganization: 5}
}

func TestAdminSetsUpSingleSignOn(t *testing.T) {
	w := newWorld(t, connectable)
	w.role("engineer", v1alpha1.RoleLevelOrganization, "billing:read")
	p := w.Provider()
	ada, bob := w.engines()
	ada.open("/organizations/engines")
	ada.click("Single sign-on")
	ada.at("/organizations/engines/sso")
	ada.says("Your organization has no connection yet.")
	ada.submit("add", "display_name", "")
	ada.refused(http.StatusBadRequest, "display_name", "Enter a name of 1 to 80 characters, on one line.")
	ada.submit("add", "display_name", "Engines")
	ada.says("The connection is there.")
	ada.says("Not finished: enter the issuer and the client below.")
	ada.says("/callback")
	at := ada.page.url.Path

	ada.submit("change", "issuer", "engines", "client", identityprovider.ClientID, "client_secret", identityprovider.ClientSecret)
	ada.refused(http.StatusBadRequest, "issuer", "Enter the https address of the provider, exactly as its discovery document has it under “issuer”.")
	if strings.Contains(ada.page.raw, identityprovider.ClientSecret) {
		t.Error("the page shows the secret again")
	}
	ada.submit("change", "issuer", p.URL, "client", identityprovider.ClientID, "client_secret", identityprovider.ClientSecret)
	ada.says("The connection was changed.")
	ada.says("The provider was reached.")

	// The rules need a test, and the test comes back to this page.
	ada.submit("rules", "enforcement", "Members", "just_in_time", "1", "is_active", "1")
	ada.says("Sign in with this connection first.")
	ada.open(at)
	ada.submit("test")
	p.Lie(func(claims map[string]any) { claims["aud"] = "another" })
	ada.authorize(p, identityprovider.User{"sub": "ada", "email": "ada@example.com"})
	p.Lie(nil)
	ada.open(at)
	ada.says("Failed sign-ins")
	ada.says("another")
	ada.submit("test")
	ada.authorize(p, identityprovider.User{"sub": "ada", "email": "ada@example.com"})
	if got := ada.page.url.Path; got != at {
		t.Errorf("the test ends at %s", got)
	}
	ada.submit("rules", "enforcement", "Members", "just_in_time", "1", "is_active", "1")

	// From now on, the owner needs it too.
	ada.open(at)
	ada.says("Sign in with the identity provider of your organization.")
	ada.click("Continue with Engines")
	ada.authorize(p, identityprovider.User{"sub": "ada", "email": "ada@example.com"})
	if got := ada.page.url.Path; got != at {
		t.Errorf("the sign-in ends at %s", got)
	}
	ada.submit("map", "claim", "groups", "value", "eng", "role", ada.page.options("role")["engineer"])
	ada.says("groups")
	ada.submit("unmap")
	ada.submit("map", "claim", "groups", "value", reversedName, "role", ada.page.options("role")["engineer"])
	ada.says("Ann\uFFFDlivd")
	if strings.Contains(ada.page.raw, `aria-label="Remove `+reversedName) {
		t.Error("a label has a control character of the text direction")
	}
	ada.submit("unmap")
	if strings.Contains(ada.page.text(), "livd") {
		t.Error("the mapping is not removed")
	}
	ada.says("The connection was changed.")

	if page := bob.open("/organizations/engines/sso"); page.status == http.StatusOK {
		t.Error("a member without the permission sees the page")
	}
	ada.open(at)
	ada.submit("delete", "confirmation", "engine")
	ada.refused(http.StatusBadRequest, "confirmation", "Type what is asked for to confirm.")
	ada.submit("delete", "confirmation", "Engines")
	ada.at("/sign-in") // her sign-in was by the connection
	ada.says("The connection was deleted.")
}

// Forms that are sent at once each add their mapping, and each remove one.
func TestConcurrentFormsOfAConnectionAllAddTheirMapping(t *testing.T) {
	w := newWorld(t, connectable)
	w.role("engineer", v1alpha1.RoleLevelOrganization, "billing:read")
	ada, _ := w.engines()
	ada.open("/organizations/engines/sso")
	ada.submit("add", "display_name", "Engines")
	ada.submit("change", "issuer", w.Provider().URL, "client", identityprovider.ClientID, "client_secret", identityprovider.ClientSecret)
	at, role := ada.page.url.Path, ada.page.options("role")["engineer"]
	const tabs = 4
	atOnce := func(fill func(tab *browser, n int) (to *url.URL, values url.Values)) {
		var group sync.WaitGroup
		var sends []func()
		for n := range tabs {
			tab := w.browser()
			tab.open("/sign-in")
			tab.signIn("ada@example.com")
			tab.open(at)
			to, values := fill(tab, n)
			sends = append(sends, func() { tab.send(http.MethodPost, to, values.Encode()) })
		}
		for _, send := range sends {
			group.Go(send)
		}
		group.Wait()
		ada.open(at)
	}
	atOnce(func(tab *browser, n int) (*url.URL, url.Values) {
		return tab.fill("map", "claim", "groups", "value", fmt.Sprintf("Group %d", n), "role", role)
	})
	for n := range tabs {
		ada.says(fmt.Sprintf("groups: Group %d", n))
	}
	atOnce(func(tab *browser, n int) (*url.URL, url.Values) {
		to, values := tab.fill("unmap")
		values.Set("claim", "groups")
		values.Set("value", fmt.Sprintf("Group %d", n))
		return to, values
	})
	if strings.Contains(ada.page.text(), "Group ") {
		t.Errorf("a mapping is not removed: %s", ada.page.text())
	}
	ada.submit("map", "claim", "groups", "value", "a=b", "role", role)
	ada.submit("map", "claim", "groups=a", "value", "b", "role", role)
	ada.submit("unmap")
	if text := ada.page.text(); strings.Contains(text, "groups: a=b") == strings.Contains(text, "groups=a: b") {
		t.Errorf("the form of one mapping did not remove exactly that one: %s", text)
	}
}

func TestSingleSignOnIsShownOnlyWhereOrganizationsManageIt(t *testing.T) {
	w := newWorld(t, manageable)
	ada, _ := w.engines()
	ada.open("/organizations/engines")
	if ada.links("/organizations/engines/sso") {
		t.Error("the link is shown")
	}
	if page := ada.open("/organizations/engines/sso"); page.status != http.StatusNotFound {
		t.Errorf("status %d", page.status)
	}
}
