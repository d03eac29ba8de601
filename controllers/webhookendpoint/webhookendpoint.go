// Package webhookendpoint is the kind WebhookEndpoint: a URL to which the events of a deployment are sent.
package webhookendpoint

import (
	"io"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/credential"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/controllers/shared/organization"
	"github.com/cardea-iam/cardea/controllers/shared/ownedsecret"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/eventtype"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/translation"
	"github.com/cardea-iam/cardea/internal/webhook"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=webhookendpoints,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=webhookendpoints/status,verbs=patch

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads and writes Secrets without a cache: foreign Secrets are never cached.
	Client client.Client
	// Secrets reports changes of Secrets in watched namespaces.
	Secrets *objectwatch.Watch
	// Keyring seals signing secrets and the values of headers; it may be empty.
	Keyring *seal.Keyring
	Events  recorder.EventRecorder
	// Rows has the state of the deliveries.
	Rows  organization.Rows
	Clock func() time.Time
	// Random is the source of signing secrets.
	Random io.Reader
	// Registry gets the metrics; nil: none does.
	Registry prometheus.Registerer
}

// Kind returns how a WebhookEndpoint is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.WebhookEndpoint] {
	m := newManager(opts)
	return engine.Kind[*v1alpha1.WebhookEndpoint]{
		Name:     v1alpha1.KindWebhookEndpoint,
		RefersTo: []string{v1alpha1.KindIdentityDeployment},
		References: func(w *v1alpha1.WebhookEndpoint) []engine.Reference {
			return []engine.Reference{engine.CatalogReference(w.Spec.DeploymentRef)}
		},
		Check: func(w *v1alpha1.WebhookEndpoint, _ engine.ResolvedRefs) error {
			content, err := translation.WebhookEndpoint(w)
			if err != nil {
				return engine.Terminal(v1alpha1.ReasonInvalid, "%v", err)
			}
			if _, err := eventtype.Select(content.Types); err != nil {
				return engine.Terminal(v1alpha1.ReasonInvalid, "spec.types: %v", err)
			}
			return nil
		},
		Prepare: m.prepare,
		Translate: func(w *v1alpha1.WebhookEndpoint, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(w, w.Spec.DeploymentRef), Value: prepared.Value.(document.WebhookEndpoint)}
		},
		Cleanup: m.cleanup,
		Sources: []source.TypedSource[reconcile.Request]{opts.Secrets.Source()},
		Indexes: map[string]func(*v1alpha1.WebhookEndpoint) []string{objectwatch.Index: secretNames},
	}
}

func newManager(opts Options) *manager {
	m := &manager{
		opts, credential.KeeperOf[webhook.Secret]{Secrets: ownedsecret.Manager{Client: opts.Client}, Clock: opts.Clock, Random: opts.Random},
		newCounts(opts.Clock),
	}
	if opts.Registry != nil {
		opts.Registry.MustRegister(m.counts)
	}
	return m
}
