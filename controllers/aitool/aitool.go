// Package aitool is the kind AITool: a tool that AI agents may use.
package aitool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aitools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aitools/status,verbs=patch

// Kind returns how an AITool is reconciled. The reader reads Secrets from the API server, not from a cache.
func Kind(secrets client.Reader, watch *objectwatch.Watch) engine.Kind[*v1alpha1.AITool] {
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
			return engine.Prepared{Value: content}, checkSecrets(ctx, secrets, watch, p.Object)
		},
		Translate: func(t *v1alpha1.AITool, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(t, t.Spec.DeploymentRef), Value: prepared.Value.(document.AITool)}
		},
		Sources: []source.TypedSource[reconcile.Request]{watch.Source()},
		Indexes: map[string]func(*v1alpha1.AITool) []string{objectwatch.Index: secretNames},
	}
}

// checkSecrets returns a WaitingError until every Secret key from which a header takes its value exists. It does not
// look at the values.
func checkSecrets(ctx context.Context, secrets client.Reader, watch *objectwatch.Watch, t *v1alpha1.AITool) error {
	for _, header := range t.Spec.Headers {
		if header.ValueFrom == nil {
			continue
		}
		watch.Ensure(t.Namespace)
		ref := header.ValueFrom.SecretKeyRef
		var secret corev1.Secret
		err := secrets.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: ref.Name}, &secret)
		if apierrors.IsForbidden(err) {
			return engine.SecretsForbidden(v1alpha1.ConditionCredentialsReady, t.Namespace)
		}
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if _, found := secret.Data[ref.Key]; err != nil || !found {
			return engine.Waiting(v1alpha1.ConditionCredentialsReady, v1alpha1.ReasonSecretNotFound,
				"header %s: there is no Secret %q with key %q: create it", header.Name, ref.Name, ref.Key)
		}
	}
	return nil
}

func secretNames(t *v1alpha1.AITool) []string {
	var names []string
	for _, header := range t.Spec.Headers {
		if header.ValueFrom != nil {
			names = append(names, header.ValueFrom.SecretKeyRef.Name)
		}
	}
	return names
}
