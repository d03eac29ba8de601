package enduser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

func directoriesOf(organization string) string {
	return "/organizations/" + organization + "/directories"
}

// setsUpDirectory sets up a directory of an organization with a token.
func (b *browser) setsUpDirectory(organization, body string) *directory {
	b.w.T.Helper()
	d := &directory{w: b.w, host: "localhost", id: b.ok("POST", directoriesOf(organization), body)["id"].(string)}
	_, d.token = b.makesToken(organization, d.id, `{}`)
	return d
}

// makesToken makes a token of a directory, and returns it with its id.
func (b *browser) makesToken(organization, directory, body string) (id, token string) {
	b.w.T.Helper()
	made := b.ok("POST", directoriesOf(organization)+"/"+directory+"/tokens", body)
	return made["id"].(string), made["token"].(string)
}

func TestOrganizationSetsUpADirectory(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		w.proves(id, "globex.example")
		p := w.provider()
		conn := owner.setUp(id, p, "")
		d := owner.setsUpDirectory(id, fmt.Sprintf(`{"connection_id":%q}`, conn))
		own := directoriesOf(id) + "/" + d.id
		ann := d.adds("ann@globex.example", `,"externalId":"ext-1"`)
		if _, membership := owner.memberAt(id, "ann@globex.example"); membership == "" {
			t.Fatal("the user is not a member")
		}
		b := w.browser()
		if a := b.sso(conn, p, identityprovider.User{"sub": "ext-1", "email": "other@globex.example"}); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		if me := b.ok("GET", "/me", ""); me["email"] != "ann@globex.example" {
			t.Errorf("externalId does not lead to the account: %v", me)
		}

		got := owner.ok("GET", own, "")
		tokens := got["tokens"].([]any)
		if got["source"] != "runtime" || got["connection_id"] != conn || got["users"] != 1.0 || got["groups"] != 0.0 || got["on_delete"] != "Keep" || got["is_active"] != true || len(tokens) != 1 {
			t.Errorf("%v", got)
		}
		if first := tokens[0].(map[string]any); first["last4"] != d.token[len(d.token)-4:] || first["last_used_at"] == nil || got["last_request_at"] != first["last_used_at"] || first["expires_at"] != nil {
			t.Errorf("%v", got)
		}
		owner.contains(t, false, own, d.token)

		// A second token replaces the first one without an interruption.
		second, token := owner.makesToken(id, d.id, `{"expires_in":3600}`)
		owner.refused(400, "DIRECTORY_LIMIT_REACHED", "POST", own+"/tokens", `{}`)
		next := &directory{w: w, host: d.host, id: d.id, token: token}
		next.ok(http.StatusOK, "GET", "/Users/"+ann, "")
		owner.ok("DELETE", own+"/tokens/"+tokens[0].(map[string]any)["id"].(string), "")
		d.refused(http.StatusUnauthorized, "", "GET", "/Users/"+ann, "")
		owner.refused(404, "TOKEN_NOT_FOUND", "DELETE", own+"/tokens/"+tokens[0].(map[string]any)["id"].(string), "")
		next.activates(ann, false)
		if b.alive() {
			t.Error("the session is alive after the deactivation")
		}

		// An expired token has no effect, and takes no place.
		w.Clock.Advance(time.Hour)
		owner.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
		next.refused(http.StatusUnauthorized, "", "GET", "/Users/"+ann, "")
		if got := owner.ok("GET", own, "")["tokens"].([]any); len(got) != 0 {
			t.Errorf("%s: %v", second, got)
		}
		_, d.token = owner.makesToken(id, d.id, `{}`)
		_, next.token = owner.makesToken(id, d.id, `{}`)

		owner.ok("PATCH", own, `{"is_active":false}`)
		d.refused(http.StatusForbidden, "", "GET", "/Users/"+ann, "")
		owner.ok("PATCH", own, `{"is_active":true}`)
		bob := d.adds("bob@globex.example")
		owner.ok("DELETE", own, "")
		d.refused(http.StatusUnauthorized, "", "GET", "/Users/"+bob, "")
		owner.refused(404, "DIRECTORY_NOT_FOUND", "GET", own, "")
		if _, membership := owner.memberAt(id, "bob@globex.example"); membership == "" {
			t.Error("the deletion of the directory changed a member")
		}
		if got := owner.list(directoriesOf(id)); len(got) != 0 {
			t.Errorf("%v", got)
		}
	})
}

