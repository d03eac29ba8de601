package enduser_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// directoryDesk is a desk that manages directories.
func (w *world) directoryDesk() *desk {
	w.T.Helper()
	return w.desk("directories", deploymentName, "directories:read", "directories:write", "connections:write", "audit:read", "users:read")
}

// newDirectory sets up a directory of an organization, and returns its path. more are further members of the body.
func (d *desk) newDirectory(organization, more string) string {
	d.w.T.Helper()
	made := d.expect(200, "POST", "/directories", fmt.Sprintf(`{"organization_id":%q%s}`, organization, more))
	return "/directories/" + made["id"].(string)
}

// newToken gives the directory of a path a token, and returns the directory as its identity provider uses it.
func (d *desk) newToken(path, body string) (id string, of *directory) {
	d.w.T.Helper()
	made := d.expect(200, "POST", path+"/tokens", body)
	return made["id"].(string), &directory{w: d.w, id: strings.TrimPrefix(path, "/directories/"), host: "localhost", token: made["token"].(string)}
}

// pagesOf returns a member of the objects on all pages of a list.
func (d *desk) pagesOf(path, member string) (all []string, pages int) {
	d.w.T.Helper()
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	for next := path; next != ""; pages++ {
		page := d.expect(200, "GET", next, "")
		for _, one := range page["data"].([]any) {
			all = append(all, fmt.Sprint(one.(map[string]any)[member]))
		}
		cursor, more := page["next_cursor"].(string)
		if next = ""; more {
			next = path + separator + "cursor=" + cursor
		}
		if more != (page["has_more"] == true) {
			d.w.T.Errorf("%v", page)
		}
	}
	return all, pages
}

func TestBackendSetsUpADirectory(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, org, slug := w.customer("globex")
		w.proves(org, "globex.example")
		role := w.role("developer", "Organization")
		desk := w.directoryDesk()
		made := desk.expect(200, "POST", "/directories", fmt.Sprintf(`{"organization_id":%q,"group_roles":[{"group":"Engineering","role_id":%q}]}`, org, role))
		id := made["id"].(string)
		own := "/directories/" + id
		if made["source"] != "runtime" || made["slug"] != "d-"+id || made["organization_id"] != org || made["organization_slug"] != slug || made["connection_id"] != nil || made["on_delete"] != "Keep" ||
			made["is_active"] != true || len(made["tokens"].([]any)) != 0 || made["users"] != 0.0 || made["last_request_at"] != nil || !strings.HasSuffix(made["url"].(string), "/scim/v2/"+id) {
			t.Errorf("%v", made)
		}

		// The identity provider adds a member of a group.
		_, provider := desk.newToken(own, "")
		provider.group("Engineering", provider.adds("ann@globex.example"))
		if name, _ := owner.memberAt(org, "ann@globex.example"); name != "developer" {
			t.Errorf("the role of the member is %q", name)
		}
		seen := desk.expect(200, "GET", own, "")
		token := seen["tokens"].([]any)[0].(map[string]any)
		if seen["users"] != 1.0 || seen["groups"] != 1.0 || seen["last_request_at"] == nil || token["last_used_at"] == nil || token["expires_at"] != nil || token["last4"] != provider.token[len(provider.token)-4:] {
			t.Errorf("%v", seen)
		}
		if _, raw := desk.send("GET", own, ""); strings.Contains(raw, provider.token) {
			t.Error("the response has the token")
		}

		// A change keeps what it does not name.
		if d := desk.expect(200, "PATCH", own, `{"on_delete":"Erase","is_active":false}`); d["on_delete"] != "Erase" || d["is_active"] != false || len(d["group_roles"].([]any)) != 1 {
			t.Errorf("%v", d)
		}
		provider.refused(403, "", "GET", "/Users", "")
		if d := desk.expect(200, "PATCH", own, `{"is_active":true,"group_roles":[],"on_delete":"Keep"}`); d["is_active"] != true || len(d["group_roles"].([]any)) != 0 || d["on_delete"] != "Keep" {
			t.Errorf("%v", d)
		}
		provider.ok(200, "GET", "/Users", "")

		desk.expect(204, "DELETE", own, "")
		for method, body := range map[string]string{"GET": "", "PATCH": `{}`, "DELETE": ""} {
			desk.expect(404, method, own, body)
		}
		provider.refused(401, "", "GET", "/Users", "")
		if _, membership := owner.memberAt(org, "ann@globex.example"); membership == "" {
			t.Error("the deletion of the directory ended a membership")
		}
		for _, action := range []string{"directory.created", "directory.token_created", "directory.changed", "directory.deleted"} {
			records := desk.expect(200, "GET", "/audit?action="+action, "")["data"].([]any)
			if len(records) == 0 || !strings.HasPrefix(records[0].(map[string]any)["actor"].(string), "key:") || records[0].(map[string]any)["ip_address"] != "198.51.100.7" {
				t.Errorf("%s: %v", action, records)
			}
		}
		if _, audit := desk.send("GET", "/audit?limit=100", ""); strings.Contains(audit, provider.token) || strings.Contains(w.Logs.String(), provider.token) {
			t.Error("the audit or the log has a token")
		}
	})
}

