package apiserver

import (
	"context"
	"errors"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/apiserver/management"
	"github.com/cardea-iam/cardea/apiserver/outage"
)

// watched is a Kubernetes API whose outages are told to the log. The store needs none: following its feed tells.
type watched struct {
	api   management.Kubernetes
	watch *outage.Watch
}

func (w watched) note(err error) error { return w.watch.Note(answered(err), err) }

// answered tells whether the Kubernetes API answered, be it with a refusal.
func answered(err error) bool {
	var status apierrors.APIStatus
	return err == nil || errors.As(err, &status) && status.Status().Code < 500 && !apierrors.IsTooManyRequests(err)
}

func (w watched) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return w.note(w.api.Get(ctx, key, obj, opts...))
}

func (w watched) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	return w.note(w.api.Create(ctx, obj, opts...))
}

func (w watched) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	return w.note(w.api.Patch(ctx, obj, patch, opts...))
}

func (w watched) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	return w.note(w.api.Delete(ctx, obj, opts...))
}
