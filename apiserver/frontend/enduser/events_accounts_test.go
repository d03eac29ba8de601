package enduser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/store/people"
)

func TestChangesOfPhonesLogEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		var first, second string
		added := w.happens(func() { first = b.addPhone(number) }, events.UserPhoneAdded)[0]
		if want := fmt.Sprintf(`{"phone_id":%q}`, first); added.Data != want || added.SubjectID != user || added.Actor != "user:"+user {
			t.Errorf("%+v", added)
		}
		code := b.prepare(first, number, 1)
		w.happens(func() { b.refused(400, "INVALID_CODE", "POST", verifyPath(first), codeBody(wrong(code))) })
		w.happens(func() { b.ok("POST", verifyPath(first), codeBody(code)) }, events.UserPhoneVerified, events.UserPhonePrimaryChanged)
		w.happens(func() { second = b.addPhone("+12025550124") }, events.UserPhoneAdded)
		code = b.prepare(second, "+12025550124", 1)
		w.happens(func() { b.ok("POST", verifyPath(second), codeBody(code)) }, events.UserPhoneVerified)
		path := "/me/phone-numbers/"
		w.happens(func() { b.ok("POST", path+second+"/make-primary", `{}`) }, events.UserPhonePrimaryChanged)
		w.happens(func() { b.ok("POST", path+second+"/make-primary", `{}`) })
		removed := w.happens(func() { b.ok("DELETE", path+first, "") }, events.UserPhoneRemoved)[0]
		if want := fmt.Sprintf(`{"phone_id":%q}`, first); removed.Data != want || removed.SubjectID != user {
			t.Errorf("%+v", removed)
		}
		for _, e := range w.logged(0) {
			if strings.Contains(e.Data, "202555") {
				t.Errorf("%s has a phone number: %s", e.Type, e.Data)
			}
		}
	})
}

func TestResetsOfPasswordsLogEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, user := w.signedUp("ada@example.com")
		w.browser().signIn("ada@example.com")
		b := w.browser()
		attempt := b.forgot("ada@example.com")
		w.happens(func() {
			b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		})
		ended := w.happens(func() { b.ok("POST", "/auth/reset-password", resetBody(attempt, newPassword, "")) },
			events.SessionRevoked, events.SessionRevoked, events.UserPasswordReset)
		if !strings.Contains(ended[0].Data, `"reason":"password_changed"`) {
			t.Errorf("%+v", ended[0])
		}
		reset := ended[2]
		if reset.Data != `{"sessions_ended":2}` || reset.SubjectID != user || reset.Actor != "user:"+user {
			t.Errorf("%+v", reset)
		}
	})
}

// TestClaimOfAnAddressLogsWhatEnds: the owner of an imported, unverified address who proves it by a code ends what
// another person may have added to the account.
func TestClaimOfAnAddressLogsWhatEnds(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.importUser(1, oldHash, "ada@example.com")
		w.tx(func(tx people.Tx) error {
			return tx.Phones().InsertPhone(people.Phone{ID: 7, User: 1, Number: number, Region: "US", CreatedAt: w.Clock.Now().UTC()})
		})
		b := w.browser()
		b.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"ada@example.com"}`)
		claimed := w.happens(func() { b.ok("POST", "/auth/attempt-verification", b.sendCode(w.CodeFor("ada@example.com", 1))) },
			events.SessionCreated, events.UserPhoneRemoved, events.UserPasswordRemoved, events.UserEmailVerified)
		if claimed[1].Data != `{"phone_id":"7"}` || claimed[1].Actor != "system" || claimed[2].Data != `{"sessions_ended":0}` {
			t.Errorf("%+v", claimed)
		}
	})
}

func TestFailingSignInsLogOneEventADay(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		fail := func(email string, want ...events.Type) []people.LoggedEvent {
			t.Helper()
			b.do("POST", "/session/sign-out", `{}`) // the session may be over
			list := w.happens(func() {
				for range password.FreeFailures + 1 {
					b.password(email, "this is a wrong password")
					w.Clock.Advance(time.Minute)
				}
			}, want...)
			w.Clock.Advance(time.Hour)
			b.signIn("ada@example.com") // which ends the failures in a row
			return list
		}
		failing := fail("ada@example.com", events.SigninFailing)[0]
		if failing.SubjectType != "user" || failing.SubjectID != user || failing.Actor != "anonymous" || failing.Data != `{"step":"password"}` {
			t.Errorf("%+v", failing)
		}
		fail("unknown@example.com")
		fail("ada@example.com")
		w.Clock.Advance(25 * time.Hour)
		fail("ada@example.com", events.SigninFailing)
	})
}

func TestFailingSecondStepsLogAnEvent(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		user := ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		thief := w.browser()
		attempt := thief.firstStep("ada@example.com")
		w.Clock.Advance(31 * time.Second)
		failing := w.happens(func() {
			for range 5 {
				thief.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", wrong(a.code())))
			}
		}, events.SigninFailing)[0]
		if failing.SubjectID != user || failing.Data != `{"step":"second_step"}` {
			t.Errorf("%+v", failing)
		}
	})
}

func TestExpiredInvitationsLogEventsWhenTheyAreDeleted(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.manageable()
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		path := "/organizations/" + organization + "/invitations"
		open := owner.ok("POST", path, `{"email":"open@example.com"}`)["id"].(string)
		revoked := owner.ok("POST", path, `{"email":"revoked@example.com"}`)["id"].(string)
		owner.ok("DELETE", path+"/"+revoked, "")
		w.Clock.Advance(24 * time.Hour)
		w.happens(func() { w.purge(w.Clock.Now()) })
		w.Clock.Advance(100 * 24 * time.Hour)
		expired := w.happens(func() { w.purge(w.Clock.Now()) }, events.SessionEnded, events.InvitationExpired)[1]
		if expired.SubjectID != open || fmt.Sprint(expired.Organization) != organization || expired.Actor != "system" || expired.Data != "" {
			t.Errorf("%+v", expired)
		}
		w.happens(func() { w.purge(w.Clock.Now()) })
	})
}
