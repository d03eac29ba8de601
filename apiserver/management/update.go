package management

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/authn"
)

// update patches a resource and waits until that is in force here. plan is as in patch. It
// tells whether servers answer with the result.
func (w *writer) update(ctx context.Context, kind string, key client.ObjectKey, obj v1alpha1.Resource, override bool, plan func() ([]change, error)) (synced bool, err error) {
	changed, err := w.patch(ctx, key, obj, override, plan)
	if err != nil {
		return false, err
	}
	synced, err = w.settle(ctx, kind, obj)
	var refused *refusal
	if errors.As(err, &refused) && !changed {
		return false, nil // nothing was asked that could be refused
	}
	return synced, err
}

// overrides tells whether management writes take over fields that other managers declare.
func overrides(p *authn.Principal) bool {
	return p.Settings.FieldConflicts == string(v1alpha1.FieldConflictsOverride)
}
