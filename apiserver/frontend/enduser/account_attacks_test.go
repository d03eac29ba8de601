package enduser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// A token that was planted or copied before a reset cannot choose the password, and ends with the reset.
func TestPasswordResetEndsTokens(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.signedUp("ada@example.com")
		attacker := w.browser()
		attacker.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"nobody@example.com"}`)
		planted := attacker.cookie()
		w.Clock.Advance(time.Second)
		victim := attacker.as(planted)
		attempt := victim.forgot("ada@example.com")
		victim.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		if victim.cookie() == planted {
			t.Fatal("the verification did not replace the token")
		}
		attacker.as(planted).refused(400, "INVALID_ATTEMPT", "POST", "/auth/reset-password", resetBody(attempt, "the attacker's own choice", ""))

		// The same in a session with a sign-in whose token was copied.
		ada := w.browser()
		ada.signIn("ada@example.com")
		w.Clock.Advance(time.Minute)
		copied := ada.cookie()
		attempt = ada.forgot("ada@example.com")
		ada.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 3)))
		ada.ok("POST", "/auth/reset-password", resetBody(attempt, newPassword, ""))
		if !ada.alive() || ada.as(copied).alive() {
			t.Error("a copy of the token outlives the reset, or the session does not")
		}
	})
}

// A copied token creates a sibling token, whose use is not detected as reuse. Operations that end other sessions must
// end the sibling token too.
func TestSiblingOfCopiedTokenEndsWithOtherSessions(t *testing.T) {
	onSQLite(t, func(w *world) {
		for i, end := range []func(b *browser, email string){
			func(b *browser, _ string) {
				b.ok("POST", "/me/update-password", updateBody(goodPassword, newPassword, ""))
			},
			func(b *browser, _ string) {
				b.ok("DELETE", "/me/password", fmt.Sprintf(`{"current_password":%q}`, goodPassword))
			},
			func(b *browser, _ string) { b.ok("POST", "/me/signins/signout-others", `{}`) },
		} {
			email := fmt.Sprintf("ada%d@example.com", i)
			b, _ := w.signedUp(email)
			thief := b.as(b.cookie())
			thief.ok("GET", "/session", "")
			signIn := thief.last.Body.Session.ActiveSignIn["id"].(string)
			thief.ok("POST", "/session/switch-sign-in", fmt.Sprintf(`{"signin_id":%q}`, signIn))
			if thief.cookie() == b.cookie() {
				t.Fatal("the thief has no sibling")
			}
			end(b, email)
			if thief.alive() || !b.alive() {
				t.Errorf("%d: the thief's sibling token is still valid, or the owner is signed out", i)
			}
		}
	})
}

// An address is removed from its account while a code that was sent to it is pending.
func TestRemovedAddressVerifiesNothing(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("old@example.com")
		second := b.addsAddress("new@example.com")
		thief := b.as(b.cookie())
		thief.ok("POST", "/session/reauthenticate", `{"strategy":"email_otp"}`)
		attempt := thief.last.Body.Session.SignInAttempts[0]["id"].(string)
		code := w.CodeFor("old@example.com", 2)
		b.ok("POST", "/me/email-addresses/"+second+"/make-primary", `{}`)
		for _, e := range b.list("/me/email-addresses") {
			if e["email"] == "old@example.com" {
				b.ok("DELETE", "/me/email-addresses/"+e["id"].(string), "")
			}
		}
		mails := w.count("SELECT COUNT(*) FROM outbox WHERE recipient = 'old@example.com' AND state <> 'void'")
		thief.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, code))
		w.Clock.Advance(time.Minute)
		thief.ok("POST", "/auth/prepare-verification", fmt.Sprintf(`{"signin_attempt_id":%q}`, attempt))
		if now := w.count("SELECT COUNT(*) FROM outbox WHERE recipient = 'old@example.com' AND state <> 'void'"); now != mails {
			t.Error("a code was sent to an address that is no longer the account's")
		}
	})
}

// addsAddress adds an address and verifies it.
func (b *browser) addsAddress(address string) string {
	b.w.T.Helper()
	id := b.ok("POST", "/me/email-addresses", fmt.Sprintf(`{"email":%q}`, address))["id"].(string)
	b.ok("POST", "/me/email-addresses/"+id+"/prepare-verification", `{}`)
	b.ok("POST", "/me/email-addresses/"+id+"/attempt-verification", codeBody(b.w.CodeFor(address, 1)))
	return id
}

// An attacker with the password and the owner's open session, but without the mailbox, adds an own address and signs in
// with it: the owner is notified.
func TestOwnerIsNotifiedOfAddressVerifiedBySignIn(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		thief, _ := w.signedUp("ada@example.com")
		thief.ok("POST", "/me/email-addresses", `{"email":"thief@evil.example"}`)
		again := w.browser()
		again.ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"thief@evil.example","password":%q}`, goodPassword))
		attempt := again.last.Body.Session.SignInAttempts[0]["id"].(string)
		again.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("thief@evil.example", 1)))
		w.notices("ada@example.com", "thief@evil.example was added to your account", 1)
	})
}

