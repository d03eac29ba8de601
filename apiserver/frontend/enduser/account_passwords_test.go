package enduser_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/internal/document"
)

const newPassword = "a better sentence than before"

// reauthenticate authenticates the user again with the password.
func (b *browser) reauthenticate() {
	b.w.T.Helper()
	b.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
}

// notices waits for a number of mails to an address with a text.
func (w *world) notices(to, saying string, want int) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d mails to %s that say %q", want, to, saying), func() bool {
		n := 0
		for _, m := range w.Carrier.Messages(to) {
			if strings.Contains(m.Body, saying) {
				n++
			}
		}
		return n == want
	})
}

// forgot begins a password reset, and returns the attempt.
func (b *browser) forgot(email string) string {
	b.w.T.Helper()
	b.ok("POST", "/auth/forgot-password", fmt.Sprintf(`{"email":%q}`, email))
	a := b.last.Body.Session.SignInAttempts[0]
	if a["method"] != "reset_password" || a["current_step"] != "verify_email_otp" || a["completed"] != false {
		b.w.T.Fatalf("the attempt is %v", a)
	}
	return a["id"].(string)
}

func resetBody(attempt, password, more string) string {
	return fmt.Sprintf(`{"signin_attempt_id":%q,"password":%q%s}`, attempt, password, more)
}

func TestResetForgottenPassword(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		ada, _ := w.signedUp("ada@example.com")
		other := w.browser()
		other.signIn("ada@example.com")
		b, unknown := w.browser(), w.browser()
		attempt := b.forgot("Ada@Example.com")
		attempted := unknown.forgot("nobody@example.com")
		b.refused(400, "INVALID_ATTEMPT", "POST", "/auth/reset-password", resetBody(attempt, newPassword, ""))
		code := w.CodeFor("ada@example.com", 2)
		unknown.refused(400, "INVALID_CODE", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempted, code))
		w.browser().refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, code))
		b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, code))
		if a := b.last.Body.Session.SignInAttempts[0]; a["current_step"] != "new_password" || b.last.Body.Session.ActiveSignIn != nil {
			t.Fatalf("after the code: %s", b.last.Raw)
		}
		b.refused(400, "INVALID_ATTEMPT", "POST", "/auth/prepare-verification", fmt.Sprintf(`{"signin_attempt_id":%q}`, attempt))
		w.browser().refused(400, "INVALID_ATTEMPT", "POST", "/auth/reset-password", resetBody(attempt, newPassword, ""))
		b.refused(400, "WEAK_PASSWORD", "POST", "/auth/reset-password", resetBody(attempt, "short", ""))
		b.refused(400, "VALIDATION_ERROR", "POST", "/auth/reset-password", `{"password":"x"}`)
		b.ok("POST", "/auth/reset-password", resetBody(attempt, newPassword, ""))
		if b.alive() || ada.alive() || other.alive() {
			t.Error("a reset must not sign in, and must end existing sessions")
		}
		b.refused(400, "INVALID_ATTEMPT", "POST", "/auth/reset-password", resetBody(attempt, newPassword, ""))
		w.notices("ada@example.com", "was reset by a code", 1)
		if a := w.browser().password("ada@example.com", goodPassword); a.code() != "INVALID_CREDENTIALS" {
			t.Errorf("the former password: %s", a.Raw)
		}
		if a := w.browser().password("ada@example.com", newPassword); a.Status != 200 {
			t.Errorf("the new password: %s", a.Raw)
		}
	})
}

func TestPasswordResetKeepsOtherSessionsOnRequest(t *testing.T) {
	onSQLite(t, func(w *world) {
		ada, _ := w.signedUp("ada@example.com")
		pending, b := w.browser(), w.browser()
		stale := pending.forgot("ada@example.com")
		staleCode := w.CodeFor("ada@example.com", 2)
		w.Clock.Advance(time.Minute)
		attempt := b.forgot("ada@example.com")
		code := w.CodeFor("ada@example.com", 3)
		b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, code))
		b.ok("POST", "/auth/reset-password", resetBody(attempt, newPassword, `,"sign_out_others":false`))
		if !ada.alive() {
			t.Error("sign_out_others: false ended a session")
		}
		// The same response as for an address without an account.
		pending.refused(400, "INVALID_CODE", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, stale, staleCode))
	})
}

