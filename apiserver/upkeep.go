package apiserver

import (
	"context"
	"math/rand/v2"
	"time"
)

const (
	// upkeepEvery is how often what is over is deleted, before jitter: several servers share the work without knowing.
	upkeepEvery = 5 * time.Minute
	// upkeepBatch bounds one deletion, so that nobody waits for it.
	upkeepBatch = 500
	// auditRetention is how long audit records are kept.
	auditRetention = 400 * 24 * time.Hour
)

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
			purged, err := s.opts.People.Purge(ctx, s.opts.Clock(), auditRetention, upkeepBatch)
			if err != nil && ctx.Err() == nil {
				s.opts.Log.Error(err, "What is over was not deleted; trying again later")
			}
			if err != nil || purged < upkeepBatch {
				break
			}
		}
	}
}
