package sqlstore

import (
	"context"

	"github.com/cardea-iam/cardea/store/people"
)

// rows are the rows of users and what users and applications create. Their methods may be called from any number of goroutines.
type rows struct {
	db *DB
	// notifier wakes the readers of the feed of API keys.
	notifier *notifier
}

// newRows returns the rows of a database. Subscribers of the feed of API keys are woken by keys.
func newRows(db *DB, keys *notifier) *rows { return &rows{db: db, notifier: keys} }

// View implements people.Store.
func (s *rows) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return do(&peopleTx{deploymentTx: s.db.reads().readsOf(ctx, deployment)})
}

// Change implements people.Store. Unlike writes of configuration, changes of users lock only the rows that they touch.
func (s *rows) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return change(ctx, s, deployment, func(tx *peopleTx) error { return do(tx) })
}

// change is Change for a callback of this package.
func change(ctx context.Context, s *rows, deployment string, do func(*peopleTx) error) error {
	var keys pendingKeys
	err := s.db.change(ctx, deployment, nil, func(on *deploymentTx) error {
		tx := &peopleTx{deploymentTx: on}
		err := do(tx)
		if err == nil && on.Err() == nil {
			err = tx.keys.publish(ctx, on.session, s.db.clock())
		}
		keys = tx.keys
		return err
	})
	if err == nil {
		wake(s, &keys)
	}
	return err
}

// peopleTx implements people.Tx.
type peopleTx struct {
	*deploymentTx
	// keys is what the commit publishes in the feed of changed keys.
	keys pendingKeys
}