func TestDisabledAccountCannotResetPassword(t *testing.T) {
	onSQLite(t, func(w *world) {
		_, id := w.signedUp("ada@example.com")
		b := w.browser()
		attempt := b.forgot("ada@example.com")
		b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		w.disable(id)
		b.refused(403, "USER_DISABLED", "POST", "/auth/reset-password", resetBody(attempt, newPassword, ""))
	})
}

func TestDeploymentWithoutPasswords(t *testing.T) {
	onSQLite(t, func(w *world) {
		ada, _ := w.signedUp("ada@example.com")
		d := w.Settings()
		d.SignIn = &document.SignInSettings{EmailCode: true}
		w.Declare(d)
		w.Eventually("passwords are off", func() bool {
			return w.browser().do("POST", "/auth/forgot-password", `{"email":"ada@example.com"}`).code() == "PASSWORDS_DISABLED"
		})
		ada.refused(403, "PASSWORDS_DISABLED", "POST", "/me/update-password", fmt.Sprintf(`{"current_password":%q,"new_password":%q}`, goodPassword, newPassword))
	})
}

func updateBody(current, chosen, more string) string {
	return fmt.Sprintf(`{"current_password":%q,"new_password":%q%s}`, current, chosen, more)
}

func TestStaleSessionTakesNoHashTurn(t *testing.T) {
	onSQLite(t, func(w *world) {
		ada, _ := w.signedUp("ada@example.com")
		ada.ok("DELETE", "/me/password", fmt.Sprintf(`{"current_password":%q}`, goodPassword))
		w.Clock.Advance(2 * time.Hour)
		w.PasswordCost = password.DefaultCost // hashes as slow as in production: with more than 8 at a time, the client would get 503
		w.Server = w.serve(w.Store)
		statuses := make([]int, 40)
		var all sync.WaitGroup
		for n := range statuses {
			all.Go(func() {
				if response, err := ada.raw("POST", "/me/update-password", fmt.Sprintf(`{"new_password":%q}`, newPassword)); err == nil {
					statuses[n] = response.StatusCode
					_ = response.Body.Close()
				}
			})
		}
		all.Wait()
		if got := slices.Compact(statuses); !slices.Equal(got, []int{403}) {
			t.Errorf("statuses %v, want only 403: the password was hashed before the session was checked", got)
		}
		ada.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/me/update-password", fmt.Sprintf(`{"new_password":%q}`, newPassword))
	})
}

func TestChangePassword(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		other := w.browser()
		other.signIn("ada@example.com")
		const path = "/me/update-password"
		b.refused(400, "INVALID_CURRENT_PASSWORD", "POST", path, updateBody("wrong", newPassword, ""))
		b.refused(400, "INVALID_CURRENT_PASSWORD", "POST", path, fmt.Sprintf(`{"new_password":%q}`, newPassword))
		b.refused(400, "WEAK_PASSWORD", "POST", path, updateBody(goodPassword, "short", ""))
		b.refused(400, "SAME_PASSWORD", "POST", path, updateBody(goodPassword, goodPassword, ""))
		b.refused(400, "VALIDATION_ERROR", "POST", path, `{}`)
		w.browser().refused(401, "NOT_AUTHENTICATED", "POST", path, updateBody(goodPassword, newPassword, ""))
		before := b.cookie()
		if done := b.ok("POST", path, updateBody(goodPassword, newPassword, "")); done["password_updated"] != true || done["updated_at"] == nil {
			t.Errorf("%v", done)
		}
		if !b.alive() || other.alive() || b.cookie() == before {
			t.Error("the change must end other sessions and give this session a new token")
		}
		w.notices("ada@example.com", "was changed", 1)
		if a := w.browser().password("ada@example.com", newPassword); a.Status != 200 {
			t.Errorf("the new password: %s", a.Raw)
		}
	})
}

// A wrong current password counts as a failed sign-in, so that an unlocked browser does not permit unlimited tries.
func TestWrongCurrentPasswordsAreFailedSignIns(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		for range 10 {
			b.refused(400, "INVALID_CURRENT_PASSWORD", "POST", "/me/update-password", updateBody("wrong", newPassword, ""))
		}
		b.refused(429, "RATE_LIMITED", "POST", "/me/update-password", updateBody("wrong", newPassword, ""))
		b.refused(429, "RATE_LIMITED", "POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
		b.refused(429, "RATE_LIMITED", "DELETE", "/me/password", fmt.Sprintf(`{"current_password":%q}`, goodPassword))
	})
}

