// Package aitool is the kind AITool: a tool that AI agents may use.
package aitool

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aitools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aitools/status,verbs=patch

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads Secrets from the API server, not from a cache.
	Client client.Reader
	// Secrets reports changes of Secrets in watched namespaces.
	Secrets *objectwatch.Watch
	// Keyring seals the values of headers; it may be empty.
	Keyring *seal.Keyring
}

// Kind returns how an AITool is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.AITool] {
	return engine.Kind[*v1alpha1.AITool]{
		Name:     v1alpha1.KindAITool,
		RefersTo: []string{v1alpha1.KindIdentityDeployment},
		References: func(t *v1alpha1.AITool) []engine.Reference {
			return []engine.Reference{engine.DeploymentReference(t.Spec.DeploymentRef)}
		},
		Check: func(t *v1alpha1.AITool, _ engine.ResolvedRefs) error {
			if _, err := translation.AITool(t); err != nil {
				return engine.Terminal(v1alpha1.ReasonInvalid, "%v", err)
			}
			return nil
		},
		Prepare: func(ctx context.Context, p engine.Preparation[*v1alpha1.AITool]) (engine.Prepared, error) {
			content, err := translation.AITool(p.Object)
			if err != nil {
				return engine.Prepared{}, err
			}
			leftOut, err := sealHeaders(ctx, opts, p, &content)
			return engine.Prepared{Value: content, LeftOut: leftOut}, err
		},
		Translate: func(t *v1alpha1.AITool, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(t, t.Spec.DeploymentRef), Value: prepared.Value.(document.AITool)}
		},
		Sources: []source.TypedSource[reconcile.Request]{opts.Secrets.Source()},
		Indexes: map[string]func(*v1alpha1.AITool) []string{objectwatch.Index: secretNames},
	}
}
