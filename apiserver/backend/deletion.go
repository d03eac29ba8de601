package backend

import (
	"context"
	"errors"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store"
)

// deletion is a resource to be deleted.
type deletion[P any] struct {
	kind string
	// keys are the possible names of the resource, the most likely first.
	keys []client.ObjectKey
	// permit returns why a live resource must not be deleted. errElsewhere means that it is not the intended resource.
	permit func(live P) error
	// written is called when the Kubernetes API has acknowledged the deletion.
	written func(P)
}

// remove deletes a live resource and waits until it is gone from this server. If the deletion waits for other resources
// that refer to the resource, remove returns a 409. errElsewhere: there is no such resource.
func remove[T any, P resource[T]](ctx context.Context, w *writer, d deletion[P]) (synced bool, err error) {
	for _, key := range d.keys {
		var obj P
		obj, err = removeAt[T](ctx, w, key, d)
		if err == nil {
			if d.written != nil {
				d.written(obj)
			}
			return w.gone(ctx, d.kind, obj)
		}
		if !apierrors.IsNotFound(err) && !errors.Is(err, errElsewhere) {
			return false, err
		}
	}
	return false, errElsewhere
}

// removeAt deletes the resource under a key. The deletion is conditional on the version that was permitted, so a
// concurrent declaration is not lost. After another concurrent write, such as the operator's status, removeAt checks
// the resource again.
func removeAt[T any, P resource[T]](ctx context.Context, w *writer, key client.ObjectKey, d deletion[P]) (P, error) {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	for attempt := 1; ; attempt++ {
		live := P(new(T))
		if err := w.kubernetes.Get(ctx, key, live); err != nil {
			return nil, err
		}
		if err := d.permit(live); err != nil {
			return nil, err
		}
		uid, version := live.GetUID(), live.GetResourceVersion()
		err := w.kubernetes.Delete(ctx, live, client.Preconditions{UID: &uid, ResourceVersion: &version})
		if err == nil || apierrors.IsNotFound(err) {
			return live, nil
		}
		if !apierrors.IsConflict(err) || attempt == patchAttempts {
			return nil, err
		}
	}
}

// gone waits until a deleted resource is gone from the snapshot.
func (w *writer) gone(ctx context.Context, kind string, obj v1alpha1.Resource) (bool, error) {
	uid := obj.GetUID()
	id := store.Identity{Kind: kind, Namespace: obj.GetNamespace(), Name: obj.GetName()}
	return w.await(ctx, obj, func(s *snapshot.Snapshot) bool {
		entry, found := s.Get(id)
		return !found || entry.UID != string(uid)
	}, func(live v1alpha1.Resource) error {
		deleting := meta.FindStatusCondition(live.CommonStatus().Conditions, v1alpha1.ConditionDeleting)
		if deleting != nil && deleting.Reason == v1alpha1.ReasonInUse {
			return apierror.New(http.StatusConflict, "the deletion waits: %s", deleting.Message)
		}
		return nil
	})
}
