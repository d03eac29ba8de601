// Package membershiprole is the kind MembershipRole: a role that members can hold.
package membershiprole

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=membershiproles,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=membershiproles/status,verbs=patch

// Kind returns how a MembershipRole is reconciled.
func Kind() engine.Kind[*v1alpha1.MembershipRole] {
	return engine.Kind[*v1alpha1.MembershipRole]{
		Name:     v1alpha1.KindMembershipRole,
		RefersTo: []string{v1alpha1.KindIdentityDeployment},
		References: func(m *v1alpha1.MembershipRole) []engine.Reference {
			return []engine.Reference{engine.CatalogReference(m.Spec.DeploymentRef)}
		},
		Check: check,
		Translate: func(m *v1alpha1.MembershipRole, _ engine.ResolvedRefs, _ engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(m, m.Spec.DeploymentRef), Value: translation.MembershipRole(m)}
		},
	}
}

// check refuses permissions that the deployment's catalog of the role's level does not list, and a required level that
// the deployment cannot reach.
func check(m *v1alpha1.MembershipRole, refs engine.ResolvedRefs) error {
	deployment, found := engine.DeploymentIn(refs)
	if !found {
		return nil
	}
	for _, name := range m.Spec.Permissions {
		if err := engine.CheckPermission("spec.permissions", m.Spec.Level, deployment, name); err != nil {
			return err
		}
	}
	if a := m.Spec.Assurance; a != nil {
		return engine.CheckAssurance("spec.assurance.required", a.Required, deployment)
	}
	return nil
}
