package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/store"
)

// querier is what a pool and a transaction have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// session runs statements of one dialect on a pool or in a transaction. Its errors wrap store.ErrUnavailable.
type session struct {
	dialect dialect
	on      querier
}

// exec runs a statement and returns how many rows it changed.
func (s session) exec(ctx context.Context, query string, args ...any) (_ int64, err error) {
	if s.alone() {
		var span trace.Span
		ctx, span = s.dialect.span(ctx, writing)
		defer func() { endSpan(span, err) }()
	}
	result, err := s.on.ExecContext(ctx, s.dialect.rebind(query), args...)
	if err != nil {
		return 0, unavailable(ctx, err)
	}
	changed, err := result.RowsAffected()
	return changed, unavailable(ctx, err)
}

// query runs a statement and calls scan on each row.
func (s session) query(ctx context.Context, scan func(row *sql.Rows) error, query string, args ...any) (err error) {
	if s.alone() {
		var span trace.Span
		ctx, span = s.dialect.span(ctx, reading)
		defer func() { endSpan(span, err) }()
	}
	rows, err := s.on.QueryContext(ctx, s.dialect.rebind(query), args...)
	if err != nil {
		return unavailable(ctx, err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return unavailable(ctx, errors.Join(err, rows.Close()))
		}
	}
	return unavailable(ctx, errors.Join(rows.Err(), rows.Close()))
}

// row runs a statement that returns at most one row, and reports whether there was one.
func (s session) row(ctx context.Context, dest []any, query string, args ...any) (found bool, err error) {
	err = s.query(ctx, func(row *sql.Rows) error {
		found = true
		return row.Scan(dest...)
	}, query, args...)
	return found && err == nil, err
}

// inChunks calls do for parts of the items that fit into one statement, given how many parameters an item takes.
func inChunks[T any](on session, items []T, parameters int, do func(part []T) error) error {
	for part := range slices.Chunk(items, on.dialect.maxParameters/parameters) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}

// unavailable marks an error of the engine. The end of the caller's context is kept visible to errors.Is, which not
// every driver does.
func unavailable(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, ended, err)
	}
	if pooled(err) {
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, store.ErrPooled, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// byKeys makes the statements of a transaction go along keys.
func (s session) byKeys(ctx context.Context) error {
	if s.dialect.byKeys == "" {
		return nil
	}
	_, err := s.exec(ctx, s.dialect.byKeys)
	return err
}

// reads runs single statements, each its own snapshot.
func (s *Store) reads() session { return session{s.engine.dialect, s.engine.read} }

// snapshot runs do in a transaction whose reads are all of one moment.
func (s *Store) snapshot(ctx context.Context, do func(tx session) error) (err error) {
	ctx, span := s.engine.dialect.span(ctx, reading)
	defer func() { endSpan(span, err) }()
	tx, err := s.engine.read.BeginTx(ctx, s.engine.dialect.readTx)
	if err != nil {
		return unavailable(ctx, err)
	}
	// The end of a transaction that wrote nothing decides nothing.
	defer func() { _ = tx.Rollback() }()
	return do(session{s.engine.dialect, tx})
}

const (
	// maxAttempts bounds how often a transaction is tried that the engine undid.
	maxAttempts = 5
	// firstRetry is the delay before the second attempt; it doubles, with jitter.
	firstRetry = 10 * time.Millisecond
)

// write runs do in a transaction that starts by locking the store row, and again if the engine undid it. The
// transaction is committed if do returns true and else rolled back. do must keep nothing of an earlier attempt.
func (s *Store) write(ctx context.Context, do func(tx session, row storeRow) (commit bool, err error)) error {
	for attempt := 1; ; attempt++ {
		err := writeOnce(ctx, s, do)
		if err == nil || attempt == maxAttempts || !s.engine.dialect.retryable(err) {
			return err
		}
		if pauseAfter(ctx, attempt) != nil {
			return err
		}
	}
}

// pauseAfter waits before the attempt that follows the numbered one, or for the end of the context, which it returns.
func pauseAfter(ctx context.Context, attempt int) error {
	delay := firstRetry << (attempt - 1)
	return pause(ctx, delay+rand.N(delay))
}

func writeOnce(ctx context.Context, s *Store, do func(session, storeRow) (bool, error)) (err error) {
	ctx, span := s.engine.dialect.span(ctx, writing)
	defer func() { endSpan(span, err) }()
	tx, err := s.engine.write.BeginTx(ctx, s.engine.dialect.writeTx)
	if err != nil {
		return unavailable(ctx, err)
	}
	// After a commit this does nothing, and after a failure the engine undoes the transaction with the connection.
	defer func() { _ = tx.Rollback() }()
	on := session{s.engine.dialect, tx}
	row, err := readStoreRow(ctx, on, s.engine.dialect.forUpdate)
	if err != nil {
		return err
	}
	commit, err := do(on, row)
	if err != nil || !commit {
		return err
	}
	return unavailable(ctx, tx.Commit())
}

// pause waits for a delay, or for the end of the context, which it returns.
func pause(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// storeRow is the one row of the table store.
type storeRow struct {
	term     store.Term
	install  string
	beat     int64
	position store.Position
}

func readStoreRow(ctx context.Context, on session, forUpdate string) (storeRow, error) {
	var row storeRow
	found, err := on.row(ctx, []any{
		&row.term.StoreID, &row.term.Epoch, &row.install, &row.beat,
		&row.position.Revision, &row.position.Tag,
	}, `SELECT store_id, epoch, install, install_beat, revision, tag FROM store WHERE id = 1`+forUpdate)
	if err == nil && !found {
		err = store.ErrSchema
	}
	return row, err
}

// flag is a boolean as both engines keep it.
func flag(set bool) int64 {
	if set {
		return 1
	}
	return 0
}
