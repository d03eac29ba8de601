// Package users is the part of the SQL store that holds the rows of users and the rows that users and applications
// create: sessions, codes, organizations, API keys, OAuth grants and clients, and outgoing messages.
package users

import (
	"context"
	"sync/atomic"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

// Rows are the rows of users and the rows that users and applications create. Their methods may be called from any
// number of goroutines.
type Rows struct {
	db *db.DB
	// notifier wakes the readers of the feed of API keys, and events the subscribers of EventSignals.
	notifier, events *db.Notifier
	// changes counts the calls of Change and Single.
	changes atomic.Uint64
}

// NewRows returns the rows of a database. The notifier keys wakes subscribers of the feed of API keys, and events those
// of EventSignals.
func NewRows(on *db.DB, keys, events *db.Notifier) *Rows {
	return &Rows{db: on, notifier: keys, events: events}
}

// View implements people.Store.
func (s *Rows) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return do(&peopleTx{Tx: s.db.Reads().ReadsOf(ctx, deployment)})
}

// Change implements people.Store. Unlike writes of configuration, it locks only the rows that it touches.
func (s *Rows) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return change(ctx, s, deployment, func(tx *peopleTx) error { return do(tx) })
}

// Single implements people.Store.
func (s *Rows) Single(ctx context.Context, deployment string, do func(people.Tx) error) error {
	s.changes.Add(1)
	logged := false
	err := s.db.Single(ctx, deployment, func(on *db.Tx) error {
		tx := &peopleTx{Tx: on}
		err := do(tx)
		logged = tx.logged
		return err
	})
	if err == nil && logged {
		s.events.Notify()
	}
	return err
}

// RowChanges implements people.RollUp.
func (s *Rows) RowChanges() uint64 { return s.changes.Load() }

// Writers implements people.Store.
func (s *Rows) Writers() int { return s.db.Writers.Stats().MaxOpenConnections }

// change is Change for a callback of this package.
func change(ctx context.Context, s *Rows, deployment string, do func(*peopleTx) error) error {
	s.changes.Add(1)
	var keys pendingKeys
	logged := false
	err := s.db.Change(ctx, deployment, nil, func(on *db.Tx) error {
		tx := &peopleTx{Tx: on}
		err := do(tx)
		if err == nil && on.Err() == nil {
			err = tx.keys.publish(ctx, on.Session, s.db.Clock())
		}
		keys, logged = tx.keys, tx.logged
		return err
	})
	if err == nil {
		wake(s, &keys)
		if logged {
			s.events.Notify()
		}
	}
	return err
}

// peopleTx implements people.Tx.
type peopleTx struct {
	*db.Tx
	// keys is what the commit publishes in the feed of changed keys.
	keys pendingKeys
	// logged reports whether events were recorded or numbered.
	logged bool
}
