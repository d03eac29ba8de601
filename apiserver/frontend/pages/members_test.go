package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// link returns the address of the first link whose address has a prefix.
func (b *browser) link(prefix string) string {
	b.w.T.Helper()
	prefix = b.w.numbered(prefix)
	n := b.page.find(func(n *node) bool { return n.Data == "a" && strings.HasPrefix(attr(n, "href"), prefix) })
	if n == nil {
		b.w.T.Fatalf("%s has no link to %s: %s", b.page.url, prefix, b.page.raw)
	}
	return attr(n, "href")
}

// links reports whether the page has a link whose address has a prefix.
func (b *browser) links(prefix string) bool {
	prefix = b.w.numbered(prefix)
	return b.page.find(func(n *node) bool { return n.Data == "a" && strings.HasPrefix(attr(n, "href"), prefix) }) != nil
}

// labelled returns the address of the link with a label.
func (b *browser) labelled(label string) string {
	b.w.T.Helper()
	n := b.page.find(func(n *node) bool { return n.Data == "a" && attr(n, "aria-label") == label })
	if n == nil {
		b.w.T.Fatalf("%s has no link %q: %s", b.page.url, label, b.page.raw)
	}
	return attr(n, "href")
}

// options returns the options of a select field: their values by their labels.
func (p shown) options(name string) map[string]string {
	out := map[string]string{}
	choice := p.find(func(n *node) bool { return n.Data == "select" && attr(n, "name") == name })
	if choice == nil {
		return out
	}
	for n := range choice.Descendants() {
		if n.Data == "option" {
			out[(shown{root: n}).text()] = attr(n, "value")
		}
	}
	return out
}

func manageable(d *document.Deployment) {
	d.OrganizationPermissions = []string{"organization:invite", "organization:manage", "workspace:create", "billing:read"}
	d.WorkspacePermissions = []string{"workspace:manage", "documents:read"}
	d.Pages = &document.Pages{LogoURL: "https://cdn.acme.example/logo.svg"}
}

func (w *world) role(name string, level v1alpha1.RoleLevel, permissions ...string) {
	w.Put(v1alpha1.KindMembershipRole, name, frontendtest.Deployment, name, document.MembershipRole{Level: string(level), Name: name, Permissions: permissions})
}

// engines creates an organization that Ada owns and Bob is a member of.
func (w *world) engines() (ada, bob *browser) {
	w.T.Helper()
	ada, bob = w.browser(), w.browser()
	ada.signUp("ada@example.com")
	ada.open("/organizations/new")
	ada.submit("create", "name", "Engines")
	ada.submit("invite", "email", "bob@example.com")
	bob.signUp("bob@example.com")
	bob.open("/invitations/" + w.InvitationFor("bob@example.com", 1))
	bob.submit("accept")
	bob.at("/organizations/engines")
	return ada, bob
}

