package testkit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// Interruptible is a store whose engine a test can make unavailable or replace. It counts document writes and lookups.
// It embeds no store, so that each new method of store.Store has to define here how an interruption affects it.
type Interruptible struct {
	engine atomic.Pointer[store.Store]
	away   atomic.Bool
	writes atomic.Int64
	looks  atomic.Int64
	term   atomic.Pointer[store.Term]
}

var _ store.Store = (*Interruptible)(nil)

// NewInterruptible returns a store in front of an engine, not interrupted.
func NewInterruptible(engine store.Store) *Interruptible {
	s := &Interruptible{}
	s.engine.Store(&engine)
	return s
}

// Engine returns the store behind the Interruptible.
func (s *Interruptible) Engine() store.Store { return *s.engine.Load() }

// Swap replaces the engine while it is in use, as if another database had taken over the same address.
func (s *Interruptible) Swap(with store.Store) { s.engine.Store(&with) }

// Term returns the term the operator writes under.
func (s *Interruptible) Term() store.Term { return *s.term.Load() }

// Interrupt makes every call fail if its argument is true, and succeed again if it is false.
func (s *Interruptible) Interrupt(away bool) { s.away.Store(away) }

// Writes returns how many documents were put, deleted or retained.
func (s *Interruptible) Writes() int64 { return s.writes.Load() }

// Looks returns how often the operator looked up a document, whether or not the lookup succeeded.
func (s *Interruptible) Looks() int64 { return s.looks.Load() }

func (s *Interruptible) reach() (store.Store, error) {
	if s.away.Load() {
		return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, errors.New("interrupted by a test"))
	}
	return s.Engine(), nil
}

// Close implements store.Store; it works during an interruption too.
func (s *Interruptible) Close() error { return s.Engine().Close() }

// Signals implements store.Feed. An interruption does not affect it: listeners stay registered with the engine.
func (s *Interruptible) Signals(ctx context.Context) <-chan struct{} { return s.Engine().Signals(ctx) }

// KeySignals implements people.Store. An interruption does not affect it.
func (s *Interruptible) KeySignals(ctx context.Context) <-chan struct{} {
	return s.Engine().KeySignals(ctx)
}

// Single implements people.Store.
func (s *Interruptible) Single(ctx context.Context, deployment string, do func(people.Tx) error) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	return engine.Single(ctx, deployment, do)
}

// Writers implements people.Store. An interruption does not affect it.
func (s *Interruptible) Writers() int { return s.Engine().Writers() }

// Stored implements store.Documents.
func (s *Interruptible) Stored(ctx context.Context, id store.Identity) (store.Stored, error) {
	s.looks.Add(1)
	engine, err := s.reach()
	if err != nil {
		return store.Stored{}, err
	}
	return engine.Stored(ctx, id)
}

// ReservationOwners implements store.Documents.
func (s *Interruptible) ReservationOwners(ctx context.Context, reservations []string) (map[string]store.Owner, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.ReservationOwners(ctx, reservations)
}

// Usage implements store.Documents.
func (s *Interruptible) Usage(ctx context.Context, namespace string) (map[string]store.Usage, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.Usage(ctx, namespace)
}

// Put implements store.Documents.
func (s *Interruptible) Put(ctx context.Context, term store.Term, put store.Put) (int64, error) {
	engine, err := s.reach()
	if err != nil {
		return 0, err
	}
	s.writes.Add(1)
	return engine.Put(ctx, term, put)
}

// Delete implements store.Documents.
func (s *Interruptible) Delete(ctx context.Context, term store.Term, owner store.Owner) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	s.writes.Add(1)
	return engine.Delete(ctx, term, owner)
}

// Retain implements store.Documents.
func (s *Interruptible) Retain(ctx context.Context, term store.Term, owner store.Owner) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	s.writes.Add(1)
	return engine.Retain(ctx, term, owner)
}

// Load implements store.Feed.
func (s *Interruptible) Load(ctx context.Context) ([]store.Document, store.Position, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, store.Position{}, err
	}
	return engine.Load(ctx)
}

// Changes implements store.Feed.
func (s *Interruptible) Changes(ctx context.Context, after store.Position) ([]store.Change, store.Position, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, store.Position{}, err
	}
	return engine.Changes(ctx, after)
}

// Acquire implements store.Terms.
func (s *Interruptible) Acquire(ctx context.Context, install string, patience time.Duration) (store.Term, error) {
	engine, err := s.reach()
	if err != nil {
		return store.Term{}, err
	}
	term, err := engine.Acquire(ctx, install, patience)
	if err == nil {
		s.term.Store(&term)
	}
	return term, err
}

// Installed implements store.Terms.
func (s *Interruptible) Installed(ctx context.Context) (string, error) {
	engine, err := s.reach()
	if err != nil {
		return "", err
	}
	return engine.Installed(ctx)
}

// OldestUser implements store.Tenants.
func (s *Interruptible) OldestUser(ctx context.Context, deployment string) (int64, error) {
	engine, err := s.reach()
	if err != nil {
		return 0, err
	}
	return engine.OldestUser(ctx, deployment)
}

