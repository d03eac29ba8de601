package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/cardea-iam/cardea/internal/pause"
)

const (
	// FeedChannel is the NOTIFY channel of the change feed.
	FeedChannel = "cardea_feed"
	// keysPayload marks the notifications of the feed of API keys on that channel, and eventsPayload those of events.
	keysPayload, eventsPayload = "keys", "events"
	// statementTimeout bounds a statement and its wait for a lock, in milliseconds. idleTimeout ends an idle transaction
	// of a hanging process, which holds the lock for which all writers wait.
	statementTimeout = "10000"
	idleTimeout      = "15000"
	// migrationTurn bounds the wait for processes that migrate before this one, in tries a second apart.
	migrationTurn = 600
)

// postgresDialect: READ COMMITTED lets each statement after the lock on the store row see the writes of earlier lock
// holders.
var postgresDialect = Dialect{
	name:         "postgresql",
	Numbered:     true,
	forUpdate:    " FOR UPDATE",
	SkipLocked:   " FOR UPDATE SKIP LOCKED",
	advisoryLock: `SELECT pg_advisory_xact_lock($1)`,
	Publish:      " RETURNING pg_notify('" + FeedChannel + "', '')",
	PublishKeys:  `SELECT pg_notify('` + FeedChannel + `', '` + keysPayload + `')`,
	among:        amongLists,
	OneOf:        " = ANY(?)",
	ListOf:       func(list any) (any, error) { return list, nil },
	insertMany:   insertFromLists,
	listed:       rowsOfLists,
	updatedRows:  bulkRows,
	rowsFrom:     listsOf,
	EventOrder:   "ord",
	JSONList:     "json_agg",
	TableExists:  `SELECT relname FROM pg_class WHERE oid = to_regclass(?)`,
	readTx:       &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true},
	WriteTx:      &sql.TxOptions{Isolation: sql.LevelReadCommitted},
	KeyShare:     " FOR KEY SHARE OF u",
	RollUpTx:     &sql.TxOptions{Isolation: sql.LevelRepeatableRead},
	// The statistics of events are never accurate, because the table grows by millions of rows and is emptied again.
	// With such statistics, the planner may choose a parallel scan of gigabytes over reading a few rows by their key.
	byKeys:  `SET LOCAL enable_seqscan = off; SET LOCAL max_parallel_workers_per_gather = 0; SET LOCAL jit = off`,
	NewPart: `CREATE TABLE IF NOT EXISTS %s PARTITION OF past_events FOR VALUES FROM (%d) TO (%d)`,
	// PostgreSQL commits transactions that notify one after the other. Those that record events therefore do not notify,
	// but the one that numbers them does.
	PublishEvents: `SELECT pg_notify('` + FeedChannel + `', '` + eventsPayload + `')`,
	// The protocol's limit is 65535.
	MaxParameters: 60000,
	Variable:      unpreparedIfLarge,
	Planned:       unprepared,
	retryable: func(err error) bool {
		var refused *pgconn.PgError
		return errors.As(err, &refused) && (refused.Code == "40001" || refused.Code == "40P01")
	},
	GivesWay: func(err error) bool {
		var refused *pgconn.PgError
		return errors.As(err, &refused) && (refused.Code == lockNotAvailable || refused.Code == "40P01")
	},
	duplicate: func(err error) bool {
		var refused *pgconn.PgError
		return errors.As(err, &refused) && refused.Code == "23505"
	},
	Migrations: "postgres",
	Goose:      goose.DialectPostgres,
	Locker: func() (lock.SessionLocker, error) {
		return lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, migrationTurn))
	},
}

// lockNotAvailable is PostgreSQL's code for a lock that was not available in time.
const lockNotAvailable = "55P03"

// migrationLockTimeout is how long a step of a migration waits for a table. Later statements, also of servers, wait
// behind it. It is shorter than deadlock_timeout, so that in a deadlock of a step and a server the step is undone.
const migrationLockTimeout = "500ms"

// maxPrepared is the largest number of parameters with which a statement of variable length is prepared. The statements
// up to this length fit into the cache of prepared statements; those of all lengths would evict the other statements.
const maxPrepared = 64

func unpreparedIfLarge(args []any) []any {
	if len(args) <= maxPrepared {
		return args
	}
	return unprepared(args...)
}

// unprepared makes pgx send a statement without preparing it, so that no plan of another execution is used.
func unprepared(args ...any) []any { return slices.Insert(args, 0, any(pgx.QueryExecModeExec)) }

