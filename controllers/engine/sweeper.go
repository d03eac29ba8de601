package engine

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/store"
)

// sweeper looks, once a resync, for documents whose resource is not in the cache, and asks for a pass over each; that
// pass makes sure and removes them. The first sweep comes one resync after the start, so that a rebuilt cluster has
// its resources again before what they left in the store is judged.
type sweeper struct{ engine *Engine }

// NeedLeaderElection makes the manager start the sweeper with the lease.
func (s *sweeper) NeedLeaderElection() bool { return true }

// Start sweeps until ctx ends.
func (s *sweeper) Start(ctx context.Context) error {
	ticker := time.NewTicker(s.engine.resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := s.sweep(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "The sweep of documents without a resource failed; the next one tries again")
			}
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
		err := s.engine.client.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}, k.newObject())
		if !apierrors.IsNotFound(err) {
			continue
		}
		if err := s.ask(ctx, k, owner); err != nil {
			return err
		}
	}
	return nil
}

func (s *sweeper) ask(ctx context.Context, k *kind, owner store.Owner) error {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: owner.Namespace, Name: owner.Name}}
	select {
	case s.engine.wake[k.name] <- event.GenericEvent{Object: obj}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
