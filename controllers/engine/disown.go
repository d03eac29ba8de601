package engine

import (
	"context"
	"errors"
	"net/http"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// disown removes the owner reference of an adopted resource. A cluster may forbid that:
// OwnerReferencesPermissionEnforcement requires the right to delete the resource, and an admission policy may guard
// owners too. Then the resource keeps its owner, which is logged once; what it declares takes effect anyway.
func (r *reconciler) disown(ctx context.Context, s *state) error {
	owners := s.obj.GetOwnerReferences()
	if !disownAdopted(s.obj) {
		return nil
	}
	key := client.ObjectKeyFromObject(s.obj)
	if r.keptOwners.has(key, s.obj.GetUID()) && !reconcileRequested(s.obj) {
		s.obj.SetOwnerReferences(owners)
		return nil
	}
	err := r.patchMetadata(ctx, s)
	if !denied(err) {
		return err
	}
	s.obj.SetOwnerReferences(owners)
	if r.api.concerns(err) {
		return nil // a starting API server may refuse requests that it allows later: the next reconcile tries again
	}
	r.keptOwners.add(key, s.obj.GetUID())
	log.FromContext(ctx).Info("The cluster does not let the operator remove the deployment as owner of an adopted resource, so the resource is deleted with the deployment, "+
		"and Argo CD does not prune it: remove metadata.ownerReferences by hand, or allow the removal and request a reconcile", "cause", err.Error())
	return nil
}

// reconcileRequested reports whether a reconcile was requested and not reported yet.
func reconcileRequested(obj v1alpha1.Resource) bool {
	return obj.GetAnnotations()[v1alpha1.AnnotationReconcileRequestedAt] != obj.CommonStatus().LastHandledReconcileAt
}

// denied reports whether the API server, or an admission webhook, refuses the request itself, and not its sender, its
// time or the number of requests.
func denied(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) {
		return false
	}
	switch code := answer.Status().Code; code {
	case http.StatusUnauthorized, http.StatusNotFound, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	default:
		return code >= 400 && code < 500
	}
}

// keptOwners holds the adopted resources whose owner reference the cluster refused to remove, so that the operator does
// not try again at each reconcile. Rights that are granted later cannot be watched; the next operator process tries
// again.
type keptOwners struct {
	mu  sync.Mutex
	set map[types.NamespacedName]types.UID
}

func (k *keptOwners) has(key types.NamespacedName, uid types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	kept, found := k.set[key]
	return found && kept == uid
}

func (k *keptOwners) add(key types.NamespacedName, uid types.UID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.set == nil {
		k.set = map[types.NamespacedName]types.UID{}
	}
	k.set[key] = uid
}

func (k *keptOwners) remove(key types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.set, key)
}