func TestTokensOfADirectoryAreBoundedAndEnd(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		_, org, _ := w.customer("globex")
		desk := w.directoryDesk()
		own, other := desk.newDirectory(org, ""), desk.newDirectory(org, "")
		for _, body := range []string{`{"expires_in":59}`, `{"expires_in":157680001}`, `{"expires_in":"60"}`, `{"expires_in":null}`, `{"lifetime":60}`} {
			desk.expect(400, "POST", own+"/tokens", body)
		}
		first, one := desk.newToken(own, `{"expires_in":60}`)
		w.Clock.Advance(time.Second) // so that the tokens have an order
		second, two := desk.newToken(own, `{}`)
		if _, raw := desk.send("POST", own+"/tokens", `{}`); !strings.Contains(raw, "maximum number of live tokens (2)") {
			t.Errorf("the third token: %s", raw)
		}
		desk.expect(409, "POST", own+"/tokens", `{}`)
		one.ok(200, "GET", "/Users", "")
		two.ok(200, "GET", "/Users", "")
		if ids, _ := desk.tokens(own); !slices.Equal(ids, []string{first, second}) {
			t.Errorf("%v, want %s, %s", ids, first, second)
		}

		// An expired token is not listed, and another can take its place.
		w.Clock.Advance(time.Minute)
		one.refused(401, "", "GET", "/Users", "")
		if ids, _ := desk.tokens(own); !slices.Equal(ids, []string{second}) {
			t.Errorf("after the expiry: %v", ids)
		}
		third, three := desk.newToken(own, `{"expires_in":157680000}`)
		if _, expires := desk.tokens(own); expires[1] != w.Clock.Now().Add(157680000*time.Second).UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano) {
			t.Errorf("expires at %v", expires)
		}

		desk.expect(404, "DELETE", other+"/tokens/"+second, "")
		for _, unknown := range []string{"1", "x", first} {
			desk.expect(404, "DELETE", own+"/tokens/"+unknown, "")
		}
		desk.expect(204, "DELETE", own+"/tokens/"+second, "")
		two.refused(401, "", "GET", "/Users", "")
		three.ok(200, "GET", "/Users", "")
		desk.expect(404, "DELETE", own+"/tokens/"+second, "")
		if ids, _ := desk.tokens(own); !slices.Equal(ids, []string{third}) {
			t.Errorf("after the deletion: %v", ids)
		}
		// A token of one directory opens no other.
		three.id = strings.TrimPrefix(other, "/directories/")
		three.refused(401, "", "GET", "/Users", "")
	})
}

// tokens returns the ids and the ends of a directory's tokens.
func (d *desk) tokens(path string) (ids []string, ends []any) {
	d.w.T.Helper()
	for _, token := range d.expect(200, "GET", path, "")["tokens"].([]any) {
		ids, ends = append(ids, token.(map[string]any)["id"].(string)), append(ends, token.(map[string]any)["expires_at"])
	}
	return ids, ends
}

