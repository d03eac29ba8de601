// Package connection is the kind Connection: an identity provider by which users sign in.
package connection

import (
	"io"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/controllers/shared/organization"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=connections,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=connections/status,verbs=patch

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads and writes Secrets and reads ConfigMaps, without a cache.
	Client client.Client
	// Secrets and ConfigMaps report changes of Secrets and ConfigMaps in watched namespaces.
	Secrets, ConfigMaps *objectwatch.Watch
	// Keyring seals client secrets and private keys; it may be empty.
	Keyring *seal.Keyring
	Events  recorder.EventRecorder
	// Rows has what servers fetched from identity providers, and the organizations.
	Rows organization.Rows
	// Local is the scheme and port under which browsers reach hosts of this machine.
	Local translation.LocalFrontend
	Clock func() time.Time
	// Random is the source of keys.
	Random io.Reader
}

// Kind returns how a Connection is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.Connection] {
	return engine.Kind[*v1alpha1.Connection]{
		Name:     v1alpha1.KindConnection,
		RefersTo: []string{v1alpha1.KindIdentityDeployment},
		References: func(c *v1alpha1.Connection) []engine.Reference {
			return []engine.Reference{engine.CatalogReference(c.Spec.DeploymentRef)}
		},
		Reserves: reserves,
		Check:    check,
		Prepare:  opts.prepare,
		Translate: func(c *v1alpha1.Connection, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(c, c.Spec.DeploymentRef), Key: string(c.Spec.Slug), Value: prepared.Value.(document.Connection)}
		},
		Cleanup: opts.cleanup,
		Sources: []source.TypedSource[reconcile.Request]{opts.Secrets.Source(), opts.ConfigMaps.Source()},
		Indexes: map[string]func(*v1alpha1.Connection) []string{objectwatch.Index: objectNames},
	}
}

// reserves returns the connection's slug and domains in its deployment.
func reserves(c *v1alpha1.Connection) []string {
	deployment := engine.DeploymentOf(c, c.Spec.DeploymentRef)
	keys := []string{reservation.Slug(v1alpha1.KindConnection, deployment, string(c.Spec.Slug))}
	for _, domain := range c.Spec.Domains {
		keys = append(keys, reservation.Domain(deployment, string(domain)))
	}
	return keys
}
