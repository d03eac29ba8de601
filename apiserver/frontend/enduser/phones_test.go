package enduser_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const number = "+12025550123"

// prepare requests a code and returns the nth that was sent to the number.
func (b *browser) prepare(phone, number string, nth int) string {
	b.w.T.Helper()
	data := b.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
	if data["sent"] != true || data["phone_number"] != number || data["expires_in"] != 300.0 {
		b.w.T.Fatalf("prepared: %v", data)
	}
	return b.w.CodeFor(number, nth)
}

func verifyPath(phone string) string { return "/me/phone-numbers/" + phone + "/attempt-verification" }

func codeBody(code string) string { return fmt.Sprintf(`{"code":%q}`, code) }

func TestCodesAreNotStoredInPlainText(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		code := b.prepare(phone, number, 1)
		mailed := w.CodeFor("ada@example.com", 1)
		expectNone := func(when string) {
			for name, text := range map[string]string{"store": w.dump(), "log": w.Logs.String()} {
				for _, secret := range []string{mailed, code} {
					// Ids and times are long numbers: search for a code only as a separate word.
					for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r < '0' || r > '9' }) {
						if word == secret {
							t.Errorf("%s: the code %s is in the %s", when, secret, name)
						}
					}
				}
			}
		}
		expectNone("sent")
		b.ok("POST", verifyPath(phone), codeBody(code))
		expectNone("verified")
		w.Eventually("no message keeps its body", func() bool { return !strings.Contains(w.dump(), "v1.") })
	})
}

func TestConcurrentWrongCodesAreFiveComparisons(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		bad := wrong(b.prepare(phone, number, 1))
		var compared, held, other atomic.Int64
		const tries, clients = 1000, 50
		var group sync.WaitGroup
		for range clients {
			client := b.as(b.cookie())
			group.Go(func() {
				for range tries / clients {
					switch a := client.do("POST", verifyPath(phone), codeBody(bad)); a.code() {
					case "INVALID_CODE":
						compared.Add(1)
					case "TOO_MANY_ATTEMPTS":
						held.Add(1)
					default:
						other.Add(1)
						t.Log(a.Raw)
					}
				}
			})
		}
		group.Wait()
		if compared.Load() != 5 || held.Load() != tries-5 || other.Load() != 0 {
			t.Errorf("%d compared, %d held back, %d else; want 5 and %d", compared.Load(), held.Load(), other.Load(), tries-5)
		}
		w.tx(func(tx people.Tx) error {
			c, found, err := tx.Challenges().LiveChallenge(people.PurposePhone, parseID(phone))
			if !found || c.Tries != 5 {
				t.Errorf("the challenge counts %d tries", c.Tries)
			}
			return err
		})
	})
}

func TestConcurrentRightCodesSucceedOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		code := b.prepare(phone, number, 1)
		var verified atomic.Int64
		var group sync.WaitGroup
		for range 100 {
			client := b.as(b.cookie())
			group.Go(func() {
				switch a := client.do("POST", verifyPath(phone), codeBody(code)); a.code() {
				case "":
					verified.Add(1)
				case "ALREADY_VERIFIED", "TOO_MANY_ATTEMPTS", "EXPIRED_CODE":
				default:
					t.Error(a.Raw)
				}
			})
		}
		group.Wait()
		if verified.Load() != 1 {
			t.Errorf("%d successes, want 1", verified.Load())
		}
		b.refused(400, "ALREADY_VERIFIED", "POST", verifyPath(phone), codeBody(code))
		b.refused(400, "ALREADY_VERIFIED", "POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
	})
}

