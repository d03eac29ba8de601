package enduser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
)

// otp begins a sign-in with an emailed code and returns the response.
func (b *browser) otp(email string) answer {
	b.w.T.Helper()
	return b.do("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"email_otp","email":%s}`, quote(email)))
}

// attempt returns the id of the pending sign-in.
func (b *browser) attempt() string {
	b.w.T.Helper()
	if len(b.last.Body.Session.SignInAttempts) == 0 {
		b.w.T.Fatalf("no attempt is pending: %s", b.last.Raw)
	}
	return b.last.Body.Session.SignInAttempts[0]["id"].(string)
}

// try sends a code for an attempt.
func (b *browser) try(attempt, code string) answer {
	b.w.T.Helper()
	return b.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, code))
}

// unknownClient returns a browser in the nth of many networks from which no user has signed in.
func (w *world) unknownClient(n int) *browser {
	return w.browserAt(fmt.Sprintf("100.%d.%d.7", 64+n/200, n%200))
}

func TestUnknownClientCannotExhaustOwnersCode(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.signedUp("ada@example.com")
		owner := w.browser() // the account does not know the client: the worst case
		owner.otp("ada@example.com")
		attempt, code := owner.attempt(), w.CodeFor("ada@example.com", 2)
		w.Clock.Advance(31 * time.Second)
		for n := range 5 {
			unknownClient := w.unknownClient(n)
			if a := unknownClient.otp("ada@example.com"); a.Status != 200 {
				t.Fatalf("the unknown client's own request: %s", a.Raw)
			}
			for range 5 {
				unknownClient.try(unknownClient.attempt(), wrong(code))
			}
		}
		if a := owner.try(attempt, code); a.Status != 200 {
			t.Errorf("the owner's right code: %s", a.Raw)
		}
	})
}

func TestUnknownClientsCannotBlockOwnersCodes(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, _ := w.signedUp("ada@example.com")
		owner.ok("POST", "/session/sign-out", `{}`)
		w.Clock.Advance(25 * time.Hour) // the code of the sign-up no longer counts
		// Unknown clients use up the codes that they may request in a day, and the comparisons of wrong codes.
		sent, compared, arrived := 0, 0, len(w.Carrier.Messages("ada@example.com"))
		for n := range 40 {
			unknownClient := w.unknownClient(n)
			if a := unknownClient.otp("ada@example.com"); a.Status != 200 {
				continue
			}
			sent++
			attempt := unknownClient.attempt()
			for range 5 {
				if unknownClient.try(attempt, "000000").code() == "INVALID_CODE" {
					compared++
				}
			}
		}
		if sent != 30 || compared != 100 {
			t.Errorf("unknown clients got %d codes and %d comparisons in a day, want 30 and 100", sent, compared)
		}
		before := arrived + sent
		w.Eventually("the codes of unknown clients", func() bool { return len(w.Carrier.Messages("ada@example.com")) >= before })
		if a := owner.otp("ada@example.com"); a.Status != 200 {
			t.Fatalf("the owner at a known client: %s", a.Raw)
		}
		attempt := owner.attempt()
		w.Eventually("the owner's code", func() bool { return len(w.Carrier.Messages("ada@example.com")) > before })
		newest := w.Carrier.Messages("ada@example.com")
		if a := owner.try(attempt, frontendtest.CodeIn(newest[len(newest)-1].Body)); a.Status != 200 {
			t.Errorf("the owner's code at a known client: %s", a.Raw)
		}
	})
}

func TestWrongCodesForAnEmailLockOnlyTheirClient(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("ada@example.com")
		unknownClient := w.unknownClient(0)
		for range 4 {
			w.Clock.Advance(3 * time.Minute)
			if a := unknownClient.otp("ada@example.com"); a.Status != 200 {
				t.Fatal(a.Raw)
			}
			newest := unknownClient.last.Body.Session.SignInAttempts[0]["id"].(string)
			for range 5 {
				if a := unknownClient.try(newest, "000000"); a.code() != "INVALID_CODE" {
					t.Fatal(a.Raw)
				}
			}
		}
		again := w.unknownClient(0)
		again.otp("ada@example.com") // this may be refused; the lock applies to codes
		if a := unknownClient.try(unknownClient.attempt(), "000000"); a.code() != "TOO_MANY_ATTEMPTS" {
			t.Errorf("after 20 wrong codes in a row: %s", a.Raw)
		}
		w.Clock.Advance(3 * time.Minute)
		other := w.unknownClient(1)
		other.otp("ada@example.com")
		if a := other.try(other.attempt(), "000000"); a.code() != "INVALID_CODE" {
			t.Errorf("another client: %s", a.Raw)
		}
	})
}

