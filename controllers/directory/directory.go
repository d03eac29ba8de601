// Package directory is the kind Directory: the SCIM endpoint of an organization, with its token in a Secret.
package directory

import (
	"fmt"
	"io"
	"time"

	"k8s.io/utils/ptr"
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
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=directories,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=directories/status,verbs=patch

const connectionField = "spec.connectionRef"

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads and writes Secrets without a cache: foreign Secrets are never cached.
	Client client.Client
	// Secrets reports when a Secret of a namespace changed.
	Secrets *objectwatch.Watch
	Events  recorder.EventRecorder
	// Rows has the organizations.
	Rows organization.Rows
	// Local is the scheme and port under which identity providers reach hosts of this machine.
	Local translation.LocalFrontend
	Clock func() time.Time
	// Random is the source of tokens.
	Random io.Reader
}

// Kind returns how a Directory is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.Directory] {
	m := newManager(opts)
	return engine.Kind[*v1alpha1.Directory]{
		Name:       v1alpha1.KindDirectory,
		RefersTo:   []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindConnection, v1alpha1.KindMembershipRole},
		References: references,
		Reserves:   reserves,
		Check:      check,
		Translate: func(d *v1alpha1.Directory, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			return engine.Content{
				Deployment: engine.DeploymentOf(d, d.Spec.DeploymentRef), Key: string(d.Spec.Slug), Value: translation.Directory(d, prepared.Value.([]document.Verifier)),
			}
		},
		Retention: engine.RetainNothing,
		Prepare:   m.prepare,
		Cleanup:   m.cleanup,
		Sources:   []source.TypedSource[reconcile.Request]{opts.Secrets.Source()},
		Indexes:   map[string]func(*v1alpha1.Directory) []string{objectwatch.Index: secretNames},
	}
}

func newManager(opts Options) *manager {
	return &manager{Options: opts, credentials: credential.Keeper{Secrets: ownedsecret.Manager{Client: opts.Client}, Clock: opts.Clock, Random: opts.Random}}
}

// references returns the references to the deployment, the connection and the roles. A missing connection holds back
// the directory, because the organization of the connection must be checked. A missing role does not: servers leave its
// entry out.
func references(d *v1alpha1.Directory) []engine.Reference {
	refs := []engine.Reference{engine.CatalogReference(d.Spec.DeploymentRef)} // its first host makes the directory's URL
	if ref := d.Spec.ConnectionRef; ref != nil {
		refs = append(refs, engine.Reference{Field: connectionField, Kind: v1alpha1.KindConnection, Name: ref.Name, Protects: true, Content: true})
	}
	for i, given := range d.Spec.GroupRoles {
		refs = append(refs, engine.Reference{
			Field: roleField(i), Kind: v1alpha1.KindMembershipRole, Name: given.RoleRef.Name, Protects: true, LeftOut: true, Content: true,
		})
	}
	return refs
}

func roleField(i int) string { return fmt.Sprintf("spec.groupRoles[%d].roleRef", i) }

// reserves returns the directory's slug in its deployment, and the Secret key that it adopts, so that two resources
// cannot register the same token.
func reserves(d *v1alpha1.Directory) []string {
	keys := []string{reservation.Slug(v1alpha1.KindDirectory, engine.DeploymentOf(d, d.Spec.DeploymentRef), string(d.Spec.Slug))}
	if ref := d.Spec.ExistingSecretRef; ref != nil {
		keys = append(keys, reservation.AdoptedSecret(d.Namespace, ref.Name, ptr.Deref(ref.Key, v1alpha1.SecretKeySCIMToken)))
	}
	return keys
}

// check refuses a connection of another deployment or organization, a role of another deployment or level, and a group
// that is listed twice.
func check(d *v1alpha1.Directory, refs engine.ResolvedRefs) error {
	own, slug := d.Spec.DeploymentRef.Name, d.Spec.Organization.Slug
	if connection, found := refs[connectionField].(*v1alpha1.Connection); found {
		switch of := connection.Spec.Organization; {
		case connection.Spec.DeploymentRef.Name != own:
			return engine.Terminal(v1alpha1.ReasonInvalid, "%s: Connection %q belongs to deployment %q: refer to a connection of %q",
				connectionField, connection.Name, connection.Spec.DeploymentRef.Name, own)
		case of == nil:
			return engine.Terminal(v1alpha1.ReasonInvalid, "%s: Connection %q is for all users of the deployment: refer to a connection with spec.organization.slug %q, or remove connectionRef",
				connectionField, connection.Name, slug)
		case of.Slug != slug:
			return engine.Terminal(v1alpha1.ReasonInvalid, "%s: Connection %q belongs to organization %q: refer to a connection with spec.organization.slug %q, or remove connectionRef",
				connectionField, connection.Name, of.Slug, slug)
		}
	}
	listed := map[string]int{}
	for i, given := range d.Spec.GroupRoles {
		if before, twice := listed[given.Group]; twice {
			return engine.Terminal(v1alpha1.ReasonInvalid, "spec.groupRoles[%d].group: %q is already listed in spec.groupRoles[%d], which counts: remove one", i, given.Group, before)
		}
		listed[given.Group] = i
		if err := engine.CheckRole(roleField(i), v1alpha1.RoleLevelOrganization, own, refs); err != nil {
			return err
		}
	}
	return nil
}
