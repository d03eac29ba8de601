package enduser_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// meanwhile is a store in whose transactions a concurrent change happens once, at a step.
type meanwhile struct {
	store.Store
	// step is the point of time: "change" before a transaction, "user" after a user was read, "credential" after a
	// credential was read, "lock" before a user is locked. after is how many of these steps pass before the change.
	step  string
	after atomic.Int64
	do    func()
}

func (m *meanwhile) at(step string) {
	if m.do != nil && m.step == step && m.after.Add(-1) == -1 {
		m.do()
	}
}

func (m *meanwhile) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	m.at("change")
	return m.Store.Change(ctx, deployment, func(tx people.Tx) error { return do(meanwhileTx{tx, m}) })
}

type meanwhileTx struct {
	people.Tx
	m *meanwhile
}

type (
	meanwhileTxUsers struct {
		people.Users
		meanwhileTx
	}
)

func (tx meanwhileTx) Users() people.Users { return meanwhileTxUsers{tx.Tx.Users(), tx} }

func (tx meanwhileTxUsers) Credential(user int64, kind string) (string, bool, error) {
	secret, found, err := tx.Tx.Users().Credential(user, kind)
	tx.m.at("credential")
	return secret, found, err
}

func (tx meanwhileTxUsers) User(id int64) (people.User, bool, error) {
	user, found, err := tx.Tx.Users().User(id)
	tx.m.at("user")
	return user, found, err
}

func (tx meanwhileTxUsers) LockUser(id int64) (people.User, bool, error) {
	tx.m.at("lock")
	return tx.Tx.Users().LockUser(id)
}

// onPostgres runs a test of concurrent transactions, which SQLite with its single writer does not have.
func onPostgres(t *testing.T, story func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	story(t, newWorld(t, servertest.Postgres(t)))
}

// count returns the number that a query selects.
func (w *world) count(query string) (n int) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	w.Must(db.QueryRowContext(w.T.Context(), query).Scan(&n))
	return n
}

// Removing a leaked password signs its user out everywhere, including a concurrent sign-in.
func TestPasswordRemovedDuringSignInDoesNotSignIn(t *testing.T) {
	onPostgres(t, func(t *testing.T, w *world) {
		_, user := w.signedUp("ada@example.com")
		m := &meanwhile{Store: w.Store, step: "credential", do: func() {
			w.tx(func(tx people.Tx) error {
				if _, err := tx.Sessions().EndSessionsOf(parseID(user)); err != nil {
					return err
				}
				if _, _, err := tx.Users().LockUser(parseID(user)); err != nil {
					return err
				}
				_, err := tx.Users().DeleteCredential(parseID(user), people.CredentialPassword)
				return err
			})
		}}
		m.after.Store(1) // counting the try already reads the credential once
		thief := w.browser()
		thief.base = w.serve(m).URL
		if a := thief.password("ada@example.com", goodPassword); a.Status != 401 || a.code() != "INVALID_CREDENTIALS" {
			t.Errorf("%s", a.Raw)
		}
		if m.after.Load() >= 0 {
			t.Fatal("nothing happened meanwhile")
		}
		if n := w.count(`SELECT COUNT(*) FROM signins`); n != 0 {
			t.Errorf("%d sign-ins outlive the password", n)
		}
	})
}

func TestUserDisabledDuringSignInGetsNoSession(t *testing.T) {
	onPostgres(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		b.ok("POST", "/session/sign-out", `{}`)
		m := &meanwhile{Store: w.Store, step: "user", do: func() {
			w.tx(func(tx people.Tx) error {
				u, _, err := tx.Users().LockUser(parseID(user))
				if err != nil {
					return err
				}
				u.Disabled = true
				return tx.Users().UpdateUser(u)
			})
		}}
		b = w.browser()
		b.base = w.serve(m).URL
		if a := b.password("ada@example.com", goodPassword); a.Status != 403 || a.code() != "USER_DISABLED" || b.cookie() != "" {
			t.Errorf("%s", a.Raw)
		}
		if m.after.Load() >= 0 {
			t.Fatal("nothing happened meanwhile")
		}
		if n := w.count(`SELECT COUNT(*) FROM sessions`); n != 0 {
			t.Errorf("%d sessions without a token are left", n)
		}
	})
}

func TestPhoneRemovedDuringVerificationIsNotVerified(t *testing.T) {
	onPostgres(t, func(t *testing.T, w *world) {
		m := &meanwhile{Store: w.Store, step: "lock"}
		b, _ := w.signedUp("ada@example.com")
		phone := b.addPhone(number)
		code := b.prepare(phone, number, 1)
		m.do = func() { w.tx(func(tx people.Tx) error { return tx.Phones().DeletePhone(parseID(phone)) }) }
		there := b.as(b.cookie())
		there.base = w.serve(m).URL
		there.refused(404, "PHONE_NOT_FOUND", "POST", verifyPath(phone), codeBody(code))
		if m.after.Load() >= 0 {
			t.Fatal("nothing happened meanwhile")
		}
	})
}

// An audit record has the account for which an operation was done, even if another tab switched the account
// concurrently.
func TestAuditHasTheAccountActiveInTheTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, servertest.SQLite(t))
	b, ada := w.signedUp("ada@example.com")
	first := b.last.Body.Session.ActiveSignIn["id"].(string)
	w.signedUp("bob@example.com")
	b.signIn("bob@example.com")
	m := &meanwhile{Store: w.Store, step: "change", do: func() {
		b.as(b.cookie()).ok("POST", "/session/switch-sign-in", fmt.Sprintf(`{"signin_id":%q}`, first))
	}}
	there := b.as(b.cookie())
	there.base = w.serve(m).URL
	m.after.Store(0)
	id := there.addPhone(number)
	w.tx(func(tx people.Tx) error {
		p, _, err := tx.Phones().Phone(parseID(id))
		if p.User != parseID(ada) {
			t.Errorf("added for %d, want ada, %s", p.User, ada)
		}
		return err
	})
	db := w.Open()
	defer func() { _ = db.Close() }()
	actor := ""
	w.Must(db.QueryRowContext(t.Context(), `SELECT actor FROM audit WHERE action = 'phone.added'`).Scan(&actor))
	if actor != "user:"+ada {
		t.Errorf("the audit names %s, want user:%s", actor, ada)
	}
}