func TestDirectoriesAreListedDeclaredOnesFirst(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		_, globex, slug := w.customer("globex")
		_, initech, _ := w.customer("initech")
		w.directory("declared", slug, nil)
		w.directory("elsewhere", "unknown", nil)
		desk := w.directoryDesk()
		var rows []string
		for _, org := range []string{globex, initech, globex} {
			rows = append(rows, "d-"+strings.TrimPrefix(desk.newDirectory(org, ""), "/directories/"))
			w.Clock.Advance(time.Second) // so that the ids have an order
		}
		for limit := 1; limit <= 6; limit++ {
			got, pages := desk.pagesOf(fmt.Sprintf("/directories?limit=%d", limit), "slug")
			if declared := slices.Sorted(slices.Values(got[:2])); !slices.Equal(declared, []string{"declared", "elsewhere"}) || !slices.Equal(got[2:], []string{rows[2], rows[1], rows[0]}) || pages != (5+limit-1)/limit {
				t.Errorf("%d pages of %d: %v", pages, limit, got)
			}
			if got, _ := desk.pagesOf(fmt.Sprintf("/directories?limit=%d&organization_id=%s", limit, globex), "slug"); !slices.Equal(got, []string{"declared", rows[2], rows[0]}) {
				t.Errorf("of an organization by %d: %v", limit, got)
			}
		}
		for _, query := range []string{"limit=0", "cursor=x", "organization_id=x"} {
			desk.expect(400, "GET", "/directories?"+query, "")
		}
		desk.expect(404, "GET", "/directories?organization_id=1", "")

		// Rows end with the declaration that permits them.
		d := w.Settings()
		d.Connections = nil
		w.Declare(d)
		if got, _ := desk.pagesOf("/directories", "slug"); len(got) != 2 {
			t.Errorf("without spec.connections: %v", got)
		}
		desk.expect(404, "GET", "/directories/"+strings.TrimPrefix(rows[0], "d-"), "")
		desk.expect(403, "POST", "/directories", fmt.Sprintf(`{"organization_id":%q}`, globex))
		desk.expect(403, "DELETE", "/directories/"+strings.TrimPrefix(rows[0], "d-"), "")
	})
}

func TestUsersOfADirectoryAreListedWithTheirAccounts(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		_, org, _ := w.customer("globex")
		w.proves(org, "globex.example")
		desk := w.directoryDesk()
		own := desk.newDirectory(org, "")
		empty := desk.newDirectory(org, "")
		_, provider := desk.newToken(own, "")
		member := provider.adds("Ann@globex.example", `,"externalId":"ext-1"`)
		waiting := provider.adds("bob@elsewhere.example", `,"active":false`)
		var want []string
		for n := range 3 {
			want = append(want, provider.adds(fmt.Sprintf("u%d@globex.example", n)))
		}
		want = append(want, member, waiting)
		slices.SortFunc(want, func(a, b string) int { return int(parseID(a) - parseID(b)) })
		for limit := 1; limit <= 6; limit++ {
			if got, pages := desk.pagesOf(fmt.Sprintf("%s/users?limit=%d", own, limit), "id"); !slices.Equal(got, want) || pages != (5+limit-1)/limit {
				t.Errorf("%d pages of %d: %v", pages, limit, got)
			}
		}
		users := map[string]map[string]any{}
		for _, user := range desk.expect(200, "GET", own+"/users", "")["data"].([]any) {
			users[user.(map[string]any)["id"].(string)] = user.(map[string]any)
		}
		ann, bob := users[member], users[waiting]
		if ann["user_name"] != "Ann@globex.example" || ann["external_id"] != "ext-1" || ann["email"] != "ann@globex.example" || ann["active"] != true || ann["created_at"] == nil || ann["updated_at"] == nil {
			t.Errorf("%v", ann)
		}
		if account := desk.expect(200, "GET", "/users/"+ann["user_id"].(string), ""); account["id"] != ann["user_id"] {
			t.Errorf("%v", account)
		}
		if bob["user_id"] != nil || bob["active"] != false || bob["external_id"] != "" {
			t.Errorf("%v", bob)
		}
		if got, _ := desk.pagesOf(empty+"/users", "id"); len(got) != 0 {
			t.Errorf("another directory has %v", got)
		}
		desk.expect(400, "GET", own+"/users?limit=0", "")
		desk.expect(400, "GET", own+"/users?cursor=x", "")
		desk.expect(404, "GET", "/directories/1/users", "")
		desk.expect(404, "GET", "/directories/x/users", "")
	})
}

