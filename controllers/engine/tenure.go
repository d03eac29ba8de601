package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/store"
)

// TenureOptions are what a Tenure needs.
type TenureOptions struct {
	Store interface {
		store.Tenures
		store.Schema
	}
	// Install returns the id of this cluster; it may fail while the API server is away.
	Install func(context.Context) (string, error)
	// StillLeader asks, past every cache, whether this process holds the lease. An operator that was fenced off and does
	// not is over.
	StillLeader func(context.Context) (bool, error)
	// Beat is the time between two signs of life, and half the patience with a silent other install.
	Beat time.Duration
}

// Tenure wins the right to write on becoming leader, keeps it, and notices when the store was replaced, went away or came back.
type Tenure struct {
	opts TenureOptions
	// onTaken is called when the store was taken, onBack when it answers again after an outage.
	onTaken func(context.Context, Taken)
	onBack  func(context.Context)
	lost    chan store.Tenure
	away    chan struct{}

	mu      sync.Mutex
	current store.Tenure
	err     error
	tried   chan struct{} // closed after the first try
}

// Taken says how a store was found that was taken.
type Taken struct {
	// Again tells that this process had taken it before: it was replaced or emptied, or another operator was between.
	Again bool
	// Rebuilt tells that another install had it: this cluster's resources may not all have been applied yet.
	Rebuilt bool
}

const (
	// feedAge is how long the feed remembers changes; a reader that slept longer loads everything again.
	feedAge = time.Hour
	// probeEvery is the time between two looks whether the store is back.
	probeEvery = 500 * time.Millisecond
	// beatTimeout bounds a sign of life: a store that keeps it waiting is away.
	beatTimeout = 5 * time.Second
)

// ErrDeposed ends an operator whose lease another one holds.
var ErrDeposed = errors.New("another operator holds the lease and writes the store: this one ends")

// NewTenure returns a Tenure to be added to a manager.
func NewTenure(opts TenureOptions) *Tenure {
	return &Tenure{
		opts: opts, lost: make(chan store.Tenure, 1), away: make(chan struct{}, 1), tried: make(chan struct{}),
		err:     errors.New("the store was not taken yet"),
		onTaken: func(context.Context, Taken) {}, onBack: func(context.Context) {},
	}
}

// Current returns the tenure to write with. It waits for the first try to take the store and then answers at once, with an
// error while the store cannot be had.
func (t *Tenure) Current(ctx context.Context) (store.Tenure, error) {
	select {
	case <-t.tried:
	case <-ctx.Done():
		return store.Tenure{}, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current, t.err
}

// Lost tells that a write was refused with ErrFenced.
func (t *Tenure) Lost(tenure store.Tenure) {
	select {
	case t.lost <- tenure:
	default: // one report is enough
	}
}

// failed tells that the store did not answer.
func (t *Tenure) failed() {
	select {
	case t.away <- struct{}{}:
	default: // one report is enough
	}
}

// NeedLeaderElection makes the manager start the tenure with the lease.
func (t *Tenure) NeedLeaderElection() bool { return true }

// Start takes the store and keeps it until ctx ends. It returns ErrDeposed when another operator took over.
func (t *Tenure) Start(ctx context.Context) error {
	defer t.release()
	if err := t.take(ctx, false); err != nil {
		return err
	}
	logger := log.FromContext(ctx).WithName("store")
	ticker := time.NewTicker(t.opts.Beat)
	defer ticker.Stop()
	var pruned time.Time
	away := false
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case lost := <-t.lost:
			if lost != t.taken() {
				continue // about an earlier tenure
			}
			err = store.ErrFenced
		case <-t.away:
			err = store.ErrUnavailable
		case <-ticker.C:
			err = t.beat(ctx, &pruned)
		}
		if lost := errors.Is(err, store.ErrFenced) || t.emptied(ctx); lost {
			if err := t.take(ctx, true); err != nil {
				return err
			}
			err = nil
		}
		switch {
		case errors.Is(err, store.ErrUnavailable) && !away:
			away = true
			logger.Info("The store does not answer; what is declared waits", "cause", err.Error())
			ticker.Reset(min(probeEvery, t.opts.Beat))
		case err == nil && away:
			away = false
			logger.Info("The store answers")
			ticker.Reset(t.opts.Beat)
			t.drain()
			t.onBack(ctx)
		}
	}
}

// drain forgets a report about an outage that is over.
func (t *Tenure) drain() {
	select {
	case <-t.away:
	default:
	}
}

// beat gives the sign of life, and forgets old entries of the feed once a minute.
func (t *Tenure) beat(ctx context.Context, pruned *time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	if err := t.opts.Store.Beat(ctx, t.taken()); err != nil {
		return err
	}
	if time.Since(*pruned) < time.Minute {
		return nil
	}
	*pruned = time.Now()
	return t.opts.Store.Prune(ctx, t.taken(), feedAge)
}

// emptied tells that the store answers and has no tables of ours any more.
func (t *Tenure) emptied(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, beatTimeout)
	defer cancel()
	return errors.Is(t.opts.Store.CheckSchema(ctx), store.ErrSchema)
}

// take tries to take the store until it succeeds, the operator is deposed, or ctx ends. What waited meanwhile is woken.
func (t *Tenure) take(ctx context.Context, again bool) error {
	logger := log.FromContext(ctx).WithName("tenure")
	pause := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 4, Cap: time.Second}
	for failures := 0; ; failures++ {
		tenure, rebuilt, err := t.try(ctx)
		if errors.Is(err, ErrDeposed) {
			return err
		}
		t.set(tenure, err)
		if err == nil {
			logger.Info("Took the store", "store", tenure.StoreID, "epoch", tenure.Epoch)
			t.onTaken(ctx, Taken{Again: again, Rebuilt: rebuilt})
			t.drain()
			if failures > 0 {
				t.onBack(ctx)
			}
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if failures == 0 {
			logger.Info("The store cannot be taken; trying until it can", "cause", err.Error())
		}
		select {
		case <-time.After(pause.Step()):
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *Tenure) try(ctx context.Context) (tenure store.Tenure, rebuilt bool, err error) {
	leader, err := t.opts.StillLeader(ctx)
	if err != nil {
		return store.Tenure{}, false, err
	}
	if !leader {
		return store.Tenure{}, false, ErrDeposed
	}
	install, err := t.opts.Install(ctx)
	if err != nil {
		return store.Tenure{}, false, err
	}
	if err := t.opts.Store.Migrate(ctx); err != nil {
		return store.Tenure{}, false, err
	}
	before, err := t.opts.Store.Installed(ctx)
	if err != nil {
		return store.Tenure{}, false, err
	}
	tenure, err = t.opts.Store.Take(ctx, install, 2*t.opts.Beat)
	return tenure, before != "" && before != install, err
}

func (t *Tenure) set(tenure store.Tenure, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current, t.err = tenure, err
	select {
	case <-t.tried:
	default:
		close(t.tried)
	}
}

func (t *Tenure) taken() store.Tenure {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}

// release marks the install as gone, so that another cluster need not wait for silence.
func (t *Tenure) release() {
	tenure := t.taken()
	if tenure == (store.Tenure{}) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	// A store that is away now is found silent later.
	_ = t.opts.Store.Release(ctx, tenure)
}
