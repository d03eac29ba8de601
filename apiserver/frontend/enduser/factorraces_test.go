package enduser_test

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// tries is how many requests use one code at once, each from a browser of its own.
const tries = 1000

// waiting returns browsers whose sign-in to an account waits for its second factor, and the ids of their attempts. The
// rows are those of sign-ins by password. The account knows the clients, each of which has ten of the browsers, so that
// no limit of wrong codes refuses one.
func (w *world) waiting(user, email string) (browsers []*browser, attempts []string) {
	w.T.Helper()
	now := w.Clock.Now()
	w.tx(func(tx people.Tx) error {
		browsers, attempts = nil, nil // the transaction may run again
		hash, _, err := tx.Users().Credential(parseID(user), people.CredentialPassword)
		if err != nil {
			return err
		}
		for i := range tries {
			b := w.browserAt(netip.AddrFrom4([4]byte{100, 96, byte(i / 10), 7}).String())
			token, tokenHash, err := session.Mint(rand.Reader)
			if err != nil {
				return err
			}
			id := int64(1_000_000 + now.UnixMilli()%1_000_000*10_000 + int64(i))
			s := people.Session{ID: id, Anonymous: true, Attempting: true, Address: b.address, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(time.Hour)}
			a := people.Attempt{
				ID: id, Session: id, Kind: people.AttemptSignIn, Method: people.MethodPassword, Email: email, User: parseID(user), PasswordHash: hash, CreatedAt: now,
				ExpiresAt: now.Add(time.Hour), ProvedAt: now, Proofs: assurance.Proofs{}.With(assurance.Password, now),
			}
			if err := errors.Join(
				tx.Sessions().InsertSession(s), tx.Sessions().InsertToken(people.Token{Hash: tokenHash, Session: id, CreatedAt: now}),
				tx.Attempts().InsertAttempt(a), tx.Limits().RememberClient(a.User, b.address, now),
			); err != nil {
				return err
			}
			b.setCookie(token)
			browsers, attempts = append(browsers, b), append(attempts, fmt.Sprint(id))
		}
		return nil
	})
	return browsers, attempts
}

// atOnce sends the bodies concurrently, each from its browser, and counts the responses by the code of their error, ""
// for a success.
func (w *world) atOnce(path string, browsers []*browser, body func(i int) string) map[string]int {
	w.T.Helper()
	var wg sync.WaitGroup
	var mu sync.Mutex
	answers := map[string]int{}
	start := make(chan struct{})
	for i, b := range browsers {
		b.client.Timeout = 0 // the last of a thousand waits for all others, which takes minutes on a busy machine
		wg.Go(func() {
			<-start
			code := ""
			resp, err := b.raw("POST", path, body(i))
			if err != nil {
				code = err.Error()
			} else {
				defer func() { _ = resp.Body.Close() }()
				var a answer
				if err := json.NewDecoder(resp.Body).Decode(&a.Body); err != nil {
					code = err.Error()
				} else {
					code = a.code()
				}
			}
			mu.Lock()
			defer mu.Unlock()
			answers[code]++
		})
	}
	close(start)
	wg.Wait()
	return answers
}

// Of a thousand concurrent requests with one code, exactly one signs in, whatever sign-in it belongs to.
func TestOneOfThousandUsesOfCodeSucceeds(t *testing.T) {
	for strategy, code := range map[string]func(a *app, codes []any) string{
		"totp":          func(a *app, _ []any) string { return a.next() },
		"recovery_code": func(_ *app, codes []any) string { return codes[0].(string) },
	} {
		t.Run(strategy, func(t *testing.T) {
			onFactors(t, nil, func(t *testing.T, w *world) {
				ada := w.browser()
				user := ada.signUp("ada@example.com")
				a, codes := ada.addApp()
				used := code(a, codes)
				browsers, attempts := w.waiting(user, "ada@example.com")
				answers := w.atOnce("/auth/attempt-second-factor", browsers, func(i int) string { return secondStep(attempts[i], strategy, used) })
				if answers[""] != 1 || answers["CODE_USED"] != tries-1 {
					t.Errorf("answers %v", answers)
				}
				if n := w.count("SELECT COUNT(*) FROM signins WHERE user_id = " + user); n != 2 {
					t.Errorf("%d sign-ins, want that of the sign-up and one", n)
				}
				if n := w.count("SELECT COUNT(*) FROM counters WHERE counted > 0 AND scope LIKE 'second-factor%' AND scope <> 'second-factor-added'"); n != 0 {
					t.Errorf("codes that were used count as failures in %d counters", n)
				}
			})
		})
	}
}