func TestSentCodesAreBoundedPerNetwork(t *testing.T) {
	onSQLite(t, func(w *world) {
		sent := 0
		for n := range 70 {
			if w.browserAt(fmt.Sprintf("2001:db8:77:%x::1", n)).otp(fmt.Sprintf("user%d@example.com", n)).Status == 200 {
				sent++
			}
		}
		if sent != 60 {
			t.Errorf("a /48 was sent %d codes in an hour, want 60", sent)
		}
		if a := w.browserAt("2001:db8:78::1").otp("user1@example.com"); a.Status != 200 {
			t.Errorf("another /48: %s", a.Raw)
		}
		w.Clock.Advance(time.Hour)
		if a := w.browserAt("2001:db8:77:1::1").otp("user0@example.com"); a.Status != 200 {
			t.Errorf("an hour later: %s", a.Raw)
		}
	})
}

func TestWrongCodesAreBoundedPerNetwork(t *testing.T) {
	onSQLite(t, func(w *world) {
		compared, refused := 0, answer{}
		for n := range 50 {
			b := w.browserAt(fmt.Sprintf("198.51.100.%d", n+1))
			b.otp(fmt.Sprintf("user%d@example.com", n))
			attempt := b.attempt()
			for range 5 {
				if a := b.try(attempt, "000000"); a.code() == "INVALID_CODE" {
					compared++
				} else {
					refused = a
				}
			}
		}
		if compared != 200 || refused.Status != http.StatusTooManyRequests || refused.Header.Get("Retry-After") == "" {
			t.Errorf("a /24 had %d codes compared in an hour, want 200; then %s", compared, refused.Raw)
		}
	})
}

func TestTextsAreBoundedPerUser(t *testing.T) {
	onSQLite(t, func(w *world) {
		d := w.Settings()
		d.SMS.DailyBudget = 50
		w.Declare(d)
		greedy, _ := w.signedUp("greedy@example.com")
		sent := 0
		for n := range 15 {
			greedy.address = fmt.Sprintf("100.64.%d.9", n)
			w.Clock.Advance(6 * time.Minute)
			number := fmt.Sprintf("+1202555%04d", 1000+n)
			greedy.reauthenticate()
			phone := greedy.addPhone(number)
			if greedy.do("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`).Status == 200 {
				sent++
			}
			greedy.ok("DELETE", "/me/phone-numbers/"+phone, "")
		}
		if sent != 10 {
			t.Errorf("one user was sent %d texts in a day over all phones, want 10", sent)
		}
		other, _ := w.signedUp("other@example.com")
		phone := other.addPhone(number)
		other.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
	})
}

func TestFifthOfTextBudgetIsReservedForVerifiedPhones(t *testing.T) {
	onSQLite(t, func(w *world) {
		veteran, _ := w.signedUp("veteran@example.com")
		first := veteran.addPhone("+12025559999")
		veteran.ok("POST", verifyPath(first), codeBody(veteran.prepare(first, "+12025559999", 1)))
		w.Clock.Advance(24 * time.Hour)
		d := w.Settings()
		d.SMS.DailyBudget = 10
		w.Declare(d)
		newcomers := 0
		w.Eventually("the budget is known", func() bool {
			n := newcomers
			b, _ := w.signedUp(fmt.Sprintf("new%d@example.com", n))
			number := fmt.Sprintf("+1202555%04d", 2000+n)
			a := b.do("POST", "/me/phone-numbers/"+b.addPhone(number)+"/prepare-verification", `{}`)
			if a.Status == 200 {
				newcomers++
			}
			return a.code() == "RATE_LIMITED"
		})
		if newcomers != 8 {
			t.Errorf("users without a verified phone got %d of 10 texts, want 8", newcomers)
		}
		again, _ := w.signedUp("late@example.com")
		again.refused(429, "RATE_LIMITED", "POST", "/me/phone-numbers/"+again.addPhone("+12025553000")+"/prepare-verification", `{}`)
		if !veteran.alive() {
			veteran.signIn("veteran@example.com")
		}
		veteran.ok("POST", "/me/phone-numbers/"+veteran.addPhone("+12025559998")+"/prepare-verification", `{}`)
	})
}

