// Package db contains what the parts of the SQL store share: an opened SQLite or PostgreSQL database, its dialect,
// sessions and transactions, and the commit shared by concurrent writes.
package db

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// Options are the options of sqlstore.Options that concern the database. All except Trace, Tracer and WrapConnector are
// required.
type Options struct {
	Clock    func() time.Time
	Logger   logr.Logger
	MaxConns int
	Trace    func(query string, args []any)
	Tracer   *tracing.Tracer
	// WrapConnector wraps the driver's connector, for tests that inject faults; nil: no wrapper.
	WrapConnector func(driver.Connector) driver.Connector
}

// wrap returns the connector that the pools use.
func (o Options) wrap(c driver.Connector) driver.Connector {
	if o.WrapConnector == nil {
		return c
	}
	return o.WrapConnector(c)
}

// DB is an opened database.
type DB struct {
	Dialect Dialect
	// Readers and Writers are the same pool on PostgreSQL, and two pools on SQLite.
	Readers, Writers *sql.DB
	Clock            func() time.Time
	Logger           logr.Logger
	// OpenMigrate opens a pool for long schema changes, which the caller closes; nil if Writers is used for them.
	OpenMigrate func() *sql.DB
	// Listen blocks until its context ends, and calls notify when another process may have changed a feed. It is nil if no
	// other process can open the database.
	Listen func(ctx context.Context, logger logr.Logger, notify func(Heard))
	// lock is held until the pools are closed; nil if the engine needs none.
	lock io.Closer
}

// Heard reports which feeds another process may have changed.
type Heard struct{ Documents, Keys, Events bool }

// schemePattern matches a scheme that is safe to repeat in an error: text before "://" can be a password only if the
// URL is not valid.
var schemePattern = regexp.MustCompile(`^([a-z][a-z0-9+.-]*)://`)

// Open opens the database that a URL names; see sqlstore.Open.
func Open(ctx context.Context, url string, opts Options) (*DB, error) {
	var opened *DB
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
	opened.Clock, opened.Logger = opts.Clock, opts.Logger
	opened.Dialect.trace, opened.Dialect.tracer = opts.Trace, opts.Tracer
	return opened, nil
}

// Close ends every connection and releases the lock on the file.
func (d *DB) Close() error {
	err := d.Readers.Close()
	if d.Writers != d.Readers {
		err = errors.Join(err, d.Writers.Close())
	}
	if d.lock != nil {
		err = errors.Join(err, d.lock.Close())
	}
	return err
}

// Reads runs single statements, each in its own snapshot.
func (d *DB) Reads() Session { return Session{d.Dialect, d.Readers} }

// On runs statements in a transaction of the database.
func (d *DB) On(tx *sql.Tx) Session { return Session{d.Dialect, tx} }

// Writes runs single statements, each in its own transaction.
func (d *DB) Writes() Session { return Session{d.Dialect, d.Writers} }
