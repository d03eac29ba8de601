// Package b2bsettings is the kind B2BSettings: a deployment's organization and workspace settings.
package b2bsettings

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=b2bsettings,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=b2bsettings/status,verbs=patch

const (
	orgRoleField       = "spec.autoAssignOrgRoleRef"
	workspaceRoleField = "spec.autoAssignWorkspaceRoleRef"
)

// Kind returns how B2BSettings are reconciled.
func Kind() engine.Kind[*v1alpha1.B2BSettings] {
	return engine.Kind[*v1alpha1.B2BSettings]{
		Name:       v1alpha1.KindB2BSettings,
		RefersTo:   []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindMembershipRole},
		References: references,
		// A deployment has at most one B2BSettings: all of them reserve the same slug.
		Reserves: func(b *v1alpha1.B2BSettings) []string {
			return []string{reservation.Slug(v1alpha1.KindB2BSettings, engine.DeploymentOf(b, b.Spec.DeploymentRef), document.B2BKey)}
		},
		Check: check,
		Translate: func(b *v1alpha1.B2BSettings, _ engine.ResolvedRefs, _ engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(b, b.Spec.DeploymentRef), Key: document.B2BKey, Value: translation.B2BSettings(b)}
		},
	}
}

func references(b *v1alpha1.B2BSettings) []engine.Reference {
	refs := []engine.Reference{engine.CatalogReference(b.Spec.DeploymentRef)}
	add := func(field string, ref *v1alpha1.MembershipRoleReference) {
		if ref != nil {
			refs = append(refs, engine.Reference{Field: field, Kind: v1alpha1.KindMembershipRole, Name: ref.Name, Protects: true})
		}
	}
	add(orgRoleField, b.Spec.AutoAssignOrgRoleRef)
	add(workspaceRoleField, b.Spec.AutoAssignWorkspaceRoleRef)
	return refs
}

// check refuses a role of another level or of another deployment, and a level for owners that the deployment cannot
// reach. It always checks in the same order: a message that alternated would change the status at each reconcile.
func check(b *v1alpha1.B2BSettings, refs engine.ResolvedRefs) error {
	for _, role := range []struct {
		field string
		level v1alpha1.RoleLevel
	}{{orgRoleField, v1alpha1.RoleLevelOrganization}, {workspaceRoleField, v1alpha1.RoleLevelWorkspace}} {
		if err := engine.CheckRole(role.field, role.level, b.Spec.DeploymentRef.Name, refs); err != nil {
			return err
		}
	}
	if deployment, found := engine.DeploymentIn(refs); found && b.Spec.OwnerAssurance != nil {
		return engine.CheckAssurance("spec.ownerAssurance.required", b.Spec.OwnerAssurance.Required, deployment)
	}
	return nil
}
