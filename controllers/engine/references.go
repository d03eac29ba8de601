package engine

import (
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/translation"
)

// DeploymentReference is the reference of a resource to the deployment it belongs to. A deployment never waits for its
// children, so it protects nothing.
func DeploymentReference(ref v1alpha1.DeploymentReference) Reference {
	return Reference{Field: "spec.deploymentRef", Kind: v1alpha1.KindIdentityDeployment, Name: ref.Name}
}

// DeploymentOf returns the "namespace/name" of the deployment a resource belongs to.
func DeploymentOf(obj v1alpha1.Resource, ref v1alpha1.DeploymentReference) string {
	return obj.GetNamespace() + "/" + ref.Name
}

// CatalogReference is a DeploymentReference of a resource that is checked against the deployment's spec: its permission
// catalog, or the factors that it enables.
func CatalogReference(ref v1alpha1.DeploymentReference) Reference {
	r := DeploymentReference(ref)
	r.Content = true
	return r
}

// CheckPermission refuses a permission that the deployment's catalog of a level does not list. Callers skip the check
// while the deployment does not exist; the resource is checked when the deployment appears.
func CheckPermission(field string, level v1alpha1.RoleLevel, deployment *v1alpha1.IdentityDeployment, name v1alpha1.CatalogPermission) error {
	var listed []v1alpha1.CatalogPermission
	if catalog := deployment.Spec.PermissionCatalog; catalog != nil {
		listed = catalog.Organization
		if level == v1alpha1.RoleLevelWorkspace {
			listed = catalog.Workspace
		}
	}
	if slices.Contains(listed, name) {
		return nil
	}
	return Terminal(v1alpha1.ReasonUnknownPermission,
		"%s: %q is not in the %s permissions of deployment %q: add it to spec.permissionCatalog there, or use a listed permission",
		field, name, strings.ToLower(string(level)), deployment.Name)
}

// CheckAssurance refuses an assurance level that no user of the deployment can reach. Callers skip the check while the
// deployment does not exist, and refer to it so that a change of its spec repeats the check.
func CheckAssurance(field string, declared *v1alpha1.AssuranceLevel, deployment *v1alpha1.IdentityDeployment) error {
	level := translation.Level(declared)
	content := translation.Deployment(deployment, translation.Keys{})
	if level <= assurance.OneFactor || len(content.FactorsFor(level)) > 0 {
		return nil
	}
	enable := "enable spec.secondFactor.totp or spec.signIn.passkey (with a host in spec.frontendHosts) there"
	if level > assurance.TwoFactors {
		enable = "enable spec.signIn.passkey (with a host in spec.frontendHosts) there"
	}
	return Terminal(v1alpha1.ReasonAssuranceUnreachable, "%s: no user of deployment %q can reach %s, because no factor for it is enabled: %s, or require a lower level",
		field, deployment.Name, level.Declared(), enable)
}

// SchemeReference is a reference to a rate-limit scheme, which it protects from deletion; none if ref is nil.
func SchemeReference(field string, ref *v1alpha1.RateLimitSchemeReference) []Reference {
	if ref == nil {
		return nil
	}
	return []Reference{{Field: field, Kind: v1alpha1.KindRateLimitScheme, Name: ref.Name, Protects: true}}
}

// CheckScheme refuses a rate-limit scheme of another deployment: the limits of a tenant must belong to that tenant.
func CheckScheme(field, deployment string, refs ResolvedRefs) error {
	scheme, found := refs[field].(*v1alpha1.RateLimitScheme)
	if !found || scheme.Spec.DeploymentRef.Name == deployment {
		return nil
	}
	return Terminal(v1alpha1.ReasonInvalid, "%s: RateLimitScheme %q belongs to deployment %q, not to %q: refer to a scheme of the same deployment",
		field, scheme.Name, scheme.Spec.DeploymentRef.Name, deployment)
}

// CheckRole refuses a role of another level or of another deployment.
func CheckRole(field string, level v1alpha1.RoleLevel, deployment string, refs ResolvedRefs) error {
	role, found := refs[field].(*v1alpha1.MembershipRole)
	switch {
	case !found:
	case role.Spec.DeploymentRef.Name != deployment:
		return Terminal(v1alpha1.ReasonInvalid, "%s: MembershipRole %q belongs to deployment %q: refer to a role of %q",
			field, role.Name, role.Spec.DeploymentRef.Name, deployment)
	case role.Spec.Level != level:
		return Terminal(v1alpha1.ReasonInvalid, "%s: MembershipRole %q is of level %s: refer to a role of level %s", field, role.Name, role.Spec.Level, level)
	}
	return nil
}

// DeploymentIn returns the deployment among the referents, if it was found.
func DeploymentIn(refs ResolvedRefs) (*v1alpha1.IdentityDeployment, bool) {
	deployment, found := refs["spec.deploymentRef"].(*v1alpha1.IdentityDeployment)
	return deployment, found
}