func TestMembers(t *testing.T) {
	w := newWorld(t, manageable)
	w.role("manager", v1alpha1.RoleLevelOrganization, "organization:manage", "organization:invite")
	w.role("clerk", v1alpha1.RoleLevelOrganization, "billing:read")
	ada, bob := w.engines()
	bob.says("ada@example.com")
	bob.says("Member without a role")
	if bob.links("/organizations/engines/members/") || bob.links("/organizations/engines/settings") {
		t.Error("a member without permissions sees links to the pages for changes")
	}
	w.Eventually("the roles are known", func() bool {
		ada.open("/organizations/engines")
		return len(ada.page.options("role")) == 3
	})
	adas, bobs := ada.labelled("Change ada@example.com"), ada.labelled("Change bob@example.com")
	bob.open(bobs)
	if bob.page.status != http.StatusNotFound {
		t.Errorf("a member without permissions sees the page of a member: %d", bob.page.status)
	}
	ada.open(bobs)
	ada.says("bob@example.com")
	roles := ada.page.options("role")
	ada.submit("change", "role", "123")
	ada.refused(http.StatusBadRequest, "role", "This role does not exist any more.")
	ada.submit("change", "role", "x")
	ada.refused(http.StatusBadRequest, "role", "Choose one of the offered roles.")
	ada.submit("change", "role", roles["manager"])
	ada.at("/organizations/engines")
	ada.says("The member was changed.")
	ada.says("manager")

	// The list of invitations shows the role of each.
	ada.submit("invite", "email", "dan@example.com", "role", roles["clerk"])
	ada.at("/organizations/engines")
	ada.says("clerk · by ada@example.com")

	// A manager without billing:read cannot grant a role that has it. Only owners can change owners.
	bob.open("/organizations/engines")
	bob.link("/organizations/engines/settings")
	if _, offered := bob.page.options("role")["clerk"]; offered {
		t.Error("a role is offered that the member cannot give")
	}
	bob.open(adas)
	to, values := bob.fill("change", "role", roles["manager"])
	bob.send(http.MethodPost, to, values.Encode())
	bob.refused(http.StatusForbidden, "", "Your role does not permit this.")

	// A lost permission applies to the next request, also for an open form.
	bob.open("/organizations/engines/settings")
	form, changed := bob.fill("change", "name", "Bob's")
	ada.open(bobs)
	ada.submit("change", "role", roles["clerk"])
	bob.send(http.MethodPost, form, changed.Encode())
	bob.refused(http.StatusForbidden, "", "Your role does not permit this.")

	ada.open(adas)
	to, values = ada.fill("change", "role", "")
	values.Del("owner")
	ada.send(http.MethodPost, to, values.Encode())
	ada.refused(http.StatusBadRequest, "", "An organization needs an owner")
	ada.open(bobs)
	ada.submit("change", "role", "", "owner", "1")
	bob.open("/organizations/engines")
	bob.says("Your role Owner")
	ada.open(bobs)
	ada.submit("remove")
	ada.at("/organizations/engines")
	ada.says("The member was removed.")
	bob.open("/organizations/engines")
	if bob.page.status != http.StatusNotFound {
		t.Errorf("a removed member sees the organization: %d", bob.page.status)
	}
	for _, path := range []string{bobs, "/organizations/engines/members/x", "/organizations/engines/members/1", "/organizations/engines/members/" + url.PathEscape(hostile)} {
		if ada.open(path); ada.page.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, ada.page.status)
		}
	}
}

func TestRenameAndDeleteOrganizationPage(t *testing.T) {
	w := newWorld(t, manageable)
	ada, bob := w.engines()
	for _, path := range []string{"/organizations/engines/settings", "/organizations/nobodys/settings"} {
		if bob.open(path); bob.page.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, bob.page.status)
		}
	}
	ada.open("/organizations/engines/settings")
	ada.submit("change", "name", " ")
	ada.refused(http.StatusBadRequest, "name", "Enter a name")
	for _, bad := range []string{"http://cdn.acme.example/e.png", "ftp://cdn.acme.example/e.png", hostile, "https://x/" + strings.Repeat("x", 3000)} {
		ada.submit("change", "name", "Engines", "image_url", bad)
		ada.refused(http.StatusBadRequest, "image_url", "Enter an address such as")
	}
	ada.submit("change", "name", hostile[:60], "image_url", "https://cdn.acme.example/e.png?a=b&c")
	ada.at("/organizations/engines")
	ada.says(hostile[:60])
	picture := func() *node {
		return ada.page.find(func(n *node) bool { return n.Data == "img" && attr(n, "class") == "picture" })
	}
	if img := picture(); img == nil || attr(img, "src") != "https://cdn.acme.example/e.png?a=b&c" {
		t.Error("the picture is not shown")
	}
	if ada.page.find(func(n *node) bool { return hasAttr(n, "onerror") }) != nil {
		t.Error("a name is rendered as markup")
	}
	ada.open("/organizations/engines/settings")
	ada.submit("change", "name", "Engines", "image_url", "https://elsewhere.example/e.png")
	if picture() != nil {
		t.Error("a picture is shown that the policy forbids")
	}

	ada.open("/organizations/engines/settings")
	ada.submit("delete", "confirmation", "Engines")
	ada.refused(http.StatusBadRequest, "confirmation", "Nothing was deleted.")
	w.Clock.Advance(11 * 60e9)
	ada.open("/organizations/engines/settings")
	ada.submit("delete", "confirmation", ada.w.Numbered("engines"))
	ada.at("/reauthenticate")
	ada.submit("password", "password", goodPassword)
	ada.at("/organizations/engines/settings")
	if ada.page.value("confirmation") != ada.w.Numbered("engines") {
		t.Error("what was typed is gone")
	}
	ada.submit("delete")
	ada.at("/organizations")
	ada.says("The organization was deleted.")
	ada.says("You are not a member of any organization.")
}

