package enduser_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/users/password"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

func (b *browser) password(email, typed string) answer {
	b.w.T.Helper()
	return b.do("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":%s,"password":%s}`, quote(email), quote(typed)))
}

// Many networks try passwords of one account.
func TestUnknownClientsShareAWaitAndOwnerIsNotified(t *testing.T) {
	onSQLite(t, func(w *world) {
		owner, _ := w.signedUp("ada@example.com")
		owner.ok("POST", "/session/sign-out", `{}`)
		wrong, waiting := 0, answer{}
		for n := range 103 {
			unknownClient := w.browserAt(fmt.Sprintf("2001:db8:%x::%x", n, n+1))
			switch a := unknownClient.password("ada@example.com", "wrong wrong wrong wrong"); a.code() {
			case "INVALID_CREDENTIALS":
				wrong++
			default:
				waiting = a
			}
		}
		// The 101st try is compared and starts the wait. Tries during the wait are not compared.
		if wrong != 101 || waiting.Status != 429 || waiting.code() != "RATE_LIMITED" || waiting.Header.Get("Retry-After") == "" {
			t.Errorf("%d wrong passwords of unknown clients were compared in a day without a wait, want 101; then %s", wrong, waiting.Raw)
		}
		mailed := func() int {
			n := 0
			for _, m := range w.Carrier.Messages("ada@example.com") {
				if strings.Contains(m.Subject, "sign-in") && frontendtest.CodeIn(m.Body) == "" {
					n++
				}
			}
			return n
		}
		w.Eventually("the owner is notified", func() bool { return mailed() == 1 })
		// The owner, at a client that the account knows, does not wait.
		if a := owner.password("ada@example.com", goodPassword); a.Status != 200 {
			t.Errorf("the owner: %s", a.Raw)
		}
		// Nor does an unknown client of another account.
		w.signedUp("bob@example.com")
		if a := w.unknownClient(1).password("bob@example.com", goodPassword); a.Status != 200 {
			t.Errorf("another account: %s", a.Raw)
		}
		// The wait is as long as the wait after the failures of one client.
		w.Clock.Advance(2 * time.Second)
		if a := w.unknownClient(2).password("ada@example.com", goodPassword); a.Status != 200 {
			t.Errorf("after the wait: %s", a.Raw)
		}
		if mailed() != 1 {
			t.Errorf("the owner was notified %d times in a day", mailed())
		}
	})
}

// One wide network tries a password on many accounts.
func TestWrongPasswordsAreBoundedPerNetwork(t *testing.T) {
	onSQLite(t, func(w *world) {
		owner := w.browserAt("203.0.113.200")
		owner.signUp("ada@example.com")
		// Counts 198 tries of the network, two fewer than the bound per hour.
		w.tx(func(tx people.Tx) error {
			for range 198 {
				if _, err := tx.Limits().Count("password-neighbourhood", "203.0.113.0/24", w.Clock.Now(), w.Clock.Now().Add(time.Hour)); err != nil {
					return err
				}
			}
			return nil
		})
		for n := range 2 {
			if a := w.browserAt(fmt.Sprintf("203.0.113.%d", n+1)).password(fmt.Sprintf("user%d@example.com", n), "wrong wrong wrong wrong"); a.code() != "INVALID_CREDENTIALS" {
				t.Fatal(a.Raw)
			}
		}
		a := w.browserAt("203.0.113.9").password("user9@example.com", "wrong wrong wrong wrong")
		if a.Status != 429 || a.code() != "RATE_LIMITED" || a.Header.Get("Retry-After") == "" {
			t.Errorf("the 201st of an hour: %s", a.Raw)
		}
		if a := owner.password("ada@example.com", goodPassword); a.Status != 200 {
			t.Errorf("an owner in the network, at a known client: %s", a.Raw)
		}
		if a := w.browserAt("203.0.114.1").password("user1@example.com", "wrong wrong wrong wrong"); a.code() != "INVALID_CREDENTIALS" {
			t.Errorf("another network: %s", a.Raw)
		}
		w.Clock.Advance(time.Hour)
		if a := w.browserAt("203.0.113.9").password("user9@example.com", "wrong wrong wrong wrong"); a.code() != "INVALID_CREDENTIALS" {
			t.Errorf("an hour later: %s", a.Raw)
		}
	})
}

// A refusal without a hash leaves no row.
func TestPasswordTryWithoutHashWritesNoRow(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.PasswordCost = password.DefaultCost // as long as in production, so that there is a queue
		w.Server = w.serve(w.Store)
		var mu sync.Mutex
		statuses := map[int]int{}
		var all sync.WaitGroup
		for n := range 40 {
			b := w.browserAt("203.0.113.1") // one client, which may have 8 hashes running or waiting
			all.Go(func() {
				resp, err := b.raw("POST", "/auth/signin", fmt.Sprintf(`{"strategy":"password","email":"user%d@example.com","password":"wrong wrong wrong"}`, n))
				if err != nil {
					return
				}
				_ = resp.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				statuses[resp.StatusCode]++
			})
		}
		all.Wait()
		if statuses[401]+statuses[503] != 40 || statuses[503] == 0 {
			t.Fatalf("statuses %v, want some 503", statuses)
		}
		db := w.Open()
		defer func() { _ = db.Close() }()
		rows := 0
		w.Must(db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM failures WHERE scope = 'password'`).Scan(&rows))
		if rows != statuses[401] {
			t.Errorf("%d rows for %d tries that were hashed, of 40", rows, statuses[401])
		}
	})
}

// A right password causes no wait for other clients.
func TestRightPasswordOfUnknownClientCausesNoWait(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("ada@example.com")
		w.tx(func(tx people.Tx) error {
			f, err := tx.Limits().LockFailure("password-strangers", "ada@example.com", w.Clock.Now())
			if err != nil {
				return err
			}
			f.Count = 100
			return tx.Limits().PutFailure(f)
		})
		if a := w.unknownClient(1).password("ada@example.com", goodPassword); a.Status != 200 {
			t.Fatalf("the owner at a new client: %s", a.Raw)
		}
		if a := w.unknownClient(2).password("ada@example.com", goodPassword); a.Status != 200 {
			t.Errorf("the owner at another new client: %s", a.Raw)
		}
	})
}

// secondFails is a store where the second of three changes fails while on is set, as on a disk that is nearly full.
type secondFails struct {
	store.Store
	on      atomic.Bool
	changes atomic.Int64
}

func (s *secondFails) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if s.on.Load() && s.changes.Add(1)%3 == 2 {
		return fmt.Errorf("%w: the disk is full", store.ErrUnavailable)
	}
	return s.Store.Change(ctx, deployment, do)
}

// A right password does not count as a failure if the store cannot write the sign-in.
func TestRightPasswordDoesNotCountWhenStoreFails(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.signedUp("ada@example.com")
		full := &secondFails{Store: w.Store}
		b := w.browser()
		b.base = w.serve(full).URL
		full.on.Store(true)
		for range 15 { // more than the free failures
			if a := b.password("ada@example.com", goodPassword); a.Status != 503 {
				t.Fatalf("%d %s, want 503", a.Status, a.Raw)
			}
		}
		full.on.Store(false)
		if a := b.password("ada@example.com", goodPassword); a.Status != 200 {
			t.Errorf("after the store works again: %s", a.Raw)
		}
	})
}