// contains reports an error unless the response at a path contains a text, or with want false if it does.
func (b *browser) contains(t *testing.T, want bool, path, text string) {
	t.Helper()
	if raw := b.do("GET", path, "").Raw; strings.Contains(raw, text) != want {
		t.Errorf("%s: %s", path, raw)
	}
}

func TestOnlyAdminsManageDirectories(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, id, slug := w.customer("globex")
		outsider, other, _ := w.customer("initech")
		path := directoriesOf(id)
		owner.refused(403, "SELF_SERVICE_DISABLED", "GET", path, "")
		owner.refused(403, "SELF_SERVICE_DISABLED", "POST", path, `{}`)
		w.managesConnections(func(c *document.OrganizationConnections) { c.SelfService = false })
		owner.refused(403, "SELF_SERVICE_DISABLED", "POST", path, `{}`)
		w.managesConnections(nil)
		d := owner.setsUpDirectory(id, `{}`)
		own := path + "/" + d.id
		w.managesConnections(func(c *document.OrganizationConnections) { c.NoDirectories = true })
		owner.refused(403, "SELF_SERVICE_DISABLED", "POST", path, `{}`)
		owner.ok("PATCH", own, `{"on_delete":"Erase"}`) // existing ones are kept
		d.adds("ann@mail.example")
		w.managesConnections(nil)

		for _, one := range []string{path, own} {
			outsider.refused(404, "ORGANIZATION_NOT_FOUND", "GET", one, "")
		}
		foreign := directoriesOf(other) + "/" + d.id
		outsider.refused(404, "DIRECTORY_NOT_FOUND", "GET", foreign, "")
		outsider.refused(404, "DIRECTORY_NOT_FOUND", "PATCH", foreign, `{"is_active":false}`)
		outsider.refused(404, "DIRECTORY_NOT_FOUND", "DELETE", foreign, "")
		outsider.refused(404, "DIRECTORY_NOT_FOUND", "POST", foreign+"/tokens", `{}`)
		outsider.refused(404, "DIRECTORY_NOT_FOUND", "DELETE", foreign+"/tokens/1", "")
		bob, _, _ := w.joins(owner, id, "bob@example.com")
		bob.refused(403, "PERMISSION_DENIED", "GET", path, "")
		bob.refused(403, "PERMISSION_DENIED", "POST", path, `{}`)
		bob.refused(403, "PERMISSION_DENIED", "POST", own+"/tokens", `{}`)
		bob.refused(403, "PERMISSION_DENIED", "DELETE", own, "")

		declared := w.directory("declared", slug, nil)
		list := owner.list(path)
		if len(list) != 2 || list[0]["id"] != declared.id || list[0]["source"] != "declared" || len(list[0]["tokens"].([]any)) != 0 {
			t.Errorf("%v", list)
		}
		owner.ok("GET", path+"/"+declared.id, "")
		owner.refused(409, "CONFLICT", "PATCH", path+"/"+declared.id, `{"is_active":false}`)
		owner.refused(409, "CONFLICT", "DELETE", path+"/"+declared.id, "")
		owner.refused(409, "CONFLICT", "POST", path+"/"+declared.id+"/tokens", `{}`)
		outsider.refused(404, "DIRECTORY_NOT_FOUND", "GET", directoriesOf(other)+"/"+declared.id, "")
		outsider.refused(404, "DIRECTORY_NOT_FOUND", "DELETE", directoriesOf(other)+"/"+declared.id, "")
	})
}