// A reset that fails at any statement is an error of the server, and not a refusal of the attempt, which stays usable.
func TestFailedResetIsNoRefusal(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("ada@example.com")
		flaky := &failing{Store: w.Store}
		b := w.browser()
		b.base = w.serve(flaky).URL
		attempt := b.forgot("ada@example.com")
		b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
		untilWhole(w, flaky, func() answer { return b.do("POST", "/auth/reset-password", resetBody(attempt, newPassword, "")) }, func() {})
	})
}

func TestFirstPasswordNeedsRecentAuthentication(t *testing.T) {
	onSQLite(t, func(w *world) {
		b := w.browser()
		b.ok("POST", "/auth/signup", `{"email":"ada@example.com"}`)
		b.completeSignUp("ada@example.com")
		if me := b.ok("GET", "/me", ""); me["has_password"] != false {
			t.Errorf("%v", me)
		}
		set := fmt.Sprintf(`{"new_password":%q}`, newPassword)
		w.Clock.Advance(10 * time.Minute)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/me/update-password", set)
		b.proveByCode("ada@example.com", 2)
		b.ok("POST", "/me/update-password", set)
		if me := b.ok("GET", "/me", ""); me["has_password"] != true {
			t.Errorf("%v", me)
		}
		b.refused(400, "INVALID_CURRENT_PASSWORD", "POST", "/me/update-password", set)
		w.notices("ada@example.com", "was set", 1)

		b.refused(400, "INVALID_CURRENT_PASSWORD", "DELETE", "/me/password", `{"current_password":"wrong"}`)
		if done := b.ok("DELETE", "/me/password", fmt.Sprintf(`{"current_password":%q}`, newPassword)); done["password_removed"] != true {
			t.Errorf("%v", done)
		}
		w.notices("ada@example.com", "was removed", 1)
		if a := w.browser().password("ada@example.com", newPassword); a.code() != "INVALID_CREDENTIALS" {
			t.Errorf("a password that was removed: %s", a.Raw)
		}
	})
}

func TestOnlySignInMethodIsNotRemoved(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		d := w.Settings()
		d.SignIn = &document.SignInSettings{Password: true, PasswordMinLength: 15}
		w.Declare(d)
		w.Eventually("codes are off", func() bool {
			return b.do("DELETE", "/me/password", fmt.Sprintf(`{"current_password":%q}`, goodPassword)).code() == "NO_ALTERNATIVE_AUTH"
		})
	})
}

// proveByCode authenticates the user again with the nth emailed code to the address.
func (b *browser) proveByCode(email string, nth int) {
	b.w.T.Helper()
	b.ok("POST", "/session/reauthenticate", `{"strategy":"email_otp"}`)
	a := b.last.Body.Session.SignInAttempts[0]
	if a["method"] != "reauthentication" {
		b.w.T.Fatalf("the attempt is %v", a)
	}
	b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, a["id"], b.w.CodeFor(email, nth)))
}

func TestReauthenticate(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		events := w.count("SELECT COUNT(*) FROM events")
		tries := 0
		fresh := func() bool {
			tries++
			return b.do("POST", "/me/phone-numbers", fmt.Sprintf(`{"phone_number":"+12025550%d"}`, 110+tries)).Status == 200
		}
		if !fresh() {
			t.Error("a user who just signed up must authenticate again")
		}
		w.Clock.Advance(10*time.Minute - time.Second)
		if !fresh() {
			t.Error("an authentication expires early")
		}
		w.Clock.Advance(time.Second)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/me/phone-numbers", `{"phone_number":"+12025550100"}`)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`)
		b.refused(401, "INVALID_CREDENTIALS", "POST", "/session/reauthenticate", `{"strategy":"password","password":"wrong"}`)
		b.refused(400, "VALIDATION_ERROR", "POST", "/session/reauthenticate", `{"strategy":"magic"}`)
		w.browser().refused(401, "NOT_AUTHENTICATED", "POST", "/session/reauthenticate", `{"strategy":"email_otp"}`)
		before := b.cookie()
		b.reauthenticate()
		if b.cookie() == before || b.last.Body.Session.ActiveSignIn["user_id"] != user {
			t.Error("an authentication must give a new token to the same sign-in")
		}
		if !fresh() {
			t.Error("an authentication by password has no effect")
		}
		w.Clock.Advance(10 * time.Minute)
		b.proveByCode("ada@example.com", 2)
		if !fresh() {
			t.Error("an authentication by a code has no effect")
		}
		if now := w.count("SELECT COUNT(*) FROM events"); now != events {
			t.Errorf("%d events were recorded, want none", now-events)
		}
	})
}
