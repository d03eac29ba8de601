package db

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// MaxAttempts is how often a transaction runs at most if the engine rolls it back.
	MaxAttempts = 5
	// firstRetry is the delay before the second attempt; it doubles, with jitter.
	firstRetry = 10 * time.Millisecond
)

// Snapshot runs do in a transaction whose reads all see one moment.
func (d *DB) Snapshot(ctx context.Context, do func(tx Session) error) (err error) {
	ctx, span := d.Dialect.span(ctx, reading)
	defer func() { endSpan(span, err) }()
	tx, err := d.Readers.BeginTx(ctx, d.Dialect.readTx)
	if err != nil {
		return Unavailable(ctx, err)
	}
	// The end of a read-only transaction cannot fail in a way that matters.
	defer func() { _ = tx.Rollback() }()
	return do(Session{d.Dialect, tx})
}

// Write runs do in a transaction that starts by locking the store row. It runs do again if the engine rolled the
// transaction back, and commits if do returns true. do must keep nothing of an earlier attempt.
func (d *DB) Write(ctx context.Context, do func(tx Session, row StoreRow) (commit bool, err error)) error {
	for attempt := 1; ; attempt++ {
		err := writeOnce(ctx, d, do)
		if err == nil || attempt == MaxAttempts || !d.Dialect.retryable(err) {
			return err
		}
		if pauseAfter(ctx, attempt) != nil {
			return err
		}
	}
}

func writeOnce(ctx context.Context, d *DB, do func(Session, StoreRow) (bool, error)) (err error) {
	ctx, span := d.Dialect.span(ctx, writing)
	defer func() { endSpan(span, err) }()
	tx, err := d.Writers.BeginTx(ctx, d.Dialect.WriteTx)
	if err != nil {
		return Unavailable(ctx, err)
	}
	// After a commit this does nothing; after a failure the engine rolls back when the connection ends.
	defer func() { _ = tx.Rollback() }()
	on := Session{d.Dialect, tx}
	row, err := ReadStoreRow(ctx, on, d.Dialect.forUpdate)
	if err != nil {
		return err
	}
	commit, err := do(on, row)
	if err != nil || !commit {
		return err
	}
	return Unavailable(ctx, tx.Commit())
}

// Change runs do in a transaction over the rows of a deployment, with the given options of the dialect (nil: those of
// every write). It runs do again if the engine rolled the transaction back or, once, if a row already exists. do must
// keep nothing of an earlier attempt.
func (d *DB) Change(ctx context.Context, deployment string, options *sql.TxOptions, do func(*Tx) error) error {
	if options == nil {
		options = d.Dialect.WriteTx
	}
	return d.repeat(ctx, func() error { return changeOnce(ctx, d, deployment, options, do) })
}

// Single is Change for a do that runs one statement, which is then a transaction of its own: nothing begins and ends
// it. A second statement fails with ErrSecondStatement, and the first stays committed.
func (d *DB) Single(ctx context.Context, deployment string, do func(*Tx) error) error {
	return d.repeat(ctx, func() error {
		on := d.Writes().Of(ctx, deployment)
		on.single = true
		if err := do(on); err != nil {
			return err
		}
		return on.lost
	})
}

// repeat runs a change, and again if the engine rolled it back or, once, if a row already exists.
func (d *DB) repeat(ctx context.Context, change func() error) error {
	collided := false
	for attempt := 1; ; attempt++ {
		err := change()
		switch {
		case err == nil:
			return nil
		case errors.Is(err, people.ErrDuplicate) && !collided:
			collided = true
			continue
		case attempt >= MaxAttempts || !d.Dialect.retryable(err):
			return err
		}
		if pauseAfter(ctx, attempt) != nil {
			return err
		}
	}
}

func changeOnce(ctx context.Context, d *DB, deployment string, options *sql.TxOptions, do func(*Tx) error) (err error) {
	ctx, span := d.Dialect.span(ctx, writing)
	defer func() { endSpan(span, err) }()
	tx, err := d.Writers.BeginTx(ctx, options)
	if err != nil {
		return Unavailable(ctx, err)
	}
	// After a commit this does nothing.
	defer func() { _ = tx.Rollback() }()
	d.Dialect.traced("BEGIN", nil)
	on := Session{d.Dialect, tx}.Of(ctx, deployment)
	if err := do(on); err != nil {
		return err
	}
	if on.lost != nil {
		return on.lost
	}
	d.Dialect.traced("COMMIT", nil)
	return on.failed(Unavailable(ctx, tx.Commit()))
}

// pauseAfter waits after a failed attempt, the first being 1, until the next attempt is due. If the context ends first,
// it returns the context's error.
func pauseAfter(ctx context.Context, attempt int) error {
	delay := firstRetry << (attempt - 1)
	return pause.For(ctx, delay+rand.N(delay))
}

// StoreRow is the one row of the table store.
type StoreRow struct {
	Term     store.Term
	Install  string
	Beat     int64
	Position store.Position
}

// ReadStoreRow reads the store row, and locks it if forUpdate is the dialect's. Errors: store.ErrSchema if there is
// none.
func ReadStoreRow(ctx context.Context, on Session, forUpdate string) (StoreRow, error) {
	var row StoreRow
	found, err := on.Row(ctx, []any{
		&row.Term.StoreID, &row.Term.Epoch, &row.Install, &row.Beat,
		&row.Position.Revision, &row.Position.Tag,
	}, `SELECT store_id, epoch, install, install_beat, revision, tag FROM store WHERE id = 1`+forUpdate)
	if err == nil && !found {
		err = store.ErrSchema
	}
	return row, err
}