func TestNewCodeReplacesTheOld(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		old := b.prepare(phone, number, 1)
		w.Clock.Advance(31 * time.Second)
		newer := b.prepare(phone, number, 2)
		if old != newer {
			b.refused(400, "INVALID_CODE", "POST", verifyPath(phone), codeBody(old))
		}
		// The new code has its own lifetime, which ends later than that of the first.
		w.Clock.Advance(299 * time.Second)
		b.ok("POST", verifyPath(phone), codeBody(newer))
		w.Clock.Advance(time.Hour)
		b.reauthenticate()
		second := b.addPhone("+12025550124")
		code := b.prepare(second, "+12025550124", 1)
		w.Clock.Advance(301 * time.Second)
		b.refused(400, "EXPIRED_CODE", "POST", verifyPath(second), codeBody(code))
	})
}

func TestCodesAreBoundToUserPhonePurposeSessionAndDeployment(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone, second := b.addPhone(number), b.addPhone("+12025550124")
		code := b.prepare(phone, number, 1)
		other := b.prepare(second, "+12025550124", 1)
		if code != other {
			b.refused(400, "INVALID_CODE", "POST", verifyPath(second), codeBody(code))
		}
		// Another session of the same user has no live code.
		elsewhere := w.browser()
		elsewhere.signIn("ada@example.com")
		elsewhere.refused(400, "EXPIRED_CODE", "POST", verifyPath(phone), codeBody(code))
		// Another user with the same number, and a code for another purpose.
		mallory, _ := w.signedUp("mallory@example.com")
		theirs := mallory.addPhone(number)
		mallory.refused(400, "EXPIRED_CODE", "POST", verifyPath(theirs), codeBody(code))
		mallory.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, phone, code))
		// The other deployment does not know the session.
		b.host = "other.localhost"
		b.setCookie(b.cookie())
		b.refused(401, "NOT_AUTHENTICATED", "POST", verifyPath(phone), codeBody(code))
		b.host = "localhost"
		b.ok("POST", verifyPath(phone), codeBody(code))
	})
}

func TestForeignAndUnknownPhonesGetTheSameResponse(t *testing.T) {
	onSQLite(t, func(w *world) {
		a, _ := w.signedUp("ada@example.com")
		foreign := a.addPhone(number)
		b, _ := w.signedUp("bob@example.com")
		var answers []string
		for _, id := range []string{foreign, "1234567890", "0", "x", "-1", "99999999999999999999", "1%2F2"} {
			for _, request := range [][3]string{{"POST", "/attempt-verification", codeBody("123456")}, {"POST", "/prepare-verification", `{}`}, {"POST", "/make-primary", `{}`}, {"DELETE", "", ""}} {
				answer := b.refused(404, "PHONE_NOT_FOUND", request[0], "/me/phone-numbers/"+id+request[1], request[2])
				answers = append(answers, answer.Raw)
			}
		}
		for _, raw := range answers {
			if raw != answers[0] {
				t.Fatalf("responses differ:\n%s\n%s", answers[0], raw)
			}
		}
	})
}

