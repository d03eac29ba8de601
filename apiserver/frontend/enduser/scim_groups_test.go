package enduser_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// mapped gives the groups Engineering and Support roles.
func mapped(d *document.Directory) {
	d.GroupRoles = []document.GroupRole{{Group: "Engineering", Role: "developer"}, {Group: "Support", Role: "helper"}}
}

func TestGroupsOfADirectoryGiveRoles(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.role("developer", "Organization", "billing:read")
		w.role("helper", "Organization")
		g := w.globex(mapped)
		ann, bob := g.adds("ann@globex.example"), g.adds("bob@globex.example")
		expect := func(what, wantAnn, wantBob string) {
			t.Helper()
			gotAnn, _ := g.owner.memberAt(g.organization, "ann@globex.example")
			gotBob, _ := g.owner.memberAt(g.organization, "bob@globex.example")
			if gotAnn != wantAnn || gotBob != wantBob {
				t.Errorf("%s: roles %q and %q, want %q and %q", what, gotAnn, gotBob, wantAnn, wantBob)
			}
		}
		expect("without groups", "", "")
		support := g.group("Support", ann, bob)
		expect("both in Support", "helper", "helper")
		engineering := g.group("Engineering", ann)
		expect("the first group role counts", "developer", "helper")
		g.patches("/Groups/"+engineering, fmt.Sprintf(`{"op":"add","path":"members","value":[{"value":%q}]}`, bob))
		expect("added", "developer", "developer")
		g.patches("/Groups/"+engineering, fmt.Sprintf(`{"op":"remove","path":"members[value eq \"%s\"]"}`, ann))
		expect("removed", "helper", "developer")
		g.patches("/Groups/"+engineering, fmt.Sprintf(`{"op":"replace","value":{"id":%q,"displayName":"Engineers"}}`, engineering))
		expect("renamed to a group without a role", "helper", "helper")
		g.patches("/Groups/"+engineering, `{"op":"Replace","path":"displayName","value":"Engineering"}`)
		expect("renamed back", "helper", "developer")
		g.activates(bob, false)
		g.patches("/Groups/"+support, fmt.Sprintf(`{"op":"Remove","path":"members","value":[{"$ref":null,"value":%q}]}`, ann))
		g.activates(bob, true)
		expect("activated", "", "developer")
		g.ok(http.StatusNoContent, "DELETE", "/Groups/"+engineering, "")
		expect("deleted", "", "helper")
		g.ok(http.StatusNoContent, "DELETE", "/Users/"+bob, "")
		if got := g.ok(http.StatusOK, "GET", "/Groups/"+support, ""); got["members"] != nil && len(got["members"].([]any)) != 0 {
			t.Errorf("a deleted user is in a group: %v", got)
		}
	})
}

func TestRolesOfTheProviderYieldToGroupsOfTheDirectory(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.role("developer", "Organization", "billing:read")
		w.role("helper", "Organization")
		g := w.globex(mapped)
		g.group("Support", g.adds("ann@globex.example"))
		w.connection("globex", g.provider, func(c *document.Connection) {
			ofOrganization(g.document.Organization, "globex.example")(c)
			c.Membership.RoleExpression = `["developer"]`
		})
		w.browser().sso(g.connection, g.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		if role, _ := g.owner.memberAt(g.organization, "ann@globex.example"); role != "helper" {
			t.Errorf("role %q after a sign-in", role)
		}
	})
}

func TestHalfFailedPatchChangesNothing(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		ann := g.adds("ann@globex.example")
		staff := g.group("Staff", ann)
		for _, operations := range []string{
			`{"op":"replace","path":"displayName","value":"Other"},{"op":"add","path":"members","value":[{"value":"404"}]}`,
			`{"op":"remove","path":"members"},{"op":"replace","path":"nothing","value":1}`,
		} {
			if a := g.do("PATCH", "/Groups/"+staff, `{"Operations":[`+operations+`]}`); a.Status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", operations, a.Status, a.Raw)
			}
		}
		got := g.ok(http.StatusOK, "GET", "/Groups/"+staff, "")
		if got["displayName"] != "Staff" || len(got["members"].([]any)) != 1 || got["meta"].(map[string]any)["version"] != `W/"1"` {
			t.Errorf("%v", got)
		}
		g.refused(http.StatusBadRequest, "invalidValue", "POST", "/Groups", `{"displayName":"X","members":[{"value":"404"}]}`)
		g.refused(http.StatusConflict, "uniqueness", "POST", "/Groups", `{"displayName":"staff"}`)
		if got := g.ok(http.StatusOK, "GET", "/Groups?filter=displayName+eq+%22STAFF%22&excludedAttributes=members", ""); got["totalResults"] != 1.0 {
			t.Errorf("%v", got)
		}
		if got := g.ok(http.StatusOK, "GET", "/Groups?filter=members.value+eq+%22"+ann+"%22", ""); got["totalResults"] != 1.0 {
			t.Errorf("%v", got)
		}
		if got := g.ok(http.StatusOK, "GET", "/Users/"+ann, "")["groups"].([]any); len(got) != 1 || got[0].(map[string]any)["display"] != "Staff" {
			t.Errorf("groups %v", got)
		}
		if a := g.do("PATCH", "/Groups/"+staff+"?excludedAttributes=members", `{"Operations":[{"op":"remove","path":"members"}]}`); a.Status != http.StatusNoContent || a.Raw != "" {
			t.Errorf("%d %s", a.Status, a.Raw)
		}
	})
}
