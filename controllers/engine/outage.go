package engine

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// APIServer watches for outages of the Kubernetes API server, so that each is logged once, and waiting work is woken
// when it ends.
type APIServer struct {
	// probe sends the API server a small request.
	probe func(context.Context) error
	// onBack is called when the API server answers again.
	onBack func(context.Context)
	every  time.Duration
	clock  func() time.Time
	wake   chan struct{}

	mu    sync.Mutex
	away  bool
	ended time.Time
}

// settleAfter is how long an API server that has just started may still refuse requests that it allows later.
const settleAfter = 10 * time.Second

// NewAPIServer returns an APIServer to be added to a manager. It calls probe to find out whether an outage is over.
func NewAPIServer(probe func(context.Context) error) *APIServer {
	return &APIServer{
		probe: probe, onBack: func(context.Context) {}, every: 500 * time.Millisecond, clock: time.Now, wake: make(chan struct{}, 1),
	}
}

// Failed handles an error of a watch. It reports whether the error is an outage of the API server; if so, the probe
// detects the end of the outage.
func (a *APIServer) Failed(ctx context.Context, err error) bool {
	if !a.concerns(err) {
		return false
	}
	a.failed(ctx, err)
	return true
}

// concerns reports whether an error is an outage of the API server. An API server that has just started also refuses
// requests that it allows later.
func (a *APIServer) concerns(err error) bool {
	if unreachable(err) {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return (a.away || a.clock().Sub(a.ended) < settleAfter) && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err))
}

func (a *APIServer) failed(ctx context.Context, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.away {
		return
	}
	a.away = true
	log.FromContext(ctx).WithName("kubernetes").Info("The Kubernetes API is unavailable; declared changes wait", "cause", err.Error())
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// NeedLeaderElection lets the probes run without leadership too: a broken watch affects every replica.
func (a *APIServer) NeedLeaderElection() bool { return false }

// Start probes during outages until ctx ends.
func (a *APIServer) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-a.wake:
		}
		if !a.awaitBack(ctx) {
			return nil
		}
		a.mu.Lock()
		a.away, a.ended = false, a.clock()
		a.mu.Unlock()
		log.FromContext(ctx).WithName("kubernetes").Info("The Kubernetes API is available again")
		a.onBack(ctx)
	}
}

// awaitBack probes until the API server answers; false: ctx ended first.
func (a *APIServer) awaitBack(ctx context.Context) bool {
	ticker := time.NewTicker(a.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-ticker.C:
			if a.probe(ctx) == nil {
				return true
			}
		}
	}
}