// Invitations of deleted organizations still count, so that deleting organizations does not reset the limit.
func TestInvitationsOfDeletedOrganizationsCount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		invite := func(organization string, want int) {
			t.Helper()
			if a := b.do("POST", "/organizations/"+organization+"/invitations", `{"email":"victim@example.com"}`); a.Status != want {
				t.Errorf("inviting: %s, want %d", a.Raw, want)
			}
		}
		first := b.organization("First")
		for range 5 {
			invite(first, 200)
		}
		token := w.InvitationFor("victim@example.com", 1)
		b.ok("DELETE", "/organizations/"+first, fmt.Sprintf(`{"confirmation":%q}`, w.Numbered("first")))
		w.browser().refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/lookup", fmt.Sprintf(`{"token":%q}`, token))
		invite(b.organization("Second"), 429)
	})
}

// A code to an address of another account counts as a code for an unknown client, even if the user added the address.
func TestCodesToAddressesOfOtherUsersCountAsUnknownClients(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("victim@example.com")
		sent := 0
		for i := range 6 {
			b, _ := w.signedUp(fmt.Sprintf("throwaway%d@example.com", i))
			id := b.ok("POST", "/me/email-addresses", `{"email":"victim@example.com"}`)["id"].(string)
			for range 10 {
				w.Clock.Advance(16 * time.Minute)
				if a := b.do("POST", "/me/email-addresses/"+id+"/prepare-verification", `{}`); a.Status == 200 {
					sent++
				} else if a.code() != "RATE_LIMITED" {
					t.Fatal(string(a.Raw))
				}
			}
		}
		if sent != 9 { // of ten for the network: the sign-up used one
			t.Errorf("%d codes were sent to an address from one network in a day, want 9", sent)
		}
	})
}

// Polling an attempt reveals nothing about later changes of the account.
func TestAttemptsRevealNothingAboutTheAccount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		ada, _ := w.signedUp("ada@example.com")
		unrelated, unknown := w.browser(), w.browser()
		a, u := unrelated.forgot("ada@example.com"), unknown.forgot("nobody@example.com")
		code := w.CodeFor("ada@example.com", 2)
		same := func(when string) {
			t.Helper()
			listed := func(b *browser) int {
				b.ok("GET", "/session", "")
				return len(b.last.Body.Session.SignInAttempts)
			}
			if one, two := listed(unrelated), listed(unknown); one != two || one != 1 {
				t.Errorf("%s: %d attempts are listed, of an unknown address %d", when, one, two)
			}
			one := unrelated.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, a, code))
			two := unknown.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, u, code))
			if one.code() != two.code() || one.code() != "INVALID_CODE" {
				t.Errorf("%s: %s, of an unknown address %s", when, one.Raw, two.Raw)
			}
		}
		ada.ok("POST", "/me/update-password", updateBody(goodPassword, newPassword, ""))
		same("after the password was changed")
		ada.ok("DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`)
		same("after the account was deleted")
	})
}

func TestPromotionKeepsTheBoundOfOwnedOrganizations(t *testing.T) {
	onSQLite(t, func(w *world) {
		two := int64(2)
		w.DeclareB2B(document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, MaxOrganizationsPerUser: &two})
		ada, _ := w.signedUp("ada@example.com")
		w.Eventually("the bound is known", func() bool {
			a := ada.do("POST", "/organizations", `{"name":"One"}`)
			return a.code() == "ORGANIZATION_LIMIT_REACHED"
		})
		eve, _ := w.signedUp("eve@example.com")
		one := eve.organization("Eve's")
		_, adas, _ := w.joinsAs(eve, one, ada)
		eve.refused(400, "ORGANIZATION_LIMIT_REACHED", "PATCH", "/organizations/"+one+"/members/"+adas, `{"owner":true}`)
	})
}

// joinsAs makes an existing user a member of an organization.
func (w *world) joinsAs(owner *browser, organization string, b *browser) (_ *browser, membership, user string) {
	w.T.Helper()
	me := b.ok("GET", "/me", "")
	email := me["email"].(string)
	owner.ok("POST", "/organizations/"+organization+"/invitations", fmt.Sprintf(`{"email":%q}`, email))
	accepted := b.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor(email, 1)))
	return b, accepted["membership"].(map[string]any)["id"].(string), me["id"].(string)
}