func TestOneCountryUsesAtMostHalfOfTextBudget(t *testing.T) {
	onSQLite(t, func(w *world) {
		d := w.Settings()
		d.SMS.DailyBudget, d.SMS.AllowedCountries = 10, &[]string{"US", "DE"}
		w.Declare(d)
		w.Eventually("the countries are known", func() bool {
			b, _ := w.signedUp("probe" + fmt.Sprint(time.Now().UnixNano()) + "@example.com")
			return b.do("POST", "/me/phone-numbers", `{"phone_number":"+4915112345678"}`).Status == 200
		})
		american := 0
		for n := range 7 {
			b, _ := w.signedUp(fmt.Sprintf("us%d@example.com", n))
			number := fmt.Sprintf("+1202555%04d", 4000+n)
			if b.do("POST", "/me/phone-numbers/"+b.addPhone(number)+"/prepare-verification", `{}`).Status == 200 {
				american++
			}
		}
		if american != 5 {
			t.Errorf("one country got %d of 10 texts, want 5", american)
		}
		german, _ := w.signedUp("de@example.com")
		german.ok("POST", "/me/phone-numbers/"+german.addPhone("+4915112345679")+"/prepare-verification", `{}`)
	})
}

func TestEndUserBodyIsAtMost16KiB(t *testing.T) {
	onSQLite(t, func(w *world) {
		b := w.browser()
		fits := `{"strategy":"email_otp","email":"` + strings.Repeat("a", 16<<10-64) + `"}`
		b.refused(400, "VALIDATION_ERROR", "POST", "/auth/signin", fits)
		b.refused(413, "PAYLOAD_TOO_LARGE", "POST", "/auth/signin", fits+strings.Repeat(" ", 64))
		deep := strings.Repeat(`{"a":`, 33) + "1" + strings.Repeat("}", 33)
		b.refused(400, "VALIDATION_ERROR", "POST", "/auth/signin", deep)
	})
}

// The response to two cookies deletes the browser's own cookie, and a cookie that a sibling host set for a parent
// domain or a path.
func TestTwoSessionCookiesAreDeleted(t *testing.T) {
	onSQLite(t, func(w *world) {
		b := w.browser()
		b.host = "app.localhost"
		a := b.refused(401, "NOT_AUTHENTICATED", "GET", "/me/phone-numbers", "", "Cookie", "__session=a; __session=b")
		cleared := map[string]bool{}
		for _, line := range a.Header.Values("Set-Cookie") {
			cookie, err := http.ParseSetCookie(line)
			if err != nil || cookie.Name != "__session" || cookie.MaxAge >= 0 || cookie.Value != "" {
				t.Fatalf("%q, %v", line, err)
			}
			cleared[cookie.Domain+" "+cookie.Path] = true
		}
		for _, want := range []string{" /", "app.localhost /", " /me", " /me/", " /me/phone-numbers"} {
			if !cleared[want] {
				t.Errorf("the cookie %q is not deleted; deleted are %v", want, cleared)
			}
		}
	})
}

func TestConcurrentSignInsKeepTheBound(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		_, user := w.signedUp("ada@example.com")
		w.tx(func(tx people.Tx) error {
			for n := range int64(session.MaxPerUser) {
				s := people.Session{ID: 1000 + n, CreatedAt: w.Clock.Now(), UsedAt: w.Clock.Now(), ExpiresAt: w.Clock.Now().Add(time.Hour), ActiveSignIn: 1000 + n}
				if err := tx.Sessions().InsertSession(s); err != nil {
					return err
				}
				if err := tx.Sessions().InsertSignIn(people.SignIn{ID: 1000 + n, Session: 1000 + n, User: parseID(user), Method: people.MethodPassword, CreatedAt: w.Clock.Now()}); err != nil {
					return err
				}
			}
			return nil
		})
		// Each browser begins with its own code, so that all complete at the same time.
		const many = 8
		type pending struct {
			b             *browser
			attempt, code string
		}
		var all []pending
		for n := range many {
			b := w.unknownClient(n)
			b.otp("ada@example.com")
			all = append(all, pending{b, b.attempt(), w.CodeFor("ada@example.com", n+2)})
		}
		done := make(chan int, many)
		for _, p := range all {
			go func() {
				resp, err := p.b.raw("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, p.attempt, p.code))
				if err != nil {
					done <- 0
					return
				}
				_ = resp.Body.Close()
				done <- resp.StatusCode
			}()
		}
		for range many {
			if status := <-done; status != 200 {
				t.Errorf("a concurrent sign-in: status %d", status)
			}
		}
		w.tx(func(tx people.Tx) error {
			left, err := tx.Sessions().SignInsOf(parseID(user))
			if len(left) != session.MaxPerUser {
				t.Errorf("%d sessions, want %d", len(left), session.MaxPerUser)
			}
			return err
		})
	})
}
