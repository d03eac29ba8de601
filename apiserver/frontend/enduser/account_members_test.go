package enduser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// joins makes a user a member of an organization, and returns the browser, the id of the membership and that of the
// user.
func (w *world) joins(owner *browser, organization, email string) (b *browser, membership, user string) {
	w.T.Helper()
	owner.ok("POST", "/organizations/"+organization+"/invitations", fmt.Sprintf(`{"email":%q}`, email))
	b, user = w.signedUp(email)
	accepted := b.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor(email, 1)))
	return b, accepted["membership"].(map[string]any)["id"].(string), user
}

// manageable declares the permissions to manage organizations and workspaces.
func (w *world) manageable() {
	w.T.Helper()
	d := w.Settings()
	d.OrganizationPermissions = []string{"organization:invite", "organization:manage", "billing:read"}
	d.WorkspacePermissions = []string{"workspace:manage", "documents:read"}
	w.Declare(d)
}

func TestManageMembers(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.manageable()
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		manager := w.role("manager", "Organization", "organization:manage", "organization:invite")
		clerk := w.role("clerk", "Organization", "billing:read")
		writer := w.role("writer", "Workspace", "documents:read")
		bob, bobs, _ := w.joins(owner, organization, "bob@example.com")
		eve, eves, _ := w.joins(owner, organization, "eve@example.com")
		path := "/organizations/" + organization + "/members/"
		w.Eventually("the roles are known", func() bool { return len(owner.list("/organizations/"+organization+"/roles")) == 2 })
		roles := "/organizations/" + organization + "/roles?level="
		w.Eventually("the roles of workspaces are known", func() bool {
			list := owner.list(roles + "workspace")
			return len(list) == 1 && list[0]["id"] == writer
		})
		if list := owner.list(roles + "organization"); len(list) != 2 {
			t.Errorf("roles of organizations: %v", list)
		}
		owner.refused(400, "VALIDATION_ERROR", "GET", roles+"Workspace", "")

		bob.refused(403, "PERMISSION_DENIED", "PATCH", path+eves, fmt.Sprintf(`{"role_id":%q}`, clerk))
		changed := owner.ok("PATCH", path+bobs, fmt.Sprintf(`{"role_id":%q}`, manager))
		if changed["role"].(map[string]any)["name"] != "manager" || changed["user"].(map[string]any)["email"] != "bob@example.com" || changed["owner"] != false {
			t.Errorf("%v", changed)
		}
		// A role is granted and removed by members with all its permissions, ownership by owners. Changes apply to the next
		// request.
		bob.refused(403, "PERMISSION_DENIED", "PATCH", path+eves, fmt.Sprintf(`{"role_id":%q}`, clerk))
		bob.ok("PATCH", path+eves, fmt.Sprintf(`{"role_id":%q}`, manager))
		bob.refused(403, "PERMISSION_DENIED", "PATCH", path+eves, `{"owner":true}`)
		owner.refused(400, "INVALID_ROLE", "PATCH", path+eves, fmt.Sprintf(`{"role_id":%q}`, writer))
		owner.refused(400, "INVALID_ROLE", "PATCH", path+eves, `{"role_id":"123"}`)
		owner.refused(404, "MEMBERSHIP_NOT_FOUND", "PATCH", path+"123", `{}`)
		owner.refused(404, "MEMBERSHIP_NOT_FOUND", "DELETE", path+"x", "")
		owner.refused(400, "VALIDATION_ERROR", "PATCH", path+eves, `{"owner":"yes"}`)
		owner.ok("PATCH", path+eves, fmt.Sprintf(`{"role_id":%q}`, clerk))
		bob.refused(403, "PERMISSION_DENIED", "DELETE", path+eves, "")
		owner.ok("PATCH", path+eves, `{"role_id":null}`)
		bob.ok("DELETE", path+eves, "")
		eve.refused(404, "ORGANIZATION_NOT_FOUND", "GET", "/organizations/"+organization+"/members", "")

		// The last owner can neither give up the ownership nor leave. With another owner, the first one can leave.
		owners := ""
		for _, m := range bob.list("/organizations/" + organization + "/members") {
			if m["owner"] == true {
				owners = m["id"].(string)
			}
		}
		bob.refused(403, "PERMISSION_DENIED", "DELETE", path+owners, "")
		owner.refused(400, "OWNER_REMOVAL", "PATCH", path+owners, `{"owner":false}`)
		owner.refused(400, "OWNER_REMOVAL", "DELETE", path+owners, "")
		owner.refused(400, "OWNER_REMOVAL", "DELETE", "/me/organization-memberships/"+owners, "")
		owner.ok("PATCH", path+bobs, `{"owner":true}`)
		owner.ok("DELETE", path+owners, "")
		owner.refused(404, "ORGANIZATION_NOT_FOUND", "GET", "/organizations/"+organization+"/roles", "")
		if s := owner.ok("GET", "/session", ""); s["organization"] != nil {
			t.Errorf("the organization of a removed owner is still active: %v", s)
		}
	})
}

