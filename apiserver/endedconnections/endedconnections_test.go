package endedconnections

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const home, other = "acme/home", "zone/other"

// hooked is a store that fails the transactions of one deployment.
type hooked struct {
	people.Store
	fails string
}

func (h *hooked) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if deployment == h.fails {
		return errors.New("the store fails on purpose")
	}
	return h.Store.Change(ctx, deployment, do)
}

// world is a store whose deployments have connections, with the snapshots of a server.
type world struct {
	*servertest.World
	store    *hooked
	follower *snapshot.Follower
	nextID   int64
}

func onEngines(t *testing.T, story func(w *world)) {
	t.Helper()
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := &world{World: servertest.New(t, url, nil)}
		w.store = &hooked{Store: w.Store}
		w.declare(home, "globex", true)
		w.Put(v1alpha1.KindIdentityDeployment, "home", home, "", document.Deployment{})
		w.Put(v1alpha1.KindIdentityDeployment, "other", other, "", document.Deployment{})
		w.follower = snapshot.NewFollower(w.Store, 5*time.Millisecond, w.Clock.Now, logr.Discard())
		w.Follow(w.follower)
		story(w)
	})
}

func (w *world) worker() *Worker {
	return New(Options{Store: w.store, Snapshots: w.follower, Keyring: w.Keyring, Clock: w.Clock.Now, Log: logr.Discard()})
}

// declare declares a connection and returns its id.
func (w *world) declare(deployment, slug string, active bool) int64 {
	return w.Put(v1alpha1.KindConnection, slug, deployment, slug, document.Connection{Slug: slug, Active: active})
}

// id returns the id of a connection, declared or not.
func id(deployment, slug string) int64 {
	namespace, _, _ := strings.Cut(deployment, "/")
	return ids.Derive(v1alpha1.KindConnection, namespace, slug)
}

// declared waits until the server's configuration has a connection, or no longer has it.
func (w *world) declared(deployment string, connection int64, want bool) {
	w.T.Helper()
	w.Eventually("the configuration is followed", func() bool {
		return w.follower.Current().Declares(v1alpha1.KindConnection, deployment, connection) == want
	})
}

// withdraw deletes a connection of YAML and waits for the server.
func (w *world) withdraw(deployment, slug string) {
	w.T.Helper()
	namespace, _, _ := strings.Cut(deployment, "/")
	w.Withdraw(v1alpha1.KindConnection, namespace, slug)
	w.declared(deployment, id(deployment, slug), false)
}

// users inserts n identities of a connection, each with a sign-in.
func (w *world) users(deployment string, connection int64, n int) {
	w.T.Helper()
	w.Must(w.Store.Change(w.T.Context(), deployment, func(tx people.Tx) error {
		for range n {
			w.nextID++
			of, now := w.nextID, w.Clock.Now()
			g := people.SignIn{ID: of, Session: of, User: of, Method: "sso", CreatedAt: now, Upstream: people.Upstream{Connection: connection, Identity: of}}
			if err := errors.Join(
				tx.Sessions().InsertSession(people.Session{ID: of, ActiveSignIn: of, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(1000 * time.Hour)}),
				tx.Sessions().InsertSignIn(g),
				tx.Identities().InsertIdentity(people.Identity{ID: of, Connection: connection, Issuer: "https://idp.example", Subject: fmt.Sprint(of), User: of, CreatedAt: now, UsedAt: now}),
			); err != nil {
				return err
			}
		}
		return nil
	}))
}

// left is what the store has of a connection.
type left struct {
	signIns, identities int64
	ended               bool
}

func (w *world) left(deployment string, connection int64) (l left) {
	w.T.Helper()
	w.Must(w.Store.Change(w.T.Context(), deployment, func(tx people.Tx) (err error) {
		l = left{}
		for signIn := range w.nextID {
			u, found, err := tx.Sessions().UpstreamOf(signIn + 1)
			if err != nil {
				return err
			}
			if found && u.Connection == connection {
				l.signIns++
			}
		}
		if _, l.ended, err = tx.Connections().LockConnectionEnd(connection); err != nil {
			return err
		}
		l.identities, err = tx.Identities().CountIdentities(connection)
		return err
	}))
	return l
}

func (w *world) want(what, deployment string, connection int64, want left) {
	w.T.Helper()
	if got := w.left(deployment, connection); got != want {
		w.T.Fatalf("%s: the store has %+v of the connection, want %+v", what, got, want)
	}
}

