package enduser_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
)

func TestChangesOfOwnKeysLogEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.keyApps(10)
		b, user := w.signedUp("ada@example.com")
		var id, secret string
		created := w.happens(func() { id, secret = b.makesKey(laptop) }, events.APIKeyCreated)[0]
		if want := fmt.Sprintf(`{"app_slug":"shop","last4":%q,"source":"http","user_id":%q}`, secret[len(secret)-4:], user); created.Data != want || created.SubjectID != id || created.Actor != "user:"+user {
			t.Errorf("%+v, want %s", created, want)
		}
		revoked := w.happens(func() { b.ok("DELETE", "/me/api-keys/"+id, "") }, events.APIKeyRevoked)[0]
		if revoked.SubjectType != "api_key" || revoked.SubjectID != id || revoked.Data != created.Data {
			t.Errorf("%+v", revoked)
		}
		b.makesKey(laptop)
		reader := w.browser()
		attempt := reader.forgot("ada@example.com")
		reader.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		w.happens(func() { reader.ok("POST", "/auth/reset-password", resetBody(attempt, newPassword, "")) },
			events.SessionRevoked, events.UserPasswordReset, events.APIKeyRevoked)
		for _, e := range w.logged(0) {
			if strings.Contains(e.Data, secret) || strings.Contains(e.Data, "Laptop") {
				t.Errorf("%s has a secret, or the name of a key: %s", e.Type, e.Data)
			}
		}
	})
}

func TestDecisionsOnApprovalsLogEvents(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		tool := w.DeclareApprovable(nil)
		b, user := w.signedUp("ada@example.com")
		first, second, third := tool.Ask(byUser(user), cancels), tool.Ask(byUser(user), `{"number":"1008"}`), tool.Ask(byUser(user), `{"number":"1009"}`)
		approved := w.happens(func() { b.ok("POST", approvalPath(first)+"/approve", seen(first)) }, events.ApprovalApproved)[0]
		want := fmt.Sprintf(`{"agent_id":"%d","tool_id":"%d","user_id":%q}`, tool.Agent, tool.Tool, user)
		if approved.SubjectType != "agent_approval" || fmt.Sprint(first.ID) != approved.SubjectID || approved.Data != want || approved.Actor != "user:"+user {
			t.Errorf("%+v, want %s", approved, want)
		}
		w.happens(func() { b.do("POST", approvalPath(first)+"/deny", `{}`) })
		w.happens(func() { b.ok("POST", approvalPath(second)+"/deny", `{}`) }, events.ApprovalDenied)
		w.happens(func() { w.purge(w.Clock.Now()) })
		w.Clock.Advance(24 * time.Hour)
		expired := w.happens(func() { w.purge(w.Clock.Now()) }, events.ApprovalExpired, events.ApprovalExpired)
		if ids := []string{expired[0].SubjectID, expired[1].SubjectID}; !slices.Contains(ids, fmt.Sprint(first.ID)) || !slices.Contains(ids, fmt.Sprint(third.ID)) || expired[0].Actor != "system" {
			t.Errorf("%+v", expired)
		}
		w.happens(func() { w.purge(w.Clock.Now()) })
	})
}