func openPostgres(url string, opts Options) (*DB, error) {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		// The parser's error may repeat the password.
		return nil, errors.New("open the store: the PostgreSQL URL cannot be parsed; it has the form " +
			"postgres://user:password@host:5432/database?sslmode=verify-full, special characters percent-encoded")
	}
	several := len(config.Fallbacks) > 0 && slices.ContainsFunc(config.Fallbacks, func(f *pgconn.FallbackConfig) bool { return f.Host != config.Host || f.Port != config.Port })
	if config.ConnectTimeout == 0 {
		if config.ConnectTimeout = connectTimeout; several {
			config.ConnectTimeout = hostTimeout
		}
	}
	reach := &hosts{dial: dialer(config.ConnectTimeout).DialContext, several: several, lost: map[string]bool{}}
	config.DialFunc = reach.connect
	for name, value := range map[string]string{
		"application_name": "cardea", "statement_timeout": statementTimeout, "lock_timeout": statementTimeout,
		"idle_in_transaction_session_timeout": idleTimeout,
		// No statement here is long enough for JIT compilation to pay off, but the planner estimates otherwise for some.
		"jit": "off",
	} {
		if _, chosen := config.RuntimeParams[name]; !chosen {
			config.RuntimeParams[name] = value
		}
	}
	db := sql.OpenDB(opts.wrap(stdlib.GetConnector(*config)))
	reach.ended = func() { // closes the idle connections
		db.SetMaxIdleConns(0)
		db.SetMaxIdleConns(opts.MaxConns)
	}
	db.SetMaxOpenConns(opts.MaxConns)
	db.SetMaxIdleConns(opts.MaxConns)
	db.SetConnMaxIdleTime(5 * time.Minute)
	db.SetConnMaxLifetime(time.Hour)
	return &DB{
		Dialect: postgresDialect, Readers: db, Writers: db,
		OpenMigrate: func() *sql.DB {
			patient := config.Copy()
			patient.RuntimeParams["statement_timeout"] = "0"
			patient.RuntimeParams["lock_timeout"] = migrationLockTimeout
			return sql.OpenDB(opts.wrap(stdlib.GetConnector(*patient)))
		},
		Listen: func(ctx context.Context, logger logr.Logger, notify func(Heard)) {
			if poolable(config.DefaultQueryExecMode) {
				return // a pooler in transaction mode loses notifications: only polling remains
			}
			listen(ctx, config, logger, notify)
		},
	}, nil
}

// poolable reports whether a mode of running statements (default_query_exec_mode of the URL) works with a pooler in
// transaction mode: it prepares no statement by name.
func poolable(mode pgx.QueryExecMode) bool {
	return mode == pgx.QueryExecModeExec || mode == pgx.QueryExecModeCacheDescribe || mode == pgx.QueryExecModeSimpleProtocol
}

// pooled reports whether an error shows that the connections belong to a pooler: a prepared statement is unknown, or
// its name is already taken.
func pooled(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.Code == "42P05" || refused.Code == "26000")
}

const (
	// minReconnect and maxReconnect bound the delay before a lost LISTEN connection is opened again.
	minReconnect = 100 * time.Millisecond
	maxReconnect = 5 * time.Second
	// listenCheck is how long a LISTEN connection may be silent before a check that it is alive.
	listenCheck = 30 * time.Second
)

// listen calls its callback for each notification until the context ends. It also calls it after each connect, because
// notifications in the meantime were lost.
func listen(ctx context.Context, config *pgx.ConnConfig, logger logr.Logger, notify func(Heard)) {
	delay := minReconnect
	for ctx.Err() == nil {
		err := listenOnce(ctx, config, func(what Heard) {
			delay = minReconnect
			notify(what)
		})
		if ctx.Err() != nil {
			return
		}
		logger.V(1).Info("the LISTEN connection was lost, polling goes on", "reason", err.Error(), "retryIn", delay)
		if pause.For(ctx, delay/2+rand.N(delay/2)) != nil {
			return
		}
		delay = min(2*delay, maxReconnect)
	}
}

// listenOnce listens on one connection until it fails.
func listenOnce(ctx context.Context, config *pgx.ConnConfig, notify func(Heard)) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	// Closing must wait neither for the ended context nor for a dead peer.
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+FeedChannel); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	notify(Heard{Documents: true, Keys: true, Events: true})
	for {
		wait, cancel := context.WithTimeout(ctx, listenCheck)
		notice, err := conn.WaitForNotification(wait)
		quiet := wait.Err() != nil && ctx.Err() == nil && !conn.IsClosed()
		cancel()
		switch {
		case err == nil:
			notify(Heard{
				Documents: notice.Payload != keysPayload && notice.Payload != eventsPayload,
				Keys:      notice.Payload == keysPayload, Events: notice.Payload == eventsPayload,
			})
		case quiet:
			if err := pingBriefly(ctx, conn); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

func pingBriefly(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return conn.Ping(ctx)
}
