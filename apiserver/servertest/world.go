// Package servertest is the world that the tests of the server's packages share: a store with documents as the operator
// writes them, a snapshot that follows it, a root key, and a clock that tests move.
package servertest

import (
	"bytes"
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

// patience is how long Eventually waits. It bounds a test that hangs: under the race detector, beside the other tests,
// a story with hundreds of requests may take half a minute.
const patience = 2 * time.Minute

// RootKey is the root key of a world.
var RootKey = bytes.Repeat([]byte{7}, 32)

// Clock is a clock that tests move, to the microsecond.
type Clock struct{ micros atomic.Int64 }

// NewClock returns a clock at a time.
func NewClock(at time.Time) *Clock {
	c := &Clock{}
	c.micros.Store(at.UnixMicro())
	return c
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time { return time.UnixMicro(c.micros.Load()).UTC() }

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) { c.micros.Add(d.Microseconds()) }

// World is a store that a test controls.
type World struct {
	T testing.TB
	// URL is the URL of the store.
	URL     string
	Store   store.Store
	Term    store.Term
	Keyring *seal.Keyring
	Clock   *Clock
	// generation makes each document newer than the one before.
	generation atomic.Int64
	trace      func(query string, args []any)
	// Tracer makes the spans of the store; nil makes none.
	Tracer *tracing.Tracer
}

// New returns a world with an empty store at a URL; "" is SQLite in a folder of the test. trace, if not nil, is called
// with every statement on users' rows.
func New(t testing.TB, url string, trace func(query string, args []any)) *World {
	t.Helper()
	return newWorld(t, url, trace, nil)
}

// NewTraced returns a world with SQLite whose store's transactions have spans.
func NewTraced(t testing.TB, tracer *tracing.Tracer) *World {
	t.Helper()
	return newWorld(t, "", nil, tracer)
}

func newWorld(t testing.TB, url string, trace func(query string, args []any), tracer *tracing.Tracer) *World {
	t.Helper()
	if url == "" {
		url = SQLite(t)
	}
	w := &World{T: t, URL: url, Clock: NewClock(time.Now()), trace: trace, Tracer: tracer}
	w.Store = w.OpenStore()
	w.Must(w.Store.Migrate(t.Context()))
	var err error
	w.Term, err = w.Store.Acquire(t.Context(), "test", time.Second)
	w.Must(err)
	file := filepath.Join(t.TempDir(), "root.key")
	w.Must(os.WriteFile(file, RootKey, 0o600))
	w.Keyring, err = seal.Load([]string{file})
	w.Must(err)
	return w
}

// OpenStore opens the store again, as another process does. SQLite permits only one open store at a time.
func (w *World) OpenStore() store.Store {
	w.T.Helper()
	st, err := sqlstore.Open(w.T.Context(), w.URL, sqlstore.Options{Clock: w.Clock.Now, Logger: logr.Discard(), MaxConns: 8, Trace: w.trace, Tracer: w.Tracer})
	w.Must(err)
	w.T.Cleanup(func() { _ = st.Close() })
	return st
}

// Open opens the store's database directly. The caller closes it.
func (w *World) Open() *sql.DB {
	w.T.Helper()
	if path, isSQLite := strings.CutPrefix(w.URL, "sqlite://"); isSQLite {
		db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)")
		w.Must(err)
		return db
	}
	config, err := pgx.ParseConfig(w.URL)
	w.Must(err)
	return stdlib.OpenDB(*config)
}

func ownerOf(kind, namespace, name string) store.Owner {
	return store.Owner{Identity: store.Identity{Kind: kind, Namespace: namespace, Name: name}, UID: "uid-" + name}
}

// Put writes a document as the operator does, and returns its id. deployment is "namespace/name"; its namespace is the
// document's.
func (w *World) Put(kind, name, deployment, key string, content any) int64 {
	w.T.Helper()
	namespace, _, _ := strings.Cut(deployment, "/")
	hash, err := document.Hash(kind, content)
	w.Must(err)
	payload, err := document.Encode(document.Meta{CreatedAt: w.Clock.Now(), UpdatedAt: w.Clock.Now()}, content)
	w.Must(err)
	owner, id := ownerOf(kind, namespace, name), ids.Derive(kind, namespace, name)
	stored, err := w.Store.Stored(w.T.Context(), owner.Identity)
	w.Must(err)
	seen := ""
	if stored.Found {
		seen = owner.UID
	}
	_, err = w.Store.Put(w.T.Context(), w.Term, store.Put{SeenUID: seen, Document: store.Document{
		Owner: owner, Generation: w.generation.Add(1), Deployment: deployment, ID: id, Key: key, Hash: hash, Payload: payload,
	}})
	w.Must(err)
	return id
}

// Withdraw deletes a document as the operator does.
func (w *World) Withdraw(kind, namespace, name string) {
	w.T.Helper()
	w.Must(w.Store.Delete(w.T.Context(), w.Term, ownerOf(kind, namespace, name)))
}

// Follow keeps a follower's snapshot current until the test ends.
func (w *World) Follow(follower *snapshot.Follower) {
	w.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = follower.Run(ctx) })
	w.T.Cleanup(func() {
		cancel()
		following.Wait()
	})
	w.Eventually("the configuration is loaded", func() bool {
		select {
		case <-follower.Loaded():
			return true
		default:
			return false
		}
	})
}

// Must ends the test on an error.
func (w *World) Must(err error) {
	w.T.Helper()
	if err != nil {
		w.T.Fatal(err)
	}
}

// Eventually waits for a condition. The pause between two looks is 10 ms, and at least as long as a look takes: one
// that reads many rows leaves the processor to what it waits for.
func (w *World) Eventually(what string, holds func() bool) {
	w.T.Helper()
	deadline := time.Now().Add(patience)
	for {
		began := time.Now()
		if holds() {
			return
		}
		if began.After(deadline) {
			w.T.Fatalf("timed out waiting until: %s", what)
		}
		time.Sleep(max(time.Since(began), 10*time.Millisecond))
	}
}
