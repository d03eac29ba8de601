// Package rollup keeps analytics fast and its traces short: it seals events by and by, and forgets, after the retention, whose they were
// and from where. Every server does it; they take turns by the deployment, in the store. Nothing that is counted depends on it.
package rollup

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/store/people"
)

const (
	// passEvery is how often events that wait are looked at, before jitter.
	passEvery = 20 * time.Second
	// wholeEvery is how often all that wait are sealed, however few: what a summary reads of today stays this short.
	wholeEvery = 10 * time.Minute
	// passFor bounds the roll-up of one pass: expired data is deleted in time even if millions of events wait.
	passFor = 5 * time.Minute
	// step is how many events of a kind one transaction rolls up of a small day: some tens of milliseconds, during
	// which SQLite has no other writer. Each step writes the day again, so a step of a large day is an eighth of it,
	// and at most maxStep.
	step, maxStep = 4_000, 50_000
)

// Options are what a Sealer needs.
type Options struct {
	Store people.Sealing
	// Retention returns how long a deployment keeps addresses and user agents; false: it is not known now, and everything is kept.
	Retention func(deployment string) (time.Duration, bool)
	Clock     func() time.Time
	Log       logr.Logger
	Registry  prometheus.Registerer
}

// Sealer seals and forgets.
type Sealer struct {
	Options
	waiting prometheus.Gauge

	wake chan struct{}
	mu   sync.Mutex
	// imported are the deployments with an import that ended since the last pass over them.
	imported map[string]bool
}

// New returns a Sealer and registers how many events wait.
func New(opts Options) *Sealer {
	s := &Sealer{Options: opts, wake: make(chan struct{}, 1), imported: map[string]bool{}, waiting: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "cardea_analytics_waiting_events", Help: "Events that were not sealed yet when this server looked last, of a day 2,000 or an eighth of what is sealed at most. They are counted all the same, more slowly.",
	})}
	opts.Registry.MustRegister(s.waiting)
	return s
}

// Imported wakes Run to seal the events of a deployment, where an import ended, without waiting for the next pass: until then each summary
// reads them row by row.
func (s *Sealer) Imported(deployment string) {
	s.mu.Lock()
	s.imported[deployment] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // awake already
	}
}

// Run works until ctx ends.
func (s *Sealer) Run(ctx context.Context) error {
	last := s.Clock() // a server that was just started has others to answer first
	timer := time.NewTimer(passEvery/2 + rand.N(passEvery))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake: // the timer goes on: imports that end all the time do not keep passes away
			if err := s.sealImported(ctx); err != nil && ctx.Err() == nil {
				s.Log.Error(err, "imported events were not sealed; the next pass tries again")
			}
			continue
		case <-timer.C:
		}
		now := s.Clock()
		whole := now.Sub(last) >= wholeEvery || now.Before(last)
		if whole {
			last = now
		}
		if err := s.Pass(ctx, whole); err != nil && ctx.Err() == nil {
			s.Log.Error(err, "Events were not sealed; they are counted all the same, and trying goes on")
		}
		timer.Reset(passEvery/2 + rand.N(passEvery))
	}
}

// Pass rolls up the days that have enough events, or all that wait if whole is true, within passFor. A whole pass
// first deletes data past its retention. A failure for one day or deployment does not stop the others.
func (s *Sealer) Pass(ctx context.Context, whole bool) error {
	var failed []error
	if whole {
		failed = append(failed, s.forget(ctx))
	}
	failed = append(failed, s.sealWhere(ctx, func(w people.WaitingEvents) bool { return whole || w.Events >= people.EnoughToSeal(w.Sealed) }))
	return errors.Join(failed...)
}

// sealImported seals the deployments where imports ended. An import spreads over many days, few events each, so that no number of events is
// too small; where far more are sealed, the day waits as others do, so that imports of single lines do not write large days anew.
func (s *Sealer) sealImported(ctx context.Context) error {
	s.mu.Lock()
	imported := s.imported
	s.imported = map[string]bool{}
	s.mu.Unlock()
	return s.sealWhere(ctx, func(w people.WaitingEvents) bool { return imported[w.Deployment] && w.Events >= w.Sealed/8 })
}

// sealWhere seals the days that are worth it, as far as it comes in passFor.
func (s *Sealer) sealWhere(ctx context.Context, worthIt func(people.WaitingEvents) bool) error {
	until := s.Clock().Add(passFor)
	waiting, err := s.Store.Waiting(ctx)
	failed := []error{err}
	if err == nil {
		events := int64(0)
		for _, w := range waiting {
			events += w.Events
		}
		s.waiting.Set(float64(events))
	}
	for _, w := range inTurn(waiting) {
		if ctx.Err() == nil && worthIt(w) {
			failed = append(failed, s.sealDay(ctx, w, until))
		}
	}
	return errors.Join(failed...)
}

// inTurn orders days so that the first of every deployment comes before the second of any: the backlog of one
// deployment delays no other.
func inTurn(waiting []people.WaitingEvents) []people.WaitingEvents {
	days, turn := map[string]int{}, make(map[people.WaitingEvents]int, len(waiting))
	for _, w := range waiting {
		turn[w] = days[w.Deployment]
		days[w.Deployment]++
	}
	slices.SortStableFunc(waiting, func(a, b people.WaitingEvents) int { return turn[a] - turn[b] })
	return waiting
}

// sealDay rolls up the waiting events of a day, up to a time. Between two steps it pauses for as long as the last one
// took, so that other writers of SQLite proceed.
func (s *Sealer) sealDay(ctx context.Context, w people.WaitingEvents, until time.Time) error {
	for sealed := w.Sealed; s.Clock().Before(until); {
		began := time.Now()
		since, _ := s.keptSince(w.Deployment)
		limit := min(max(step, sealed/8), maxStep)
		n, err := s.Store.Seal(ctx, w, since, int(limit))
		if err != nil || n < limit { // of no kind is there more, or another seals
			return err
		}
		sealed += n
		if rest(ctx, time.Since(began)) != nil {
			return nil
		}
	}
	return nil
}

// forget forgets in all deployments what is past the retention.
func (s *Sealer) forget(ctx context.Context) error {
	linked, err := s.Store.Linked(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, deployment := range linked {
		failed = append(failed, s.forgetIn(ctx, deployment))
	}
	return errors.Join(failed...)
}

func (s *Sealer) forgetIn(ctx context.Context, deployment string) error {
	for {
		since, known := s.keptSince(deployment)
		if !known {
			return nil
		}
		began := time.Now()
		n, err := s.Store.Unlink(ctx, deployment, since, step)
		if err != nil || n < step || rest(ctx, time.Since(began)) != nil {
			return err
		}
	}
}

// keptSince returns since when addresses are kept; 1970 where it is not known.
func (s *Sealer) keptSince(deployment string) (time.Time, bool) {
	retention, known := s.Retention(deployment)
	if !known {
		return time.UnixMicro(0), false
	}
	return s.Clock().Add(-retention), true
}

// rest waits, or for the end of the context, which it returns.
func rest(ctx context.Context, delay time.Duration) error {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
