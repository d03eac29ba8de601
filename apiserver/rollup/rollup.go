// Package rollup rolls analytics events up into days, so that summaries stay fast, and deletes the addresses and user
// agents of events after the retention. Every server runs it; servers take turns by deployment, in the store. Summaries
// count an event the same before and after its roll-up.
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

	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// passEvery is the interval of passes over waiting events, before jitter.
	passEvery = 20 * time.Second
	// wholeEvery is the interval of passes that roll up all waiting events, however few. It bounds what a summary reads
	// row by row for today.
	wholeEvery = 10 * time.Minute
	// passFor bounds the roll-up of one pass: expired data is deleted in time even if millions of events wait.
	passFor = 5 * time.Minute
	// step is how many events of a kind one transaction rolls up for a small day. It takes some tens of milliseconds,
	// during which SQLite has no other writer. Each transaction rewrites the day, so for a large day it rolls up an
	// eighth of the day's events, at most maxStep.
	step, maxStep = 4_000, 50_000
	// idlePause and busyPause are how long the worker pauses after a step, as multiples of the time that it took: the
	// second if there were changes of rows meanwhile, one each busyEvery or more. maxPause bounds both.
	idlePause, busyPause = 1, 6
	busyEvery            = 100 * time.Millisecond
	maxPause             = 2 * time.Second
)

// Options configures a Worker.
type Options struct {
	Store people.RollUp
	// Retention returns how long a deployment keeps addresses and user agents; false means that it is not known now, and
	// everything is kept.
	Retention func(deployment string) (time.Duration, bool)
	Clock     func() time.Time
	Log       logr.Logger
	Registry  prometheus.Registerer
}

// Worker rolls events up and deletes expired data.
type Worker struct {
	Options
	waiting prometheus.Gauge

	wake chan struct{}
	mu   sync.Mutex
	// imported are the deployments with imports that ended since the last pass over them.
	imported map[string]bool
}

// New returns a Worker and registers the metric of waiting events.
func New(opts Options) *Worker {
	s := &Worker{Options: opts, wake: make(chan struct{}, 1), imported: map[string]bool{}, waiting: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "cardea_analytics_waiting_events", Help: "Events that were not rolled up at the last pass of this server, at most 2,000 or an eighth of the rolled-up ones per day. Summaries count them too, more slowly.",
	})}
	opts.Registry.MustRegister(s.waiting)
	return s
}

// Imported wakes Run to roll up the events of a deployment after an import, without waiting for the next pass. Until
// then each summary reads them row by row.
func (s *Worker) Imported(deployment string) {
	s.mu.Lock()
	s.imported[deployment] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // awake already
	}
}

// Run works until ctx ends.
func (s *Worker) Run(ctx context.Context) error {
	last := s.Clock() // a server that has just started has requests to answer first
	timer := time.NewTimer(passEvery/2 + rand.N(passEvery))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake: // the timer continues: frequent imports must not delay passes
			if err := s.rollUpImported(ctx); err != nil && ctx.Err() == nil {
				s.Log.Error(err, "Rolling up imported events failed; the next pass tries again")
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
			s.Log.Error(err, "Rolling up events failed; they are counted anyway, and the next pass tries again")
		}
		timer.Reset(passEvery/2 + rand.N(passEvery))
	}
}

// Pass rolls up the days that have enough events, or all that wait if whole is true, within passFor. A whole pass
// first deletes data past its retention, within passFor too. A failure for one day or deployment does not stop the
// others.
func (s *Worker) Pass(ctx context.Context, whole bool) error {
	var failed []error
	if whole {
		failed = append(failed, s.forget(ctx))
	}
	failed = append(failed, s.rollUpWhere(ctx, func(w people.WaitingEvents) bool { return whole || w.Events >= people.EnoughToRollUp(w.RolledUp) }))
	return errors.Join(failed...)
}

// rollUpImported rolls up the deployments with ended imports. An import spreads over many days with few events each, so
// no number of events is too small. A day with far more rolled-up events waits as usual, so that imports of single
// lines do not rewrite large days.
func (s *Worker) rollUpImported(ctx context.Context) error {
	s.mu.Lock()
	imported := s.imported
	s.imported = map[string]bool{}
	s.mu.Unlock()
	return s.rollUpWhere(ctx, func(w people.WaitingEvents) bool { return imported[w.Deployment] && w.Events >= w.RolledUp/8 })
}

// rollUpWhere rolls up the days that worthIt selects, within passFor.
func (s *Worker) rollUpWhere(ctx context.Context, worthIt func(people.WaitingEvents) bool) error {
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
			failed = append(failed, s.rollUpDay(ctx, w, until))
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

// rollUpDay rolls up the waiting events of a day, and stops at until.
func (s *Worker) rollUpDay(ctx context.Context, w people.WaitingEvents, until time.Time) error {
	for rolledUp := w.RolledUp; s.Clock().Before(until) && ctx.Err() == nil; {
		since, _ := s.keptSince(w.Deployment)
		limit := min(max(step, rolledUp/8), maxStep)
		n, err := s.paced(ctx, func() (int64, error) { return s.Store.RollUpDay(ctx, w, since, int(limit)) })
		if err != nil || n < limit { // no kind has more, or another server rolls up
			return err
		}
		rolledUp += n
	}
	return nil
}

// paced runs a step and pauses after it, so that requests proceed: SQLite has one writer, and the processors are
// shared.
func (s *Worker) paced(ctx context.Context, one func() (int64, error)) (int64, error) {
	changes, began := s.Store.RowChanges(), time.Now()
	n, err := one()
	took := time.Since(began)
	idle := min(idlePause*took, maxPause)
	if n == 0 || pause.For(ctx, idle) != nil {
		return n, err
	}
	if busy := time.Duration(s.Store.RowChanges()-changes) * busyEvery; busy < time.Since(began) {
		return n, err
	}
	_ = pause.For(ctx, min(busyPause*took, maxPause)-idle) // the caller looks at the context
	return n, err
}

// forget deletes expired data in all deployments, within passFor. Deployments take turns, a step each.
func (s *Worker) forget(ctx context.Context) error {
	until := s.Clock().Add(passFor)
	linked, err := s.Store.Linked(ctx)
	failed := []error{err}
	for len(linked) > 0 && ctx.Err() == nil && s.Clock().Before(until) {
		linked = slices.DeleteFunc(linked, func(deployment string) bool {
			more, err := s.forgetSome(ctx, deployment)
			failed = append(failed, err)
			return !more || err != nil
		})
	}
	return errors.Join(failed...)
}

// forgetSome deletes expired data of a deployment, and reports whether there may be more.
func (s *Worker) forgetSome(ctx context.Context, deployment string) (more bool, err error) {
	since, known := s.keptSince(deployment)
	if !known || ctx.Err() != nil {
		return false, nil
	}
	n, err := s.paced(ctx, func() (int64, error) { return s.Store.Unlink(ctx, deployment, since, step) })
	return n >= step, err
}

// keptSince returns the time since which addresses are kept; 1970 if it is not known.
func (s *Worker) keptSince(deployment string) (time.Time, bool) {
	retention, known := s.Retention(deployment)
	if !known {
		return time.UnixMicro(0), false
	}
	return s.Clock().Add(-retention), true
}
