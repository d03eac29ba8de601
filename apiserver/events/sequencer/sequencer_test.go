package sequencer

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/sqlitetest"
)

func openStore(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlstore.Open(t.Context(), sqlitetest.Copy(t, func(ctx context.Context, url string) error {
		s, err := sqlstore.Open(ctx, url, sqlstore.Options{})
		if err != nil {
			return err
		}
		return errors.Join(s.Migrate(ctx), s.Close())
	}), sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newWorker(s people.Store) *Worker {
	return New(Options{Store: s, Clock: time.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
}

// logs records n events of users, from an id on.
func logs(t *testing.T, s people.Store, deployment string, from, n int) {
	t.Helper()
	list := make([]people.LoggedEvent, n)
	for i := range list {
		var err error
		if list[i], err = events.OfAccount(int64(from+i), "password").Log(time.Now(), "system"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Change(t.Context(), deployment, func(tx people.Tx) error { return tx.Records().LogEvents(list) }); err != nil {
		t.Fatal(err)
	}
}

func newest(t *testing.T, s people.Store, deployment string) (last int64) {
	t.Helper()
	err := s.View(t.Context(), deployment, func(tx people.Tx) error {
		bounds, err := tx.EventLog().EventBounds()
		last = bounds.Last
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return last
}

func TestPassNumbersTheEventsOfAllDeployments(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	w := newWorker(s)
	logs(t, s, "apps/large", 1, 2*batch+1)
	logs(t, s, "apps/small", 1, 1)
	for _, want := range []bool{true, true, false} {
		if more, failed := w.Pass(t.Context()); more != want || len(failed) != 0 {
			t.Fatalf("more: %t, %v", more, failed)
		}
	}
	if large, small := newest(t, s, "apps/large"), newest(t, s, "apps/small"); large != 2*batch+1 || small != 1 {
		t.Errorf("the newest numbers are %d and %d", large, small)
	}
	waiting, err := s.UnnumberedEvents(t.Context())
	if err != nil || len(waiting) != 0 {
		t.Errorf("%v wait: %v", waiting, err)
	}
}

func TestWaitEndsWithAnEventOrItsContext(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	w := newWorker(s)
	logs(t, s, "apps/home", 1, 1)
	ended, end := context.WithCancel(t.Context())
	end()
	if found, err := w.Wait(ended, "apps/home", 1); found || err != nil || len(w.watched) != 0 {
		t.Errorf("%t, %v, %d deployments are watched", found, err, len(w.watched))
	}
	woken := make(chan error, watchedMost)
	for range watchedMost {
		go func() { _, err := w.Wait(t.Context(), "apps/home", 1); woken <- err }()
	}
	await := func(what string, holds func() bool) {
		t.Helper()
		for until := time.Now().Add(time.Minute); !holds(); {
			if time.Now().After(until) {
				t.Fatal(what)
			}
			if _, failed := w.Pass(t.Context()); len(failed) != 0 {
				t.Fatal(failed)
			}
		}
	}
	waiting := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		if of := w.watched["apps/home"]; of != nil {
			return of.waiting
		}
		return 0
	}
	await("the requests do not wait", func() bool { return waiting() == watchedMost && newest(t, s, "apps/home") == 1 })
	if _, err := w.Wait(t.Context(), "apps/home", 1); !errors.Is(err, ErrTooManyWaiting) {
		t.Errorf("one more waits: %v", err)
	}
	elsewhere, endElsewhere := context.WithCancel(t.Context())
	other := make(chan error, 1)
	go func() { _, err := w.Wait(elsewhere, "apps/other", 0); other <- err }()
	select {
	case err := <-woken:
		t.Fatalf("a request was woken without an event: %v", err)
	default:
	}
	logs(t, s, "apps/home", 2, 1)
	await("the requests are not woken", func() bool { return len(woken) == watchedMost })
	if waiting() != 0 {
		t.Errorf("%d still wait", waiting())
	}
	select {
	case err := <-other:
		t.Errorf("a request of another deployment was woken: %v", err)
	default:
	}
	endElsewhere()
	if err := <-other; err != nil {
		t.Error(err)
	}
}

// failing is a store that is unavailable for some passes.
type failing struct {
	people.Store
	passes atomic.Int64
}

func (f *failing) UnnumberedEvents(ctx context.Context) ([]people.Unnumbered, error) {
	if f.passes.Add(-1) >= 0 {
		return nil, fmt.Errorf("%w: for the test", store.ErrUnavailable)
	}
	return f.Store.UnnumberedEvents(ctx)
}

func TestRunGoesOnAfterFailures(t *testing.T) {
	t.Parallel()
	s := &failing{Store: openStore(t)}
	s.passes.Store(3)
	logs(t, s, "apps/home", 1, 1)
	w := newWorker(s)
	if _, failed := w.Pass(t.Context()); !errors.Is(failed[""], store.ErrUnavailable) {
		t.Errorf("%v", failed)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	bounded, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if found, err := w.Wait(bounded, "apps/home", 0); !found || err != nil || newest(t, s, "apps/home") != 1 {
		t.Errorf("the event has no number: %v", err)
	}
	waiting := make(chan bool)
	go func() { found, _ := w.Wait(t.Context(), "apps/home", 1); waiting <- found }()
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if <-waiting {
		t.Error("an event was found at the end")
	}
}

// signaled is a store whose signals a test sends, and which reports each pass.
type signaled struct {
	people.Store
	signals, passes chan struct{}
}

func (s *signaled) EventSignals(context.Context) <-chan struct{} { return s.signals }

func (s *signaled) UnnumberedEvents(ctx context.Context) ([]people.Unnumbered, error) {
	select {
	case s.passes <- struct{}{}:
	case <-ctx.Done():
	}
	return s.Store.UnnumberedEvents(ctx)
}

// TestSignalsBeginPasses: signals begin passes, however long the poll is.
func TestSignalsBeginPasses(t *testing.T) {
	t.Parallel()
	s := &signaled{Store: openStore(t), signals: make(chan struct{}, 1), passes: make(chan struct{})}
	ctx, end := context.WithCancel(t.Context())
	ended, w := make(chan error, 1), newWorker(s)
	w.every = time.Hour
	var called atomic.Int64
	w.OnNumbered(func(string) { called.Add(1) })
	go func() { ended <- w.Run(ctx) }()
	<-s.passes
	for range 10 {
		s.signals <- struct{}{}
		<-s.passes
	}
	s.signals <- struct{}{}
	<-s.passes
	if n := called.Load(); n < 10 {
		t.Errorf("%d calls after 10 signals of numbers, which another server may have given", n)
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestPassesGoOnWithoutSignals: the poll begins passes, also after the store closed its signals.
func TestPassesGoOnWithoutSignals(t *testing.T) {
	t.Parallel()
	s := &signaled{Store: openStore(t), signals: make(chan struct{}), passes: make(chan struct{})}
	ctx, end := context.WithCancel(t.Context())
	ended, w := make(chan error, 1), newWorker(s)
	go func() { ended <- w.Run(ctx) }()
	for range 3 {
		<-s.passes
	}
	close(s.signals)
	for range 3 {
		<-s.passes
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestMetricsOfNumbers: events are counted when they get their numbers, and the lag is the age of the oldest event
// without one, also while passes fail or hang.
func TestMetricsOfNumbers(t *testing.T) {
	t.Parallel()
	s := openStore(t)
	now := time.Now()
	stuck := &refusing{Store: s}
	w := New(Options{Store: stuck, Clock: func() time.Time { return now }, Log: logr.Discard(), Registry: prometheus.NewRegistry()})
	logs(t, s, "apps/home", 1, 2)
	logs(t, s, "apps/other", 1, 1)
	expect := func(home, other, least, most float64) {
		t.Helper()
		if n := testutil.ToFloat64(w.numbered.WithLabelValues("apps/home", "user.created")); n != home {
			t.Errorf("%v events of apps/home", n)
		}
		if n := testutil.ToFloat64(w.numbered.WithLabelValues("apps/other", "user.created")); n != other {
			t.Errorf("%v events of apps/other", n)
		}
		if lag := w.lag(); lag < least || lag > most {
			t.Errorf("the lag is %v, want %v to %v", lag, least, most)
		}
	}
	expect(0, 0, 0, 0)
	stuck.deployment = "apps/other"
	w.Pass(t.Context())
	now = now.Add(time.Minute)
	expect(2, 0, 59, 61)
	stuck.unlisted = true
	w.Pass(t.Context())
	expect(2, 0, 59, 61)
	stuck.deployment, stuck.unlisted = "", false
	w.Pass(t.Context())
	expect(2, 1, 0, 0)
	logs(t, s, "apps/home", 3, batch+1)
	now = time.Now().Add(time.Minute)
	w.Pass(t.Context())
	expect(2+batch, 1, 59, 61)
	w.Pass(t.Context())
	expect(3+batch, 1, 0, 0)
}

// refusing is a store that refuses changes of a deployment, or the list of events without numbers.
type refusing struct {
	people.Store
	deployment string
	unlisted   bool
}

func (r *refusing) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if deployment == r.deployment {
		return fmt.Errorf("%w: for the test", store.ErrUnavailable)
	}
	return r.Store.Change(ctx, deployment, do)
}

func (r *refusing) UnnumberedEvents(ctx context.Context) ([]people.Unnumbered, error) {
	if r.unlisted {
		return nil, fmt.Errorf("%w: for the test", store.ErrUnavailable)
	}
	return r.Store.UnnumberedEvents(ctx)
}
