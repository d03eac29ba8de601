package enduser_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

func TestBackchannelLogoutEndsTheSignInsOfTheSubject(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn, second := w.connection("globex", p, globexDomain), w.connection("other", p, nil)
		path := "/sso/" + conn + "/backchannel-logout"
		bob := identityprovider.User{"sub": "2", "email": "bob@globex.example", "sid": "s2"}
		signIn := func(user identityprovider.User) *browser {
			t.Helper()
			b := w.browser()
			if a := b.sso(conn, p, user); a.user() == "" {
				t.Fatalf("%s", a.Raw)
			}
			return b
		}
		one, two, other := signIn(ann), signIn(ann), signIn(bob)
		byPassword := w.browser()
		byPassword.signUp("carl@example.com")
		logout := func(path string, claims map[string]any) int {
			t.Helper()
			return w.post(path, url.Values{"logout_token": {p.LogoutToken(claims)}}).StatusCode
		}
		for name, claims := range map[string]map[string]any{
			"with a nonce":       {"sub": "1", "nonce": "x"},
			"without events":     {"sub": "1", "events": nil},
			"with another event": {"sub": "1", "events": map[string]any{"x": map[string]any{}}},
			"without a subject":  {},
			"without an id":      {"sub": "1", "jti": nil},
			"of another client":  {"sub": "1", "aud": "x"},
			"of another issuer":  {"sub": "1", "iss": "https://evil.example"},
			"of yesterday":       {"sub": "1", "iat": w.Clock.Now().Add(-24 * time.Hour).Unix()},
		} {
			if status := logout(path, claims); status != http.StatusBadRequest {
				t.Errorf("%s: %d", name, status)
			}
		}
		if status := logout("/sso/"+second+"/backchannel-logout", map[string]any{"sub": "1"}); status != http.StatusOK || !one.isSignedIn() {
			t.Errorf("a token at another connection: %d, signed in %t", status, one.isSignedIn())
		}
		token := p.LogoutToken(map[string]any{"sub": "1"})
		if status := w.post(path, url.Values{"logout_token": {token}}).StatusCode; status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		if one.isSignedIn() || two.isSignedIn() || !other.isSignedIn() || !byPassword.isSignedIn() {
			t.Error("the wrong sign-ins ended")
		}
		again := signIn(ann)
		if status := w.post(path, url.Values{"logout_token": {token}}).StatusCode; status != http.StatusBadRequest || !again.isSignedIn() {
			t.Errorf("the token works twice: %d", status)
		}
		if status := logout(path, map[string]any{"sid": "s2"}); status != http.StatusOK || other.isSignedIn() {
			t.Errorf("by the session of the provider: %d", status)
		}
	})
}

// failingChange is a store whose next change fails after an own number of changes.
type failingChange struct {
	store.Store
	after atomic.Int64
}

func (f *failingChange) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return f.Store.Change(ctx, deployment, func(tx people.Tx) error {
		if err := do(tx); err != nil || f.after.Add(-1) != -1 {
			return err
		}
		return store.ErrUnavailable
	})
}

func TestLogoutTokenThatEndedNothingCanBeSentAgain(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		for after := range int64(3) {
			b := w.browser()
			if a := b.sso(conn, p, ann); a.user() == "" {
				t.Fatalf("%s", a.Raw)
			}
			away := &failingChange{Store: w.Store}
			away.after.Store(after)
			form := url.Values{"logout_token": {p.LogoutToken(map[string]any{"sub": "1"})}}
			first := w.postTo(w.serve(away).URL, "/sso/"+conn+"/backchannel-logout", form).StatusCode
			if first == http.StatusOK {
				continue // fewer changes were made
			}
			if again := w.post("/sso/"+conn+"/backchannel-logout", form).StatusCode; again != http.StatusOK || b.isSignedIn() {
				t.Errorf("failed at change %d with %d, then %d; signed in: %t", after, first, again, b.isSignedIn())
			}
		}
	})
}

