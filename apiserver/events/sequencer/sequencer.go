// Package sequencer numbers the events of all deployments after their commits, and wakes requests that wait for new
// ones. Writers of events so wait for no counter, and no event is added below a number that was read.
package sequencer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/pause"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// every is the longest pause between two passes. Events that another process recorded, and that no signal announces,
	// wait for its end.
	every = 250 * time.Millisecond
	// least is the shortest pause, so that the events of busy writers are numbered together.
	least = 50 * time.Millisecond
	// batch is how many events one transaction numbers. Deployments take turns by batches.
	batch = 1000
	// watchedMost is how many requests of a deployment can wait for events at once on one server.
	watchedMost = 64
)

// ErrTooManyWaiting means that too many requests of the deployment wait for events already.
var ErrTooManyWaiting = errors.New("too many requests wait for events")

// Options configures a Worker.
type Options struct {
	Store    people.Store
	Clock    func() time.Time
	Log      logr.Logger
	Registry prometheus.Registerer
}

// Worker numbers events. Several servers do it without coordination: the store lets them take turns.
type Worker struct {
	Options
	numbered *prometheus.CounterVec

	// every is the longest pause between two passes.
	every time.Duration
	// onNumbered is called when there may be new numbers: of a deployment, given by this server, or of any ("").
	onNumbered func(deployment string)

	mu      sync.Mutex
	watched map[string]*watch
	// oldest is the time of the oldest event without a number, as far as the last pass knows; zero for none.
	oldest time.Time
	// ended is closed when Run ends.
	ended chan struct{}
}

// watch are the requests that wait for events of a deployment.
type watch struct {
	waiting int
	// last is the number of the newest event, 0 if it was not read yet. woken is closed when it
	// changes.
	last  int64
	woken chan struct{}
}

// New returns a worker and registers its metrics. Run starts it.
func New(opts Options) *Worker {
	w := &Worker{Options: opts, every: every, onNumbered: func(string) {}, watched: map[string]*watch{}, ended: make(chan struct{})}
	w.register()
	return w
}

// OnNumbered sets the function that is called when this server numbered events of a deployment, or with "" when another
// server may have numbered events. It is called before Run.
func (w *Worker) OnNumbered(do func(deployment string)) { w.onNumbered = do }

// Run numbers events until ctx ends, and then ends all waits. It logs failures and tries again.
func (w *Worker) Run(ctx context.Context) error {
	defer close(w.ended)
	signals, signaled, failing := w.Store.EventSignals(ctx), false, map[string]bool{}
	for {
		more, failed := w.Pass(ctx)
		if signaled {
			w.onNumbered("")
		}
		for deployment, err := range failed {
			if ctx.Err() == nil && !failing[deployment] {
				w.Log.Error(err, "Events were not numbered; trying again until it succeeds", "deployment", deployment)
			}
		}
		failing = map[string]bool{}
		for deployment := range failed {
			failing[deployment] = true
		}
		if more && len(failed) == 0 && ctx.Err() == nil {
			continue
		}
		if pause.For(ctx, least) != nil {
			return nil
		}
		if signaled = awaitSignal(ctx, signals, w.every-least); ctx.Err() != nil {
			return nil
		}
	}
}

// awaitSignal waits for a signal, at most for a time, or until ctx ends. It reports whether there was a signal.
func awaitSignal(ctx context.Context, signals <-chan struct{}, atMost time.Duration) bool {
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return false
		case _, open := <-signals:
			if open {
				return true
			}
			signals = nil // the store was closed
		}
	}
}

// Pass numbers a batch of each deployment that has events without numbers, and wakes the requests that wait for events.
// It reports whether a deployment has more of them, and returns the failures by deployment, "" for those of all.
func (w *Worker) Pass(ctx context.Context) (more bool, failed map[string]error) {
	failed = map[string]error{}
	waiting, err := w.Store.UnnumberedEvents(ctx)
	if err != nil {
		failed[""] = err
	} else {
		w.observeOldest(waiting)
	}
	var left []people.Unnumbered
	for _, of := range waiting {
		var numbered []people.NumberedEvent
		err := w.Store.Change(ctx, of.Deployment, func(tx people.Tx) (err error) {
			numbered, err = tx.EventLog().NumberEvents(batch)
			return err
		})
		if err != nil {
			failed[of.Deployment] = err
			left = append(left, of)
			continue
		}
		w.count(of.Deployment, numbered)
		if len(numbered) > 0 {
			w.onNumbered(of.Deployment)
		}
		if len(numbered) == batch {
			more = true
			left = append(left, people.Unnumbered{Deployment: of.Deployment, Oldest: numbered[batch-1].At})
		}
	}
	if err == nil {
		w.observeOldest(left)
	}
	if err := w.wake(ctx); err != nil && failed[""] == nil {
		failed[""] = err
	}
	return more, failed
}

// wake reads the newest number of each watched deployment.
func (w *Worker) wake(ctx context.Context) (failed error) {
	w.mu.Lock()
	deployments := make([]string, 0, len(w.watched))
	for deployment := range w.watched {
		deployments = append(deployments, deployment)
	}
	w.mu.Unlock()
	for _, deployment := range deployments {
		var bounds people.EventBounds
		err := w.Store.View(ctx, deployment, func(tx people.Tx) (err error) {
			bounds, err = tx.EventLog().EventBounds()
			return err
		})
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		w.mu.Lock()
		if of := w.watched[deployment]; of != nil && bounds.Last != of.last {
			of.last = bounds.Last
			close(of.woken)
			of.woken = make(chan struct{})
		}
		w.mu.Unlock()
	}
	return failed
}

// Wait returns when the deployment has an event with a larger number than after, or when ctx or Run ends. It reports
// whether there is such an event. ErrTooManyWaiting: 64 requests of the deployment wait already.
func (w *Worker) Wait(ctx context.Context, deployment string, after int64) (bool, error) {
	w.mu.Lock()
	of := w.watched[deployment]
	if of == nil {
		of = &watch{woken: make(chan struct{})}
		w.watched[deployment] = of
	}
	if of.waiting >= watchedMost {
		w.mu.Unlock()
		return false, ErrTooManyWaiting
	}
	of.waiting++
	defer w.leave(deployment, of)
	for of.last <= after {
		woken := of.woken
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			w.mu.Lock()
			return false, nil
		case <-w.ended:
			w.mu.Lock()
			return false, nil
		case <-woken:
		}
		w.mu.Lock()
	}
	return true, nil
}

// leave ends a wait. The caller holds the lock, which leave releases.
func (w *Worker) leave(deployment string, of *watch) {
	if of.waiting--; of.waiting == 0 {
		delete(w.watched, deployment)
	}
	w.mu.Unlock()
}
