// Package sqlstore implements package store over SQLite, for one process on one machine, and over PostgreSQL, for any
// number of processes. The SQL is written once; internal/db holds the differences between the engines.
//
// Every write of configuration first locks the only row of the table store. Writers of all processes therefore take
// turns, each check holds until the commit, and revisions are in commit order.
package sqlstore

import (
	"context"
	"database/sql/driver"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/config"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
	"github.com/cardea-iam/cardea/store/sqlstore/migrations"
	"github.com/cardea-iam/cardea/store/sqlstore/rollup"
	"github.com/cardea-iam/cardea/store/sqlstore/users"
)

// Options are the options of a store; the zero value is ready for use.
type Options struct {
	// Clock dates feed entries; default time.Now.
	Clock func() time.Time
	// Logger logs events that are not returned to a caller as errors: a lost LISTEN connection, a step of a migration
	// that is retried, and a partition that was not created.
	Logger logr.Logger
	// MaxConns bounds the PostgreSQL connections of this process, without the one that listens; default 20.
	MaxConns int

	// Trace, if set, is called with each statement over the rows of users before it runs, in the form that the driver
	// gets, including BEGIN and COMMIT. Benchmarks run the same statements directly. The arguments are stored data and
	// must not be logged.
	Trace func(query string, args []any)
	// Tracer makes a span for each transaction that runs within a span; nil: no spans.
	Tracer *tracing.Tracer

	// wrapConnector lets the fault tests wrap the driver's connector.
	wrapConnector func(driver.Connector) driver.Connector
}

// defaultMaxConns allows several replicas under PostgreSQL's default of 100 connections.
const defaultMaxConns = 20

func (o Options) withDefaults() db.Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns
	}
	return db.Options{Clock: o.Clock, Logger: o.Logger, MaxConns: o.MaxConns, Trace: o.Trace, Tracer: o.Tracer, WrapConnector: o.wrapConnector}
}

// Store implements store.Store and people.Store. Its methods may be called from any number of goroutines.
type Store struct {
	*config.Documents
	*users.Rows
	*rollup.Days

	db                 *db.DB
	feed, keys, events *db.Notifier
	stop               context.CancelFunc
	// closing makes a second Close wait for the first and return its error.
	closing func() error
}

var (
	_ store.Store  = (*Store)(nil)
	_ people.Store = (*Store)(nil)
)

// Open opens the database that a URL names: sqlite:///absolute/path.db, sqlite:relative/path.db or postgres://... A
// SQLite file is created if missing and locked against other processes. PostgreSQL is not contacted yet: calls return
// store.ErrUnavailable while it is unavailable. Migrate creates the tables. No error contains a password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	opened, err := db.Open(ctx, url, opts.withDefaults())
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.Background())
	s := &Store{db: opened, stop: stop}
	var listening func()
	if opened.Listen != nil {
		// One connection listens for all feeds. It starts with the first subscription to one of them.
		listening = sync.OnceFunc(func() { opened.Listen(running, opts.Logger, func(what db.Heard) { wakeFeeds(s, what) }) })
	}
	s.feed, s.keys, s.events = db.NewNotifier(listening), db.NewNotifier(listening), db.NewNotifier(listening)
	s.Rows, s.Days = users.NewRows(opened, s.keys, s.events), rollup.NewDays(opened)
	s.Documents = config.NewDocuments(running, opened, s.feed, config.After{Deleted: s.Rows.WriteEndings, Changed: s.Rows.LogConfiguration})
	s.closing = sync.OnceValue(func() error { return closeAll(s) })
	return s, nil
}

// wakeFeeds wakes the subscribers of the feeds that another process may have changed.
func wakeFeeds(s *Store, what db.Heard) {
	if what.Documents {
		s.feed.Notify()
	}
	if what.Keys {
		s.keys.Notify()
	}
	if what.Events {
		s.events.Notify()
	}
}

// Migrate brings the tables to this binary's schema, and assigns an identity to a new store; see migrations.Up.
func (s *Store) Migrate(ctx context.Context) error { return migrations.Up(ctx, s.db) }

// CheckSchema compares the tables with this binary's schema and writes nothing. Errors: store.ErrSchema,
// store.ErrUnavailable.
func (s *Store) CheckSchema(ctx context.Context) error { return migrations.Check(ctx, s.db) }

// Close ends every connection and background task. Waiting writes return store.ErrUnavailable, and so does every later
// call except another Close.
func (s *Store) Close() error { return s.closing() }

func closeAll(s *Store) error {
	s.stop()
	s.Documents.WaitStopped()
	s.feed.Close()
	s.keys.Close()
	s.events.Close()
	return s.db.Close()
}
