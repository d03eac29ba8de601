package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// setupAddress makes a setup link for an address on the page of an organization, and returns the path of the link.
func (b *browser) setupAddress(email string, pairs ...string) string {
	b.w.T.Helper()
	b.submit("link", append([]string{"email", email}, pairs...)...)
	return b.shownSetupAddress()
}

// shownSetupAddress returns the path of the setup link that the page shows.
func (b *browser) shownSetupAddress() string {
	b.w.T.Helper()
	code := b.page.find(func(n *node) bool { return attr(n, "id") == "setup-url" })
	if code == nil {
		b.w.T.Fatalf("%s shows no link: %s", b.page.url, b.page.raw)
	}
	to, err := url.Parse(strings.TrimSpace(shown{root: code}.text()))
	b.w.Must(err)
	return to.Path
}

func TestUserWithASetupLinkSetsUpSingleSignOn(t *testing.T) {
	w := newWorld(t, connectable)
	p := w.Provider()
	ada, _ := w.engines()
	ada.open("/organizations/engines/sso")
	link := ada.setupAddress("it@example.com")
	ada.says("Send this address to it@example.com.")
	ada.open("/organizations/engines/sso")
	ada.says("it@example.com")
	if strings.Contains(ada.page.raw, link) {
		t.Error("the address is shown again")
	}

	it := w.browser()
	it.open(link)
	it.submit("send")
	it.says("We sent a code to it@example.com.")
	it.submit("code", "code", "000000")
	if it.page.status != http.StatusBadRequest {
		t.Errorf("a wrong code: %d", it.page.status)
	}
	it.submit("code", "code", w.CodeFor("it@example.com", 1))
	it.at("/setup")
	it.says("You can set this up for")
	it.click("Single sign-on")
	it.submit("add", "display_name", "Engines")
	at := it.page.url.Path
	it.submit("change", "issuer", p.URL, "client", identityprovider.ClientID, "client_secret", identityprovider.ClientSecret)
	it.says("The connection was changed.")
	it.submit("rules", "enforcement", "Members", "just_in_time", "1", "is_active", "1")
	it.says("Sign in with this connection first.")
	it.open(at)
	it.submit("test")
	it.authorize(p, identityprovider.User{"sub": "it", "email": "it@engines.example"})
	it.submit("code", "code", w.CodeFor("it@engines.example", 1))
	it.open(at)
	it.submit("rules", "enforcement", "Members", "just_in_time", "1", "is_active", "1")
	it.says("The connection was changed.")

	// The link opens nothing else, and nothing once it is deleted.
	if page := it.open("/organizations/engines/settings"); page.status == http.StatusOK {
		t.Error("the settings are open")
	}
	other := w.browser()
	other.signUp("other@example.com")
	if page := other.open(at); page.status != http.StatusNotFound {
		t.Errorf("another user sees the page: %d", page.status)
	}
	ada.open("/organizations/engines/sso")
	ada.click("Continue with Engines")
	ada.authorize(p, identityprovider.User{"sub": "ada", "email": "ada@example.com"})
	ada.submit("code", "code", w.CodeFor("ada@example.com", 2))
	ada.open("/organizations/engines/sso")
	ada.submit("unlink")
	ada.says("The link was deleted.")
	if page := it.open(at); page.status == http.StatusOK {
		t.Error("the page is open after the link was deleted")
	}
	it.open(link)
	it.submit("send")
	it.says("This link is not valid any more.")
}
