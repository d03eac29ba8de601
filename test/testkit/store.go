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
	tenure atomic.Pointer[store.Tenure]
}

// Tenure returns the tenure the operator writes under.
func (s *Interruptible) Tenure() store.Tenure { return *s.tenure.Load() }

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

// Held implements store.Documents.
func (s *Interruptible) Held(ctx context.Context, id store.Identity) (store.Held, error) {
	s.looks.Add(1)
	if err := s.reach(); err != nil {
		return store.Held{}, err
	}
	return s.Store.Held(ctx, id)
}

// Holders implements store.Documents.
func (s *Interruptible) Holders(ctx context.Context, claims []string) (map[string]store.Owner, error) {
	if err := s.reach(); err != nil {
		return nil, err
	}
	return s.Store.Holders(ctx, claims)
}

// Put implements store.Documents.
func (s *Interruptible) Put(ctx context.Context, tenure store.Tenure, put store.Put) (int64, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	s.writes.Add(1)
	return s.Store.Put(ctx, tenure, put)
}

// Delete implements store.Documents.
func (s *Interruptible) Delete(ctx context.Context, tenure store.Tenure, owner store.Owner) error {
	if err := s.reach(); err != nil {
		return err
	}
	s.writes.Add(1)
	return s.Store.Delete(ctx, tenure, owner)
}

// Retain implements store.Documents.
func (s *Interruptible) Retain(ctx context.Context, tenure store.Tenure, owner store.Owner) error {
	if err := s.reach(); err != nil {
		return err
	}
	s.writes.Add(1)
	return s.Store.Retain(ctx, tenure, owner)
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

// Take implements store.Tenures.
func (s *Interruptible) Take(ctx context.Context, install string, patience time.Duration) (store.Tenure, error) {
	if err := s.reach(); err != nil {
		return store.Tenure{}, err
	}
	tenure, err := s.Store.Take(ctx, install, patience)
	if err == nil {
		s.tenure.Store(&tenure)
	}
	return tenure, err
}

// Installed implements store.Tenures.
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

// Beat implements store.Tenures.
func (s *Interruptible) Beat(ctx context.Context, tenure store.Tenure) error {
	if err := s.reach(); err != nil {
		return err
	}
	return s.Store.Beat(ctx, tenure)
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
func (s *Interruptible) Erase(ctx context.Context, tenure store.Tenure, deployment string, limit int) (int64, error) {
	if err := s.reach(); err != nil {
		return 0, err
	}
	return s.Store.Erase(ctx, tenure, deployment, limit)
}

// Summarize implements people.Analytics.
func (s *Interruptible) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	if err := s.reach(); err != nil {
		return people.Summary{}, err
	}
	return s.Store.Summarize(ctx, deployment, period, before, recent)
}

// Swap exchanges the store under its users, as when a database is replaced behind one address.
func (s *Interruptible) Swap(with store.Store) { s.Store = with }
