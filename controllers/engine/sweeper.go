package engine

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// sweeper looks for documents whose resource is not in the cache, and asks for a reconcile of each, which makes sure and removes
// them. It sweeps
//   - when this operator took over, for another may have died between a deletion and its effect;
//   - when the API server is back, for deletions may have been missed;
//   - once a resync.
//
// A cluster that was rebuilt over the store gets one resync to apply its resources again, before what the old one left is removed.
type sweeper struct {
	engine *Engine
	now    chan struct{}
}

func newSweeper(e *Engine) *sweeper { return &sweeper{engine: e, now: make(chan struct{}, 1)} }

// soon asks for a sweep.
func (s *sweeper) soon() {
	select {
	case s.now <- struct{}{}:
	default: // one is due already
	}
}

// NeedLeaderElection makes the manager start the sweeper with the lease.
func (s *sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until ctx ends. A sweep that failed is tried again soon.
func (s *sweeper) Start(ctx context.Context) error {
	resync := time.NewTicker(s.engine.resync)
	defer resync.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.now:
		case <-resync.C:
		}
		if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Info("The sweep of documents without a resource waits for the store", "cause", err.Error())
			time.AfterFunc(lastRetry, s.soon)
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) error {
	owners, err := s.engine.documents.Owners(ctx)
	if err != nil {
		return err
	}
	for _, owner := range owners {
		k, known := s.engine.kinds[owner.Kind]
		if !known {
			continue // written by a newer operator
		}
		key := types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}
		err := s.engine.client.Get(ctx, key, k.newObject(), disableReadYourWrites{})
		if apierrors.IsNotFound(err) && !s.engine.ask(ctx, owner.Kind, key) {
			return ctx.Err()
		}
	}
	return nil
}
