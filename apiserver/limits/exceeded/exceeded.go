// Package exceeded reports refusals of rate limits as events. A refusal is only counted in memory, so no request waits
// for the store; a goroutine writes the events in batches. They are best effort: counts of a server that ends are lost.
package exceeded

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// reportEvery is the least time between two events of one limit by one server.
	reportEvery = 5 * time.Minute
	// writeEvery is the interval of writes: the first refusal of a limit is reported within it.
	writeEvery = 2 * time.Second
	// writeWithin bounds one transaction, and failuresMost how many of a pass may fail.
	writeWithin, failuresMost = 5 * time.Second, 3
	// deploymentMost bounds the limits of a deployment that are counted at once, and so its events in each reportEvery.
	// countedMost bounds those of all deployments, but each may have deploymentLeast. One takes about 300 bytes.
	deploymentMost, deploymentLeast, countedMost = 100, 4, 4096
)

// Store is where events are written.
type Store interface {
	Change(ctx context.Context, deployment string, do func(people.Tx) error) error
}

// Options configures a Reporter.
type Options struct {
	Store Store
	// Served reports whether there is a deployment. Refusals of others are forgotten.
	Served func(deployment string) bool
	Clock  func() time.Time
	Log    logr.Logger
}

// Reporter counts refusals. It implements limits.Refusals and is safe for concurrent use.
type Reporter struct {
	Options
	// dropped counts the refusals that were not counted for lack of room, and counted is how many limits are counted.
	dropped atomic.Uint64
	counted atomic.Int64

	mu          sync.RWMutex
	deployments map[string]*counts
}

// counts are the refusals of a deployment.
type counts struct {
	mu sync.Mutex
	of map[limits.Limit]*count
	// ended reports that the deployment was removed from the Reporter.
	ended bool
}

// count is what a limit refused since its last event.
type count struct {
	slug    string
	refused int64
	// since is the time of the first of these refusals, and reported that of the last event; zero: none.
	since, reported time.Time
}

// due reports whether an event of the limit may be written.
func (c *count) due(now time.Time) bool {
	return c.refused > 0 && (c.reported.IsZero() || now.Sub(c.reported) >= reportEvery)
}

// over reports whether nothing is left to know of the limit.
func (c *count) over(now time.Time) bool { return c.refused == 0 && now.Sub(c.reported) >= reportEvery }

// New returns a Reporter. Run writes its events.
func New(opts Options) *Reporter {
	return &Reporter{Options: opts, deployments: map[string]*counts{}}
}

// Dropped returns how many refusals were not counted because too many limits of their deployment, or of all
// deployments, were counted already.
func (r *Reporter) Dropped() uint64 { return r.dropped.Load() }

// Refused implements limits.Refusals: it counts a refusal.
func (r *Reporter) Refused(deployment string, limit limits.Limit, slug string) {
	for !r.count(r.of(deployment), limit, slug) {
	}
}

// of returns the counts of a deployment.
func (r *Reporter) of(deployment string) *counts {
	r.mu.RLock()
	all := r.deployments[deployment]
	r.mu.RUnlock()
	if all != nil {
		return all
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if all = r.deployments[deployment]; all == nil {
		all = &counts{of: map[limits.Limit]*count{}}
		r.deployments[deployment] = all
	}
	return all
}

// count counts a refusal. It reports false if the counts were removed meanwhile.
func (r *Reporter) count(all *counts, limit limits.Limit, slug string) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.ended {
		return false
	}
	one := all.of[limit]
	if one == nil {
		if len(all.of) >= deploymentMost || len(all.of) >= deploymentLeast && r.counted.Load() >= countedMost {
			r.dropped.Add(1)
			return true
		}
		r.counted.Add(1)
		one = &count{slug: slug}
		all.of[limit] = one
	}
	if one.refused == 0 {
		one.since = r.Clock()
	}
	one.refused++
	return true
}

// Run writes events until ctx ends. It logs the first of successive failures.
func (r *Reporter) Run(ctx context.Context) error {
	ticker := time.NewTicker(writeEvery)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		err := r.Pass(ctx)
		if err != nil && !failing && ctx.Err() == nil {
			r.Log.Error(err, "Events of exceeded rate limits were not written; trying again later")
		}
		failing = err != nil
	}
}

// Pass writes the events that are due, one transaction a deployment. Refusals whose event was not written count for the
// next one.
func (r *Reporter) Pass(ctx context.Context) (failed error) {
	r.mu.RLock()
	names := make([]string, 0, len(r.deployments))
	for deployment := range r.deployments { // in random order, so that no deployment is always the last
		names = append(names, deployment)
	}
	r.mu.RUnlock()
	failures := 0
	for _, deployment := range names {
		all := r.of(deployment)
		if failures < failuresMost && r.Served(deployment) {
			if err := r.write(ctx, deployment, all); err != nil {
				failed = err
				failures++
			}
		}
		r.clear(deployment, all)
	}
	return failed
}

// write writes the events of a deployment that are due.
func (r *Reporter) write(ctx context.Context, deployment string, all *counts) error {
	now := r.Clock().UTC().Truncate(time.Microsecond)
	written, list := map[limits.Limit]int64{}, []people.LoggedEvent(nil)
	all.mu.Lock()
	for limit, one := range all.of {
		if !one.due(now) {
			continue
		}
		logged, err := events.OfExceeded(limit.Scheme, events.Data{
			Scheme: one.slug, Rule: limit.Rule, Mode: limit.Mode.String(), Key: limit.Key, OAuthApp: limit.App, Count: one.refused, Since: one.since,
		}).Log(now, "system")
		if err != nil {
			all.mu.Unlock()
			return err
		}
		written[limit], list = one.refused, append(list, logged)
	}
	all.mu.Unlock()
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	if err := r.Store.Change(ctx, deployment, func(tx people.Tx) error { return tx.Records().LogEvents(list) }); err != nil {
		return err
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	for limit, refused := range written {
		one := all.of[limit]
		if one.refused -= refused; one.refused > 0 {
			one.since = now // those that are left were refused during the write
		}
		one.reported = now
	}
	return nil
}

// clear removes the counts of limits that are over, and the deployment once it has none, or is not served any more.
func (r *Reporter) clear(deployment string, all *counts) {
	now, served := r.Clock(), r.Served(deployment)
	r.mu.Lock()
	defer r.mu.Unlock()
	all.mu.Lock()
	defer all.mu.Unlock()
	for limit, one := range all.of {
		if !served || one.over(now) {
			delete(all.of, limit)
			r.counted.Add(-1)
		}
	}
	if len(all.of) == 0 && !all.ended {
		all.ended = true
		delete(r.deployments, deployment)
	}
}
