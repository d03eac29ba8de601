package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/store"
)

// logged returns a context with a logger, and the lines that it logs.
func logged(t *testing.T) (context.Context, chan string) {
	lines := make(chan string, 1000)
	return log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines <- line }, funcr.Options{})), lines
}

// within fails the test if something does not come in time.
func within[T any](t *testing.T, what string, from <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(20 * time.Second):
		t.Fatalf("%s did not come", what)
	}
	return value
}

// However many reconciles and watches fail, an outage is logged once when it begins and once when it ends, and its
// end wakes waiting work.
func TestAnOutageOfTheAPIServerIsToldTwice(t *testing.T) {
	ctx, lines := logged(t)
	ctx, cancel := context.WithCancel(ctx)
	var away atomic.Bool
	api := NewAPIServer(func(context.Context) error {
		if away.Load() {
			return errors.New("connection refused")
		}
		return nil
	})
	api.every = time.Millisecond
	back := make(chan struct{})
	api.onBack = func(context.Context) { back <- struct{}{} }
	ended := make(chan error, 1)
	go func() { ended <- api.Start(ctx) }()
	for outage := range 3 {
		away.Store(true)
		for range 100 {
			if !api.Failed(ctx, apierrors.NewServiceUnavailable("starting")) {
				t.Fatal("ServiceUnavailable does not count as an outage")
			}
		}
		if got := len(lines); got != 2*outage+1 {
			t.Fatalf("outage %d: %d lines when it began", outage, got)
		}
		away.Store(false)
		within(t, "the end of the outage", back)
		if got := len(lines); got != 2*outage+2 {
			t.Fatalf("outage %d: %d lines when it ended", outage, got)
		}
	}
	if api.Failed(ctx, errors.New("the server could not find the requested resource")) {
		t.Error("an error of a single request counts as an outage")
	}
	cancel()
	if err := within(t, "the end", ended); err != nil {
		t.Error(err)
	}
}

// changeable is a store whose state a test sets.
type changeable struct {
	away    atomic.Bool
	fenced  atomic.Bool
	install atomic.Value
	epochs  atomic.Int64
}

func (s *changeable) err() error {
	if s.away.Load() {
		return store.ErrUnavailable
	}
	return nil
}

func (s *changeable) Installed(context.Context) (string, error) {
	install, _ := s.install.Load().(string)
	return install, s.err()
}

func (s *changeable) Acquire(context.Context, string, time.Duration) (store.Term, error) {
	if err := s.err(); err != nil {
		return store.Term{}, err
	}
	s.fenced.Store(false)
	return store.Term{StoreID: "s", Epoch: s.epochs.Add(1)}, nil
}

func (s *changeable) Heartbeat(context.Context, store.Term) error {
	if s.fenced.Load() {
		return store.ErrFenced
	}
	return s.err()
}

func (s *changeable) Prune(context.Context, store.Term, time.Duration) error { return nil }
func (s *changeable) Migrate(context.Context) error                          { return s.err() }
func (s *changeable) CheckSchema(context.Context) error                      { return s.err() }

// started starts a Term over a store. It returns the Term, its acquisitions, and the ends of outages.
func started(t *testing.T, ctx context.Context, s *changeable) (term *Term, acquired chan Acquired, back chan struct{}) {
	term = NewTerm(TermOptions{
		Store: s, Install: func(context.Context) (string, error) { return "this", nil },
		StillLeader: func(context.Context) (bool, error) { return true, nil }, Heartbeat: 5 * time.Millisecond,
	})
	acquired, back = make(chan Acquired, 10), make(chan struct{}, 10)
	term.onAcquired = func(_ context.Context, a Acquired) { acquired <- a }
	term.onBack = func(context.Context) { back <- struct{}{} }
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- term.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := within(t, "the end", ended); err != nil {
			t.Error(err)
		}
	})
	return term, acquired, back
}

func TestTheStoresReturnWakesWhatWaits(t *testing.T) {
	ctx, lines := logged(t)
	s := &changeable{}
	term, acquired, back := started(t, ctx, s)
	within(t, "the store", acquired)
	within(t, "the line of its acquisition", lines)
	for outage := range 3 {
		s.away.Store(true)
		for range 100 {
			term.failed()
		}
		began := within(t, "the line of its begin", lines)
		s.away.Store(false)
		within(t, "the end of the outage", back)
		if ended := within(t, "the line of its end", lines); len(lines) > 0 || ended == began {
			t.Errorf("outage %d: began %s, ended %s, and %d lines more", outage, began, ended, len(lines))
		}
	}
}

// A store that was unavailable when the operator started also wakes waiting resources.
func TestAStoreThatComesLateWakesWhatWaits(t *testing.T) {
	ctx, lines := logged(t)
	s := &changeable{}
	s.away.Store(true)
	term, acquired, back := started(t, ctx, s)
	if _, err := term.Current(ctx); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	s.away.Store(false)
	within(t, "the store", acquired)
	within(t, "the end of the outage", back)
	if got := len(lines); got != 2 {
		t.Errorf("%d lines", got)
	}
}

// Documents without a resource are removed at once if the cluster is known, and after a resync if it was rebuilt.
func TestWhoAcquiresTheStoreKnowsWhetherTheClusterWasRebuilt(t *testing.T) {
	for install, rebuilt := range map[string]bool{"": false, "this": false, "another": true} {
		ctx, _ := logged(t)
		s := &changeable{}
		s.install.Store(install)
		_, acquired, _ := started(t, ctx, s)
		if got := within(t, "the store", acquired); got != (Acquired{Rebuilt: rebuilt}) {
			t.Errorf("install %q: %+v", install, got)
		}
		s.install.Store("this")
		s.fenced.Store(true)
		if got := within(t, "the store again", acquired); got != (Acquired{Again: true}) {
			t.Errorf("install %q, fenced: %+v", install, got)
		}
	}
}