func TestLocksAndLimits(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		prepare := "/me/phone-numbers/" + phone + "/prepare-verification"
		code := b.prepare(phone, number, 1)
		retry := func(a answer) int {
			t.Helper()
			if a.Body.Errors[0].RetryAfterSeconds == nil || a.Header.Get("Retry-After") != fmt.Sprint(*a.Body.Errors[0].RetryAfterSeconds) {
				t.Fatalf("no Retry-After: %s", a.Raw)
			}
			return *a.Body.Errors[0].RetryAfterSeconds
		}
		if got := retry(b.refused(429, "RATE_LIMITED", "POST", prepare, `{}`)); got != 30 {
			t.Errorf("the cool-down is %d s", got)
		}
		for _, left := range []int{4, 3, 2, 1, 0} {
			a := b.refused(400, "INVALID_CODE", "POST", verifyPath(phone), codeBody(wrong(code)))
			if got := a.Body.Errors[0].AttemptsRemaining; got == nil || *got != left {
				t.Errorf("attempts remaining %v, want %d", got, left)
			}
		}
		if got := retry(b.refused(429, "TOO_MANY_ATTEMPTS", "POST", verifyPath(phone), codeBody(code))); got != 30 {
			t.Errorf("the sixth try may send again in %d s, want 30", got)
		}
		for i := 2; i <= 4; i++ {
			w.Clock.Advance(2 * time.Minute)
			code = b.prepare(phone, number, i)
			for range 5 {
				b.refused(400, "INVALID_CODE", "POST", verifyPath(phone), codeBody(wrong(code)))
			}
		}
		// Twenty consecutive wrong codes lock all the user's phones, including sending.
		w.Clock.Advance(2 * time.Minute)
		second := b.addPhone("+12025550124")
		retry(b.refused(429, "TOO_MANY_ATTEMPTS", "POST", "/me/phone-numbers/"+second+"/prepare-verification", `{}`))
		if got := retry(b.refused(429, "TOO_MANY_ATTEMPTS", "POST", prepare, `{}`)); got < 3400 || got > 3600 {
			t.Errorf("locked for %d s, want about an hour", got)
		}
		b.refused(429, "TOO_MANY_ATTEMPTS", "POST", verifyPath(phone), codeBody(code))
		// The lock does not affect another user with the number.
		owner, _ := w.signedUp("owner@example.com")
		own := owner.addPhone(number)
		owner.ok("POST", verifyPath(own), codeBody(owner.prepare(own, number, 5)))
		w.Clock.Advance(time.Hour)
		b.ok("POST", verifyPath(second), codeBody(b.prepare(second, "+12025550124", 1)))
	})
}

func TestSendsAreBounded(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		path := "/me/phone-numbers/" + phone + "/prepare-verification"
		for range 5 {
			b.ok("POST", path, `{}`)
			w.Clock.Advance(121 * time.Second)
		}
		b.refused(429, "RATE_LIMITED", "POST", path, `{}`)
		w.Clock.Advance(time.Hour)
		for range 5 {
			b.ok("POST", path, `{}`)
			w.Clock.Advance(13 * time.Minute)
		}
		w.Clock.Advance(time.Hour)
		b.refused(429, "RATE_LIMITED", "POST", path, `{}`)
		// A client address may request twenty texts an hour over all users and numbers, also with concurrent requests.
		w.Clock.Advance(25 * time.Hour)
		b.signIn("ada@example.com")
		var phones []string
		for i := range 8 {
			phones = append(phones, b.addPhone(fmt.Sprintf("+1202555013%d", i)))
		}
		clients := []*browser{b}
		for u := range 3 {
			other, _ := w.signedUp(fmt.Sprintf("user%d@example.com", u))
			other.address = b.address
			clients = append(clients, other)
		}
		var sent atomic.Int64
		var group sync.WaitGroup
		for u, client := range clients {
			own := phones
			if u > 0 {
				own = nil
				for i := range 8 {
					own = append(own, client.addPhone(fmt.Sprintf("+1202555014%d", i)))
				}
			}
			for _, id := range own {
				tab := client.as(client.cookie())
				group.Go(func() {
					if tab.do("POST", "/me/phone-numbers/"+id+"/prepare-verification", `{}`).Status == 200 {
						sent.Add(1)
					}
				})
			}
		}
		group.Wait()
		if sent.Load() != 20 {
			t.Errorf("%d of 32 sends at once from one address went out, want 20", sent.Load())
		}
	})
}

func TestMalformedCodesCostNoTry(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		code := b.prepare(phone, number, 1)
		for _, body := range []string{
			`{}`, `{"code":null}`, `{"code":123456}`, `{"code":"12345"}`, `{"code":"1234567"}`, `{"code":"abcdef"}`, `{"code":"１２３４５６"}`, `{"code":"12 34 56"}`, `{"code":""}`,
			`{"code":["123456"]}`, `{"code":"123456","code":"123456"}`, `{"code":"123456","more":1}`, `{"code":"123456"`, `[]`, `"123456"`, ``,
		} {
			b.refused(400, "VALIDATION_ERROR", "POST", verifyPath(phone), body)
		}
		a := b.refused(400, "INVALID_CODE", "POST", verifyPath(phone), codeBody(wrong(code)))
		if *a.Body.Errors[0].AttemptsRemaining != 4 {
			t.Errorf("malformed codes spent tries: %s", a.Raw)
		}
		b.ok("POST", verifyPath(phone), codeBody(" "+code[:3]+"-"+code[3:]+" "))
	})
}

