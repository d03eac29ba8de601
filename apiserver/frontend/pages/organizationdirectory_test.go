package pages_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/domain"
	"github.com/cardea-iam/cardea/internal/document"
)

const directoryPath = "/organizations/engines/directory"

// directory returns the id of the first directory on the page.
func (b *browser) directory() string {
	b.w.T.Helper()
	heading := b.page.find(func(n *node) bool { return n.Data == "h2" && strings.HasPrefix(attr(n, "id"), "directory-") })
	if heading == nil {
		b.w.T.Fatalf("%s has no directory: %s", b.page.url, b.page.text())
	}
	return strings.TrimPrefix(attr(heading, "id"), "directory-")
}

// setsUpDirectory sets up a directory of the organization engines on its page, and returns its id.
func (b *browser) setsUpDirectory() string {
	b.w.T.Helper()
	b.open(directoryPath)
	b.submit("add")
	b.at(directoryPath)
	b.says("The directory is set up. Make a token, and enter both at your identity provider.")
	return b.directory()
}

// makesToken makes a token of a directory on the page, and returns it.
func (b *browser) makesToken(directory, lifetime string) string {
	b.w.T.Helper()
	b.submit("token-"+directory, "lifetime", lifetime)
	b.at(directoryPath)
	b.says("Copy it now: it is not shown again.")
	code := b.page.find(func(n *node) bool { return attr(n, "id") == "token" })
	if code == nil {
		b.w.T.Fatalf("%s shows no token: %s", b.page.url, b.page.raw)
	}
	return strings.TrimSpace(shown{root: code}.text())
}

// provisions sends a request of the identity provider, and expects a status.
func (w *world) provisions(want int, directory, token, method, path, body string) {
	w.T.Helper()
	if status, _, raw := w.SCIM("localhost", directory, token, method, path, body); status != want {
		w.T.Fatalf("%s %s: status %d, want %d: %s", method, path, status, want, raw)
	}
}

// unticks sends a form of the page with a box that is not ticked.
func (b *browser) unticks(action, box string, pairs ...string) {
	b.w.T.Helper()
	to, values := b.fill(action, pairs...)
	values.Del(box)
	b.follow(b.send(http.MethodPost, to, values.Encode()))
}

// verifiesDomain adds a domain of the organization engines on its page, and verifies it.
func (b *browser) verifiesDomain(name string) {
	b.w.T.Helper()
	b.open("/organizations/engines/domains")
	b.submit("add", "domain", name)
	const prefix = "cardea-domain-verification="
	_, value, _ := strings.Cut(b.page.raw, prefix)
	b.w.Carrier.DNS().Set(domain.RecordName(name), prefix+value[:26])
	b.submit("verify")
	b.says("The domain is verified.")
}

