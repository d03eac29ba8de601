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

// TermOptions are what a Term needs.
type TermOptions struct {
	Store interface {
		store.Terms
		store.Schema
	}
	// Install returns the id of this cluster; it may fail while the API server is unavailable.
	Install func(context.Context) (string, error)
	// StillLeader asks the API server, not a cache, whether this process holds the lease. A fenced operator that does
	// not hold the lease exits.
	StillLeader func(context.Context) (bool, error)
	// Heartbeat is the time between two heartbeats to the store. If an install sends none for foreignPatience times as
	// long, another install can acquire its store.
	Heartbeat time.Duration
}

// Term acquires the right to write on becoming leader, keeps it, and detects when the store was replaced, failed or
// recovered.
type Term struct {
	opts TermOptions
	// onAcquired is called when the store was acquired, onBack when it answers again after an outage.
	onAcquired func(context.Context, Acquired)
	onBack     func(context.Context)
	lost       chan store.Term
	away       chan struct{}

	mu      sync.Mutex
	current store.Term
	err     error
	tried   chan struct{} // closed after the first try
}

// Acquired describes the state of the store when it was acquired.
type Acquired struct {
	// Again reports whether this process had acquired the store before. Since then, the store was replaced or emptied,
	// or another operator acquired it.
	Again bool
	// Rebuilt reports whether another install had the store: this cluster's resources may not all have been applied
	// yet.
	Rebuilt bool
}

const (
	// foreignPatience times the heartbeat is longer than the other install takes to replace a killed leader (12 s). So
	// a failover or a rolling restart there never hands its store to this install.
	foreignPatience = 4
	// feedAge is how long the feed remembers changes; a reader that slept longer loads everything again.
	feedAge = time.Hour
	// probeEvery is the time between two checks whether the store is back.
	probeEvery = 500 * time.Millisecond
	// heartbeatTimeout bounds a heartbeat: a store that takes longer is unavailable.
	heartbeatTimeout = 5 * time.Second
)

// ErrDeposed ends an operator whose lease another operator holds.
var ErrDeposed = errors.New("another operator holds the lease and writes to the store: this process exits")

// NewTerm returns a Term to be added to a manager.
func NewTerm(opts TermOptions) *Term {
	return &Term{
		opts: opts, lost: make(chan store.Term, 1), away: make(chan struct{}, 1), tried: make(chan struct{}),
		err:        errors.New("the store has not been acquired yet"),
		onAcquired: func(context.Context, Acquired) {}, onBack: func(context.Context) {},
	}
}

// Current returns the term to write with. It waits for the first try to acquire the store and then answers at once,
// with an error while the store is not acquired.
func (t *Term) Current(ctx context.Context) (store.Term, error) {
	select {
	case <-t.tried:
	case <-ctx.Done():
		return store.Term{}, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current, t.err
}

// Lost reports that a write was refused with ErrFenced.
func (t *Term) Lost(term store.Term) {
	select {
	case t.lost <- term:
	default: // one report is enough
	}
}

// failed reports that the store did not answer.
func (t *Term) failed() {
	select {
	case t.away <- struct{}{}:
	default: // one report is enough
	}
}

// NeedLeaderElection makes the manager start the term with the lease.
func (t *Term) NeedLeaderElection() bool { return true }

// Start acquires the store and keeps it until ctx ends. It returns ErrDeposed when another operator took over.
func (t *Term) Start(ctx context.Context) error {
	if err := t.acquire(ctx, false); err != nil {
		return err
	}
	logger := log.FromContext(ctx).WithName("store")
	ticker := time.NewTicker(t.opts.Heartbeat)
	defer ticker.Stop()
	var pruned time.Time
	away := false
	for {
		var err error
		select {
		case <-ctx.Done():
			return nil
		case lost := <-t.lost:
			if lost != t.acquired() {
				continue // about an earlier term
			}
			err = store.ErrFenced
		case <-t.away:
			err = store.ErrUnavailable
		case <-ticker.C:
			err = t.heartbeat(ctx, &pruned)
		}
		if lost := errors.Is(err, store.ErrFenced) || t.emptied(ctx); lost {
			if err := t.acquire(ctx, true); err != nil {
				return err
			}
			err = nil
		}
		switch {
		case errors.Is(err, store.ErrUnavailable) && !away:
			away = true
			logger.Info("The store is unreachable; declared changes wait", "cause", err.Error())
			ticker.Reset(min(probeEvery, t.opts.Heartbeat))
		case err == nil && away:
			away = false
			logger.Info("The store is reachable again")
			ticker.Reset(t.opts.Heartbeat)
			t.drain()
			t.onBack(ctx)
		}
	}
}

// drain forgets a report about an outage that is over.
func (t *Term) drain() {
	select {
	case <-t.away:
	default:
	}
}

// heartbeat sends a heartbeat, and once a minute prunes old entries of the change feed.
func (t *Term) heartbeat(ctx context.Context, pruned *time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	if err := t.opts.Store.Heartbeat(ctx, t.acquired()); err != nil {
		return err
	}
	if time.Since(*pruned) < time.Minute {
		return nil
	}
	*pruned = time.Now()
	return t.opts.Store.Prune(ctx, t.acquired(), feedAge)
}

// emptied reports whether the store responds but no longer has Cardea's tables.
func (t *Term) emptied(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, heartbeatTimeout)
	defer cancel()
	return errors.Is(t.opts.Store.CheckSchema(ctx), store.ErrSchema)
}

// acquire tries to acquire the store until it succeeds, the operator is deposed, or ctx ends. It wakes the resources
// that waited meanwhile.
func (t *Term) acquire(ctx context.Context, again bool) error {
	logger := log.FromContext(ctx).WithName("term")
	pause := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Jitter: 0.1, Steps: 4, Cap: time.Second}
	for failures := 0; ; failures++ {
		term, rebuilt, err := t.try(ctx)
		if errors.Is(err, ErrDeposed) {
			return err
		}
		t.set(term, err)
		if err == nil {
			logger.Info("Acquired the store", "store", term.StoreID, "epoch", term.Epoch)
			t.onAcquired(ctx, Acquired{Again: again, Rebuilt: rebuilt})
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
			logger.Info("The store cannot be acquired; the operator keeps trying", "cause", err.Error())
		}
		select {
		case <-time.After(pause.Step()):
		case <-ctx.Done():
			return nil
		}
	}
}

func (t *Term) try(ctx context.Context) (term store.Term, rebuilt bool, err error) {
	leader, err := t.opts.StillLeader(ctx)
	if err != nil {
		return store.Term{}, false, err
	}
	if !leader {
		return store.Term{}, false, ErrDeposed
	}
	install, err := t.opts.Install(ctx)
	if err != nil {
		return store.Term{}, false, err
	}
	if err := t.opts.Store.Migrate(ctx); err != nil {
		return store.Term{}, false, err
	}
	before, err := t.opts.Store.Installed(ctx)
	if err != nil {
		return store.Term{}, false, err
	}
	term, err = t.opts.Store.Acquire(ctx, install, foreignPatience*t.opts.Heartbeat)
	return term, before != "" && before != install, err
}

func (t *Term) set(term store.Term, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.current, t.err = term, err
	select {
	case <-t.tried:
	default:
		close(t.tried)
	}
}

func (t *Term) acquired() store.Term {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current
}
