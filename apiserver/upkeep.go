package apiserver

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
)

const (
	// upkeepEvery is the interval of deletions of expired data, before jitter. Several servers share the work without
	// coordination.
	upkeepEvery = 5 * time.Minute
	// upkeepBatch bounds one deletion, so that requests need not wait for it.
	upkeepBatch = 500
	// DefaultAuditRetention is the default retention of audit records.
	DefaultAuditRetention = 400 * 24 * time.Hour
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

// keepUp deletes expired sessions, codes and messages, seals again what an older root key sealed, and notifies
// members of what their organizations require, until ctx ends.
func (s *Server) keepUp(ctx context.Context) error {
	for {
		timer := time.NewTimer(upkeepEvery/2 + rand.N(upkeepEvery))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		for ctx.Err() == nil {
			purged, err := s.opts.People.Purge(ctx, s.opts.Clock(), cmp.Or(s.opts.AuditRetention, DefaultAuditRetention), upkeepBatch)
			if err != nil && ctx.Err() == nil {
				s.opts.Log.Error(err, "Expired data was not deleted; trying again later")
			}
			if err != nil || purged < upkeepBatch {
				break
			}
		}
		if err := s.reseals.Pass(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Error(err, "Secrets of authenticators were not sealed again; trying again later")
		}
		if err := s.notices.Pass(ctx); err != nil && ctx.Err() == nil {
			s.opts.Log.Error(err, "Members were not notified of what their organizations require; trying again later")
		}
	}
}
