package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

var _ people.Store = (*Store)(nil)

// View implements people.Store.
func (s *Store) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return do(&peopleTx{ctx: ctx, session: s.reads(), deployment: deployment, readOnly: true})
}

// Change implements people.Store. Unlike config writes, changes of people lock only the rows they touch.
func (s *Store) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return change(ctx, s, deployment, s.engine.dialect.writeTx, do)
}

// change is Change in a transaction of some kind.
func change(ctx context.Context, s *Store, deployment string, options *sql.TxOptions, do func(people.Tx) error) error {
	collided := false
	for attempt := 1; ; attempt++ {
		err := changeOnce(ctx, s, deployment, options, do)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, people.ErrDuplicate) && !collided:
			collided = true
			continue
		case attempt >= maxAttempts || !s.engine.dialect.retryable(err):
			return err
		}
		if pauseAfter(ctx, attempt) != nil {
			return err
		}
	}
}

func changeOnce(ctx context.Context, s *Store, deployment string, options *sql.TxOptions, do func(people.Tx) error) (err error) {
	ctx, span := s.engine.dialect.span(ctx, writing)
	defer func() { endSpan(span, err) }()
	tx, err := s.engine.write.BeginTx(ctx, options)
	if err != nil {
		return unavailable(ctx, err)
	}
	// After a commit this does nothing.
	defer func() { _ = tx.Rollback() }()
	s.engine.dialect.traced("BEGIN", nil)
	on := &peopleTx{ctx: ctx, session: session{s.engine.dialect, tx}, deployment: deployment}
	if err := do(on); err != nil {
		return err
	}
	if on.lost != nil {
		return on.lost
	}
	if err := on.keys.publish(ctx, on.session, s.clock()); err != nil {
		return err
	}
	s.engine.dialect.traced("COMMIT", nil)
	if err := on.failed(unavailable(ctx, tx.Commit())); err != nil {
		return err
	}
	told(s, &on.keys)
	return nil
}

// peopleTx reaches one deployment's rows. It carries its context: it lives no longer than the call it was made for.
type peopleTx struct {
	ctx context.Context
	session
	deployment string
	readOnly   bool
	// lost is why nothing of the transaction may be committed, whatever its callback made of the error.
	lost error
	// keys is what the feed of changed keys is told with the commit.
	keys pendingKeys
}

var errReadOnly = errors.New("a View neither writes nor locks")

// exec runs a statement whose number of changed rows does not matter.
func (tx *peopleTx) exec(query string, args ...any) error {
	_, err := tx.affected(query, args...)
	return err
}

// affected runs a statement and returns how many rows it changed. In this and every statement of a Tx ":deployment" stands for the
// deployment.
func (tx *peopleTx) affected(query string, args ...any) (int64, error) {
	if tx.readOnly {
		return 0, errReadOnly
	}
	query, args = tx.bind(query, args)
	changed, err := tx.session.exec(tx.ctx, query, args...)
	return changed, tx.failed(err)
}

// get runs a query that returns at most one row.
func (tx *peopleTx) get(dest []any, query string, args ...any) (bool, error) {
	query, args = tx.bind(query, args)
	found, err := tx.row(tx.ctx, dest, query, args...)
	return found, tx.failed(err)
}

// list runs a query and reads each row.
func list[T any](tx *peopleTx, read func(*sql.Rows, *T) error, query string, args ...any) ([]T, error) {
	var all []T
	query, args = tx.bind(query, args)
	err := tx.query(tx.ctx, func(rows *sql.Rows) error {
		var one T
		err := read(rows, &one)
		all = append(all, one)
		return err
	}, query, args...)
	return all, tx.failed(err)
}

// first is list for a query that returns at most one row.
func first[T any](tx *peopleTx, read func(*sql.Rows, *T) error, query string, args ...any) (T, bool, error) {
	all, err := list(tx, read, query, args...)
	if err != nil || len(all) == 0 {
		var none T
		return none, false, err
	}
	return all[0], true, nil
}

// bind writes the parameters as the engine wants them, the deployment last.
func (tx *peopleTx) bind(query string, args []any) (string, []any) {
	bound := tx.dialect.bindNamed(query)
	args = append(args, tx.deployment)
	if tx.dialect.trace != nil {
		tx.dialect.trace(bound, args)
	}
	return bound, args
}

// lock is the end of a SELECT that locks the rows it returns.
func (tx *peopleTx) lock() string { return tx.dialect.forUpdate }

// failed tells a row that exists already from a store that is away. Either loses the transaction: PostgreSQL undoes it by
// itself, SQLite only the statement.
func (tx *peopleTx) failed(err error) error {
	if err != nil && tx.dialect.duplicate(err) {
		err = people.ErrDuplicate
	}
	if tx.lost == nil {
		tx.lost = err
	}
	return err
}

// micros is a time as it is stored: 0 for the zero time.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// moment scans a stored time.
type moment struct{ to *time.Time }

// Scan implements sql.Scanner.
func (m moment) Scan(from any) error {
	at, ok := from.(int64)
	if !ok {
		return errors.New("a stored time is no integer")
	}
	*m.to = time.Time{}
	if at != 0 {
		*m.to = time.UnixMicro(at).UTC()
	}
	return nil
}

// bytesOf is a blob that is never NULL.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