// audited returns how many ended sign-ins were recorded under an actor. Each has its event.
func (w *world) audited(actor string) int {
	w.T.Helper()
	db, n := w.Open(), 0
	defer func() { _ = db.Close() }()
	w.Must(db.QueryRowContext(w.T.Context(), `SELECT COUNT(*) FROM audit WHERE action = 'session.ended_upstream' AND actor = '`+actor+`'`).Scan(&n))
	logged := 0
	w.Must(db.QueryRowContext(w.T.Context(), `SELECT COUNT(*) FROM event_log_new WHERE type = 'session.revoked' AND actor = '`+actor+`' AND data LIKE '%"connection"%'`).Scan(&logged))
	if logged != n {
		w.T.Errorf("%d ended sign-ins have %d events", n, logged)
	}
	return n
}

func (w *world) walk(worker *Worker) {
	w.T.Helper()
	w.Must(worker.walk(w.T.Context()))
}

func TestSignInsEndWithTheDeletionOfTheirConnection(t *testing.T) {
	onEngines(t, func(w *world) {
		globex, initech := id(home, "globex"), w.declare(home, "initech", true)
		w.declared(home, initech, true)
		w.users(home, globex, batch+1)
		w.users(home, initech, 2)
		ctx, cancel := context.WithCancel(w.T.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		for range 2 { // servers
			worker := w.worker()
			worker.follow()
			running.Go(func() { _ = worker.Run(ctx) })
		}
		w.declare(home, "initech", false)
		w.withdraw(home, "globex")
		w.Eventually("the sign-ins end", func() bool { return w.left(home, globex) == left{identities: batch + 1, ended: true} })
		w.want("an inactive connection", home, initech, left{signIns: 2, identities: 2})
		if n := w.audited("connection:globex"); n != batch+1 {
			w.T.Fatalf("%d records of ended sign-ins, want one for each of %d", n, batch+1)
		}
	})
}

func TestSignInsOfAConnectionThatWasDeletedWhileNoServerRanEnd(t *testing.T) {
	onEngines(t, func(w *world) {
		globex := id(home, "globex")
		w.users(home, globex, 3)
		w.withdraw(home, "globex")
		worker := w.worker()
		worker.follow()
		if worker.endLeft(w.T.Context()) {
			w.T.Fatal("the server has not seen the connection")
		}
		w.walk(worker)
		w.want("first found", home, globex, left{signIns: 3, identities: 3, ended: true})
		w.Clock.Advance(settledAfter - time.Microsecond)
		w.walk(worker)
		w.want("not settled", home, globex, left{signIns: 3, identities: 3, ended: true})
		w.Clock.Advance(time.Microsecond)
		w.walk(worker)
		w.want("settled", home, globex, left{identities: 3, ended: true})
		if n := w.audited("connection:" + strconv.FormatInt(globex, 10)); n != 3 {
			w.T.Fatalf("%d records, want 3", n)
		}
	})
}

func TestConnectionThatIsDeclaredAgainFindsItsUsers(t *testing.T) {
	onEngines(t, func(w *world) {
		globex, worker := id(home, "globex"), w.worker()
		w.users(home, globex, 2)
		worker.follow()
		w.withdraw(home, "globex")
		worker.follow()
		worker.endLeft(w.T.Context())
		w.want("deleted", home, globex, left{identities: 2, ended: true})

		w.Clock.Advance(people.IdentitiesKeptFor - time.Microsecond)
		w.walk(worker)
		w.want("in the last moment", home, globex, left{identities: 2, ended: true})
		w.declared(home, w.declare(home, "globex", true), true)
		w.Clock.Advance(time.Hour)
		w.walk(worker)
		w.want("declared again", home, globex, left{identities: 2})

		worker.follow()
		w.withdraw(home, "globex")
		worker.follow()
		worker.endLeft(w.T.Context())
		w.Clock.Advance(people.IdentitiesKeptFor - time.Hour)
		w.walk(worker)
		w.want("the time begins anew", home, globex, left{identities: 2, ended: true})
	})
}

func TestSecondEndOfAConnectionRestartsTheTime(t *testing.T) {
	onEngines(t, func(w *world) {
		globex, worker := id(home, "globex"), w.worker()
		w.users(home, globex, 1)
		for range 2 { // no walk between the deletions
			worker.follow()
			w.withdraw(home, "globex")
			worker.follow()
			worker.endLeft(w.T.Context())
			w.Clock.Advance(people.IdentitiesKeptFor - time.Hour)
			w.declared(home, w.declare(home, "globex", true), true)
		}
		w.withdraw(home, "globex")
		w.walk(worker)
		w.want("an hour is left", home, globex, left{identities: 1, ended: true})
	})
}

func TestIdentitiesGoThirtyDaysAfterTheirConnection(t *testing.T) {
	onEngines(t, func(w *world) {
		globex, initech, worker := id(home, "globex"), w.declare(home, "initech", true), w.worker()
		w.declared(home, initech, true)
		w.users(home, globex, batch+1)
		w.users(home, initech, 1)
		worker.follow()
		w.withdraw(home, "globex")
		worker.follow()
		for worker.endLeft(w.T.Context()) {
		}
		w.Clock.Advance(people.IdentitiesKeptFor)
		w.users(home, globex, 1) // a server that was behind wrote a sign-in
		w.walk(worker)
		w.want("after 30 days", home, globex, left{})
		w.want("another connection", home, initech, left{signIns: 1, identities: 1})
	})
}

func TestConnectionWithoutUsersLeavesNoRecord(t *testing.T) {
	onEngines(t, func(w *world) {
		worker := w.worker()
		worker.follow()
		w.withdraw(home, "globex")
		worker.follow()
		worker.endLeft(w.T.Context())
		w.want("deleted", home, id(home, "globex"), left{})
	})
}

func TestWhatHasNotEnded(t *testing.T) {
	onEngines(t, func(w *world) {
		const row, absent = 77, "gone/deployment"
		w.Must(w.Store.Change(w.T.Context(), home, func(tx people.Tx) error {
			return tx.Connections().InsertConnection(people.Connection{ID: row, Slug: "row", Settings: "{}", CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()})
		}))
		unreadable := w.Put(v1alpha1.KindConnection, "newer", home, "newer", document.Connection{Slug: "newer", Membership: document.ConnectionMembership{RoleExpression: "("}})
		w.declared(home, unreadable, true)
		all := map[string]target{
			"a row": {home, row}, "a connection that this version cannot read": {home, unreadable}, "a declared connection": {home, id(home, "globex")},
			"a connection of a deployment that is not served": {absent, 5},
		}
		for _, of := range all {
			w.users(of.deployment, of.id, 1)
		}
		worker := w.worker()
		for range 3 {
			worker.follow()
			worker.endLeft(w.T.Context())
			w.walk(worker)
			w.Clock.Advance(people.IdentitiesKeptFor)
		}
		for what, of := range all {
			w.want(what, of.deployment, of.id, left{signIns: 1, identities: 1})
		}
	})
}

func TestDeploymentsTakeTurnsAndAFailureStopsNoOther(t *testing.T) {
	onEngines(t, func(w *world) {
		worker := w.worker()
		declared := []target{{home, id(home, "globex")}, {home, w.declare(home, "initech", true)}, {other, w.declare(other, "hooli", true)}}
		for _, of := range declared {
			w.declared(of.deployment, of.id, true)
			w.users(of.deployment, of.id, 1)
		}
		worker.follow()
		w.withdraw(home, "globex")
		w.withdraw(home, "initech")
		w.withdraw(other, "hooli")
		worker.follow()
		w.store.fails = home
		worker.endLeft(w.T.Context())
		w.want("the other deployment", other, declared[2].id, left{identities: 1, ended: true})
		w.store.fails = ""
		worker.endLeft(w.T.Context())
		if got := w.left(home, declared[0].id).signIns + w.left(home, declared[1].id).signIns; got != 2 {
			w.T.Fatalf("%d sign-ins right after a failure, want 2", got)
		}
		w.Clock.Advance(retryAfter)
		worker.endLeft(w.T.Context())
		if got := w.left(home, declared[0].id).signIns + w.left(home, declared[1].id).signIns; got != 1 {
			w.T.Fatalf("%d sign-ins after one turn, want 1", got)
		}
		worker.endLeft(w.T.Context())
		w.want("the second turn", home, declared[1].id, left{identities: 1, ended: true})
		w.want("the second turn", home, declared[0].id, left{identities: 1, ended: true})

		w.Clock.Advance(people.IdentitiesKeptFor)
		w.store.fails = home
		if err := worker.walk(w.T.Context()); err == nil {
			w.T.Fatal("the failure is not returned")
		}
		w.want("the walk continues", other, declared[2].id, left{})
		w.want("the walk failed", home, declared[0].id, left{identities: 1, ended: true})
	})
}
