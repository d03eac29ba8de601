package db

import (
	"context"
	"database/sql"
	"errors"
	"maps"

	"github.com/cardea-iam/cardea/store/people"
)

// Tx runs statements over the rows of one deployment. It carries its context, because it lives no longer than the call
// for which it was made.
type Tx struct {
	ctx context.Context
	Session
	Deployment string
	readOnly   bool
	// single reports that the first statement is a transaction of its own, and ran that it ran.
	single, ran bool
	// lost is the reason why the transaction must not be committed, even if its callback ignores the error.
	lost error
}

// Of returns a Tx over the rows of a deployment, on the session.
func (s Session) Of(ctx context.Context, deployment string) *Tx {
	return &Tx{ctx: ctx, Session: s, Deployment: deployment}
}

// ReadsOf returns a read-only Tx over the rows of a deployment, on the session.
func (s Session) ReadsOf(ctx context.Context, deployment string) *Tx {
	return &Tx{ctx: ctx, Session: s, Deployment: deployment, readOnly: true}
}

// ErrReadOnly is returned by a View for a statement that writes or locks.
var ErrReadOnly = errors.New("a View neither writes nor locks")

// Writable returns ErrReadOnly if the statements of a transaction may only read.
func (tx *Tx) Writable() error {
	if tx.readOnly {
		return ErrReadOnly
	}
	return nil
}

// ErrSecondStatement is returned for another statement than the one that is a transaction of its own.
var ErrSecondStatement = errors.New("the transaction has one statement")

// admit returns an error if a Tx can run no statement more.
func (tx *Tx) admit() error {
	if tx.single && tx.ran {
		return tx.failed(ErrSecondStatement)
	}
	tx.ran = true
	return nil
}

// Context returns the context that the statements run with.
func (tx *Tx) Context() context.Context { return tx.ctx }

// Err returns the reason why the transaction must not be committed, nil if there is none.
func (tx *Tx) Err() error { return tx.lost }

// Exec runs a statement and ignores how many rows it changed.
func (tx *Tx) Exec(query string, args ...any) error {
	_, err := tx.Affected(query, args...)
	return err
}

// Affected runs a statement and returns how many rows it changed. In this and every other statement ":deployment"
// stands for the deployment.
func (tx *Tx) Affected(query string, args ...any) (int64, error) {
	if err := errors.Join(tx.Writable(), tx.admit()); err != nil {
		return 0, err
	}
	query, args = tx.bind(query, args)
	changed, err := tx.Session.Exec(tx.ctx, query, args...)
	return changed, tx.failed(err)
}

// Get runs a query that returns at most one row, and reports whether there was one.
func (tx *Tx) Get(dest []any, query string, args ...any) (bool, error) {
	if err := tx.admit(); err != nil {
		return false, err
	}
	query, args = tx.bind(query, args)
	found, err := tx.Row(tx.ctx, dest, query, args...)
	return found, tx.failed(err)
}

// Each runs a query and calls read for each row.
func (tx *Tx) Each(read func(*sql.Rows) error, query string, args ...any) error {
	if err := tx.admit(); err != nil {
		return err
	}
	query, args = tx.bind(query, args)
	return tx.failed(tx.Query(tx.ctx, read, query, args...))
}

// List runs a query and reads each row.
func List[T any](tx *Tx, read func(*sql.Rows, *T) error, query string, args ...any) ([]T, error) {
	var all []T
	err := tx.Each(func(rows *sql.Rows) error {
		var one T
		err := read(rows, &one)
		all = append(all, one)
		return err
	}, query, args...)
	return all, err
}

// First is List for a query that returns at most one row.
func First[T any](tx *Tx, read func(*sql.Rows, *T) error, query string, args ...any) (T, bool, error) {
	all, err := List(tx, read, query, args...)
	if err != nil || len(all) == 0 {
		var none T
		return none, false, err
	}
	return all[0], true, nil
}

// Among runs a query that ends with a column, for the rows where that column is one of a list, and reads each row.
func Among[T, E any](tx *Tx, read func(*sql.Rows, *T) error, query string, of []E, args ...any) ([]T, error) {
	return AmongLocked(tx, "", read, query, of, args...)
}

// AmongLocked is Among with a lock on the rows: lock is tx.Lock().
func AmongLocked[T, E any](tx *Tx, lock string, read func(*sql.Rows, *T) error, query string, of []E, args ...any) ([]T, error) {
	if len(of) == 0 {
		return nil, nil
	}
	whole, err := tx.Dialect.ListOf(of)
	if err != nil {
		return nil, err
	}
	kind := "BIGINT"
	if _, texts := any(of).([]string); texts {
		kind = "TEXT"
	}
	text, listFirst := tx.Dialect.among(query, kind, lock)
	if listFirst {
		args = append([]any{whole}, args...)
	} else {
		args = append(args, whole)
	}
	return List(tx, read, text, args...)
}

// MapOf is Among for a query of two columns, key and value.
func MapOf[K comparable, V, E any](tx *Tx, query string, of []E, earlier ...any) (map[K]V, error) {
	found := map[K]V{}
	_, err := Among(tx, func(row *sql.Rows, _ *struct{}) error {
		var key K
		var value V
		err := row.Scan(&key, &value)
		found[key] = value
		return err
	}, query, of, earlier...)
	return found, err
}

// SetOf is Among for a query of one column.
func SetOf[K comparable](tx *Tx, query string, of []K) (map[K]bool, error) {
	rows, err := Among(tx, func(row *sql.Rows, k *K) error { return row.Scan(k) }, query, of)
	return maps.Collect(func(yield func(K, bool) bool) {
		for _, row := range rows {
			if !yield(row, true) {
				return
			}
		}
	}), err
}

// bind numbers the parameters for the engine, the deployment last.
func (tx *Tx) bind(query string, args []any) (string, []any) {
	bound := tx.Dialect.bindNamed(query)
	args = append(args, tx.Deployment)
	if tx.Dialect.trace != nil {
		tx.Dialect.trace(bound, args)
	}
	return bound, args
}

// Lock returns the end of a SELECT that locks the rows it returns; empty in a View, and if write transactions are
// exclusive.
func (tx *Tx) Lock() string {
	if tx.readOnly {
		return ""
	}
	return tx.Dialect.forUpdate
}

// LockNamed locks a number until the transaction ends, and waits for other holders.
func (tx *Tx) LockNamed(number int64) error {
	if tx.Dialect.advisoryLock == "" {
		return nil // write transactions are exclusive
	}
	return tx.failed(tx.Query(tx.ctx, func(*sql.Rows) error { return nil }, tx.Dialect.advisoryLock, number))
}

// failed distinguishes a duplicate row from an unavailable store. Both lose the transaction: PostgreSQL rolls it back
// by itself, SQLite only the statement.
func (tx *Tx) failed(err error) error {
	if err != nil && tx.Dialect.duplicate(err) {
		err = people.ErrDuplicate
	}
	if tx.lost == nil {
		tx.lost = err
	}
	return err
}
