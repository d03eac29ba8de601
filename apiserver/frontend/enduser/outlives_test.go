package enduser_test

import (
	"fmt"
	"testing"
	"time"
)

// An attacker with a copy of an old session cannot create anything that outlives the session. The owner is notified of
// new keys and new owners.

func TestAPIKeyNeedsRecentAuthenticationAndSendsMail(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.keyApps(10)
		ada, _ := w.signedUp("ada@example.com")
		w.Clock.Advance(2 * time.Hour)
		ada.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/me/api-keys", laptop)
		ada.reauthenticate()
		ada.makesKey(laptop)
		w.notices("ada@example.com", "An API key that acts for you was created: “Laptop”.", 1)
	})
}

func TestOwnershipNeedsRecentAuthenticationAndSendsMail(t *testing.T) {
	onSQLite(t, func(w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		eve, eves, _ := w.joins(owner, organization, "eve@example.com")
		path := "/organizations/" + organization + "/members/"
		own, asked := `{"owner":true}`, func(b *browser, what string) {
			b.refused(403, "REAUTHENTICATION_REQUIRED", "PATCH", path+eves, what)
		}
		w.Clock.Advance(2 * time.Hour)
		asked(owner, own)
		owner.ok("PATCH", path+eves, `{"role_id":null}`) // no change of ownership
		owner.reauthenticate()
		owner.ok("PATCH", path+eves, own)
		w.notices("eve@example.com", "You are an owner of the organization “Org” now.", 1)
		w.notices("owner@example.com", " is an owner of the organization “Org” now.", 1)
		owner.ok("PATCH", path+eves, own) // unchanged: no notification
		w.notices("eve@example.com", "You are an owner", 1)

		w.Clock.Advance(2 * time.Hour)
		asked(owner, `{"owner":false}`)
		owner.refused(403, "REAUTHENTICATION_REQUIRED", "DELETE", path+eves, `{}`)
		if !eve.member(organization) {
			t.Error("a refused removal took effect")
		}
		owner.reauthenticate()
		owner.ok("DELETE", path+eves, `{}`)
		w.notices("eve@example.com", "You were removed from the organization “Org”.", 1)
		w.notices("owner@example.com", ", an owner, was removed from the organization “Org”.", 1)

		// The removal of a member without ownership needs no recent authentication, and also sends a notification.
		bob, bobs, _ := w.joins(owner, organization, "bob@example.com")
		w.Clock.Advance(2 * time.Hour)
		owner.ok("DELETE", path+bobs, `{}`)
		w.notices("bob@example.com", "You were removed from the organization “Org”.", 1)
		if bob.member(organization) {
			t.Error("a removed member is still a member")
		}
	})
}

// member reports whether the browser's account is a member of an organization.
func (b *browser) member(organization string) bool {
	for _, m := range b.list("/me/organization-memberships") {
		if m["organization"].(map[string]any)["id"] == organization {
			return true
		}
	}
	return false
}

func TestPasswordResetEndsAPIKeysByDefault(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.keyApps(10)
		for i, tc := range []struct {
			more string
			left int
		}{{"", 0}, {`,"revoke_access":false`, 1}, {`,"sign_out_others":false`, 1}, {`,"sign_out_others":false,"revoke_access":true`, 0}} {
			email := fmt.Sprintf("ada%d@example.com", i)
			ada, _ := w.signedUp(email)
			ada.makesKey(laptop)
			w.Clock.Advance(time.Minute)
			b := w.browser()
			attempt := b.forgot(email)
			b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor(email, 2)))
			b.ok("POST", "/auth/reset-password", resetBody(attempt, newPassword, tc.more))
			b.ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%q,"password":%q}`, email, newPassword))
			if keys := b.list("/me/api-keys"); len(keys) != tc.left {
				t.Errorf("%q: %d keys are left, want %d", tc.more, len(keys), tc.left)
			}
		}
		if n := w.audited("api_key.revoked"); n != 2 {
			t.Errorf("%d revocations are audited, want 2", n)
		}
	})
}
