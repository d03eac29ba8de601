package enduser_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// startDay moves the clock to the start of the next UTC day.
func (w *world) startDay() {
	w.Clock.Advance(w.Clock.Now().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(w.Clock.Now()))
}

// failSecondStep begins sign-ins and sends n wrong codes, at most five in each.
func (b *browser) failSecondStep(a *app, email string, n int) {
	b.w.T.Helper()
	attempt := ""
	for i := range n {
		if i%5 == 0 {
			attempt = b.firstStep(email)
		}
		b.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "totp", wrong(a.code())))
	}
}

// lockedOut sends the right code for a new sign-in, which must be refused until a time.
func (b *browser) lockedOut(a *app, email string, until time.Time) {
	b.w.T.Helper()
	attempt := b.firstStep(email)
	b.refusedUntil(until, "/auth/attempt-second-factor", secondStep(attempt, "totp", a.code()))
}

// refusedUntil sends a code, which must be refused until a time.
func (b *browser) refusedUntil(until time.Time, path, body string) {
	b.w.T.Helper()
	got := b.refused(429, "TOO_MANY_ATTEMPTS", "POST", path, body)
	seconds, err := strconv.Atoi(got.Header.Get("Retry-After"))
	b.w.Must(err)
	if want := until.Sub(b.w.Clock.Now()); time.Duration(seconds)*time.Second-want.Truncate(time.Second) > time.Second {
		b.w.T.Fatalf("Retry-After is %d seconds, want %s", seconds, want)
	}
}

// passSecondStep signs in with the password and the code of an app.
func (b *browser) passSecondStep(a *app, email string) {
	b.w.T.Helper()
	b.ok("POST", "/auth/attempt-second-factor", secondStep(b.firstStep(email), "totp", a.next()))
}

// A client that the account knows may send 20 wrong codes in a row and 100 a day. The passkey of the account works all
// the same.
func TestWrongSecondFactorsOfClientAreLimitedADay(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		w.startDay()
		ada, d := w.browser(), w.device()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		ada.addPasskey(d)
		w.Clock.Advance(31 * time.Second)
		for lot := range 5 {
			w.browserAt(ada.address).failSecondStep(a, "ada@example.com", 20)
			if lot < 4 {
				w.browserAt(ada.address).lockedOut(a, "ada@example.com", w.Clock.Now().Add(time.Hour))
				w.Clock.Advance(time.Hour)
			}
		}
		w.Clock.Advance(time.Hour)
		tomorrow := w.Clock.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
		w.browserAt(ada.address).lockedOut(a, "ada@example.com", tomorrow)
		b := w.browserAt(ada.address)
		attempt := b.firstStep("ada@example.com")
		offered := b.ok("POST", "/auth/prepare-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q}`, attempt))
		b.ok("POST", "/auth/attempt-second-factor", fmt.Sprintf(`{"signin_attempt_id":%q,"strategy":"passkey","credential":%s}`, attempt, d.shown(offered)))
		w.browserAt(ada.address).signInByPasskey(d)
		w.browser().passSecondStep(a, "ada@example.com")
		w.startDay()
		w.browserAt(ada.address).passSecondStep(a, "ada@example.com")
	})
}

// Clients that an account does not know may send 50 wrong codes a day, wherever they are. The client that the account
// knows still signs in.
func TestWrongSecondFactorsOfUnknownClientsAreLimitedADay(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		w.startDay()
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		w.Clock.Advance(31 * time.Second)
		for n := range 10 {
			w.unknownClient(n).failSecondStep(a, "ada@example.com", 5)
		}
		w.unknownClient(10).lockedOut(a, "ada@example.com", w.Clock.Now().Truncate(24*time.Hour).Add(24*time.Hour))
		w.browserAt(ada.address).passSecondStep(a, "ada@example.com")
		w.startDay()
		w.unknownClient(10).passSecondStep(a, "ada@example.com")
	})
}

// A network may send 200 wrong codes an hour over all accounts, except from clients that the account knows.
func TestWrongSecondFactorsOfNetworkAreLimited(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.open(nil)
		w.startDay()
		apps := map[string]*app{}
		home := w.browserAt("100.70.1.200")
		for n := range 5 {
			b := w.browser()
			if n == 4 {
				b = home
			}
			email := fmt.Sprintf("user%d@example.com", n)
			b.signUp(email)
			apps[email], _ = b.addApp()
		}
		w.Clock.Advance(31 * time.Second)
		for n := range 4 {
			email := fmt.Sprintf("user%d@example.com", n)
			for host := range 10 {
				w.browserAt(fmt.Sprintf("100.70.1.%d", 10*n+host+1)).failSecondStep(apps[email], email, 5)
			}
		}
		last := apps["user4@example.com"]
		w.browserAt("100.70.1.100").lockedOut(last, "user4@example.com", w.Clock.Now().Add(time.Hour))
		w.browserAt("100.70.2.100").passSecondStep(last, "user4@example.com")
		w.browserAt(home.address).passSecondStep(last, "user4@example.com")
		w.Clock.Advance(time.Hour)
		w.browserAt("100.70.1.100").passSecondStep(last, "user4@example.com")
	})
}

