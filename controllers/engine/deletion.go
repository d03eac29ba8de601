package engine

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
)

// unused returns a WaitingError while a live resource refers to the resource. A referrer that is itself being deleted
// does not count, so that the kinds of a namespace can be deleted in any order.
func (r *reconciler) unused(ctx context.Context, s *state) error {
	referrers, err := r.referrers(ctx, s.identity(r.kind.name()))
	if err != nil {
		return err
	}
	if len(referrers) > 0 {
		return inUse(referrers)
	}
	return nil
}

// referrers names the live resources whose references protect the resource.
func (e *Engine) referrers(ctx context.Context, id store.Identity) ([]string, error) {
	var referrers []string
	for _, k := range e.ordered {
		if !slices.Contains(k.refersTo(), id.Kind) {
			continue
		}
		found, err := e.list(ctx, k, client.InNamespace(id.Namespace), client.MatchingFields{indexReferences: referenceKey(id.Kind, id.Name)})
		if err != nil {
			return nil, err
		}
		for _, obj := range found {
			protects := slices.ContainsFunc(k.references(obj), func(ref Reference) bool {
				return ref.Protects && ref.Kind == id.Kind && ref.Name == id.Name
			})
			if protects && obj.GetDeletionTimestamp().IsZero() {
				referrers = append(referrers, k.name()+" "+obj.GetName())
			}
		}
	}
	slices.Sort(referrers)
	return referrers, nil
}

// withdraw takes the document out of the store, or marks it as retained, as the deletion policy says.
func (r *reconciler) withdraw(ctx context.Context, s *state) error {
	term, err := r.term.Current(ctx)
	if err != nil {
		return &storeError{err}
	}
	owner := store.Owner{Identity: s.identity(r.kind.name()), UID: string(s.obj.GetUID())}
	if r.retains(s.obj) {
		err = r.documents.Retain(ctx, term, owner)
	} else {
		err = r.documents.Delete(ctx, term, owner)
	}
	if err != nil {
		return r.refusedWrite(term, err)
	}
	r.usages.forget(s.obj.GetNamespace())
	return nil
}

func (r *reconciler) retains(obj v1alpha1.Resource) bool {
	policy := obj.CommonSpec().DeletionPolicy
	return r.kind.retention() == RetainDocument && policy != nil && *policy == v1alpha1.DeletionPolicyRetain
}

// cleanUp undoes what prepare created. It runs after the document was removed from the store.
func (r *reconciler) cleanUp(ctx context.Context, s *state) error {
	return r.kind.cleanup(ctx, s.obj)
}

// removeFinalizer lets the API server delete the resource. If it is deleted already, that is success.
func (r *reconciler) removeFinalizer(ctx context.Context, s *state) error {
	s.released = true
	controllerutil.RemoveFinalizer(s.obj, v1alpha1.Finalizer)
	return r.patchMetadata(ctx, s)
}

// sweep deletes the document of a resource that disappeared without the deletion steps: its finalizer was removed by
// hand, or the cluster was lost. It asks the API server, not the cache, whether the resource exists. A document that is
// still in use stays active, as in an ordinary deletion.
func (r *reconciler) sweep(ctx context.Context, id store.Identity) error {
	stored, err := r.documents.Stored(ctx, id)
	if err != nil {
		return &storeError{err}
	}
	if !stored.Found || stored.Document.Retained {
		return nil
	}
	err = r.live.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, r.kind.newObject())
	if !apierrors.IsNotFound(err) {
		return err // it exists after all (nil), or its state is unknown
	}
	referrers, err := r.referrers(ctx, id)
	if err != nil || len(referrers) > 0 {
		return err
	}
	term, err := r.term.Current(ctx)
	if err != nil {
		return &storeError{err}
	}
	if err := r.documents.Delete(ctx, term, stored.Document.Owner); err != nil {
		return r.refusedWrite(term, err)
	}
	r.usages.forget(id.Namespace)
	log.FromContext(ctx).Info("Removed the document of a deleted resource", "kind", id.Kind)
	r.wakeCompetitors(ctx, stored.Reservations)
	return nil
}