func TestAdminSetsUpADirectory(t *testing.T) {
	w := newWorld(t, connectable)
	ada, _ := w.engines()
	ada.open("/organizations/engines")
	ada.click("Directory (SCIM)")
	ada.at(directoryPath)
	ada.says("Your organization has no directory yet.")
	ada.says("Your organization has no verified domain yet.")
	ada.link("/organizations/engines/domains")
	ada.verifiesDomain("engines.example")
	id := ada.setsUpDirectory()
	if strings.Contains(ada.page.text(), "no verified domain") {
		t.Error("the page asks for a domain after one was verified")
	}
	ada.says("http://localhost/scim/v2/" + id)
	ada.says("Active: the requests of the identity provider are accepted.")
	ada.says("0 users · 0 groups")
	ada.says("Last request None with the current tokens")
	ada.says("The directory has no token.")
	ada.submit("token-"+id, "lifetime", "century")
	ada.refused(http.StatusBadRequest, "lifetime", "Choose one of the offered ends.")

	token := ada.makesToken(id, "year")
	if strings.Contains(ada.page.url.String(), token) || len(ada.page.came) > 0 {
		t.Errorf("the token is in an address, or shown after a redirect: %s", ada.page.url)
	}
	ada.says("Ends " + w.Clock.Now().Add(365*24*time.Hour).Format("2 Jan 2006"))
	ada.says("Never used")
	w.provisions(http.StatusCreated, id, token, "POST", "/Users", `{"userName":"ann@engines.example","emails":[{"value":"ann@engines.example","primary":true}]}`)
	ada.open(directoryPath)
	if strings.Contains(ada.page.raw, token) {
		t.Error("the page shows the token again")
	}
	ada.says("…" + token[len(token)-4:])
	ada.says("one user · 0 groups")
	ada.says("Last request " + w.Clock.Now().UTC().Format("2 Jan 2006"))
	ada.says("Last used " + w.Clock.Now().UTC().Format("2 Jan 2006"))
	ada.open("/organizations/engines")
	ada.says("ann@engines.example")

	w.Clock.Advance(time.Minute) // tokens are listed by age
	ada.open(directoryPath)
	second := ada.makesToken(id, "endless")
	ada.says("No end")
	ada.submit("token-"+id, "lifetime", "year")
	ada.refused(http.StatusBadRequest, "", "The limit is reached: two directories, or two tokens of a directory. Delete a directory or revoke a token first.")
	ada.open(directoryPath)
	stale, values := ada.fill("revoke-" + id)
	ada.submit("revoke-" + id)
	ada.at(directoryPath)
	ada.says("The token was revoked.")
	w.provisions(http.StatusUnauthorized, id, token, "GET", "/Users", "")
	w.provisions(http.StatusOK, id, second, "GET", "/Users", "")
	ada.follow(ada.send(http.MethodPost, stale, values.Encode()))
	ada.refused(http.StatusNotFound, "", "There is no such token any more.")

	ada.open(directoryPath)
	ada.submit("add")
	ada.at(directoryPath)
	ada.submit("add")
	ada.refused(http.StatusBadRequest, "", "The limit is reached: two directories, or two tokens of a directory. Delete a directory or revoke a token first.")
	ada.open(directoryPath + "?ui_locales=de")
	ada.says("Das Verzeichnis hat kein Token.")
	ada.says("Verbindung, mit der sich die Personen anmelden")
}

func TestAdminChangesADirectory(t *testing.T) {
	w := newWorld(t, connectable)
	w.role("engineer", v1alpha1.RoleLevelOrganization, "billing:read")
	ada, _ := w.engines()
	ada.open("/organizations/engines/sso")
	ada.submit("add", "display_name", "Engines ID")
	ada.verifiesDomain("engines.example")
	id := ada.setsUpDirectory()
	token := ada.makesToken(id, "endless")
	const ann = `{"userName":"ann@engines.example","emails":[{"value":"ann@engines.example","primary":true}]}`

	ada.open(directoryPath)
	connection := ada.page.options("connection")["Engines ID"]
	if connection == "" {
		t.Fatalf("the connection is not offered: %v", ada.page.options("connection"))
	}
	ada.submit("rules-"+id, "connection", connection, "on_delete", "Forget")
	ada.refused(http.StatusBadRequest, "on_delete", "Choose one of the offered rules.")
	ada.open(directoryPath)
	ada.submit("rules-"+id, "connection", "12345", "on_delete", "Erase")
	ada.refused(http.StatusNotFound, "connection", "This way to sign in does not exist, or it is switched off.")
	ada.open(directoryPath)
	ada.unticks("rules-"+id, "is_active", "connection", connection, "on_delete", "Erase")
	ada.at(directoryPath)
	ada.says("The directory was changed.")
	ada.says("Inactive: all requests of the identity provider are refused.")
	if got := ada.page.selected("connection"); got != connection {
		t.Errorf("the connection is %q", got)
	}
	if got := ada.page.selected("on_delete"); got != "Erase" {
		t.Errorf("on_delete is %q", got)
	}
	w.provisions(http.StatusForbidden, id, token, "POST", "/Users", ann)
	ada.submit("rules-"+id, "is_active", "1", "connection", "", "on_delete", "Keep")
	ada.says("Active: the requests of the identity provider are accepted.")
	if got := ada.page.selected("connection"); got != "" {
		t.Errorf("the connection is %q", got)
	}

	role := ada.page.options("role")["engineer"]
	ada.submit("map-"+id, "group", "Engineering", "role", "")
	ada.refused(http.StatusBadRequest, "role", "Choose one of the offered roles.")
	ada.submit("map-"+id, "group", " ", "role", role)
	ada.refused(http.StatusBadRequest, "group", "Enter the name of a group that has no role here yet")
	ada.submit("map-"+id, "group", "Engineering", "role", role)
	ada.at(directoryPath)
	ada.says("engineer Engineering")
	ada.submit("map-"+id, "group", "Engineering", "role", role)
	ada.refused(http.StatusBadRequest, "group", "Enter the name of a group that has no role here yet")
	ada.open(directoryPath)
	ada.submit("map-"+id, "group", "Sales", "role", role)
	ada.submit("unmap-" + id) // of the first group
	ada.says("engineer Sales")
	if strings.Contains(ada.page.text(), "engineer Engineering") {
		t.Error("the group has its role after the removal")
	}
	w.provisions(http.StatusCreated, id, token, "POST", "/Users", ann)

	ada.submit("delete-" + id)
	ada.refused(http.StatusBadRequest, "confirmation", "Tick the box to confirm.")
	ada.submit("delete-"+id, "confirmation", "1")
	ada.at(directoryPath)
	ada.says("The directory was deleted.")
	ada.says("Your organization has no directory yet.")
	w.provisions(http.StatusUnauthorized, id, token, "GET", "/Users", "")
	ada.open("/organizations/engines")
	ada.says("ann@engines.example")
}

