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
	// upkeepEvery is how often what is over is deleted, before jitter: several servers share the work without knowing.
	upkeepEvery = 5 * time.Minute
	// upkeepBatch bounds one deletion, so that nobody waits for it.
	upkeepBatch = 500
	// DefaultAuditRetention is how long audit records are kept where nothing else is said.
	DefaultAuditRetention = 400 * 24 * time.Hour
)

// seal seals what analytics counts until ctx ends, from when the configuration, which says how long addresses are kept, is there.
func (s *Server) seal(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case <-s.follower.Loaded():
		return s.sealer.Run(ctx)
	}
}

// retentionIn tells how long deployments keep addresses. One that is not there now may come back and keep them longer.
func retentionIn(follower *snapshot.Follower) func(deployment string) (time.Duration, bool) {
	return func(deployment string) (time.Duration, bool) {
		entry, found := follower.Current().Deployment(deployment)
		if !found {
			return 0, false
		}
		return snapshot.ContentOf[document.Deployment](entry).AddressRetention(), true
	}
}

// keepUp deletes sessions, codes and messages that are over until ctx ends.
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
				s.opts.Log.Error(err, "What is over was not deleted; trying again later")
			}
			if err != nil || purged < upkeepBatch {
				break
			}
		}
	}
}