func TestWorkspaces(t *testing.T) {
	w := newWorld(t, manageable)
	w.role("writer", v1alpha1.RoleLevelWorkspace, "documents:read")
	ada, bob := w.engines()
	ada.open("/organizations/engines")
	ada.submit("workspace", "name", "")
	ada.refused(http.StatusBadRequest, "name", "Enter a name")
	ada.submit("workspace", "name", "Research")
	ada.at("/organizations/engines")
	var research string
	for n := range ada.page.root.Descendants() {
		if n.Data == "a" && (shown{root: n}).text() == "Research" {
			research = attr(n, "href")
		}
	}
	bob.open("/organizations/engines")
	bob.says("Research")
	if bob.links(research) {
		t.Error("a link leads to a workspace that Bob may not see")
	}
	if bob.open(research); bob.page.status != http.StatusNotFound {
		t.Errorf("a user outside the workspace sees it: %d", bob.page.status)
	}
	w.Eventually("the roles are known", func() bool {
		ada.open(research)
		return len(ada.page.options("role")) == 2
	})
	others := ada.page.options("user")
	if len(others) != 1 || others["bob@example.com"] == "" {
		t.Fatalf("others: %v", others)
	}
	ada.submit("add", "user", "x")
	ada.refused(http.StatusBadRequest, "user", "Choose a member of the organization.")
	ada.submit("add", "user", others["bob@example.com"], "role", "1")
	ada.refused(http.StatusBadRequest, "role", "This role does not exist any more.")
	to, values := ada.fill("add", "user", others["bob@example.com"])
	ada.follow(ada.send(http.MethodPost, to, values.Encode()))
	ada.says("The member was added.")
	ada.send(http.MethodPost, to, values.Encode()) // the second of two clicks
	ada.refused(http.StatusBadRequest, "", "This person is a member already.")
	bob.open(research)
	bob.at(research)
	for _, action := range []string{"rename", "add"} {
		if form, _ := bob.page.form(action); form != nil {
			t.Errorf("%s is offered to a member without the permission", action)
		}
	}
	ada.open(research)
	role := ada.page.find(func(n *node) bool { return attr(n, "aria-label") == "Save the role of bob@example.com" })
	writer := ada.page.options("role")["writer"]
	ada.submit(attr(role, "value"), "role", writer)
	ada.says("The member was changed.")
	ada.says("writer")
	ada.submit("rename", "name", hostile[:60])
	ada.says("The workspace was changed.")
	ada.says(hostile[:60])
	ada.submit(strings.Replace(attr(role, "value"), "role-", "remove-", 1))
	ada.says("The member was removed.")
	if bob.open(research); bob.page.status != http.StatusNotFound {
		t.Errorf("a removed member sees the workspace: %d", bob.page.status)
	}
}

// The page of an invitation shows the organization, fills in the address, and leads back.
func TestInvitationsLeadBack(t *testing.T) {
	w := newWorld(t, manageable)
	ada, _ := w.engines()
	carol := w.browser()
	carol.signUp("carol@example.com")
	carol.open("/sign-out")
	carol.submit("all")
	ada.open("/organizations/engines")
	ada.submit("invite", "email", "carol@example.com")
	ada.says("The invitation is on its way.")
	first := w.InvitationFor("carol@example.com", 1)
	ada.submit("resend")
	ada.says("The invitation is on its way.")
	token := w.InvitationFor("carol@example.com", 2)
	for _, gone := range []string{first, "abc", url.PathEscape(hostile)} {
		carol.open("/invitations/" + gone)
		if carol.page.status != http.StatusNotFound || !strings.Contains(carol.page.text(), "This invitation is over") {
			t.Errorf("%s: %d %s", gone, carol.page.status, carol.page.text())
		}
	}
	carol.open("/invitations/" + token)
	carol.says("ada@example.com invites carol@example.com into Engines")
	carol.open(carol.link("/sign-in"))
	if carol.page.value("email") != "carol@example.com" {
		t.Error("the address has to be typed")
	}
	carol.submit("email")
	carol.submit("password", "password", goodPassword)
	carol.at("/invitations/" + token)

	// Another account is active: the page offers the invited one.
	w.Clock.Advance(1e9)
	carol.open("/sign-up")
	carol.submit("signup", "email", "dave@example.com")
	carol.submit("code", "code", w.CodeFor("dave@example.com", 1))
	carol.open("/invitations/" + token)
	carol.says("You are signed in as dave@example.com.")
	carol.submit("switch")
	carol.at("/invitations/" + token)
	carol.submit("accept")
	carol.at("/organizations/engines")
	carol.says("Welcome! You are a member now.")
	carol.open("/invitations/" + token)
	carol.says("This invitation is over")
}
