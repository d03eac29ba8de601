package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"maps"

	"github.com/cardea-iam/cardea/store/people"
)

// deploymentTx runs statements over the rows of one deployment. It carries its context: it lives no longer than the call that it was made
// for.
type deploymentTx struct {
	ctx context.Context
	session
	deployment string
	readOnly   bool
	// lost is why nothing of the transaction may be committed, even if its callback ignores the error.
	lost error
}

// of returns statements of a session over the rows of a deployment.
func (s session) of(ctx context.Context, deployment string) *deploymentTx {
	return &deploymentTx{ctx: ctx, session: s, deployment: deployment}
}

// readsOf returns statements that read the rows of a deployment.
func (s session) readsOf(ctx context.Context, deployment string) *deploymentTx {
	return &deploymentTx{ctx: ctx, session: s, deployment: deployment, readOnly: true}
}

// errReadOnly is the answer of a View to a statement that writes or locks.
var errReadOnly = errors.New("a View neither writes nor locks")

// writable returns errReadOnly if the statements of a transaction may only read.
func (tx *deploymentTx) writable() error {
	if tx.readOnly {
		return errReadOnly
	}
	return nil
}

// Context returns the context that the statements run with.
func (tx *deploymentTx) Context() context.Context { return tx.ctx }

// Err returns why nothing of the transaction may be committed, nil if there is no reason.
func (tx *deploymentTx) Err() error { return tx.lost }

// exec runs a statement whose number of changed rows does not matter.
func (tx *deploymentTx) exec(query string, args ...any) error {
	_, err := tx.affected(query, args...)
	return err
}

// affected runs a statement and returns how many rows it changed. In this and every other statement ":deployment" stands for the
// deployment.
func (tx *deploymentTx) affected(query string, args ...any) (int64, error) {
	if err := tx.writable(); err != nil {
		return 0, err
	}
	query, args = tx.bind(query, args)
	changed, err := tx.session.exec(tx.ctx, query, args...)
	return changed, tx.failed(err)
}

// get runs a query that returns at most one row, and reports whether there was one.
func (tx *deploymentTx) get(dest []any, query string, args ...any) (bool, error) {
	query, args = tx.bind(query, args)
	found, err := tx.row(tx.ctx, dest, query, args...)
	return found, tx.failed(err)
}

// each runs a query and calls read for each row.
func (tx *deploymentTx) each(read func(*sql.Rows) error, query string, args ...any) error {
	query, args = tx.bind(query, args)
	return tx.failed(tx.query(tx.ctx, read, query, args...))
}

// list runs a query and reads each row.
func list[T any](tx *deploymentTx, read func(*sql.Rows, *T) error, query string, args ...any) ([]T, error) {
	var all []T
	err := tx.each(func(rows *sql.Rows) error {
		var one T
		err := read(rows, &one)
		all = append(all, one)
		return err
	}, query, args...)
	return all, err
}

// first is list for a query that returns at most one row.
func first[T any](tx *deploymentTx, read func(*sql.Rows, *T) error, query string, args ...any) (T, bool, error) {
	all, err := list(tx, read, query, args...)
	if err != nil || len(all) == 0 {
		var none T
		return none, false, err
	}
	return all[0], true, nil
}

// among runs a query that ends with a column, for the rows where that column is one of a list, and reads each row.
func among[T, E any](tx *deploymentTx, read func(*sql.Rows, *T) error, query string, of []E, args ...any) ([]T, error) {
	return amongLocked(tx, "", read, query, of, args...)
}

// amongLocked is among with a lock on the rows: lock is tx.lock().
func amongLocked[T, E any](tx *deploymentTx, lock string, read func(*sql.Rows, *T) error, query string, of []E, args ...any) ([]T, error) {
	if len(of) == 0 {
		return nil, nil
	}
	whole, err := tx.dialect.listOf(of)
	if err != nil {
		return nil, err
	}
	kind := "BIGINT"
	if _, texts := any(of).([]string); texts {
		kind = "TEXT"
	}
	text, listFirst := tx.dialect.among(query, kind, lock)
	if listFirst {
		args = append([]any{whole}, args...)
	} else {
		args = append(args, whole)
	}
	return list(tx, read, text, args...)
}

// mapOf is among for a query of two columns, key and value.
func mapOf[K comparable, V, E any](tx *deploymentTx, query string, of []E, earlier ...any) (map[K]V, error) {
	found := map[K]V{}
	_, err := among(tx, func(row *sql.Rows, _ *struct{}) error {
		var key K
		var value V
		err := row.Scan(&key, &value)
		found[key] = value
		return err
	}, query, of, earlier...)
	return found, err
}

// setOf is among for a query of one column.
func setOf[K comparable](tx *deploymentTx, query string, of []K) (map[K]bool, error) {
	rows, err := among(tx, func(row *sql.Rows, k *K) error { return row.Scan(k) }, query, of)
	return maps.Collect(func(yield func(K, bool) bool) {
		for _, row := range rows {
			if !yield(row, true) {
				return
			}
		}
	}), err
}

// bind numbers the parameters as the engine wants them, the deployment last.
func (tx *deploymentTx) bind(query string, args []any) (string, []any) {
	bound := tx.dialect.bindNamed(query)
	args = append(args, tx.deployment)
	if tx.dialect.trace != nil {
		tx.dialect.trace(bound, args)
	}
	return bound, args
}

// lock is the end of a SELECT that locks the rows it returns; empty in a View, and where a write transaction is alone.
func (tx *deploymentTx) lock() string {
	if tx.readOnly {
		return ""
	}
	return tx.dialect.forUpdate
}

// lockNamed waits for the lock of a number, which the transaction holds until it ends.
func (tx *deploymentTx) lockNamed(number int64) error {
	if tx.dialect.advisoryLock == "" {
		return nil // a write transaction is alone
	}
	return tx.failed(tx.query(tx.ctx, func(*sql.Rows) error { return nil }, tx.dialect.advisoryLock, number))
}

// failed distinguishes a row that exists already from an unavailable store. Either loses the transaction: PostgreSQL rolls it back by
// itself, SQLite only the statement.
func (tx *deploymentTx) failed(err error) error {
	if err != nil && tx.dialect.duplicate(err) {
		err = people.ErrDuplicate
	}
	if tx.lost == nil {
		tx.lost = err
	}
	return err
}
