package engine

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
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

// SchemeReference is a reference to a rate-limit scheme, which it protects from deletion; none if ref is nil.
func SchemeReference(field string, ref *v1alpha1.RateLimitSchemeReference) []Reference {
	if ref == nil {
		return nil
	}
	return []Reference{{Field: field, Kind: v1alpha1.KindRateLimitScheme, Name: ref.Name, Protects: true}}
}

// CheckScheme refuses a rate-limit scheme of another deployment: what limits a tenant is the tenant's own.
func CheckScheme(field, deployment string, referents Referents) error {
	scheme, found := referents[field].(*v1alpha1.RateLimitScheme)
	if !found || scheme.Spec.DeploymentRef.Name == deployment {
		return nil
	}
	return Terminal(v1alpha1.ReasonInvalid, "%s: RateLimitScheme %q belongs to deployment %q, not to %q: refer to a scheme of the same deployment",
		field, scheme.Name, scheme.Spec.DeploymentRef.Name, deployment)
}