// failing is a store whose changes fail at their nth statement, as when the process dies there.
type failing struct {
	store.Store
	armed atomic.Bool
	left  atomic.Int64
}

var errDied = errors.New("the process died here")

func (f *failing) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if !f.armed.Load() {
		return f.Store.Change(ctx, deployment, do)
	}
	return f.Store.Change(ctx, deployment, func(tx people.Tx) error { return do(failingTx{tx, f}) })
}

// failingTx fails before and after the statements that write.
type failingTx struct {
	people.Tx
	f *failing
}

type (
	failingTxLimits struct {
		people.Limits
		failingTx
	}
	failingTxChallenges struct {
		people.Challenges
		failingTx
	}
	failingTxPhones struct {
		people.Phones
		failingTx
	}
	failingTxRecords struct {
		people.Records
		failingTx
	}
	failingTxSessions struct {
		people.Sessions
		failingTx
	}
	failingTxUsers struct {
		people.Users
		failingTx
	}
	failingTxOrganizations struct {
		people.Organizations
		failingTx
	}
	failingTxAttempts struct {
		people.Attempts
		failingTx
	}
)

func (tx failingTx) Limits() people.Limits { return failingTxLimits{tx.Tx.Limits(), tx} }
func (tx failingTx) Challenges() people.Challenges {
	return failingTxChallenges{tx.Tx.Challenges(), tx}
}
func (tx failingTx) Phones() people.Phones     { return failingTxPhones{tx.Tx.Phones(), tx} }
func (tx failingTx) Records() people.Records   { return failingTxRecords{tx.Tx.Records(), tx} }
func (tx failingTx) Sessions() people.Sessions { return failingTxSessions{tx.Tx.Sessions(), tx} }
func (tx failingTx) Users() people.Users       { return failingTxUsers{tx.Tx.Users(), tx} }
func (tx failingTx) Organizations() people.Organizations {
	return failingTxOrganizations{tx.Tx.Organizations(), tx}
}
func (tx failingTx) Attempts() people.Attempts { return failingTxAttempts{tx.Tx.Attempts(), tx} }