// signInsOf adds sign-ins of an identity by a connection.
func (w *world) signInsOf(conn string, user int64, subject string, n int) {
	w.T.Helper()
	id, err := ids.Parse(conn)
	w.Must(err)
	now := w.Clock.Now()
	w.tx(func(tx people.Tx) error {
		identities, err := tx.Identities().IdentitiesOf(user)
		at := slices.IndexFunc(identities, func(i people.Identity) bool { return i.Connection == id && i.Subject == subject })
		if err != nil || at < 0 {
			return fmt.Errorf("no identity: %w", err)
		}
		for k := range int64(n) {
			s := people.Session{ID: 1000 + k, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(time.Hour)}
			g := people.SignIn{ID: 1000 + k, Session: s.ID, User: user, Method: people.MethodSSO, CreatedAt: now,
				Upstream: people.Upstream{Connection: id, Identity: identities[at].ID}}
			if err := errors.Join(tx.Sessions().InsertSession(s), tx.Sessions().InsertSignIn(g)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *world) countSignIns() int { return w.count("SELECT COUNT(*) FROM signins") }

// A token is used by the transaction that ends the last sign-ins, so a server that stops before leaves the token for
// the request that ends the rest.
func TestLogoutTokenThatEndedSomeSignInsCanBeSentAgain(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		a := w.browser().sso(conn, p, ann)
		user, err := ids.Parse(a.user())
		w.Must(err)
		w.signInsOf(conn, user, "1", 220)
		bob := w.browser()
		bob.sso(conn, p, identityprovider.User{"sub": "2", "email": "bob@globex.example"})
		form := url.Values{"logout_token": {p.LogoutToken(map[string]any{"sub": "1"})}}
		path := "/sso/" + conn + "/backchannel-logout"
		away := &failingChange{Store: w.Store}
		away.after.Store(1) // the second batch
		if status := w.postTo(w.serve(away).URL, path, form).StatusCode; status != http.StatusServiceUnavailable {
			t.Fatalf("status %d", status)
		}
		if left := w.countSignIns(); left != 122 {
			t.Errorf("%d sign-ins are left, want those of two batches and the one of another user", left)
		}
		if status := w.post(path, form).StatusCode; status != http.StatusOK {
			t.Errorf("sent again: %d", status)
		}
		if left := w.countSignIns(); left != 1 || !bob.isSignedIn() {
			t.Errorf("%d sign-ins are left, want the one of another user", left)
		}
		again := w.browser()
		again.sso(conn, p, ann)
		if status := w.post(path, form).StatusCode; status != http.StatusBadRequest || !again.isSignedIn() {
			t.Errorf("after it ended all: %d", status)
		}
	})
}

// The ids of a provider's sessions are its own: with a connection to several issuers, such as all tenants of Microsoft,
// another issuer may use the same.
func TestLogoutTokenOfASessionEndsSignInsOfItsIssuerAlone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		own, other := w.browser(), w.browser()
		own.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example", "sid": "s"})
		other.sso(conn, p, identityprovider.User{"sub": "2", "email": "bob@globex.example", "sid": "s"})
		db := w.Open()
		defer func() { _ = db.Close() }()
		_, err := db.ExecContext(w.T.Context(), "UPDATE identities SET issuer = 'https://other.example' WHERE subject = '2'")
		w.Must(err)
		form := url.Values{"logout_token": {p.LogoutToken(map[string]any{"sid": "s"})}}
		if status := w.post("/sso/"+conn+"/backchannel-logout", form).StatusCode; status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
		if own.isSignedIn() || !other.isSignedIn() {
			t.Errorf("signed in: %t with the token's issuer, %t with another one", own.isSignedIn(), other.isSignedIn())
		}
	})
}

// Each accepted token leaves a row. A provider that signs more and more of them reaches a bound; a token that ends a
// sign-in is not refused by it.
func TestLogoutTokensThatEndNothingAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn, second := w.connection("globex", p, globexDomain), w.connection("second", p, nil)
		w.tx(func(tx people.Tx) error {
			for range 999 {
				if _, err := tx.Limits().Count("logout-tokens-idle", conn, w.Clock.Now(), w.Clock.Now().Add(time.Hour)); err != nil {
					return err
				}
			}
			return nil
		})
		logout := func(conn, subject string) *http.Response {
			t.Helper()
			return w.post("/sso/"+conn+"/backchannel-logout", url.Values{"logout_token": {p.LogoutToken(map[string]any{"sub": subject})}})
		}
		rows := func() int { return w.count("SELECT COUNT(*) FROM counters WHERE scope = 'logout-tokens'") }
		if status := logout(conn, "unknown").StatusCode; status != http.StatusOK || rows() != 1 {
			t.Fatalf("the last token: %d, %d rows", status, rows())
		}
		refused := logout(conn, "unknown")
		body, err := io.ReadAll(refused.Body)
		w.Must(err)
		if refused.StatusCode != http.StatusBadRequest || refused.Header.Get("Retry-After") != "3600" || !strings.Contains(string(body), "send the token again later") || rows() != 1 {
			t.Errorf("%d %v %s, %d rows", refused.StatusCode, refused.Header, body, rows())
		}
		b := w.browser()
		b.sso(conn, p, ann)
		if status := logout(conn, "1").StatusCode; status != http.StatusOK || b.isSignedIn() {
			t.Errorf("a token of a signed-in user: %d", status)
		}
		if status := logout(second, "unknown").StatusCode; status != http.StatusOK {
			t.Errorf("another connection: %d", status)
		}
		w.Clock.Advance(time.Hour)
		if status := logout(conn, "unknown").StatusCode; status != http.StatusOK {
			t.Errorf("an hour later: %d", status)
		}
	})
}
