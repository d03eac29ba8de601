// Package sqlstore keeps the promises of package store over SQLite, for one process on one machine, and over
// PostgreSQL, for any number of processes. The SQL is written once; dialect.go holds what really differs.
//
// Every config write locks the one row of the table store first, so that writers of all processes take turns, each
// check holds until the commit, and revisions are in commit order. Writes that wait share a transaction (committer.go).
package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
)

// Options are the choices of a caller; the zero value is good.
type Options struct {
	// Clock dates feed entries; default time.Now.
	Clock func() time.Time
	// Logger gets what nobody is there to be told: a lost and a regained LISTEN connection.
	Logger logr.Logger
	// MaxConns bounds the PostgreSQL connections of this process, the one that listens excluded; default 20.
	MaxConns int

	// Trace, if set, is called with each statement of what people do before it runs, BEGIN and COMMIT among them, as the driver gets
	// it. Benchmarks run the same statements bare. The arguments are what is stored: not for logs.
	Trace func(query string, args []any)
	// Tracer makes a span of each transaction within a span; nil: none.
	Tracer *tracing.Tracer

	// wrapConnector lets the fault tests stand between database/sql and the driver.
	wrapConnector func(driver.Connector) driver.Connector
}

// defaultMaxConns leaves room for several replicas under PostgreSQL's default of 100 connections.
const defaultMaxConns = 20

// Store implements store.Store. Its methods may be called from any number of goroutines.
type Store struct {
	engine engine
	clock  func() time.Time
	logger logr.Logger

	notifier *notifier
	// keyNotifier is that of the feed of API keys.
	keyNotifier *notifier
	committer   *committer
	// history is what this process wrote to the store.
	history history
	// sets are the users that analytics counted last, parts the months of events that there is a partition of.
	sets  setCache
	parts sync.Map
	stop  context.CancelFunc
	// closing makes a second Close wait for the first and repeat its answer.
	closing func() error
}

var _ store.Store = (*Store)(nil)

// engine is an opened database.
type engine struct {
	dialect dialect
	// read and write are one pool on PostgreSQL, two on SQLite.
	read, write *sql.DB
	// openMigrate opens a pool for long schema changes, which the caller closes; nil if write serves.
	openMigrate func() *sql.DB
	// listen blocks, calling notify when another process may have changed a feed, until its context ends; nil if
	// there can be no other process.
	listen func(ctx context.Context, logger logr.Logger, notify func(heard))
	// lock is held until the pools are closed; nil if the engine needs none.
	lock io.Closer
}

// schemePattern accepts what is safe to repeat in a message: text before "://" can be a password only if the URL is
// none.
var schemePattern = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://`)

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns
	}
	if o.wrapConnector == nil {
		o.wrapConnector = func(c driver.Connector) driver.Connector { return c }
	}
	return o
}

// Open opens the database a URL names: sqlite:///absolute/path.db, sqlite:relative/path.db or postgres://... A SQLite
// file is created if missing and locked against other processes. PostgreSQL is not contacted yet: a server that is
// away shows in the calls, as store.ErrUnavailable. The tables are made by Migrate. No error repeats a password.
func Open(ctx context.Context, url string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	var opened engine
	var err error
	switch scheme := schemePattern.FindStringSubmatch(url); {
	case strings.HasPrefix(url, "sqlite:"):
		opened, err = openSQLite(ctx, strings.TrimPrefix(url, "sqlite:"), opts)
	case strings.HasPrefix(url, "postgres://"), strings.HasPrefix(url, "postgresql://"):
		opened, err = openPostgres(url, opts)
	case scheme != nil:
		err = fmt.Errorf("open the store: scheme %q is not supported: use sqlite: or postgres://", scheme[1])
	default:
		err = errors.New("open the store: the URL has no scheme: use sqlite:/path/to/file.db or postgres://user@host/database")
	}
	if err != nil {
		return nil, err
	}
	opened.dialect.trace, opened.dialect.tracer = opts.Trace, opts.Tracer
	running, stop := context.WithCancel(context.Background())
	s := &Store{engine: opened, clock: opts.Clock, logger: opts.Logger, notifier: newNotifier(), keyNotifier: newNotifier(), stop: stop}
	if opened.listen != nil {
		// One connection hears both feeds, whichever is subscribed to first.
		listening := sync.OnceFunc(func() { opened.listen(running, opts.Logger, func(what heard) { hear(s, what) }) })
		s.notifier.source, s.keyNotifier.source = listening, listening
	}
	s.committer = newCommitter(func(ctx context.Context, ops []op) []result { return commitBatch(ctx, s, ops) })
	s.committer.span = opened.dialect.span
	s.closing = sync.OnceValue(func() error { return closeAll(s) })
	go s.committer.run(running)
	return s, nil
}

// Close ends every connection and background task. Writes that wait get store.ErrUnavailable, and so does every
// later call but another Close.
func (s *Store) Close() error { return s.closing() }

func closeAll(s *Store) error {
	s.stop()
	s.committer.waitStopped()
	s.notifier.close()
	s.keyNotifier.close()
	err := s.engine.read.Close()
	if s.engine.write != s.engine.read {
		err = errors.Join(err, s.engine.write.Close())
	}
	if s.engine.lock != nil {
		err = errors.Join(err, s.engine.lock.Close())
	}
	return err
}
