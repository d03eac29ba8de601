package testkit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// Interruptible is a store whose engine a test can make unreachable, and whose document writes it counts.
type Interruptible struct {
	store.Store
	away   atomic.Bool
	writes atomic.Int64
	looks  atomic.Int64
	term   atomic.Pointer[store.Term]
}

// Term returns the term the operator writes under.
func (s *Interruptible) Term() store.Term { return *s.term.Load() }

// Interrupt makes every call fail, or succeed again.
func (s *Interruptible) Interrupt(away bool) { s.away.Store(away) }

// Writes returns how many documents were put, deleted or retained.
func (s *Interruptible) Writes() int64 { return s.writes.Load() }

// Looks returns how often the operator looked for a document, in vain or not.
func (s *Interruptible) Looks() int64 { return s.looks.Load() }

func (s *Interruptible) reach() error {
	if s.away.Load() {
		return fmt.Errorf("%w: %w", store.ErrUnavailable, errors.New("interrupted by a test"))
	}
	return nil
}

// Stored implements store.Documents.
func (s *Interruptible) Stored(ctx context.Context, id store.Identity) (store.Stored, error) {
	s.looks.Add(1)
	if err := s.reach(); err != nil {
		return store.Stored{}, err
	}
	return s.Store.Stored(ctx, id)
}

// ReservationOwners implements store.Documents.
func (s *Interruptible) ReservationOwners(ctx context.Context, reservations []string) (map[string]store.Owner, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.Store.ReservationOwners(ctx, reservations)
}

// Put implements store.Documents.
func (s *Interruptible) Put(ctx context.Context, term store.Term, put store.Put) (int64, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	s.writes.Add(1)
	return s.Store.Put(ctx, term, put)
}

// Delete implements store.Documents.
func (s *Interruptible) Delete(ctx context.Context, term store.Term, owner store.Owner) error {
	if err := s.reach(); err != nil {
		return err
	}
	s.writes.Add(1)
	return s.Store.Delete(ctx, term, owner)
}

// Retain implements store.Documents.
func (s *Interruptible) Retain(ctx context.Context, term store.Term, owner store.Owner) error {
	if err := s.reach(); err != nil {
		return err
	}
	s.writes.Add(1)
	return s.Store.Retain(ctx, term, owner)
}

// Load implements store.Feed.
func (s *Interruptible) Load(ctx context.Context) ([]store.Document, store.Position, error) {
	if err := s.reach(); err != nil {
		return nil, store.Position{}, err
	}
	return s.Store.Load(ctx)
}

// Changes implements store.Feed.
func (s *Interruptible) Changes(ctx context.Context, after store.Position) ([]store.Change, store.Position, error) {
	if err := s.reach(); err != nil {
		return nil, store.Position{}, err
	}
	return s.Store.Changes(ctx, after)
}

// Acquire implements store.Terms.
func (s *Interruptible) Acquire(ctx context.Context, install string, patience time.Duration) (store.Term, error) {
	if err := s.reach(); err != nil {
		return store.Term{}, err
	}
	term, err := s.Store.Acquire(ctx, install, patience)
	if err == nil {
		s.term.Store(&term)
	}
	return term, err
}

// Installed implements store.Terms.
func (s *Interruptible) Installed(ctx context.Context) (string, error) {
	if err := s.reach(); err != nil {
		return "", err
	}
	return s.Store.Installed(ctx)
}

// OldestUser implements store.Tenants.
func (s *Interruptible) OldestUser(ctx context.Context, deployment string) (int64, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	return s.Store.OldestUser(ctx, deployment)
}

// Owners implements store.Documents.
func (s *Interruptible) Owners(ctx context.Context) ([]store.Owner, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.Store.Owners(ctx)
}

// Heartbeat implements store.Terms.
func (s *Interruptible) Heartbeat(ctx context.Context, term store.Term) error {
	if err := s.reach(); err != nil {
		return err
	}
	return s.Store.Heartbeat(ctx, term)
}

// Migrate implements store.Schema.
func (s *Interruptible) Migrate(ctx context.Context) error {
	if err := s.reach(); err != nil {
		return err
	}
	return s.Store.Migrate(ctx)
}

// CheckSchema implements store.Schema.
func (s *Interruptible) CheckSchema(ctx context.Context) error {
	if err := s.reach(); err != nil {
		return err
	}
	return s.Store.CheckSchema(ctx)
}

// View implements people.Store.
func (s *Interruptible) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if err := s.reach(); err != nil {
		return err
	}
	return s.Store.View(ctx, deployment, do)
}

// Change implements people.Store.
func (s *Interruptible) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if err := s.reach(); err != nil {
		return err
	}
	return s.Store.Change(ctx, deployment, do)
}

// LeaseMessages implements people.Messages.
func (s *Interruptible) LeaseMessages(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]people.Message, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.Store.LeaseMessages(ctx, now, lease, limit)
}

// AckMessage implements people.Messages.
func (s *Interruptible) AckMessage(ctx context.Context, m people.Message, to people.Outcome) (bool, error) {
	if err := s.reach(); err != nil {
		return false, err
	}
	return s.Store.AckMessage(ctx, m, to)
}

// Purge implements people.Upkeep.
func (s *Interruptible) Purge(ctx context.Context, now time.Time, auditRetention time.Duration, limit int) (int64, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	return s.Store.Purge(ctx, now, auditRetention, limit)
}

// Erase implements store.Erasure.
func (s *Interruptible) Erase(ctx context.Context, term store.Term, deployment string, limit int) (int64, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	return s.Store.Erase(ctx, term, deployment, limit)
}

// Summarize implements people.Analytics.
func (s *Interruptible) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	if err := s.reach(); err != nil {
		return people.Summary{}, err
	}
	return s.Store.Summarize(ctx, deployment, period, before, recent)
}

// Waiting implements people.Sealing.
func (s *Interruptible) Waiting(ctx context.Context) ([]people.WaitingEvents, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.Store.Waiting(ctx)
}

// Seal implements people.Sealing.
func (s *Interruptible) Seal(ctx context.Context, w people.WaitingEvents, linkedSince time.Time, limit int) (int64, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	return s.Store.Seal(ctx, w, linkedSince, limit)
}

// Unlink implements people.Sealing.
func (s *Interruptible) Unlink(ctx context.Context, deployment string, before time.Time, limit int) (int64, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	return s.Store.Unlink(ctx, deployment, before, limit)
}

// Linked implements people.Sealing.
func (s *Interruptible) Linked(ctx context.Context) ([]string, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.Store.Linked(ctx)
}

// VerifySeals implements people.Sealing.
func (s *Interruptible) VerifySeals(ctx context.Context, deployment string, from time.Time, limit int) ([]people.SealCheck, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.Store.VerifySeals(ctx, deployment, from, limit)
}

// Swap exchanges the store under its users, as when a database is replaced behind one address.
func (s *Interruptible) Swap(with store.Store) { s.Store = with }