// A manager of a workspace who omits the role in a request does not thereby grant a default role beyond the manager's
// permissions.
func TestAssignedWorkspaceRoleNeedsItsPermissions(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.manageable()
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		manager := w.role("manager", "Workspace", "workspace:manage")
		w.role("editor", "Workspace", "documents:read")
		w.DeclareB2B(document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, WorkspaceRole: "editor"})
		bob, _, bobID := w.joins(owner, organization, "bob@example.com")
		_, _, eveID := w.joins(owner, organization, "eve@example.com")
		made := owner.ok("POST", "/workspaces", fmt.Sprintf(`{"name":"Research","organization_id":%q}`, organization))
		path := "/workspaces/" + made["workspace"].(map[string]any)["id"].(string) + "/members"
		w.Eventually("the role is known", func() bool {
			return owner.do("POST", path, fmt.Sprintf(`{"user_id":%q,"role_id":%q}`, bobID, manager)).Status == 200
		})
		if eves := bob.ok("POST", path, fmt.Sprintf(`{"user_id":%q}`, eveID)); eves["role"] != nil {
			t.Errorf("a manager granted a role whose permissions they lack: %v", eves)
		}
		_, _, dansID := w.joins(owner, organization, "dan@example.com")
		if dans := owner.ok("POST", path, fmt.Sprintf(`{"user_id":%q}`, dansID)); dans["role"].(map[string]any)["name"] != "editor" {
			t.Errorf("a member that an owner added has not the default role: %v", dans)
		}
	})
}

func TestAccountChangesAreBoundedPerDay(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		before := w.count("SELECT COUNT(*) FROM audit")
		for i := range 120 {
			a := b.do("PATCH", "/me", fmt.Sprintf(`{"first_name":"Ada %d"}`, i))
			if want := map[bool]int{true: 200, false: 429}[i < 100]; a.Status != want {
				t.Fatalf("change %d: %s", i, a.Raw)
			}
		}
		if n := w.count("SELECT COUNT(*) FROM audit") - before; n != 100 {
			t.Errorf("%d audit records", n)
		}
		// This limit affects neither other changes of the owner nor the removal of addresses.
		second := b.addsAddress("second@example.com")
		b.ok("POST", "/me/email-addresses/"+second+"/make-primary", `{}`)
		for i := range 120 {
			a := b.do("POST", "/me/email-addresses", fmt.Sprintf(`{"email":"more%d@example.com"}`, i))
			if want := map[bool]int{true: 200, false: 429}[i < 99]; a.Status != want {
				t.Fatalf("address %d: %s", i, a.Raw)
			}
			if a.Status == 200 {
				b.ok("DELETE", "/me/email-addresses/"+a.data()["id"].(string), "")
			}
		}
		for _, e := range b.list("/me/email-addresses") {
			if e["email"] == "ada@example.com" {
				b.ok("DELETE", "/me/email-addresses/"+e["id"].(string), "")
			}
		}
		w.Clock.Advance(24 * time.Hour)
		b = w.browser()
		b.signIn("second@example.com")
		b.ok("PATCH", "/me", `{"first_name":"Ada"}`)
	})
}

// Texts still count for the network that requested them after the account was deleted.
func TestTextsOfDeletedAccountsCount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		id := b.ok("POST", "/me/phone-numbers", `{"phone_number":"+12125550100"}`)["id"].(string)
		b.ok("POST", "/me/phone-numbers/"+id+"/prepare-verification", `{}`)
		b.ok("DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`)
		w.tx(func(tx people.Tx) error {
			sends, err := tx.Limits().Sends(people.SendFilter{Channel: people.ChannelSMS, Client: b.address}, w.Clock.Now().Add(-time.Hour))
			if err == nil && len(sends) != 1 {
				t.Errorf("%d texts are counted for the client", len(sends))
			}
			return err
		})
		if n := w.count("SELECT COUNT(*) FROM sends WHERE channel = 'sms' AND (user_id <> 0 OR recipient <> '')"); n != 0 {
			t.Error("the user or the number of a text is still stored")
		}
	})
}

// A new password ends pending verifications of addresses and numbers in all sessions.
func TestNewPasswordEndsPendingVerifications(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		thief := w.browser()
		thief.signIn("ada@example.com")
		thief.proveByCode("ada@example.com", 2)
		email := thief.ok("POST", "/me/email-addresses", `{"email":"thief@evil.example"}`)["id"].(string)
		thief.ok("POST", "/me/email-addresses/"+email+"/prepare-verification", `{}`)
		phone := thief.ok("POST", "/me/phone-numbers", `{"phone_number":"+12125550100"}`)["id"].(string)
		thief.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
		b.ok("POST", "/me/update-password", updateBody(goodPassword, newPassword, `,"sign_out_others":false`))
		thief.refused(400, "EXPIRED_CODE", "POST", "/me/email-addresses/"+email+"/attempt-verification", codeBody(w.CodeFor("thief@evil.example", 1)))
		thief.refused(400, "EXPIRED_CODE", "POST", "/me/phone-numbers/"+phone+"/attempt-verification", codeBody("123456"))
	})
}
