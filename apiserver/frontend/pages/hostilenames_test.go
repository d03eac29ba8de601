package pages_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

const (
	scriptName   = "<script>alert(1)</script>"
	reversedName = "Ann\u202Elivd"
)

// showsAsText expects the page to say a text that a provider or an admin sent, and to have neither an element of it nor
// a character that changes the order of others.
func (b *browser) showsAsText(t *testing.T, what string) {
	t.Helper()
	b.says(what)
	if script := b.page.find(func(n *node) bool {
		return n.Data == "script" && strings.Contains(shown{root: n}.text()+b.page.raw, "<script>alert(1)")
	}); script != nil || strings.Contains(b.page.raw, scriptName) {
		t.Errorf("%s has the script %q: %s", b.page.url, what, b.page.raw)
	}
	if strings.ContainsRune(b.page.text(), '\u202E') {
		t.Errorf("%s has the character U+202E: %s", b.page.url, b.page.text())
	}
}

func TestPagesShowNamesOfProvidersAsText(t *testing.T) {
	w := newWorld(t, connectable)
	p := w.Provider()
	ada, _ := w.engines()
	w.DeclareConnection("script", p, func(c *document.Connection) { globex(c); c.Name = scriptName })
	ann := w.browser()
	ann.open("/sign-in")
	ann.showsAsText(t, "Continue with "+scriptName)
	ann.click("Continue with " + scriptName)
	ann.authorize(p, identityprovider.User{"sub": "1", "email": "ann@globex.example", "given_name": scriptName, "family_name": reversedName})
	ann.open("/account/identities")
	ann.showsAsText(t, scriptName)
	ann.open("/account")
	ann.showsAsText(t, scriptName)

	ada.open("/organizations/engines")
	ada.submit("invite", "email", "ann@globex.example")
	ann.open("/invitations/" + w.InvitationFor("ann@globex.example", 1))
	ann.submit("accept")
	ann.showsAsText(t, scriptName)
	ada.open("/organizations/engines")
	ada.showsAsText(t, scriptName)
}

func TestPagesShowErrorsOfProvidersAsText(t *testing.T) {
	w := newWorld(t, connectable)
	p := w.Provider()
	ada, _ := w.engines()
	ada.open("/organizations/engines/sso")
	ada.submit("add", "display_name", scriptName)
	at := ada.page.url.Path
	ada.showsAsText(t, scriptName)
	ada.submit("change", "issuer", p.URL, "client", identityprovider.ClientID, "client_secret", identityprovider.ClientSecret)
	for _, description := range []string{scriptName, reversedName} {
		ada.open(at)
		ada.submit("test")
		redirect, err := url.Parse(ada.page.url.Query().Get("redirect_uri"))
		w.Must(err)
		redirect.RawQuery = url.Values{"error": {"access_denied"}, "error_description": {description}, "state": {ada.page.url.Query().Get("state")}, "iss": {p.URL}}.Encode()
		if page := ada.follow(ada.send(http.MethodGet, redirect, "")); strings.Contains(page.text(), "alert(1)") || strings.Contains(page.text(), "livd") {
			t.Errorf("the user sees the text of the provider: %s", page.text())
		}
	}
	ada.open(at)
	ada.showsAsText(t, "access_denied: "+scriptName)
	ada.showsAsText(t, "access_denied: Ann\uFFFDlivd")
}

func TestPagesShowNamesOfGroupsAsTextAndRemoveThem(t *testing.T) {
	w := newWorld(t, connectable)
	w.role("engineer", v1alpha1.RoleLevelOrganization, "billing:read")
	ada, _ := w.engines()
	ada.verifiesDomain("engines.example")
	id := ada.setsUpDirectory()
	token := ada.makesToken(id, "endless")
	ada.open(directoryPath)
	role := ada.page.options("role")["engineer"]
	for group, seen := range map[string]string{scriptName: scriptName, reversedName: "Ann\uFFFDlivd"} {
		name, err := json.Marshal(group)
		w.Must(err)
		w.provisions(http.StatusCreated, id, token, "POST", "/Groups", `{"displayName":`+string(name)+`}`)
		ada.open(directoryPath)
		ada.submit("map-"+id, "group", group, "role", role)
		ada.at(directoryPath)
		ada.showsAsText(t, "engineer "+seen)
		if strings.Contains(ada.page.raw, "aria-label=\"Remove "+group) {
			t.Errorf("a label has %q", group)
		}
		ada.submit("unmap-" + id)
		ada.at(directoryPath)
		if strings.Contains(ada.page.text(), seen) {
			t.Errorf("%q is not removed", group)
		}
	}
	for _, group := range []string{"a\nb", "a\x07b"} {
		ada.open(directoryPath)
		ada.submit("map-"+id, "group", group, "role", role)
		ada.refused(http.StatusBadRequest, "group", "Enter the name of a group that has no role here yet")
	}
}
