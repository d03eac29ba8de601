package apiserver

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/backend"
	"github.com/cardea-iam/cardea/apiserver/httpapi/outage"
)

// watched is a Kubernetes API whose outages are logged. Outages of the store are logged by the follower of its feed.
type watched struct {
	api   backend.Kubernetes
	watch *outage.Watch
}

// note records the result of a call. A call that ends because its caller stopped waiting (outage.ErrPatience) does not
// indicate an outage.
func (w watched) note(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) && errors.Is(context.Cause(ctx), outage.ErrPatience) {
		return err
	}
	return w.watch.Note(answered(err), err)
}

// answered reports whether the Kubernetes API responded, even with a refusal.
func answered(err error) bool {
	var status apierrors.APIStatus
	return err == nil || errors.As(err, &status) && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

func (w watched) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return w.note(ctx, w.api.Get(ctx, key, obj, opts...))
}

func (w watched) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return w.note(ctx, w.api.Create(ctx, obj, opts...))
}

func (w watched) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return w.note(ctx, w.api.Patch(ctx, obj, patch, opts...))
}

func (w watched) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return w.note(ctx, w.api.Delete(ctx, obj, opts...))
}