func (tx failingTx) step(do func() error) error {
	for _, part := range []func() error{func() error { return nil }, do} {
		if tx.f.left.Add(-1) < 0 {
			return errDied
		}
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

func (tx failingTxLimits) PutFailure(v people.Failure) error {
	return tx.step(func() error { return tx.Tx.Limits().PutFailure(v) })
}
func (tx failingTxChallenges) CountTry(id int64, most int, now time.Time) (ok bool, err error) {
	err = tx.step(func() (e error) { ok, e = tx.Tx.Challenges().CountTry(id, most, now); return e })
	return ok, err
}
func (tx failingTxChallenges) ConsumeChallenge(id int64, now time.Time) (ok bool, err error) {
	err = tx.step(func() (e error) { ok, e = tx.Tx.Challenges().ConsumeChallenge(id, now); return e })
	return ok, err
}
func (tx failingTxPhones) VerifyPhone(id int64, now time.Time) error {
	return tx.step(func() error { return tx.Tx.Phones().VerifyPhone(id, now) })
}
func (tx failingTxPhones) MakePrimary(user, id int64) error {
	return tx.step(func() error { return tx.Tx.Phones().MakePrimary(user, id) })
}
func (tx failingTxChallenges) VoidChallenges(p string, id int64) error {
	return tx.step(func() error { return tx.Tx.Challenges().VoidChallenges(p, id) })
}
func (tx failingTxRecords) RecordAudit(a people.Audit) error {
	return tx.step(func() error { return tx.Tx.Records().RecordAudit(a) })
}
func (tx failingTxSessions) SetActiveOrganization(id, o, ws int64) error {
	return tx.step(func() error { return tx.Tx.Sessions().SetActiveOrganization(id, o, ws) })
}
func (tx failingTxUsers) SetLastOrganization(u, o int64) error {
	return tx.step(func() error { return tx.Tx.Users().SetLastOrganization(u, o) })
}
func (tx failingTxOrganizations) SetMemberWorkspace(o, u, ws int64) error {
	return tx.step(func() error { return tx.Tx.Organizations().SetMemberWorkspace(o, u, ws) })
}
func (tx failingTxSessions) InsertToken(v people.Token) error {
	return tx.step(func() error { return tx.Tx.Sessions().InsertToken(v) })
}
func (tx failingTxUsers) InsertUser(u people.User, e people.Email) error {
	return tx.step(func() error { return tx.Tx.Users().InsertUser(u, e) })
}
func (tx failingTxSessions) InsertSignIn(v people.SignIn) error {
	return tx.step(func() error { return tx.Tx.Sessions().InsertSignIn(v) })
}
func (tx failingTxRecords) RecordEvent(v people.Event) error {
	return tx.step(func() error { return tx.Tx.Records().RecordEvent(v) })
}
func (tx failingTxAttempts) CompleteAttempt(id int64) (ok bool, err error) {
	err = tx.step(func() (e error) { ok, e = tx.Tx.Attempts().CompleteAttempt(id); return e })
	return ok, err
}

// untilWhole interrupts an operation at each statement in turn until it completes, and calls torn after each
// interruption.
func untilWhole(w *world, f *failing, run func() answer, torn func()) {
	w.T.Helper()
	for n := int64(0); ; n++ {
		f.left.Store(n)
		f.armed.Store(true)
		a := run()
		f.armed.Store(false)
		if a.Status == 200 {
			if n < 4 {
				w.T.Fatalf("only %d statements were stepped through", n)
			}
			return
		}
		if a.Status != 500 {
			w.T.Fatalf("interrupted at step %d: %s", n, a.Raw)
		}
		torn()
	}
}

func TestOperationsAreAtomic(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		f := &failing{Store: w.Store}
		server := w.serve(f)
		b := w.browser()
		b.base = server.URL
		b.signUp("ada@example.com")
		user := parseID(b.last.Body.Session.ActiveSignIn["user_id"].(string))
		phone := b.addPhone(number)
		sends := 0
		code := ""
		untilWhole(w, f, func() answer {
			f.armed.Store(false)
			if tries := w.tries(phone); tries < 0 || tries >= 5 {
				w.Clock.Advance(25 * time.Hour)
				b.signIn("ada@example.com")
				sends++
				code = b.prepare(phone, number, sends)
			}
			f.armed.Store(true)
			return b.do("POST", verifyPath(phone), codeBody(code))
		}, func() {
			w.tx(func(tx people.Tx) error {
				p, _, err := tx.Phones().Phone(parseID(phone))
				_, live, _ := tx.Challenges().LiveChallenge(people.PurposePhone, p.ID)
				u, _, _ := tx.Users().User(user)
				if !p.VerifiedAt.IsZero() || p.Primary || u.Phone != "" || !live || strings.Contains(w.dump(), "phone.verified") {
					t.Fatalf("half done: %+v, code live: %v", p, live)
				}
				return err
			})
		})
		one, two := b.organization("One"), b.organization("Two")
		_ = two
		before := b.ok("GET", "/session", "")
		untilWhole(w, f, func() answer {
			return b.do("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, one))
		}, func() {
			if got := b.ok("GET", "/session", ""); fmt.Sprint(got) != fmt.Sprint(before) || strings.Contains(w.dump(), "session.switched_organization") {
				t.Fatalf("an interrupted switch has an effect: %v", got)
			}
		})
		if got := b.ok("GET", "/session", ""); got["organization"].(map[string]any)["id"] != one {
			t.Fatalf("switched: %v", got)
		}
		events := w.signInEvents()
		other := w.browser()
		other.base = server.URL
		untilWhole(w, f, func() answer {
			w.Clock.Advance(time.Hour)
			return other.do("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"ada@example.com","password":%q}`, goodPassword))
		}, func() {
			if n := w.signInEvents(); n != events || other.do("GET", "/me", "").Status != 401 {
				t.Fatalf("an interrupted sign-in has an effect: %d events, before %d", n, events)
			}
		})
	})
}

// signInEvents counts the events of sign-ins, whether the server's roll-up moved them meanwhile or not.
func (w *world) signInEvents() (n int) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	w.Must(db.QueryRowContext(w.T.Context(), "SELECT (SELECT COUNT(*) FROM events WHERE kind = 'signin') + (SELECT COUNT(*) FROM past_events WHERE kind = 'signin')").Scan(&n))
	return n
}

// tries returns how often the live code of a phone was tried, -1 if there is none.
func (w *world) tries(phone string) (tries int) {
	w.tx(func(tx people.Tx) error {
		c, found, err := tx.Challenges().LiveChallenge(people.PurposePhone, parseID(phone))
		if tries = c.Tries; !found || !w.Clock.Now().Before(c.ExpiresAt) {
			tries = -1
		}
		return err
	})
	return tries
}

func TestTollFraud(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		for _, typed := range []string{
			"12025550123", "+1202555012", "+120255501234", "2025550123", "", "+", "+1 202 555 0123", "+1-202-555-0123", "tel:+12025550123", "+１２０２５５５０１２３",
			"+447400123456" /* not an allowed country */, "+18005551234" /* toll free */, "+19005551234" /* premium */, "911", "+4415",
		} {
			b.refused(400, "INVALID_PHONE", "POST", "/me/phone-numbers", fmt.Sprintf(`{"phone_number":%q}`, typed))
		}
		phone := b.addPhone(number)
		b.refused(400, "PHONE_EXISTS", "POST", "/me/phone-numbers", fmt.Sprintf(`{"phone_number":%q}`, number))
		other := b.addPhone("+12025550124")
		// A daily budget of one text.
		d := w.Settings()
		d.SMS.DailyBudget = 1
		w.Declare(d)
		b.prepare(phone, number, 1)
		var refused answer
		w.Eventually("the budget applies", func() bool {
			refused = b.do("POST", "/me/phone-numbers/"+other+"/prepare-verification", `{}`)
			return refused.code() == "RATE_LIMITED" && *refused.Body.Errors[0].RetryAfterSeconds > 120 || refused.Status == 200
		})
		if refused.Status == 200 {
			t.Fatal("a second text went out on a budget of one")
		}
		// A country that is no longer allowed.
		d.SMS.DailyBudget, d.SMS.AllowedCountries = 1000, &[]string{}
		w.Declare(d)
		w.Eventually("no country is allowed", func() bool {
			return b.do("POST", "/me/phone-numbers/"+other+"/prepare-verification", `{}`).code() == "INVALID_PHONE"
		})
		b.refused(400, "INVALID_PHONE", "POST", "/me/phone-numbers", `{"phone_number":"+12025550199"}`)
		// No texts are enabled.
		d.SMS = nil
		w.Declare(d)
		w.Eventually("nothing is sent", func() bool {
			return b.do("POST", "/me/phone-numbers/"+other+"/prepare-verification", `{}`).code() == "SMS_DISABLED"
		})
	})
}