// OtherPasskeys implements store.Tenants.
func (s *Interruptible) OtherPasskeys(ctx context.Context, deployment, relyingParty string) ([]people.RelyingPartyCount, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.OtherPasskeys(ctx, deployment, relyingParty)
}

// Owners implements store.Documents.
func (s *Interruptible) Owners(ctx context.Context) ([]store.Owner, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.Owners(ctx)
}

// Heartbeat implements store.Terms.
func (s *Interruptible) Heartbeat(ctx context.Context, term store.Term) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	return engine.Heartbeat(ctx, term)
}

// Migrate implements store.Schema.
func (s *Interruptible) Migrate(ctx context.Context) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	return engine.Migrate(ctx)
}

// CheckSchema implements store.Schema.
func (s *Interruptible) CheckSchema(ctx context.Context) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	return engine.CheckSchema(ctx)
}

// View implements people.Store.
func (s *Interruptible) View(ctx context.Context, deployment string, do func(people.Tx) error) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	return engine.View(ctx, deployment, do)
}

// Change implements people.Store.
func (s *Interruptible) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	return engine.Change(ctx, deployment, do)
}

// LeaseMessages implements people.Messages.
func (s *Interruptible) LeaseMessages(ctx context.Context, now time.Time, lease time.Duration, claim people.Claim) ([]people.Message, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.LeaseMessages(ctx, now, lease, claim)
}

// AckMessage implements people.Messages.
func (s *Interruptible) AckMessage(ctx context.Context, m people.Message, to people.Outcome) (bool, error) {
	engine, err := s.reach()
	if err != nil {
		return false, err
	}
	return engine.AckMessage(ctx, m, to)
}

// Erase implements store.Erasure.
func (s *Interruptible) Erase(ctx context.Context, term store.Term, deployment string, limit int) (int64, error) {
	engine, err := s.reach()
	if err != nil {
		return 0, err
	}
	return engine.Erase(ctx, term, deployment, limit)
}

// Summarize implements people.Analytics.
func (s *Interruptible) Summarize(ctx context.Context, deployment string, period, before people.Period, recent int) (people.Summary, error) {
	engine, err := s.reach()
	if err != nil {
		return people.Summary{}, err
	}
	return engine.Summarize(ctx, deployment, period, before, recent)
}

// Waiting implements people.RollUp.
func (s *Interruptible) Waiting(ctx context.Context) ([]people.WaitingEvents, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.Waiting(ctx)
}

// RollUpDay implements people.RollUp.
func (s *Interruptible) RollUpDay(ctx context.Context, w people.WaitingEvents, linkedSince time.Time, limit int) (int64, error) {
	engine, err := s.reach()
	if err != nil {
		return 0, err
	}
	return engine.RollUpDay(ctx, w, linkedSince, limit)
}

// Unlink implements people.RollUp.
func (s *Interruptible) Unlink(ctx context.Context, deployment string, before time.Time, limit int) (int64, error) {
	engine, err := s.reach()
	if err != nil {
		return 0, err
	}
	return engine.Unlink(ctx, deployment, before, limit)
}

// Linked implements people.RollUp.
func (s *Interruptible) Linked(ctx context.Context) ([]string, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.Linked(ctx)
}

// RowChanges implements people.RollUp.
func (s *Interruptible) RowChanges() uint64 {
	engine, err := s.reach()
	if err != nil {
		return 0
	}
	return engine.RowChanges()
}

// VerifyRollUps implements people.RollUp.
func (s *Interruptible) VerifyRollUps(ctx context.Context, deployment string, from time.Time, limit int) ([]people.RollUpCheck, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.VerifyRollUps(ctx, deployment, from, limit)
}

// Prune implements store.Terms.
func (s *Interruptible) Prune(ctx context.Context, term store.Term, age time.Duration) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	return engine.Prune(ctx, term, age)
}

// APIKeyByDigest implements people.Store.
func (s *Interruptible) APIKeyByDigest(ctx context.Context, digest apikey.Digest) (people.BoundKey, bool, error) {
	engine, err := s.reach()
	if err != nil {
		return people.BoundKey{}, false, err
	}
	return engine.APIKeyByDigest(ctx, digest)
}

// KeyChanges implements people.Store.
func (s *Interruptible) KeyChanges(ctx context.Context, after people.KeyPosition) (people.KeyChanges, error) {
	engine, err := s.reach()
	if err != nil {
		return people.KeyChanges{}, err
	}
	return engine.KeyChanges(ctx, after)
}

// KeyPosition implements people.Store.
func (s *Interruptible) KeyPosition(ctx context.Context) (people.KeyPosition, error) {
	engine, err := s.reach()
	if err != nil {
		return people.KeyPosition{}, err
	}
	return engine.KeyPosition(ctx)
}

// RecordKeyUses implements people.Store.
func (s *Interruptible) RecordKeyUses(ctx context.Context, uses []people.KeyUse) error {
	engine, err := s.reach()
	if err != nil {
		return err
	}
	return engine.RecordKeyUses(ctx, uses)
}

// LogoutsWaiting implements people.Store.
func (s *Interruptible) LogoutsWaiting(ctx context.Context) ([]string, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.LogoutsWaiting(ctx)
}