func TestListMembersInPages(t *testing.T) {
	onSQLite(t, func(w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		w.joins(owner, organization, "bob@example.com")
		w.joins(owner, organization, "eve@example.com")
		path := "/organizations/" + organization + "/members"
		first := owner.list(path + "?limit=2")
		rest := owner.list(path + "?limit=2&after=" + first[1]["id"].(string))
		if len(first) != 2 || len(rest) != 1 || rest[0]["id"] == first[1]["id"] {
			t.Errorf("%v, %v", first, rest)
		}
		for _, bad := range []string{"?limit=0", "?limit=x", "?after=x"} {
			owner.refused(400, "VALIDATION_ERROR", "GET", path+bad, "")
		}
		unrelated, _ := w.signedUp("mallory@example.com")
		for _, at := range []string{path, "/organizations/x/members", "/organizations/1/members", "/organizations/" + organization + "/workspaces"} {
			unrelated.refused(404, "ORGANIZATION_NOT_FOUND", "GET", at, "")
		}
	})
}

func TestChangeAndDeleteOrganization(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.manageable()
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		bob, _, _ := w.joins(owner, organization, "bob@example.com")
		path := "/organizations/" + organization
		bob.refused(403, "PERMISSION_DENIED", "PATCH", path, `{"name":"Bob's"}`)
		changed := owner.ok("PATCH", path, `{"name":"Renamed","description":"d","image_url":"https://cdn.example/o.png"}`)
		if changed["name"] != "Renamed" || changed["slug"] != w.Numbered("org") || changed["image_url"] != "https://cdn.example/o.png" {
			t.Errorf("%v", changed)
		}
		for _, bad := range []string{`{"name":""}`, `{"name":null}`, `{"image_url":"http://cdn.example/o.png"}`, `{"image_url":"javascript:alert(1)"}`, `{"image_url":"https://x/\"><b>"}`, `{"slug":"x"}`} {
			owner.refused(400, "VALIDATION_ERROR", "PATCH", path, bad)
		}
		confirm := fmt.Sprintf(`{"confirmation":%q}`, w.Numbered("org"))
		bob.refused(403, "PERMISSION_DENIED", "DELETE", path, confirm)
		owner.refused(400, "INVALID_CONFIRMATION", "DELETE", path, `{"confirmation":"Renamed"}`)
		w.Clock.Advance(10 * time.Minute)
		owner.refused(403, "REAUTHENTICATION_REQUIRED", "DELETE", path, confirm)
		owner.reauthenticate()
		ownersMails := w.count("SELECT COUNT(*) FROM outbox WHERE recipient = 'owner@example.com'")
		owner.ok("DELETE", path, confirm)
		w.notices("bob@example.com", "has deleted the organization “Renamed”", 1)
		if mails := w.count("SELECT COUNT(*) FROM outbox WHERE recipient = 'owner@example.com'"); mails != ownersMails {
			t.Errorf("the owner who deleted the organization was sent %d mails", mails-ownersMails)
		}
		for _, b := range []*browser{owner, bob} {
			if s := b.ok("GET", "/session", ""); s["organization"] != nil {
				t.Errorf("%v", s)
			}
			b.refused(404, "ORGANIZATION_NOT_FOUND", "GET", path+"/members", "")
		}
	})
}

func TestReservedSlugsAreNotAssigned(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		for _, name := range []string{"New", "Invitations"} {
			made := b.ok("POST", "/organizations", fmt.Sprintf(`{"name":%q}`, name))["organization"].(map[string]any)
			if slug := made["slug"].(string); slug == "new" || slug == "invitations" {
				t.Errorf("%q got the slug %q", name, slug)
			}
		}
	})
}