func TestNumberOfAnotherUserIsShownOnlyAfterVerification(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, _ := w.signedUp("owner@example.com")
		own := owner.addPhone(number)
		owner.ok("POST", verifyPath(own), codeBody(owner.prepare(own, number, 1)))
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		code := b.prepare(phone, number, 2)
		b.refused(400, "INVALID_CODE", "POST", verifyPath(phone), codeBody(wrong(code)))
		b.refused(400, "PHONE_EXISTS", "POST", verifyPath(phone), codeBody(code))
		b.refused(400, "EXPIRED_CODE", "POST", verifyPath(phone), codeBody(code))
		if phones := b.do("GET", "/me/phone-numbers", ""); !strings.Contains(phones.Raw, `"verified":false`) {
			t.Errorf("phones: %s", phones.Raw)
		}
	})
}

func TestTextHasAppNameAndOrigin(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		code := b.prepare(phone, number, 1)
		m := w.Carrier.Messages(number)[0]
		lines := strings.Split(m.Body, "\n")
		if lines[len(lines)-1] != "@localhost #"+code || !strings.Contains(lines[0], "Acme") || strings.Contains(m.Body, "http") || len(m.Body) > 160 || m.From != "+15005550006" {
			t.Errorf("the text is %q from %s", m.Body, m.From)
		}
	})
}