func TestDirectoriesOfAnOrganizationAreBoundedAndValidated(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		rival, other, _ := w.customer("initech")
		foreign := rival.setUp(other, w.provider(), "")
		path := directoriesOf(id)
		for _, body := range []string{
			`{"on_delete":"Forget"}`, `{"connection_id":"x"}`, `{"group_roles":[{"group":"","role_id":"1"}]}`, `{"group_roles":[{"group":"A"}]}`, `{"token":"x"}`, `{"is_active":"yes"}`,
			`{"group_roles":[{"group":"A","role_id":"1"},{"group":"A","role_id":"2"}]}`, `{"group_roles":[{"group":"A","role_id":"12345"}]}`,
		} {
			if a := owner.do("POST", path, body); a.Status != 400 {
				t.Errorf("%s: %s", body, a.Raw)
			}
		}
		for _, connection := range []string{foreign, "12345"} {
			owner.refused(404, "CONNECTION_NOT_FOUND", "POST", path, fmt.Sprintf(`{"connection_id":%q}`, connection))
		}
		first := owner.setsUpDirectory(id, `{}`)
		owner.setsUpDirectory(id, `{}`)
		owner.refused(400, "DIRECTORY_LIMIT_REACHED", "POST", path, `{}`)
		for _, body := range []string{`{"expires_in":59}`, `{"expires_in":157680001}`, `{"expires_in":"x"}`, `{"x":1}`} {
			owner.refused(400, "VALIDATION_ERROR", "POST", path+"/"+first.id+"/tokens", body)
		}
		for n := range 18 { // with the two before, as many as in a day
			owner.ok("DELETE", path+"/"+first.id, "")
			first.id = owner.ok("POST", path, `{}`)["id"].(string)
			if n%5 == 0 {
				w.Clock.Advance(time.Minute)
			}
		}
		owner.ok("DELETE", path+"/"+first.id, "")
		owner.refused(429, "RATE_LIMITED", "POST", path, `{}`)
	})
}

func TestGroupsOfAnOrganizationsDirectoryGiveRoles(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		manager, clerk, lead := w.role("manager", "Organization", "connection:manage"), w.role("clerk", "Organization", "connection:manage"), w.role("lead", "Organization", "billing:read")
		owner, id, _ := w.customer("globex")
		w.proves(id, "globex.example")
		w.Eventually("the roles are known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 3 })
		bob, membership, _ := w.joins(owner, id, "bob@example.com")
		owner.ok("PATCH", "/organizations/"+id+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, manager))
		bob.refused(403, "PERMISSION_DENIED", "POST", directoriesOf(id), fmt.Sprintf(`{"group_roles":[{"group":"Leads","role_id":%q}]}`, lead))
		d := bob.setsUpDirectory(id, fmt.Sprintf(`{"group_roles":[{"group":"Clerks","role_id":%q}]}`, clerk))
		ann := d.adds("ann@globex.example")
		d.group("Clerks", ann)
		leads := d.group("Leads", ann)
		if role, _ := owner.memberAt(id, "ann@globex.example"); role != "clerk" {
			t.Errorf("role %q", role)
		}

		// An owner gives a role that the manager may not give. The manager keeps it, and cannot give another such role.
		both := fmt.Sprintf(`{"group_roles":[{"group":"Leads","role_id":%q},{"group":"Clerks","role_id":%q}]}`, lead, clerk)
		owner.ok("PATCH", directoriesOf(id)+"/"+d.id, both)
		bob.ok("PATCH", directoriesOf(id)+"/"+d.id, both)
		own := directoriesOf(id) + "/" + d.id
		bob.refused(403, "PERMISSION_DENIED", "PATCH", own, fmt.Sprintf(`{"group_roles":[{"group":"Others","role_id":%q}]}`, lead))
		bob.refused(403, "PERMISSION_DENIED", "PATCH", own, fmt.Sprintf(`{"group_roles":[{"group":"Clerks","role_id":%q},{"group":"Leads","role_id":%q}]}`, clerk, lead))

		// With a token, the manager could get the role that the manager may not give.
		bob.refused(403, "PERMISSION_DENIED", "POST", own+"/tokens", `{}`)
		owner.ok("PATCH", own, `{"is_active":false}`)
		bob.refused(403, "PERMISSION_DENIED", "PATCH", own, `{"is_active":true}`)
		owner.ok("PATCH", own, `{"is_active":true}`)
		d.patches("/Users/"+ann, `{"op":"replace","path":"title","value":"Lead"}`)
		if role, _ := owner.memberAt(id, "ann@globex.example"); role != "lead" {
			t.Errorf("role %q", role)
		}
		d.patches("/Groups/"+leads, fmt.Sprintf(`{"op":"remove","path":"members[value eq \"%s\"]"}`, ann))
		if role, _ := owner.memberAt(id, "ann@globex.example"); role != "clerk" {
			t.Errorf("role %q", role)
		}
	})
}