func TestDeclaredDirectoryIsShownAndChangedByItsResourceAlone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(func(d *document.Directory) {
			d.GroupRoles = []document.GroupRole{{Group: "Engineering", Role: "developer"}, {Group: "Sales", Role: "deleted"}}
			d.Erases = true
		})
		role := w.role("developer", "Organization")
		desk := w.directoryDesk()
		own := "/directories/" + g.id
		user := g.adds("ann@globex.example")
		d := desk.expect(200, "GET", own, "")
		if d["source"] != "declared" || d["slug"] != "globex" || d["organization_id"] != g.organization || d["connection_id"] != g.connection || d["on_delete"] != "Erase" || d["users"] != 1.0 ||
			len(d["tokens"].([]any)) != 0 || d["last_request_at"] != nil || d["created_at"] == nil || fmt.Sprint(d["group_roles"]) != fmt.Sprintf("[map[group:Engineering role_id:%s]]", role) {
			t.Errorf("%v", d)
		}
		if got, _ := desk.pagesOf(own+"/users", "id"); !slices.Equal(got, []string{user}) {
			t.Errorf("users %v", got)
		}
		for _, op := range [][3]string{{"PATCH", own, `{"is_active":false}`}, {"DELETE", own, ""}, {"POST", own + "/tokens", `{}`}, {"DELETE", own + "/tokens/1", ""}} {
			for _, manages := range []bool{false, true} {
				if manages {
					w.managesConnections(nil)
				}
				if status, raw := desk.send(op[0], op[1], op[2]); status != 409 || !strings.Contains(raw, "the Directory resource acme/globex declares it") {
					t.Errorf("%s %s: %d %s", op[0], op[1], status, raw)
				}
			}
		}
		g.ok(200, "GET", "/Users", "")
		w.Withdraw(v1alpha1.KindDirectory, "acme", "globex")
		desk.expect(404, "GET", own, "")
		desk.expect(404, "PATCH", own, `{}`)
		desk.expect(404, "GET", own+"/users", "")
	})
}

func TestBackendManagesDirectoriesOfItsDeploymentAlone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.selfService()
		_, org, slug := w.customer("globex")
		declared := w.directory("globex", slug, nil)
		desk, reader := w.directoryDesk(), w.desk("reader", deploymentName, "directories:read", "users:read")
		other, foreign := w.desk("other", deploymentName, "connections:read", "connections:write", "users:read"), w.desk("foreign", anotherName, "*")
		own := desk.newDirectory(org, "")
		token, _ := desk.newToken(own, "")
		for _, path := range []string{own, "/directories/" + declared.id} {
			for _, op := range [][3]string{
				{"GET", path, ""}, {"GET", path + "/users", ""}, {"PATCH", path, `{"is_active":false}`}, {"DELETE", path, ""}, {"POST", path + "/tokens", `{}`}, {"DELETE", path + "/tokens/" + token, ""},
			} {
				foreign.expect(404, op[0], op[1], op[2])
				other.expect(403, op[0], op[1], op[2])
				if op[0] == "GET" {
					reader.expect(200, op[0], op[1], "")
				} else {
					reader.expect(403, op[0], op[1], op[2])
				}
			}
		}
		body := fmt.Sprintf(`{"organization_id":%q}`, org)
		foreign.expect(404, "POST", "/directories", body)
		reader.expect(403, "POST", "/directories", body)
		other.expect(403, "GET", "/directories", "")
		if got, _ := foreign.pagesOf("/directories", "id"); len(got) != 0 {
			t.Errorf("another deployment lists %v", got)
		}
		foreign.expect(404, "GET", "/directories?organization_id="+org, "")
	})
}

