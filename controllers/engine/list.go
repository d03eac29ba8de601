package engine

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// list returns the cached resources of a kind. It reads without waiting for writes in flight: a reconcile that must see
// them is woken by their events.
func (e *Engine) list(ctx context.Context, k kind, opts ...client.ListOption) ([]v1alpha1.Resource, error) {
	list := k.newList()
	opts = append(opts, disableReadYourWrites{})
	if err := e.client.List(ctx, list, opts...); err != nil {
		return nil, err
	}
	var resources []v1alpha1.Resource
	err := meta.EachListItem(list, func(obj runtime.Object) error {
		resources = append(resources, obj.(v1alpha1.Resource))
		return nil
	})
	return resources, err
}

type disableReadYourWrites struct{}

// ApplyToList implements client.ListOption.
func (disableReadYourWrites) ApplyToList(o *client.ListOptions) {
	o.DisableReadYourWritesConsistency = true
}

// ApplyToGet implements client.GetOption.
func (disableReadYourWrites) ApplyToGet(o *client.GetOptions) {
	o.DisableReadYourWritesConsistency = true
}