// Codes of signed-in users (reauthentication, confirming an app) count with sign-ins in a row, and apart from them
// otherwise: mistyped ones use up no limit of sign-ins.
func TestWrongCodesOfSignedInUsersCountApart(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		w.startDay()
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		w.Clock.Advance(31 * time.Second)
		again := func(code string) string { return fmt.Sprintf(`{"strategy":"totp","code":%q}`, code) }
		second := ada.ok("POST", "/me/second-factors/totp", `{}`)["id"].(string)
		for n := range 20 {
			path, body := "/session/reauthenticate", again(wrong(a.code()))
			if n%2 == 0 {
				path, body = "/me/second-factors/totp/"+second+"/confirm", codeBody("000000")
			}
			ada.refused(400, "INVALID_CODE", "POST", path, body)
		}
		ada.refusedUntil(w.Clock.Now().Add(time.Hour), "/session/reauthenticate", again(a.code()))
		w.browserAt(ada.address).lockedOut(a, "ada@example.com", w.Clock.Now().Add(time.Hour))
		if n := w.count("SELECT COUNT(*) FROM counters WHERE counted > 0 AND scope IN ('second-factor-day', 'second-factor-unknown', 'second-factor-network')"); n != 0 {
			t.Errorf("codes of a signed-in user count in %d counters of sign-ins", n)
		}
		w.Clock.Advance(time.Hour)
		ada.ok("POST", "/session/reauthenticate", again(a.code()))
	})
}

// Another client that knows the password uses up no limit of a signed-in user, and a stolen session tries no more codes
// from unknown clients than a sign-in does.
func TestCodesOfStolenSessionAreLimitedADay(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		w.startDay()
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		w.Clock.Advance(31 * time.Second)
		for n := range 10 {
			w.unknownClient(n).failSecondStep(a, "ada@example.com", 5)
		}
		again := func(code string) string { return fmt.Sprintf(`{"strategy":"totp","code":%q}`, code) }
		for n := range 50 {
			stolen := w.unknownClient(20 + n)
			stolen.setCookie(ada.cookie())
			stolen.refused(400, "INVALID_CODE", "POST", "/session/reauthenticate", again(wrong(a.code())))
		}
		stolen := w.unknownClient(70)
		stolen.setCookie(ada.cookie())
		stolen.refusedUntil(w.Clock.Now().Truncate(24*time.Hour).Add(24*time.Hour), "/session/reauthenticate", again(a.code()))
		ada.ok("POST", "/session/reauthenticate", again(a.code()))
	})
}

// An account adds at most 20 factors and sets of codes a day, whatever their kinds.
func TestFactorsAddedAreLimitedADay(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		a, _ := ada.addApp()
		key := ada.addPasskey(w.device())
		phone := ada.addPhone(number)
		ada.ok("POST", verifyPath(phone), codeBody(ada.prepare(phone, number, 1)))
		ada.ok("POST", "/me/second-factors/sms", fmt.Sprintf(`{"phone_number_id":%q}`, phone))
		for range 17 {
			ada.ok("POST", "/me/second-factors/recovery-codes", `{}`)
		}
		ada.refused(429, "RATE_LIMITED", "POST", "/me/second-factors/recovery-codes", `{}`)
		if ada.last.Header.Get("Retry-After") == "" {
			t.Error("no Retry-After")
		}
		ada.refused(429, "RATE_LIMITED", "POST", "/me/second-factors/totp", `{}`)
		credential := w.device().created(ada.ok("POST", "/me/passkeys/options", `{}`))
		ada.refused(429, "RATE_LIMITED", "POST", "/me/passkeys", fmt.Sprintf(`{"credential":%s}`, credential))
		ada.ok("DELETE", "/me/second-factors/sms/"+phone, "")
		ada.refused(429, "RATE_LIMITED", "POST", "/me/second-factors/sms", fmt.Sprintf(`{"phone_number_id":%q}`, phone))
		ada.ok("DELETE", "/me/passkeys/"+key, "") // removals are not counted
		w.Clock.Advance(24 * time.Hour)
		ada.passSecondStep(a, "ada@example.com")
		ada.ok("POST", "/me/second-factors/recovery-codes", `{}`)
	})
}
