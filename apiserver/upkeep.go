package apiserver

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// upkeepEvery is the interval of deletions of expired data, before jitter. Several servers share the work without
	// coordination.
	upkeepEvery = 5 * time.Minute
	// upkeepBatch bounds one deletion, so that requests need not wait for it.
	upkeepBatch = 500
	// DefaultAuditRetention is the default retention of audit records.
	DefaultAuditRetention = 400 * 24 * time.Hour
	// DefaultToolCallRetention is the default retention of records of calls of agents' tools.
	DefaultToolCallRetention = 90 * 24 * time.Hour
	// DefaultEventRetention is the default retention of events.
	DefaultEventRetention = 30 * 24 * time.Hour
	// DefaultDeliveryRetention is the default retention of the records of webhooks.
	DefaultDeliveryRetention = 7 * 24 * time.Hour
)

// rollUp rolls up analytics until ctx ends. It starts once the configuration is loaded, which has the retention of
// addresses.
func (s *Server) rollUp(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.follower.Loaded():
		return s.rollUps.Run(ctx)
	}
}

// retentionIn returns a function that returns how long a deployment's client addresses are kept. That function returns
// false for a deployment that is not in the snapshot: the deployment may be declared again with a longer retention.
func retentionIn(follower *snapshot.Follower) func(deployment string) (time.Duration, bool) {
	return func(deployment string) (time.Duration, bool) {
		entry, found := follower.Current().Deployment(deployment)
		if !found {
			return 0, false
		}
		return snapshot.ContentOf[document.Deployment](entry).AddressRetention(), true
	}
}

// inBatches works until a batch is not full. It logs failures.
func (s *Server) inBatches(ctx context.Context, failed string, work func() (int64, error)) {
	for ctx.Err() == nil {
		done, err := work()
		if err != nil && ctx.Err() == nil {
			s.opts.Log.Error(err, failed)
		}
		if err != nil || done < upkeepBatch {
			return
		}
	}
}

// keepUp deletes expired data, marks calls of tools that ended servers left, seals again what an older root key sealed,
// clears deleted directories, and notifies members of what their organizations require, until ctx ends.
func (s *Server) keepUp(ctx context.Context) error {
	for {
		timer := time.NewTimer(upkeepEvery/2 + rand.N(upkeepEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		keep := people.Retention{Audit: cmp.Or(s.opts.AuditRetention, DefaultAuditRetention), ToolCalls: cmp.Or(s.opts.ToolCallRetention, DefaultToolCallRetention)}
		s.inBatches(ctx, "Expired data was not deleted; trying again later", func() (int64, error) {
			keep.Events = events.Expiry{At: s.opts.Clock().UTC().Truncate(time.Microsecond)}
			return s.opts.People.Purge(ctx, s.opts.Clock(), keep, upkeepBatch)
		})
		s.forgetOldEvents(ctx)
		s.inBatches(ctx, "Calls of tools that a server did not end were not marked; trying again later", func() (int64, error) {
			return s.opts.People.AbandonToolCalls(ctx, s.opts.Clock().Add(-callrecord.AbandonedAfter), upkeepBatch)
		})
		for _, worker := range s.reseals {
			if err := worker.Pass(ctx); err != nil && ctx.Err() == nil {
				s.opts.Log.Error(err, "Secrets of authenticators were not sealed again; trying again later")
			}
		}
		if err := s.directories.Pass(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Error(err, "Deleted directories were not cleared; trying again later")
		}
		if err := s.notices.Pass(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Error(err, "Members were not notified of what their organizations require; trying again later")
		}
	}
}

// forgetOldEvents deletes the events, and the records of webhooks, that are older than their retention.
func (s *Server) forgetOldEvents(ctx context.Context) {
	s.inBatches(ctx, "Old events were not deleted; trying again later", func() (int64, error) {
		return s.forgetEvents(ctx, s.opts.Clock().Add(-cmp.Or(s.opts.EventRetention, DefaultEventRetention)))
	})
	s.inBatches(ctx, "Old records of webhooks were not deleted; trying again later", func() (int64, error) {
		now := s.opts.Clock()
		return s.forgetDeliveries(ctx, now.Add(-cmp.Or(s.opts.DeliveryRetention, DefaultDeliveryRetention)), now.Add(-cmp.Or(s.opts.EventRetention, DefaultEventRetention)))
	})
}

// forgetEvents deletes a batch of events that happened before a time.
func (s *Server) forgetEvents(ctx context.Context, before time.Time) (deleted int64, err error) {
	deployments, err := s.opts.People.AgedEvents(ctx, before)
	if err != nil {
		return 0, err
	}
	return s.forget(ctx, deployments, func(tx people.Tx, limit int) (int64, error) { return tx.EventLog().ForgetEvents(before, limit) })
}

// forgetDeliveries deletes a batch of records of webhooks that ended and began before a time. Failed ones are kept as
// long as their events, so that they can be sent again: until they began before another time.
func (s *Server) forgetDeliveries(ctx context.Context, before, failedBefore time.Time) (deleted int64, err error) {
	deployments, err := s.opts.People.AgedDeliveries(ctx, before, failedBefore)
	if err != nil {
		return 0, err
	}
	return s.forget(ctx, deployments, func(tx people.Tx, limit int) (int64, error) {
		return tx.Webhooks().ForgetDeliveries(before, failedBefore, limit)
	})
}

// forget deletes rows of deployments, one after the other, until a batch is full.
func (s *Server) forget(ctx context.Context, deployments []string, do func(tx people.Tx, limit int) (int64, error)) (deleted int64, err error) {
	for _, deployment := range deployments {
		if err != nil || deleted >= upkeepBatch {
			break
		}
		var n int64
		err = s.opts.People.Change(ctx, deployment, func(tx people.Tx) (err error) {
			n, err = do(tx, int(upkeepBatch-deleted))
			return err
		})
		deleted += n
	}
	return deleted, err
}