func TestDirectorySettingsAreChecked(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, org, _ := w.customer("globex")
		foreigner, foreignOrg, foreignSlug := w.customer("initech")
		p := w.provider()
		conn, foreign := owner.setUp(org, p, ""), foreigner.setUp(foreignOrg, p, "")
		declared := w.connection("initech", p, ofOrganization(foreignSlug))
		workspace := w.role("clerk", "Workspace")
		desk := w.directoryDesk()
		own := desk.newDirectory(org, fmt.Sprintf(`,"connection_id":%q`, conn))
		for more, pointer := range map[string]string{
			fmt.Sprintf(`"connection_id":%q`, foreign): "/connection_id", fmt.Sprintf(`"connection_id":%q`, declared): "/connection_id", `"connection_id":"1"`: "/connection_id",
			`"connection_id":"x"`: "/connection_id", `"connection_id":1`: "/connection_id", `"on_delete":"Delete"`: "/on_delete", `"on_delete":null`: "/on_delete", `"is_active":"yes"`: "/is_active",
			`"group_roles":[{"group":"Engineering","role_id":"7"}]`: "/group_roles", fmt.Sprintf(`"group_roles":[{"group":"Engineering","role_id":%q}]`, workspace): "/group_roles",
			`"group_roles":null`: "/group_roles", `"slug":"globex"`: "/slug", `"source":"declared"`: "/source",
		} {
			for method, path := range map[string]string{"POST": "/directories", "PATCH": own} {
				body := "{" + more + "}"
				if method == "POST" {
					body = fmt.Sprintf(`{"organization_id":%q,%s}`, org, more)
				}
				if status, raw := desk.send(method, path, body); status != 400 || !strings.Contains(raw, fmt.Sprintf(`"field":%q`, pointer)) {
					t.Errorf("%s %s: %d %s", method, body, status, raw)
				}
			}
		}
		desk.expect(400, "POST", "/directories", `{}`)
		desk.expect(400, "PATCH", own, fmt.Sprintf(`{"organization_id":%q}`, foreignOrg))
		desk.expect(404, "POST", "/directories", `{"organization_id":"1"}`)
		if d := desk.expect(200, "PATCH", own, `{}`); d["connection_id"] != conn || d["updated_at"] != d["created_at"] {
			t.Errorf("%v", d)
		}
		if d := desk.expect(200, "PATCH", own, `{"connection_id":null}`); d["connection_id"] != nil {
			t.Errorf("%v", d)
		}

		desk.newDirectory(org, "")
		if status, raw := desk.send("POST", "/directories", fmt.Sprintf(`{"organization_id":%q}`, org)); status != 409 || !strings.Contains(raw, "the maximum number of directories (2)") {
			t.Errorf("the third directory: %d %s", status, raw)
		}
		desk.newDirectory(foreignOrg, "")
		desk.expect(204, "DELETE", own, "")
		desk.newDirectory(org, "")
		w.DeclareB2B(document.B2BSettings{})
		desk.expect(403, "POST", "/directories", fmt.Sprintf(`{"organization_id":%q}`, foreignOrg))
	})
}

func TestSetupLinkOfABackendMayNameDirectories(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.managesConnections(nil)
		_, org, _ := w.customer("globex")
		path := "/organizations/" + org + "/setup-links"
		if l := w.directoryDesk().expect(200, "POST", path, `{"email":"it@globex.example","intents":["directory"]}`); fmt.Sprint(l["intents"]) != "[directory]" {
			w.T.Errorf("%v", l)
		}
	})
}

func TestConcurrentRequestsStayWithinTheBoundsOfDirectories(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		_, org, _ := w.customer("globex")
		desk := w.directoryDesk()
		accepted := func(path, body string) (n int) {
			statuses := make([]int, 8)
			var all sync.WaitGroup
			for i := range statuses {
				all.Go(func() { statuses[i], _ = desk.send("POST", path, body) })
			}
			all.Wait()
			for _, status := range statuses {
				switch status {
				case 200:
					n++
				case 409:
				default:
					t.Errorf("POST %s: %d", path, status)
				}
			}
			return n
		}
		if n := accepted("/directories", fmt.Sprintf(`{"organization_id":%q}`, org)); n != 2 {
			t.Errorf("%d directories were created", n)
		}
		all, _ := desk.pagesOf("/directories", "id")
		if n := accepted("/directories/"+all[0]+"/tokens", `{}`); n != 2 {
			t.Errorf("%d tokens were created", n)
		}
	})
}
