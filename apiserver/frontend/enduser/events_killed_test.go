package enduser_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/events"
)

// causedBy counts the events of a type that the user caused, with and without a number.
func causedBy(t events.Type) string {
	return "SELECT count(*) FROM (SELECT type, actor FROM event_log_new UNION ALL SELECT type, actor FROM event_log) e WHERE type = '" + string(t) + "' AND actor = 'user:$user'"
}

// A server that is killed at any statement of a change leaves the change with its audit record and its event, or none
// of them. To save time, each engine takes every fourth statement, as TestFactorsAreAtomicWhenServerIsKilled does.
func TestChangesAreAtomicWithTheirEventsWhenServerIsKilled(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		first, step, most := w.killedAt()
		ada, bob := w.members("ada", most, 0, false), w.members("bob", most, most, false)
		support := w.desk("support", deploymentName, "users:read", "users:write")
		w.Server.Close()
		k := w.Killable()
		const memberships = "SELECT count(*) FROM organization_memberships WHERE user_id = $user"
		for _, story := range []killedStory{
			{
				what: "a changed name", members: ada, signedIn: true,
				columns: []string{"SELECT count(*) FROM users WHERE id = $user AND first_name = 'Changed'", auditsOf("user.renamed"), loggedOf(events.UserUpdated)},
				request: func(*member) killedRequest {
					return killedRequest{method: http.MethodPatch, path: "/me", body: `{"first_name":"Changed"}`}
				},
			},
			{
				what: "a created organization", members: ada, signedIn: true,
				columns: []string{memberships, auditsOf("organization.created"), causedBy(events.OrganizationCreated), loggedOf(events.MembershipCreated)},
				request: func(*member) killedRequest {
					return killedRequest{path: "/organizations", body: `{"name":"Acme"}`}
				},
			},
			{
				what: "a changed password", members: ada, signedIn: true,
				columns: []string{mailsTo, auditsOf("user.password_changed"), loggedOf(events.UserPasswordChanged)},
				request: func(*member) killedRequest {
					return killedRequest{path: "/me/update-password", body: updateBody(goodPassword, newPassword, "")}
				},
			},
			{
				what: "a sign-in with a password", members: bob,
				columns: []string{signInsOf, eventsOf, auditsOf("session.signed_in"), loggedOf(events.SessionCreated)},
				request: func(m *member) killedRequest {
					return killedRequest{path: "/auth/signin", body: fmt.Sprintf(`{"strategy":"password","email":%q,"password":%q}`, m.email, goodPassword)}
				},
			},
			{
				what: "a disabled user", members: bob,
				columns: []string{"SELECT disabled FROM users WHERE id = $user", signInsOf, auditsOf("user.disabled"), loggedOf(events.UserDisabled)},
				request: func(m *member) killedRequest {
					return killedRequest{method: http.MethodPatch, path: "/users/" + m.id, body: `{"disabled":true}`, key: support.key}
				},
			},
			{
				what: "a deleted user", members: ada,
				columns: []string{"SELECT count(*) FROM users WHERE id = $user", signInsOf, auditsOf("user.deleted"), loggedOf(events.UserDeleted)},
				request: func(m *member) killedRequest {
					return killedRequest{method: http.MethodDelete, path: "/users/" + m.id, key: support.key, want: http.StatusNoContent}
				},
			},
		} {
			story.run(w, k, first, step)
		}
	})
}
