package engine

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

// sweeper compares documents with resources, in both directions.
//
// Documents whose resource is not in the cache are reconciled. The reconcile verifies that the resource is gone and
// removes the document. This happens:
//   - when this operator took over, because another may have died between a deletion and its effect;
//   - when the API server is back, because deletions may have been missed;
//   - once per resync period.
//
// A rebuilt cluster that uses the same store gets one resync period to apply its resources again before the documents
// of the old cluster are removed.
//
// Resources that are Ready but have no document in the store are reconciled at each of these times and once a minute.
type sweeper struct {
	engine *Engine
	now    chan struct{}
}

// restoreEvery is the longest time between two searches for resources without a document.
const restoreEvery = time.Minute

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
	restore := time.NewTicker(min(s.engine.resync, restoreEvery))
	defer restore.Stop()
	for {
		orphans := true
		select {
		case <-ctx.Done():
			return nil
		case <-s.now:
		case <-resync.C:
		case <-restore.C:
			orphans = false
		}
		if err := s.sweep(ctx, orphans); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Info("The comparison of documents with resources waits for the store", "cause", err.Error())
			time.AfterFunc(lastRetry, s.soon)
		}
	}
}

// sweep reconciles resources without their document and, if asked to, documents without their resource.
func (s *sweeper) sweep(ctx context.Context, orphans bool) error {
	owners, err := s.engine.documents.Owners(ctx)
	if err != nil {
		return err
	}
	if err := s.restore(ctx, owners); err != nil || !orphans {
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

// restore reconciles the resources that say they are ready and whose document is not among those that the store holds.
func (s *sweeper) restore(ctx context.Context, owners []store.Owner) error {
	held := make(map[store.Owner]bool, len(owners))
	for _, owner := range owners {
		held[owner] = true
	}
	for _, k := range s.engine.ordered {
		resources, err := s.engine.list(ctx, k)
		if err != nil {
			return nil // the cache is stopping
		}
		for _, obj := range resources {
			owner := store.Owner{
				Identity: store.Identity{Kind: k.name(), Namespace: obj.GetNamespace(), Name: obj.GetName()}, UID: string(obj.GetUID()),
			}
			ready := meta.IsStatusConditionTrue(obj.CommonStatus().Conditions, v1alpha1.ConditionReady)
			if ready && !held[owner] && !s.engine.ask(ctx, k.name(), client.ObjectKeyFromObject(obj)) {
				return ctx.Err()
			}
		}
	}
	return nil
}
