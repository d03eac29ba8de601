package pages_test

import (
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// The test's browser checks every page for names outside isolates.
func TestRightToLeftNamesDoNotReorderPages(t *testing.T) {
	const app, organization, workspace, role = "שירות", "מנועים", "מחקר", "כותב"
	w := newWorld(t, func(d *document.Deployment) {
		manageable(d)
		d.DisplayName = app
	})
	w.Put(v1alpha1.KindMembershipRole, "writer", frontendtest.Deployment, "writer", document.MembershipRole{Level: string(v1alpha1.RoleLevelOrganization), Name: role, Permissions: []string{"billing:read"}})
	ada, bob := w.browser(), w.browser()
	ada.open("/sign-up")
	ada.submit("signup", "email", "ada@example.com", "first_name", "עדה", "last_name", "לאבלייס", "password", goodPassword)
	ada.submit("code", "code", w.CodeFor("ada@example.com", 1))
	ada.at("/account")
	ada.says("\u2068עדה לאבלייס\u2069")
	ada.open("/organizations/new")
	ada.submit("create", "name", organization)
	home := ada.page.url.Path
	ada.says("\u2068" + organization + "\u2069")
	if got := ada.page.find(func(n *node) bool { return n.Data == "title" }); !strings.Contains((shown{root: got}).text(), "\u2068"+app+"\u2069") {
		t.Errorf("the title is %s", (shown{root: got}).text())
	}
	ada.submit("workspace", "name", workspace)
	ada.says("\u2068" + workspace + "\u2069")
	w.Eventually("the roles are known", func() bool {
		ada.open(home)
		return len(ada.page.options("role")) == 2
	})
	ada.submit("invite", "email", "bob@example.com", "role", ada.page.options("role")["\u2068"+role+"\u2069"])
	ada.says("\u2068" + role + "\u2069")
	invitation := "/invitations/" + w.InvitationFor("bob@example.com", 1)
	bob.open(invitation)
	bob.says("\u2068עדה לאבלייס\u2069 invites")
	bob.open("/sign-up")
	bob.submit("signup", "email", "bob@example.com", "first_name", "בוב", "password", goodPassword)
	bob.submit("code", "code", w.CodeFor("bob@example.com", 1))
	bob.open(invitation)
	bob.submit("accept")
	for _, path := range []string{home, "/organizations", "/account", "/account/keys", "/account/sessions", "/account/delete"} {
		bob.open(path)
		ada.open(path)
	}
	ada.open(home)
	member := ada.labelled("Change bob@example.com")
	place := attr(ada.page.find(func(n *node) bool { return n.Data == "a" && (shown{root: n}).text() == "\u2068"+workspace+"\u2069" }), "href")
	for _, path := range []string{member, home + "/settings", place, "/sign-in", "/sign-in?add=1", "/sign-up"} {
		ada.open(path)
	}
	ada.open(place)
	if others := ada.page.options("user"); len(others) != 1 || others["\u2068בוב\u2069 bob@example.com"] == "" {
		t.Errorf("others are %v", others)
	}
}