// Forms that are sent at once each add their group.
func TestConcurrentFormsOfADirectoryAllAddTheirGroup(t *testing.T) {
	w := newWorld(t, connectable)
	w.role("engineer", v1alpha1.RoleLevelOrganization, "billing:read")
	ada, _ := w.engines()
	id := ada.setsUpDirectory()
	role := ada.page.options("role")["engineer"]
	var tabs []func()
	for n := range 4 {
		tab := w.browser()
		tab.open("/sign-in")
		tab.signIn("ada@example.com")
		tab.open(directoryPath)
		to, values := tab.fill("map-"+id, "group", fmt.Sprintf("Group %d", n), "role", role)
		tabs = append(tabs, func() { tab.send(http.MethodPost, to, values.Encode()) })
	}
	var group sync.WaitGroup
	for _, send := range tabs {
		group.Go(send)
	}
	group.Wait()
	ada.open(directoryPath)
	for n := range tabs {
		ada.says(fmt.Sprintf("engineer Group %d", n))
	}
}

// selected returns the value of the selected option of a select field, that of the first one if none is marked.
func (p shown) selected(name string) string {
	choice := p.find(func(n *node) bool { return n.Data == "select" && attr(n, "name") == name })
	if choice == nil {
		return "absent"
	}
	marked := shown{root: choice}.find(func(n *node) bool { return n.Data == "option" && hasAttr(n, "selected") })
	if marked == nil {
		marked = shown{root: choice}.find(func(n *node) bool { return n.Data == "option" })
	}
	return attr(marked, "value")
}

func TestDirectoryPageNeedsARecentSignInForChanges(t *testing.T) {
	w := newWorld(t, connectable)
	ada, _ := w.engines()
	id := ada.setsUpDirectory()
	w.Clock.Advance(time.Hour)
	ada.open(directoryPath)
	ada.unticks("rules-"+id, "is_active", "connection", "", "on_delete", "Erase")
	ada.at("/reauthenticate")
	ada.submit("password", "password", goodPassword)
	ada.at(directoryPath)
	if got := ada.page.selected("on_delete"); got != "Erase" {
		t.Errorf("what was chosen is lost: %q", got)
	}
	ada.says("Active: the requests of the identity provider are accepted.") // nothing is done before the form is sent again
	w.Clock.Advance(time.Hour)
	ada.open(directoryPath)
	ada.submit("token-"+id, "lifetime", "year")
	ada.at("/reauthenticate")
	ada.submit("password", "password", goodPassword)
	ada.at(directoryPath)
	ada.says("The directory has no token.")
	ada.makesToken(id, "year")
}

