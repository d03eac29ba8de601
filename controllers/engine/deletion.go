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

// unused waits until nothing that lives refers to the resource any more. A user that is itself being deleted does not
// count, so that a namespace ends in whatever order its kinds are deleted.
func (r *reconciler) unused(ctx context.Context, p *pass) error {
	users, err := r.users(ctx, p.identity(r.kind.name))
	if err != nil {
		return err
	}
	if len(users) > 0 {
		return inUse(users)
	}
	return nil
}

// users names the live resources whose references protect the resource.
func (e *Engine) users(ctx context.Context, id store.Identity) ([]string, error) {
	var users []string
	for _, k := range e.ordered {
		if !slices.Contains(k.refersTo, id.Kind) {
			continue
		}
		referrers, err := e.list(ctx, k, client.InNamespace(id.Namespace), client.MatchingFields{indexReferences: referenceKey(id.Kind, id.Name)})
		if err != nil {
			return nil, err
		}
		for _, obj := range referrers {
			protects := slices.ContainsFunc(k.references(obj), func(ref Reference) bool {
				return ref.Protects && ref.Kind == id.Kind && ref.Name == id.Name
			})
			if protects && obj.GetDeletionTimestamp().IsZero() {
				users = append(users, k.name+" "+obj.GetName())
			}
		}
	}
	slices.Sort(users)
	return users, nil
}

// withdraw takes the document out of the store, or marks it as retained, as the deletion policy says.
func (r *reconciler) withdraw(ctx context.Context, p *pass) error {
	tenure, err := r.tenure.Current(ctx)
	if err != nil {
		return &storeError{err}
	}
	owner := store.Owner{Identity: p.identity(r.kind.name), UID: string(p.obj.GetUID())}
	if r.retains(p.obj) {
		err = r.documents.Retain(ctx, tenure, owner)
	} else {
		err = r.documents.Delete(ctx, tenure, owner)
	}
	if err != nil {
		return r.refusedWrite(tenure, err)
	}
	return nil
}

func (r *reconciler) retains(obj v1alpha1.Resource) bool {
	if r.kind.alwaysDelete || r.kind.withdrawOnRetain {
		return false
	}
	if policy := obj.CommonSpec().DeletionPolicy; policy != nil {
		return *policy == v1alpha1.DeletionPolicyRetain
	}
	return r.kind.retainByDefault
}

// cleanUp undoes what prepare made, once the store no longer serves it.
func (r *reconciler) cleanUp(ctx context.Context, p *pass) error {
	return r.kind.cleanup(ctx, p.obj)
}

// letGo removes the finalizer; the API server may then forget the resource.
func (r *reconciler) letGo(ctx context.Context, p *pass) error {
	p.gone = true
	controllerutil.RemoveFinalizer(p.obj, v1alpha1.Finalizer)
	return r.patchMetadata(ctx, p)
}

// sweep removes the document of a resource that is gone without having passed its deletion: its finalizer was taken off
// by hand, or the cluster was lost. Whether it is gone is asked of the API server itself. What is still in use
// stays in force, as in an ordinary deletion.
func (r *reconciler) sweep(ctx context.Context, id store.Identity) error {
	held, err := r.documents.Held(ctx, id)
	if err != nil {
		return &storeError{err}
	}
	if !held.Found || held.Document.Retained {
		return nil
	}
	err = r.live.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Name}, r.kind.newObject())
	if !apierrors.IsNotFound(err) {
		return err // it lives after all (nil), or nobody can tell
	}
	users, err := r.users(ctx, id)
	if err != nil || len(users) > 0 {
		return err
	}
	tenure, err := r.tenure.Current(ctx)
	if err != nil {
		return &storeError{err}
	}
	if err := r.documents.Delete(ctx, tenure, held.Document.Owner); err != nil {
		return r.refusedWrite(tenure, err)
	}
	log.FromContext(ctx).Info("Removed the document of a resource that is gone", "kind", id.Kind)
	return nil
}
