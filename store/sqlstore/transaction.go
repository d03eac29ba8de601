package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// maxAttempts bounds how often a transaction runs that the engine rolled back.
	maxAttempts = 5
	// firstRetry is the delay before the second attempt; it doubles, with jitter.
	firstRetry = 10 * time.Millisecond
)

// snapshot runs do in a transaction whose reads all see one moment.
func (d *DB) snapshot(ctx context.Context, do func(tx session) error) (err error) {
	ctx, span := d.dialect.span(ctx, reading)
	defer func() { endSpan(span, err) }()
	tx, err := d.readers.BeginTx(ctx, d.dialect.readTx)
	if err != nil {
		return unavailable(ctx, err)
	}
	// How a transaction ends that wrote nothing does not matter.
	defer func() { _ = tx.Rollback() }()
	return do(session{d.dialect, tx})
}

// write runs do in a transaction that starts by locking the store row, and again if the engine rolled it back. It commits if do
// returns true. do must keep nothing of an earlier attempt.
func (d *DB) write(ctx context.Context, do func(tx session, row storeRow) (commit bool, err error)) error {
	for attempt := 1; ; attempt++ {
		err := writeOnce(ctx, d, do)
		if err == nil || attempt == maxAttempts || !d.dialect.retryable(err) {
			return err
		}
		if pauseAfter(ctx, attempt) != nil {
			return err
		}
	}
}

func writeOnce(ctx context.Context, d *DB, do func(session, storeRow) (bool, error)) (err error) {
	ctx, span := d.dialect.span(ctx, writing)
	defer func() { endSpan(span, err) }()
	tx, err := d.writers.BeginTx(ctx, d.dialect.writeTx)
	if err != nil {
		return unavailable(ctx, err)
	}
	// After a commit this does nothing; after a failure the engine rolls back when the connection ends.
	defer func() { _ = tx.Rollback() }()
	on := session{d.dialect, tx}
	row, err := readStoreRow(ctx, on, d.dialect.forUpdate)
	if err != nil {
		return err
	}
	commit, err := do(on, row)
	if err != nil || !commit {
		return err
	}
	return unavailable(ctx, tx.Commit())
}

// change runs do in a transaction over the rows of a deployment, with the options of the dialect that the caller names (nil: those of
// every write), and again if the engine rolled it back or, once, if a row exists already. do must keep nothing of an earlier attempt.
func (d *DB) change(ctx context.Context, deployment string, options *sql.TxOptions, do func(*deploymentTx) error) error {
	if options == nil {
		options = d.dialect.writeTx
	}
	collided := false
	for attempt := 1; ; attempt++ {
		err := changeOnce(ctx, d, deployment, options, do)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, people.ErrDuplicate) && !collided:
			collided = true
			continue
		case attempt >= maxAttempts || !d.dialect.retryable(err):
			return err
		}
		if pauseAfter(ctx, attempt) != nil {
			return err
		}
	}
}

func changeOnce(ctx context.Context, d *DB, deployment string, options *sql.TxOptions, do func(*deploymentTx) error) (err error) {
	ctx, span := d.dialect.span(ctx, writing)
	defer func() { endSpan(span, err) }()
	tx, err := d.writers.BeginTx(ctx, options)
	if err != nil {
		return unavailable(ctx, err)
	}
	// After a commit this does nothing.
	defer func() { _ = tx.Rollback() }()
	d.dialect.traced("BEGIN", nil)
	on := session{d.dialect, tx}.of(ctx, deployment)
	if err := do(on); err != nil {
		return err
	}
	if on.lost != nil {
		return on.lost
	}
	d.dialect.traced("COMMIT", nil)
	return on.failed(unavailable(ctx, tx.Commit()))
}

// pauseAfter waits before the attempt that follows the numbered one, or until the context ends, whose error it returns.
func pauseAfter(ctx context.Context, attempt int) error {
	delay := firstRetry << (attempt - 1)
	return pause(ctx, delay+rand.N(delay))
}

// pause waits for a delay, or until the context ends, whose error it returns.
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

// readStoreRow reads the store row, and locks it if forUpdate is the dialect's. Errors: store.ErrSchema if there is none.
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
