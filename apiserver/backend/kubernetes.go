package backend

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// Kubernetes is the part of the Kubernetes API that writes need. Reads are live: a server caches no resources.
type Kubernetes interface {
	Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error
	Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error
	Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error
	Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error
}

// patient retries requests that the Kubernetes API forbids: directly after its start it has not loaded the roles yet. A
// forbidden request had no effect.
// Each request takes a slot of its namespace, so that the writes of one namespace do not delay those of others.
type patient struct {
	api   Kubernetes
	slots *egress.Slots
}

// writeBounds limit the requests of writes to the Kubernetes API: 16 at once, 4 of a namespace. Others wait for their
// turn until their context ends; namespaces take turns.
var writeBounds = egress.Bounds{AtOnce: 16, DeploymentAtOnce: 4}

// forbidden is the schedule of retries: 1.5 s in five tries.
var forbidden = wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 5}

func (p patient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return p.try(ctx, key.Namespace, func() error { return p.api.Get(ctx, key, obj, opts...) })
}

func (p patient) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return p.try(ctx, obj.GetNamespace(), func() error { return p.api.Create(ctx, obj, opts...) })
}

func (p patient) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return p.try(ctx, obj.GetNamespace(), func() error { return p.api.Patch(ctx, obj, patch, opts...) })
}

func (p patient) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return p.try(ctx, obj.GetNamespace(), func() error { return p.api.Delete(ctx, obj, opts...) })
}

// try returns a 503 that names the namespace if no slot was free in time: the Kubernetes API is not the cause.
func (p patient) try(ctx context.Context, namespace string, do func() error) (err error) {
	_ = wait.ExponentialBackoffWithContext(ctx, forbidden, func(context.Context) (bool, error) {
		done, full := p.slots.Begin(ctx, egress.Asker{Deployment: namespace})
		if full != nil {
			err = apierror.Unavailable(full, "too many changes in the namespace of the deployment are under way: the change may still be applied, so read before retrying")
			return false, full
		}
		defer done()
		err = do()
		return !apierrors.IsForbidden(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause), nil
	})
	if err == nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// refusal is the operator's statement that it does not accept a resource.
type refusal struct {
	reason, message string
}

func (r *refusal) Error() string { return r.reason + ": " + r.message }

// answer turns a refusal into an error. A conflict with another resource, or a lack of capacity, is a 409; anything
// else is the client's fault.
func (r *refusal) answer() *apierror.Error {
	switch r.reason {
	case v1alpha1.ReasonConflict, v1alpha1.ReasonSuperseded, v1alpha1.ReasonTooMany:
		return apierror.New(http.StatusConflict, "%s", r.message)
	}
	return apierror.New(http.StatusBadRequest, "%s", r.message)
}

// kubernetesError turns an error of the Kubernetes API into an error of this API. It returns an error of this API
// unchanged.
func kubernetesError(err error) error {
	var refused *refusal
	switch {
	case err == nil || apierror.Is(err):
		return err
	case errors.As(err, &refused):
		return refused.answer()
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return apierror.New(http.StatusBadRequest, "the Kubernetes API refuses the change: %s", statusMessage(err))
	case apierrors.IsConflict(err):
		return apierror.New(http.StatusConflict, "another request changed the resource: read it and try again")
	case apierrors.IsForbidden(err):
		return apierror.Unavailable(err, "the Kubernetes API forbids the change: it may still be starting, the server may lack rights, or the namespace is being deleted; read the resource, then try again")
	}
	return apierror.Unavailable(err, "the Kubernetes API is unavailable: the change may still be applied, so read before retrying")
}

func statusMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) && status.Status().Message != "" {
		return status.Status().Message
	}
	return fmt.Sprint(err)
}