func TestDirectoryPageIsForAdmins(t *testing.T) {
	w := newWorld(t, connectable)
	w.role("clerk", v1alpha1.RoleLevelOrganization, "connection:manage")
	w.role("lead", v1alpha1.RoleLevelOrganization, "billing:read")
	ada, bob := w.engines()
	id := ada.setsUpDirectory()
	bob.open("/organizations/engines")
	if bob.links(directoryPath) {
		t.Error("a member without the permission sees a link to the directory")
	}
	if page := bob.open(directoryPath); page.status != http.StatusNotFound {
		t.Errorf("a member without the permission sees the directory: %d", page.status)
	}
	other := w.browser()
	other.signUp("other@example.com")
	if page := other.open(directoryPath); page.status != http.StatusNotFound {
		t.Errorf("a user who is no member sees the directory: %d", page.status)
	}

	w.Eventually("the roles are known", func() bool {
		ada.open("/organizations/engines")
		return len(ada.page.options("role")) == 3
	})
	ada.open(ada.labelled("Change bob@example.com"))
	ada.submit("change", "role", ada.page.options("role")["clerk"])
	bob.open("/organizations/engines")
	bob.open(bob.link(directoryPath))
	if roles := bob.page.options("role"); roles["lead"] != "" || roles["clerk"] == "" {
		t.Errorf("the roles that an admin without all permissions can give: %v", roles)
	}
	bob.makesToken(id, "year")
}

func TestDeclaredDirectoryIsReadOnly(t *testing.T) {
	w := newWorld(t, connectable)
	ada, _ := w.engines()
	_, verifier := w.DirectoryToken()
	id := w.DeclareDirectory(document.Directory{Slug: "corp", Organization: w.Numbered("engines"), Active: true, Erases: true, Verifiers: []document.Verifier{verifier}})
	ada.open(directoryPath)
	ada.says("corp managed by the service")
	ada.says("The service manages this directory. Ask its support for the token and for changes.")
	ada.says("/scim/v2/" + id)
	ada.says("Erase the account")
	if strings.Contains(ada.page.text(), "Last request") || strings.Contains(ada.page.raw, verifier.Last4+"<") {
		t.Errorf("the page shows what it does not know: %s", ada.page.text())
	}
	for _, action := range []string{"token-", "rules-", "map-", "unmap-", "delete-", "revoke-"} {
		ada.open(directoryPath)
		if form, _ := ada.page.form(action + id); form != nil {
			t.Errorf("the page has the form %s", action)
		}
		to, values := ada.fill("add", "action", action+id, "lifetime", "year", "on_delete", "Keep", "group", "A", "role", "1", "confirmation", "1", "token_id", "1")
		ada.follow(ada.send(http.MethodPost, to, values.Encode()))
		if ada.page.status != http.StatusConflict {
			t.Errorf("%s: status %d: %s", action, ada.page.status, ada.page.text())
			continue
		}
		ada.refused(http.StatusConflict, "", "The service manages this. Ask its support to change it.")
	}
}

func TestDirectoryIsOfferedOnlyWhereOrganizationsMaySetUpOne(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		connectable(d)
		d.Connections.NoDirectories = true
	})
	ada, _ := w.engines()
	ada.open("/organizations/engines")
	if ada.links(directoryPath) {
		t.Error("the organization's page links to the directory")
	}
	ada.open("/organizations/engines/sso")
	if ada.page.find(func(n *node) bool { return attr(n, "name") == "directory" }) != nil {
		t.Error("setup links for a directory are offered")
	}
	ada.open(directoryPath)
	ada.at(directoryPath)
	ada.says("This service does not let organizations set one up.")
	if form, _ := ada.page.form("add"); form != nil {
		t.Error("the page offers to set up a directory")
	}

	// A directory that exists is still managed.
	d := w.Settings()
	connectable(&d)
	w.Declare(d)
	id := ada.setsUpDirectory()
	d.Connections.NoDirectories = true
	w.Declare(d)
	ada.open("/organizations/engines")
	ada.open(ada.link(directoryPath))
	if form, _ := ada.page.form("add"); form != nil {
		t.Error("the page offers to set up another directory")
	}
	ada.makesToken(id, "year")
}

func TestDirectoryPageIsAbsentWithoutSelfService(t *testing.T) {
	w := newWorld(t, manageable)
	ada, _ := w.engines()
	ada.open("/organizations/engines")
	if ada.links(directoryPath) {
		t.Error("the organization's page links to the directory")
	}
	if page := ada.open(directoryPath); page.status != http.StatusNotFound {
		t.Errorf("status %d", page.status)
	}
}