func TestPhonesPrimaryAndRemoval(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		one, two := b.addPhone(number), b.addPhone("+12025550124")
		b.refused(400, "PHONE_NOT_VERIFIED", "POST", "/me/phone-numbers/"+two+"/make-primary", `{}`)
		b.ok("POST", verifyPath(one), codeBody(b.prepare(one, number, 1)))
		data := b.ok("POST", verifyPath(two), codeBody(b.prepare(two, "+12025550124", 1)))
		if data["phone_number"].(map[string]any)["primary"] != false {
			t.Error("the second phone is primary")
		}
		b.refused(400, "PRIMARY_PHONE_REMOVAL", "DELETE", "/me/phone-numbers/"+one, "")
		if got := b.ok("POST", "/me/phone-numbers/"+two+"/make-primary", `{}`); got["primary"] != true {
			t.Errorf("made primary: %v", got)
		}
		if me := b.ok("GET", "/me", ""); me["primary_phone_number"] != "+12025550124" {
			t.Errorf("me: %v", me)
		}
		b.ok("DELETE", "/me/phone-numbers/"+one, "")
		b.refused(404, "PHONE_NOT_FOUND", "DELETE", "/me/phone-numbers/"+one, "")
	})
}

func TestMessageGatewayRefusesOrFails(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		w.Must(w.Carrier.Fail(faultServerErrors(2)))
		b.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
		// The test's clock stands still: a retry is due only after the clock was advanced. A slow delivery can be repeated,
		// because the clock may pass the end of its lease meanwhile.
		w.Eventually("the text arrives after failures", func() bool {
			w.Clock.Advance(200 * time.Millisecond)
			return len(w.Carrier.Messages(number)) >= 1
		})
		first := len(w.Carrier.Messages(number))
		w.Must(w.Carrier.Fail(faultThrottled(1)))
		w.Clock.Advance(time.Minute)
		b.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
		w.Eventually("the text arrives after the throttle's wait", func() bool {
			w.Clock.Advance(200 * time.Millisecond)
			return len(w.Carrier.Messages(number)) > first
		})
		second := len(w.Carrier.Messages(number))
		w.Must(w.Carrier.Fail(faultPermanent(1)))
		w.Clock.Advance(3 * time.Minute)
		b.ok("POST", "/me/phone-numbers/"+phone+"/prepare-verification", `{}`)
		w.Eventually("a permanent refusal ends the message", func() bool { return strings.Contains(w.dump(), " failed ") })
		if n := len(w.Carrier.Messages(number)); n != second {
			t.Errorf("%d texts arrived, want %d", n, second)
		}
	})
}

func faultServerErrors(n int) messagegateway.Fault {
	return messagegateway.Fault{Kind: messagegateway.FaultError, Count: n}
}
func faultThrottled(n int) messagegateway.Fault {
	return messagegateway.Fault{Kind: messagegateway.FaultThrottle, Count: n, RetryAfter: "2"}
}
func faultPermanent(n int) messagegateway.Fault {
	return messagegateway.Fault{Kind: messagegateway.FaultError, Count: n, Status: 400, Code: 21610}
}
