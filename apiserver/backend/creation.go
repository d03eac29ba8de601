package backend

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/internal/tracing"
)

const (
	// nameCandidates is how many names a created resource may get.
	nameCandidates = 3
	// gonePoll is the time between two reads of a resource that is being deleted.
	gonePoll = 50 * time.Millisecond
)

// candidates returns the names under which a deployment's new resource is created and searched: the plain name, then
// the plain name with five hexadecimal digits that are derived from it. The latter are for a plain name that another
// resource has. Every server derives the same names, so it finds a resource that another server created, even before
// the resource is in its snapshot.
func candidates(c *call, plain string) []client.ObjectKey {
	keys := make([]client.ObjectKey, nameCandidates)
	for i := range keys {
		keys[i] = client.ObjectKey{Namespace: c.principal.Deployment.Namespace, Name: plain}
		if i > 0 {
			sum := sha256.Sum256([]byte(plain + "\x00" + strconv.Itoa(i)))
			keys[i].Name += "-" + hex.EncodeToString(sum[:])[:5]
		}
	}
	return keys
}

// created is the metadata of a resource that a request creates. Its owner reference shows users and garbage collection
// to which deployment it belongs. It does not block the deletion of the deployment.
func created(c *call) metav1.ObjectMeta {
	deployment := c.principal.Deployment
	return metav1.ObjectMeta{
		Namespace: deployment.Namespace,
		Labels:    map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByHTTP},
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindIdentityDeployment, Name: deployment.Name, UID: types.UID(deployment.UID),
		}},
	}
}

// creation is a resource to be created.
type creation[P any] struct {
	kind string
	obj  P
	// keys are the names that the resource may get.
	keys []client.ObjectKey
	// taken decides the meaning of a live resource with the name: an error ends the creation, nil tries the next name.
	taken func(existing P) error
	// written is called when the Kubernetes API has acknowledged the creation.
	written func(P)
}

// create creates a resource and waits until this server applies it. It deletes the resource again if the operator does
// not accept it.
func create[T any, P resource[T]](ctx context.Context, a *API, n creation[P]) (synced bool, err error) {
	if err := place[T](ctx, a.writer, n); err != nil {
		return false, err
	}
	if n.written != nil {
		n.written(n.obj)
	}
	synced, err = a.writer.settle(ctx, n.kind, n.obj)
	if err != nil {
		a.withdraw(ctx, n.obj)
	}
	return synced, err
}

// freeSlug refuses a slug if a resource of the kind has it in the snapshot of this server. A deleted resource does not
// count. freeSlug waits for a resource that is being deleted.
func freeSlug[T any, P resource[T]](a *API, c *call, kind, slug string, taken func(slug string) error) error {
	entry, found := c.snapshot.BySlug(kind, c.tenant(), slug)
	if !found {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), writeDeadline)
	defer cancel()
	live := P(new(T))
	err := a.writer.kubernetes.Get(ctx, client.ObjectKey{Namespace: entry.Namespace, Name: entry.Name}, live)
	if apierrors.IsNotFound(err) || err == nil && live.GetDeletionTimestamp() != nil && leaves[T](ctx, a.writer, live) {
		return nil
	}
	return taken(slug)
}

// place creates the resource under the first free name.
func place[T any, P resource[T]](ctx context.Context, w *writer, n creation[P]) error {
	ctx, cancel := context.WithTimeout(ctx, writeDeadline)
	defer cancel()
	for _, key := range n.keys {
		for range patchAttempts {
			n.obj.SetName(key.Name)
			n.obj.SetResourceVersion("")
			err := w.kubernetes.Create(ctx, n.obj, client.FieldOwner(v1alpha1.FieldManagerHTTP))
			if !apierrors.IsAlreadyExists(err) {
				return err
			}
			existing := P(new(T))
			err = w.kubernetes.Get(ctx, key, existing)
			if apierrors.IsNotFound(err) {
				continue // deleted concurrently
			}
			if err != nil {
				return err
			}
			err = n.taken(existing)
			if err == nil {
				break
			}
			if existing.GetDeletionTimestamp() == nil || !leaves[T](ctx, w, existing) {
				return err
			}
		}
	}
	return apierror.New(http.StatusConflict, "no free resource name was found: try again")
}

// leaves waits until a resource that is being deleted is gone, and reports whether it is.
func leaves[T any, P resource[T]](ctx context.Context, w *writer, leaving P) bool {
	err := wait.PollUntilContextTimeout(ctx, gonePoll, syncPatience, true, func(ctx context.Context) (bool, error) {
		now := P(new(T))
		err := w.kubernetes.Get(ctx, client.ObjectKeyFromObject(leaving), now)
		if err != nil {
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		return now.GetUID() != leaving.GetUID(), nil
	})
	return err == nil
}

// withdraw deletes a resource that was created and then refused.
func (a *API) withdraw(ctx context.Context, obj v1alpha1.Resource) {
	// The deletion also runs if the client has disconnected: no other process knows that this object must be removed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeDeadline)
	defer cancel()
	if err := a.writer.kubernetes.Delete(ctx, obj, client.Preconditions{UID: ptr.To(obj.GetUID())}); err != nil && !apierrors.IsNotFound(err) {
		tracing.Logger(ctx, a.Log).Error(err, "A refused resource could not be deleted again", "namespace", obj.GetNamespace(), "name", obj.GetName())
	}
}
