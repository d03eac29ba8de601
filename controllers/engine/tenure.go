package engine

import (
	"context"
	"errors"
	"sync"
	"time"

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

// Tenure wins the right to write on becoming leader, keeps it, and notices when the store was replaced.
type Tenure struct {
	opts       TenureOptions
	onReplaced func(context.Context)
	lost       chan store.Tenure

	mu      sync.Mutex
	current store.Tenure
	err     error
	tried   chan struct{} // closed after the first try
}

// feedAge is how long the feed remembers changes; a reader that slept longer loads everything again.
const feedAge = time.Hour

// ErrDeposed ends an operator whose lease another one holds.
var ErrDeposed = errors.New("another operator holds the lease and writes the store: this one ends")

// NewTenure returns a Tenure to be added to a manager.
func NewTenure(opts TenureOptions) *Tenure {
	return &Tenure{
		opts: opts, lost: make(chan store.Tenure, 1), tried: make(chan struct{}), err: errors.New("the store was not taken yet"),
		onReplaced: func(context.Context) {},
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

// NeedLeaderElection makes the manager start the tenure with the lease.
func (t *Tenure) NeedLeaderElection() bool { return true }

// Start takes the store and keeps it until ctx ends. It returns ErrDeposed when another operator took over.
func (t *Tenure) Start(ctx context.Context) error {
	defer t.release()
	if err := t.take(ctx); err != nil {
		return err
	}
	ticker := time.NewTicker(t.opts.Beat)
	defer ticker.Stop()
	var pruned time.Time
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
		case <-ticker.C:
			err = t.opts.Store.Beat(ctx, t.taken())
			if err == nil && time.Since(pruned) > time.Minute {
				pruned = time.Now()
				err = t.opts.Store.Prune(ctx, t.taken(), feedAge)
			}
		}
		switch {
		case errors.Is(err, store.ErrFenced):
			if err := t.take(ctx); err != nil {
				return err
			}
			t.onReplaced(ctx)
		case errors.Is(t.opts.Store.CheckSchema(ctx), store.ErrSchema): // the store was emptied
			if err := t.take(ctx); err != nil {
				return err
			}
			t.onReplaced(ctx)
		}
	}
}

// take tries to take the store until it succeeds, the operator is deposed, or ctx ends.
func (t *Tenure) take(ctx context.Context) error {
	logger := log.FromContext(ctx).WithName("tenure")
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		tenure, err := t.try(ctx)
		if errors.Is(err, ErrDeposed) {
			return err
		}
		t.set(tenure, err)
		if err == nil {
			logger.Info("Took the store", "store", tenure.StoreID, "epoch", tenure.Epoch)
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		logger.Error(err, "The store cannot be taken; trying again", "after", wait)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *Tenure) try(ctx context.Context) (store.Tenure, error) {
	leader, err := t.opts.StillLeader(ctx)
	if err != nil {
		return store.Tenure{}, err
	}
	if !leader {
		return store.Tenure{}, ErrDeposed
	}
	install, err := t.opts.Install(ctx)
	if err != nil {
		return store.Tenure{}, err
	}
	if err := t.opts.Store.Migrate(ctx); err != nil {
		return store.Tenure{}, err
	}
	return t.opts.Store.Take(ctx, install, 2*t.opts.Beat)
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
