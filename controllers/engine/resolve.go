package engine

import (
	"cmp"
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/ids"
)

// idOf returns the number a resource is served under.
func idOf(kind string, obj v1alpha1.Resource) (int64, error) {
	if declared := obj.CommonSpec().ID; declared != nil {
		return ids.Parse(*declared)
	}
	return ids.Derive(kind, obj.GetNamespace(), obj.GetName()), nil
}

// resolve finds every referent in the cache. A missing one is a wait, not an error: its creation wakes this resource.
func (r *reconciler) resolve(ctx context.Context, s *state) error {
	s.refs = ResolvedRefs{}
	id, err := idOf(r.kind.name(), s.obj)
	if err != nil {
		return Terminal(v1alpha1.ReasonInvalid, "spec.id: %v", err)
	}
	s.id = id
	for _, ref := range r.kind.references(s.obj) {
		err := r.resolveOne(ctx, s, ref)
		if next := ref.Next; err == nil && next != nil {
			err = r.resolveOne(ctx, s, next(s.refs[ref.Field]))
		}
		if err := s.unresolvedBy(ref, err); err != nil {
			return err
		}
	}
	return nil
}

// unresolvedBy records the error of a reference that does not resolve. It returns any other error.
func (s *state) unresolvedBy(ref Reference, err error) error {
	var waiting *WaitingError
	if !errors.As(err, &waiting) {
		return err
	}
	if ref.LeftOut && waiting.Reason == v1alpha1.ReasonNotFound {
		s.leftOut = cmp.Or(s.leftOut, waiting)
	} else if s.unresolved == nil {
		s.unresolved = err
	}
	return nil
}

func (r *reconciler) resolveOne(ctx context.Context, s *state, ref Reference) error {
	referent := r.kinds[ref.Kind].newObject()
	err := r.client.Get(ctx, client.ObjectKey{Namespace: s.obj.GetNamespace(), Name: ref.Name}, referent)
	if apierrors.IsNotFound(err) {
		return Waiting(v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonNotFound,
			"%s: there is no %s %q in namespace %q: create it or correct the name", ref.Field, ref.Kind, ref.Name, s.obj.GetNamespace())
	}
	if err != nil {
		return err
	}
	s.refs[ref.Field] = referent
	if !referent.GetDeletionTimestamp().IsZero() {
		return s.referentLeaves(ref)
	}
	return nil
}

// referentLeaves decides about a reference to a resource that is being deleted: an active reference stays active, and a
// new reference does not resolve.
func (s *state) referentLeaves(ref Reference) error {
	if s.obj.CommonStatus().ObservedGeneration == s.obj.GetGeneration() && s.obj.CommonStatus().ContentHash != "" {
		return nil
	}
	return Waiting(v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonBeingDeleted,
		"%s: %s %q is being deleted: refer to another one or create it again", ref.Field, ref.Kind, ref.Name)
}