func TestSetupLinkSetsUpADirectory(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		w.proves(id, "globex.example")
		_, token := owner.makesLink(id, "it@globex.example", `"directory"`)
		it := w.browser()
		it.opens(token, "it@globex.example", 1)
		d := it.setsUpDirectory(id, `{}`)
		d.adds("ann@globex.example")
		if got := it.list(directoriesOf(id)); len(got) != 1 || got[0]["users"] != 1.0 {
			t.Errorf("%v", got)
		}
		it.list("/organizations/" + id + "/connections") // its users sign in by one
		it.list("/organizations/" + id + "/roles")
		it.refused(401, "NOT_AUTHENTICATED", "POST", "/organizations/"+id+"/connections", newConnection(w.provider(), ""))
		for _, path := range []string{"/domains", "/members", "/setup-links"} {
			it.refused(401, "NOT_AUTHENTICATED", "GET", "/organizations/"+id+path, "")
		}
		_, token = owner.makesLink(id, "it2@globex.example", `"sso","domains"`)
		another := w.browser()
		another.opens(token, "it2@globex.example", 1)
		another.refused(401, "NOT_AUTHENTICATED", "GET", directoriesOf(id), "")
		another.refused(401, "NOT_AUTHENTICATED", "POST", directoriesOf(id)+"/"+d.id+"/tokens", `{}`)
	})
}

func TestDirectoryOfAnOrganizationHasNoEffectUnlessTheDeploymentPermitsIt(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		w.proves(id, "globex.example")
		d := owner.setsUpDirectory(id, `{}`)
		ann := d.adds("ann@globex.example")
		d.activates(ann, false)
		settings := w.Settings()
		settings.Connections = nil
		w.Declare(settings)
		w.Eventually("the directory is closed", func() bool { return d.do("GET", "/Users/"+ann, "").Status == http.StatusUnauthorized })
		desk := w.desk("help", deploymentName, "users:write", "organizations:write")
		account := w.count("SELECT user_id FROM scim_users")
		desk.expect(http.StatusOK, "PATCH", fmt.Sprintf("/users/%d", account), `{"disabled":false}`)
		if status, _ := desk.send("POST", "/organizations/"+id+"/members", fmt.Sprintf(`{"user_id":"%d"}`, account)); status < 400 {
			t.Error("a deactivated user is a member again while the directory has no effect")
		}
		w.managesConnections(nil)
		w.Eventually("the directory is open", func() bool { return d.do("GET", "/Users/"+ann, "").Status == http.StatusOK })
		d.activates(ann, true)
		if _, membership := owner.memberAt(id, "ann@globex.example"); membership == "" {
			t.Error("the user is not a member again")
		}
	})
}
