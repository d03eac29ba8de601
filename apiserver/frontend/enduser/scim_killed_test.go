package enduser_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/events"
)

// A server that is killed at any statement of a directory's change leaves all of it, with what it does to account and
// membership, or nothing. To save time, each engine takes every fourth statement, as
// TestFactorsAreAtomicWhenServerIsKilled does.
func TestProvisioningIsAtomicWhenServerIsKilled(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		first, step, most := w.killedAt()
		_, _, slug := w.customer("globex")
		w.connection("globex", w.provider(), ofOrganization(slug, "example.com"))
		d := w.directory("globex", slug, nil)
		d.ok(http.StatusOK, "GET", "/Users", "")
		entering, leaving, gone := w.members("entering", most, 0, false), w.members("leaving", most, most, false), w.members("gone", most, 2*most, false)
		ids := map[*member]string{}
		for _, m := range append(leaving[:most:most], gone...) {
			ids[m] = d.adds(m.email)
		}
		w.Server.Close()
		k := w.Killable()
		request := func(method, path, body string, want int) killedRequest {
			return killedRequest{method: method, path: "/scim/v2/" + d.id + path, body: body, token: d.token, want: want}
		}
		const (
			isMember  = "SELECT count(*) FROM organization_memberships WHERE user_id = $user"
			suspended = "SELECT count(*) FROM suspended_memberships WHERE user_id = $user"
			disabled  = "SELECT disabled FROM users WHERE id = $user"
			users     = "SELECT count(*) FROM scim_users WHERE user_id = $user"
			all       = "SELECT user_count FROM directories"
		)
		for _, story := range []killedStory{
			{
				what: "an added user", members: entering, columns: []string{users, all, isMember, loggedOf(events.MembershipCreated)},
				request: func(m *member) killedRequest {
					return request(http.MethodPost, "/Users", fmt.Sprintf(`{"userName":%q,"emails":[{"value":%q,"type":"work","primary":true}]}`, m.email, m.email), http.StatusCreated)
				},
			},
			{
				what: "a deactivation", members: leaving, signedIn: true,
				columns: []string{"SELECT active FROM scim_users WHERE user_id = $user", isMember, suspended, disabled, signInsOf, auditsOf("scim.user.suspended"), auditsOf("user.disabled"), loggedOf(events.UserDisabled), loggedOf(events.MembershipDeleted)},
				request: func(m *member) killedRequest {
					return request(http.MethodPatch, "/Users/"+ids[m], `{"Operations":[{"op":"replace","path":"active","value":false}]}`, http.StatusOK)
				},
			},
			{
				what: "a deletion", members: gone, signedIn: true, columns: []string{users, all, isMember, suspended, disabled, signInsOf, auditsOf("user.disabled"), loggedOf(events.UserDisabled)},
				request: func(m *member) killedRequest {
					return request(http.MethodDelete, "/Users/"+ids[m], "", http.StatusNoContent)
				},
			},
		} {
			story.run(w, k, first, step)
		}
	})
}