// Of a thousand concurrent sign-ins with one answer of a passkey, exactly one signs in.
func TestOneOfThousandUsesOfChallengeSucceeds(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada, d := w.browser(), w.device()
		user := ada.signUp("ada@example.com")
		ada.addPasskey(d)
		shown := d.signInBody(ada.ok("POST", "/auth/passkey-options", `{}`))
		var browsers []*browser
		for range tries {
			browsers = append(browsers, w.browser())
		}
		answers := w.atOnce("/auth/signin", browsers, func(int) string { return shown })
		if answers[""] != 1 || answers["EXPIRED_CHALLENGE"] != tries-1 {
			t.Errorf("answers %v", answers)
		}
		if n := w.count("SELECT COUNT(*) FROM signins WHERE user_id = " + user); n != 2 {
			t.Errorf("%d sign-ins, want that of the sign-up and one", n)
		}
	})
}

// One sign-in takes one recovery code: of several codes at once, one is used, and the others stay.
func TestSignInTakesOneRecoveryCode(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		ada.signUp("ada@example.com")
		_, codes := ada.addApp()
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		var browsers []*browser
		for range 4 { // five tries end the attempt
			browsers = append(browsers, b.as(b.cookie()))
		}
		answers := w.atOnce("/auth/attempt-second-factor", browsers, func(i int) string { return secondStep(attempt, "recovery_code", codes[i].(string)) })
		// The session has a new token after the first: a request that comes later is not signed in.
		if answers[""] != 1 || answers["INVALID_ATTEMPT"]+answers["NOT_AUTHENTICATED"] != 3 {
			t.Errorf("answers %v", answers)
		}
		if left := ada.ok("GET", "/me/second-factors", "")["recovery_codes"].(map[string]any)["left"]; left != 9.0 {
			t.Errorf("%v codes are left, want 9", left)
		}
	})
}

// Neither a column of the store nor the log has a recovery code or a temporary code, as shown or without its dashes.
func TestRecoveryCodesAreNotStoredInPlainText(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		user := ada.signUp("ada@example.com")
		_, codes := ada.addApp()
		temporary := w.helpDesk().expect(200, "POST", "/users/"+user+"/temporary-code", `{}`)["code"].(string)
		b := w.browser()
		attempt := b.firstStep("ada@example.com")
		b.refused(400, "INVALID_CODE", "POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", "0000-0000-0000-0000-0000-0000"))
		b.ok("POST", "/auth/attempt-second-factor", secondStep(attempt, "recovery_code", codes[0].(string)))
		ada.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"recovery_code","code":%q}`, codes[1]))
		searchIn := map[string]string{"store": strings.ToLower(w.dumpAll()), "log": strings.ToLower(w.Logs.String())}
		for _, code := range append(codes, temporary) {
			for where, text := range searchIn {
				if plain := strings.ReplaceAll(code.(string), "-", ""); strings.Contains(text, code.(string)) || strings.Contains(text, plain) {
					t.Errorf("the %s has the code %s", where, code)
				}
			}
		}
		b = w.browser()
		b.ok("POST", "/auth/attempt-second-factor", secondStep(b.firstStep("ada@example.com"), "recovery_code", temporary))
		w.Eventually("no message keeps its body", func() bool { return !strings.Contains(w.dump(), "v1.") })
		if text := strings.ToLower(w.dumpAll() + w.Logs.String()); strings.Contains(text, strings.ReplaceAll(temporary, "-", "")) {
			t.Error("the store or the log has the used temporary code")
		}
	})
}
