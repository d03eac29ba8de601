package testkit

import (
	"context"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// Purge implements people.Upkeep.
func (s *Interruptible) Purge(ctx context.Context, now time.Time, keep people.Retention, limit int) (int64, error) {
	engine, err := s.reach()
	if err != nil {
		return 0, err
	}
	return engine.Purge(ctx, now, keep, limit)
}

// SealedSecrets implements people.Upkeep.
func (s *Interruptible) SealedSecrets(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.SealedSecrets(ctx, after, limit)
}

// PendingNotices implements people.Upkeep.
func (s *Interruptible) PendingNotices(ctx context.Context, after people.PendingNotice, limit int) ([]people.PendingNotice, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.PendingNotices(ctx, after, limit)
}

// AbandonToolCalls implements people.CallUpkeep.
func (s *Interruptible) AbandonToolCalls(ctx context.Context, startedBefore time.Time, limit int) (int64, error) {
	engine, err := s.reach()
	if err != nil {
		return 0, err
	}
	return engine.AbandonToolCalls(ctx, startedBefore, limit)
}

// SealedConnections implements people.ConnectionUpkeep.
func (s *Interruptible) SealedConnections(ctx context.Context, after people.SealedSecret, limit int) ([]people.SealedSecret, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.SealedConnections(ctx, after, limit)
}

// NextUpstreamConnection implements people.ConnectionUpkeep.
func (s *Interruptible) NextUpstreamConnection(ctx context.Context, after people.UpstreamConnection) (people.UpstreamConnection, bool, error) {
	engine, err := s.reach()
	if err != nil {
		return people.UpstreamConnection{}, false, err
	}
	return engine.NextUpstreamConnection(ctx, after)
}

// DueDomains implements people.ConnectionUpkeep.
func (s *Interruptible) DueDomains(ctx context.Context, now time.Time, except []string, limit int) ([]people.DueDomain, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.DueDomains(ctx, now, except, limit)
}

// ListDirectories implements people.DirectoryUpkeep.
func (s *Interruptible) ListDirectories(ctx context.Context, after people.DirectoryRef, limit int) ([]people.DirectoryRef, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.ListDirectories(ctx, after, limit)
}

// UnnumberedEvents implements people.EventUpkeep.
func (s *Interruptible) UnnumberedEvents(ctx context.Context) ([]people.Unnumbered, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.UnnumberedEvents(ctx)
}

// EventSignals implements people.EventUpkeep. An interruption does not affect it.
func (s *Interruptible) EventSignals(ctx context.Context) <-chan struct{} {
	return s.Engine().EventSignals(ctx)
}

// AgedEvents implements people.EventUpkeep.
func (s *Interruptible) AgedEvents(ctx context.Context, before time.Time) ([]string, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.AgedEvents(ctx, before)
}

// DueWebhooks implements people.WebhookUpkeep.
func (s *Interruptible) DueWebhooks(ctx context.Context, now time.Time, share, limit int) ([]people.WebhookRef, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.DueWebhooks(ctx, now, share, limit)
}

// ListWebhooks implements people.WebhookUpkeep.
func (s *Interruptible) ListWebhooks(ctx context.Context, after people.WebhookRef, limit int) ([]people.WebhookRef, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.ListWebhooks(ctx, after, limit)
}

// AgedDeliveries implements people.WebhookUpkeep.
func (s *Interruptible) AgedDeliveries(ctx context.Context, before, failedBefore time.Time) ([]string, error) {
	engine, err := s.reach()
	if err != nil {
		return nil, err
	}
	return engine.AgedDeliveries(ctx, before, failedBefore)
}
