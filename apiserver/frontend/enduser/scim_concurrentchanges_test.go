package enduser_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Admins who add roles of groups at once do not remove each other's. Only a change with the state that its client has
// read is made, also of two changes at one time.
func TestConcurrentChangesOfGroupRolesAreAllMade(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		role := w.role("clerk", "Organization")
		owner, id, _ := w.customer("globex")
		w.Eventually("the role is known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 1 })
		own := directoriesOf(id) + "/" + owner.setsUpDirectory(id, `{}`).id
		const admins = 6
		var group sync.WaitGroup
		for n := range admins {
			b := w.browser()
			b.signIn("owner@globex.example")
			group.Go(func() {
				for range admins {
					now := b.do("GET", own, "").data()
					roles := fmt.Sprintf(`{"group":"Group %d","role_id":%q}`, n, role)
					for _, one := range now["group_roles"].([]any) {
						roles += fmt.Sprintf(`,{"group":%q,"role_id":%q}`, one.(map[string]any)["group"], role)
					}
					a := b.do("PATCH", own, fmt.Sprintf(`{"group_roles":[%s],"expected_updated_at":%q}`, roles, now["updated_at"]))
					if a.Status == http.StatusOK {
						return
					}
					if a.Status != http.StatusConflict || a.code() != "DIRECTORY_CHANGED" {
						t.Errorf("%s", a.Raw)
					}
				}
				t.Errorf("admin %d made no change", n)
			})
		}
		group.Wait()
		now := owner.ok("GET", own, "")
		if got := now["group_roles"].([]any); len(got) != admins {
			t.Errorf("%d of %d group roles are left: %v", len(got), admins, got)
		}
		owner.refused(400, "VALIDATION_ERROR", "PATCH", own, `{"is_active":false,"expected_updated_at":"yesterday"}`)
		owner.refused(409, "DIRECTORY_CHANGED", "PATCH", own, fmt.Sprintf(`{"is_active":false,"expected_updated_at":%q}`, w.Clock.Now().Add(-time.Hour).Format(time.RFC3339)))
		same := owner.ok("PATCH", own, fmt.Sprintf(`{"is_active":true,"expected_updated_at":%q}`, now["updated_at"]))
		if same["updated_at"] != now["updated_at"] || same["is_active"] != true {
			t.Errorf("%v was changed to %v", now, same)
		}
		if later := owner.ok("PATCH", own, `{"is_active":false}`); later["is_active"] != false || later["updated_at"] == now["updated_at"] {
			t.Errorf("%v was changed to %v", now, later)
		}
	})
}

// A backend's change is compared as an admin's is.
func TestBackendChangesOnlyTheDirectoryThatItRead(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		_, org, _ := w.customer("globex")
		desk := w.directoryDesk()
		own := desk.newDirectory(org, "")
		read := desk.expect(200, "GET", own, "")["updated_at"]
		change := fmt.Sprintf(`{"on_delete":%%q,"expected_updated_at":%q}`, read)
		desk.expect(200, "PATCH", own, fmt.Sprintf(change, "Erase"))
		desk.expect(409, "PATCH", own, fmt.Sprintf(change, "Keep"))
		if d := desk.expect(200, "GET", own, ""); d["on_delete"] != "Erase" {
			t.Errorf("%v", d)
		}
		desk.expect(400, "POST", "/directories", fmt.Sprintf(`{"organization_id":%q,"expected_updated_at":%q}`, org, read))
	})
}
