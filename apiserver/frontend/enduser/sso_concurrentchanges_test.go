package enduser_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// Admins who add mappings at once do not remove each other's. Only a change with the state that its client has read is
// made, also of two changes at one time.
func TestConcurrentChangesOfRoleMappingsAreAllMade(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		role := w.role("clerk", "Organization")
		owner, id, _ := w.customer("globex")
		w.Eventually("the role is known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 1 })
		own := "/organizations/" + id + "/connections/" + owner.setUp(id, w.provider(), "")
		const admins = 6
		var group sync.WaitGroup
		for n := range admins {
			b := w.browser()
			b.signIn("owner@globex.example")
			group.Go(func() {
				for range admins {
					now := b.do("GET", own, "").data()
					mappings := fmt.Sprintf(`{"claim":"groups","value":"Group %d","role_id":%q}`, n, role)
					for _, one := range now["role_mappings"].([]any) {
						mappings += fmt.Sprintf(`,{"claim":"groups","value":%q,"role_id":%q}`, one.(map[string]any)["value"], role)
					}
					a := b.do("PATCH", own, fmt.Sprintf(`{"role_mappings":[%s],"expected_updated_at":%q}`, mappings, now["updated_at"]))
					if a.Status == http.StatusOK {
						return
					}
					if a.Status != http.StatusConflict || a.code() != "CONNECTION_CHANGED" {
						t.Errorf("%s", a.Raw)
					}
				}
				t.Errorf("admin %d made no change", n)
			})
		}
		group.Wait()
		now := owner.ok("GET", own, "")
		if got := now["role_mappings"].([]any); len(got) != admins {
			t.Errorf("%d of %d mappings are left: %v", len(got), admins, got)
		}
		owner.refused(400, "VALIDATION_ERROR", "PATCH", own, `{"is_active":false,"expected_updated_at":"yesterday"}`)
		owner.refused(409, "CONNECTION_CHANGED", "PATCH", own, fmt.Sprintf(`{"is_active":false,"expected_updated_at":%q}`, w.Clock.Now().Add(-time.Hour).Format(time.RFC3339)))
		same := owner.ok("PATCH", own, fmt.Sprintf(`{"is_active":true,"expected_updated_at":%q}`, now["updated_at"]))
		if same["updated_at"] != now["updated_at"] || same["is_active"] != true {
			t.Errorf("%v was changed to %v", now, same)
		}
		if later := owner.ok("PATCH", own, `{"is_active":false}`); later["is_active"] != false || later["updated_at"] == now["updated_at"] {
			t.Errorf("%v was changed to %v", now, later)
		}
	})
}

// A backend's change is compared as an admin's is, before anything that it ends.
func TestBackendChangesOnlyTheConnectionThatItRead(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, org, _ := w.customer("globex")
		p := w.provider()
		own := "/connections/" + owner.setUp(org, p, "")
		desk := w.desk("connections", deploymentName, "connections:read", "connections:write")
		read := desk.expect(200, "GET", own, "")["updated_at"]
		change := fmt.Sprintf(`{"display_name":%%q,"expected_updated_at":%q}`, read)
		desk.expect(200, "PATCH", own, fmt.Sprintf(change, "Initech"))
		desk.expect(409, "PATCH", own, fmt.Sprintf(change, "Hooli"))
		desk.expect(409, "PATCH", own, fmt.Sprintf(`{"issuer":"https://idp.hooli.example","confirmation":"Initech","expected_updated_at":%q}`, read))
		if c := desk.expect(200, "GET", own, ""); c["display_name"] != "Initech" || c["issuer"] != p.URL {
			t.Errorf("%v", c)
		}
		desk.expect(400, "POST", "/connections", newConnection(p, fmt.Sprintf(`,"organization_id":%q,"expected_updated_at":%q`, org, read)))
	})
}