func TestLookUpAndResendInvitations(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		path := "/organizations/" + organization + "/invitations"
		sent := owner.ok("POST", path, `{"email":"bob@example.com"}`)
		token := w.InvitationFor("bob@example.com", 1)
		look := func(token string) answer {
			return w.browser().do("POST", "/organizations/invitations/lookup", fmt.Sprintf(`{"token":%q}`, token))
		}
		found := look(token).data()
		if found["organization"].(map[string]any)["name"] != "Org" || found["inviter"].(map[string]any)["email"] != "owner@example.com" || found["email"] != "bob@example.com" {
			t.Errorf("%v", found)
		}
		if a := look("x"); a.code() != "INVALID_INVITATION" {
			t.Error(a.Raw)
		}
		if open := owner.list(path); open[0]["inviter"].(map[string]any)["email"] != "owner@example.com" {
			t.Errorf("%v", open)
		}
		again := owner.ok("POST", path+"/"+sent["id"].(string)+"/resend", `{}`)
		if again["id"] == sent["id"] || again["email"] != "bob@example.com" || len(owner.list(path)) != 1 {
			t.Errorf("%v", again)
		}
		if a := look(token); a.code() != "INVALID_INVITATION" {
			t.Errorf("the former token: %s", a.Raw)
		}
		if a := look(w.InvitationFor("bob@example.com", 2)); a.Status != 200 {
			t.Errorf("the new token: %s", a.Raw)
		}
		owner.refused(404, "INVITATION_NOT_FOUND", "POST", path+"/"+sent["id"].(string)+"/resend", `{}`)
		for range 3 {
			again = owner.ok("POST", path+"/"+again["id"].(string)+"/resend", `{}`)
		}
		owner.refused(429, "RATE_LIMITED", "POST", path+"/"+again["id"].(string)+"/resend", `{}`)
		if len(owner.list(path)) != 1 {
			t.Error("a refused resend revoked the invitation")
		}
	})
}

func TestWorkspacesHaveMembers(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.manageable()
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		manager, reader := w.role("manager", "Workspace", "workspace:manage"), w.role("reader", "Workspace", "documents:read")
		bob, _, bobID := w.joins(owner, organization, "bob@example.com")
		_, _, eveID := w.joins(owner, organization, "eve@example.com")
		w.Clock.Advance(time.Second)
		made := owner.ok("POST", "/workspaces", fmt.Sprintf(`{"name":"Research","organization_id":%q}`, organization))
		path := "/workspaces/" + made["workspace"].(map[string]any)["id"].(string)
		if list := bob.list("/organizations/" + organization + "/workspaces"); len(list) != 2 || list[1]["name"] != "Research" {
			t.Errorf("%v", list)
		}
		bob.refused(404, "WORKSPACE_NOT_FOUND", "GET", path+"/members", "")
		bob.refused(404, "WORKSPACE_NOT_FOUND", "PATCH", path, `{"name":"Bob's"}`)
		add := func(user, role string) string { return fmt.Sprintf(`{"user_id":%q,"role_id":%q}`, user, role) }
		var bobs map[string]any
		w.Eventually("the roles are known", func() bool {
			a := owner.do("POST", path+"/members", add(bobID, manager))
			bobs = a.data()
			return a.Status == 200
		})
		owner.refused(400, "ALREADY_MEMBER", "POST", path+"/members", add(bobID, manager))
		owner.refused(400, "VALIDATION_ERROR", "POST", path+"/members", `{"user_id":"123"}`)
		owner.refused(400, "INVALID_ROLE", "POST", path+"/members", add(eveID, "123"))
		// A manager cannot grant more than they have.
		bob.refused(403, "PERMISSION_DENIED", "POST", path+"/members", add(eveID, reader))
		eves := bob.ok("POST", path+"/members", add(eveID, manager))["id"].(string)
		bob.ok("PATCH", path, `{"name":"Renamed"}`)
		owner.ok("PATCH", path+"/members/"+eves, fmt.Sprintf(`{"role_id":%q}`, reader))
		bob.refused(403, "PERMISSION_DENIED", "DELETE", path+"/members/"+eves, "")
		owner.refused(400, "VALIDATION_ERROR", "PATCH", path+"/members/"+eves, `{}`)
		if changed := owner.ok("PATCH", path+"/members/"+eves, `{"role_id":null}`); changed["role"] != nil {
			t.Errorf("%v", changed)
		}
		bob.ok("DELETE", path+"/members/"+eves, "")
		first := bob.list(path + "/members?limit=1")
		rest := bob.list(path + "/members?after=" + first[0]["id"].(string))
		if len(first) != 1 || len(rest) != 1 || rest[0]["id"] == first[0]["id"] {
			t.Errorf("%v, %v", first, rest)
		}
		owner.refused(404, "MEMBERSHIP_NOT_FOUND", "DELETE", path+"/members/"+eves, "")
		unrelated, _ := w.signedUp("mallory@example.com")
		unrelated.organization("Elsewhere")
		for _, method := range []string{"PATCH", "DELETE"} {
			unrelated.refused(404, "WORKSPACE_NOT_FOUND", method, path+"/members/"+bobs["id"].(string), `{"role_id":null}`)
		}
		w.DeclareB2B(document.B2BSettings{})
		w.Eventually("B2B is off", func() bool { return owner.do("GET", path+"/members", "").code() == "ORGANIZATIONS_DISABLED" })
	})
}
