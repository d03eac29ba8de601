package enduser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A password that a backend sets does not lead around the second step, nor does a sign-up with the address of the
// account.
func TestSetPasswordAndSignUpKeepSecondStep(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		id := ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		const another = "another long and quiet sentence"
		other := w.browser()
		other.ok("POST", "/auth/signup", fmt.Sprintf(`{"email":"ada@example.com","password":%q}`, another))
		attempt := other.last.Body.Session.SignUpAttempts[0]["id"]
		w.Eventually("the owner is notified of the sign-up", func() bool { return len(w.Carrier.Messages("ada@example.com")) >= 4 })
		for _, code := range []string{w.CodeFor("ada@example.com", 1), "000000"} {
			other.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, attempt, code))
			if other.isSignedIn() {
				t.Fatal("a sign-up signs in to an account with a second factor")
			}
		}
		other.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"ada@example.com","password":%q}`, another))

		backend := w.desk("backend", deploymentName, "users:read", "users:write")
		backend.expect(204, "PUT", "/users/"+id+"/password", fmt.Sprintf(`{"password":%q}`, another))
		b := w.browser()
		b.ok("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"ada@example.com","password":%q}`, another))
		pending := b.last.Body.Session.SignInAttempts[0]
		if b.isSignedIn() || pending["current_step"] != "second_factor" {
			t.Fatalf("after a backend set the password: %v", pending)
		}
		b.ok("POST", "/auth/attempt-second-factor", secondStep(pending["id"].(string), "totp", a.next()))
		if overview := b.ok("GET", "/me/second-factors", ""); overview["two_step"] != true {
			t.Errorf("the factors afterwards: %v", overview)
		}
	})
}

// Between the two steps, a client's request of an authorization finds no user.
func TestNoAuthorizationBetweenTheTwoSteps(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		s := &scene{browser: b, live: map[string]string{"client": w.publicClient()}}
		s.asks()
		path := "/session/authorizations/" + s.live["{request}"]
		if read := b.ok("GET", path, ""); read["step"] != "sign_in" {
			t.Errorf("between the steps: %v", read)
		}
		for _, body := range []string{`{"decision":"allow"}`, `{"decision":"continue"}`} {
			if got := b.do("POST", path, body); got.Status == 200 && got.data()["step"] != "sign_in" {
				t.Errorf("%s between the steps: %s", body, got.Raw)
			}
		}
		if n := w.count("SELECT COUNT(*) FROM oauth_codes") + w.count("SELECT COUNT(*) FROM oauth_grants"); n != 0 {
			t.Errorf("%d codes and grants were made", n)
		}
		b.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.next()))
		if read := b.ok("GET", path, ""); read["step"] == "sign_in" {
			t.Errorf("after the second step: %v", read)
		}
	})
}

// Another person who planted a session token in a browser gains nothing when the user proves something: each step gives
// the session a new token, and the earlier one is worth nothing.
func TestPlantedTokenGainsNothingAtAnyStep(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		d := w.device()
		var a *app
		worthless := func(step, token, attempt string) {
			t.Helper()
			thief := w.browser()
			thief.setCookie(token)
			if thief.isSignedIn() || len(thief.last.Body.Session.SignInAttempts) != 0 {
				t.Errorf("%s: the earlier token has %s", step, thief.last.Raw)
			}
			if attempt != "" {
				thief.setCookie(token)
				thief.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.next()))
			}
		}
		ownStep := func(step string, do func()) {
			t.Helper()
			before := ada.cookie()
			do()
			worthless(step, before, "")
			if !ada.isSignedIn() {
				t.Errorf("%s: the user is not signed in", step)
			}
		}
		again := func(strategy, member string) {
			ada.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":%q,%s}`, strategy, member))
		}
		var codes []any
		ownStep("the confirmation of an app", func() { a, codes = ada.addApp() })
		ownStep("the registration of a passkey", func() { ada.addPasskey(d) })
		ownStep("an app again", func() { again("totp", fmt.Sprintf(`"code":%q`, a.next())) })
		ownStep("a recovery code again", func() { again("recovery_code", fmt.Sprintf(`"code":%q`, codes[0])) })
		ownStep("a password again", ada.reauthenticate)
		ownStep("a passkey again", func() {
			again("passkey", `"credential":`+d.shown(ada.ok("POST", "/session/reauthentication-options", `{}`)))
		})

		planted := func() (*browser, string) {
			thief := w.browser()
			w.Clock.Advance(time.Minute)
			thief.otp("nobody@example.com")
			b := w.browser()
			b.setCookie(thief.cookie())
			return b, thief.cookie()
		}
		b, token := planted()
		attempt := b.firstStep("ada@example.com")
		worthless("the password", token, attempt)
		token = b.cookie()
		b.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", a.next()))
		worthless("the second step", token, attempt)
		b, token = planted()
		b.signInByPasskey(d)
		worthless("a sign-in by passkey", token, "")
		b, token = planted()
		attempt = b.firstStep("ada@example.com")
		first := b.cookie()
		show := d.shown(b.ok("POST", "/auth/prepare-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q}`, attempt)))
		b.ok("POST", "/auth/attempt-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":"passkey","credential":%s}`, attempt, show))
		worthless("a passkey as the second step, with the planted token", token, attempt)
		worthless("a passkey as the second step, with the first step's token", first, attempt)
	})
}

// A change of two-step applies at once on every server of the store.
func TestTwoStepHoldsSessionsOnEveryServer(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		second := w.serve(w.Store)
		ada, other := w.browser(), w.browser()
		other.base = second.URL
		ada.signUp("ada@example.com")
		other.signIn("ada@example.com")
		other.ok("POST", "/session/token", `{}`)
		a, _ := ada.addApp()
		other.refused(403, "STEP_UP_REQUIRED", "POST", "/session/token", `{}`)
		if other.isSignedIn() {
			t.Error("GET /session of another server shows a held user")
		}
		other.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"totp","code":%q}`, a.next()))
		other.base = w.Server.URL
		if !other.isSignedIn() {
			t.Error("the proof at one server does not release the session at the other")
		}
		held := w.browser()
		held.base = second.URL
		ada.ok("PATCH", "/me/second-factors", `{"two_step":false}`)
		held.signIn("ada@example.com")
		if !held.isSignedIn() {
			t.Error("two-step is off, and another server asks for a second step")
		}
		ada.ok("PATCH", "/me/second-factors", `{"two_step":true}`)
		held.refused(403, "STEP_UP_REQUIRED", "GET", "/me/organization-memberships", "")
		if !strings.Contains(held.last.Raw, "two_factors") {
			t.Errorf("held: %s", held.last.Raw)
		}
	})
}
