// Package oauthscope is the kind OAuthScope: a scope of an OAuth app.
package oauthscope

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthscopes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthscopes/status,verbs=patch

const (
	appField = "spec.oauthAppRef"
	// deploymentField is the key of the app's deployment in ResolvedRefs. Its permission catalog decides about the
	// scope.
	deploymentField = appField + "'s spec.deploymentRef"
)

// Kind returns how an OAuthScope is reconciled.
func Kind() engine.Kind[*v1alpha1.OAuthScope] {
	return engine.Kind[*v1alpha1.OAuthScope]{
		Name:       v1alpha1.KindOAuthScope,
		RefersTo:   []string{v1alpha1.KindOAuthApp},
		Through:    map[string]string{v1alpha1.KindIdentityDeployment: v1alpha1.KindOAuthApp},
		References: references,
		Reserves: func(o *v1alpha1.OAuthScope) []string {
			return []string{reservation.Slug(v1alpha1.KindOAuthScope, appOf(o), o.Spec.Scope)}
		},
		Check:   check,
		Prepare: prepare,
		Translate: func(o *v1alpha1.OAuthScope, refs engine.ResolvedRefs, _ engine.Prepared) engine.Content {
			app := refs[appField].(*v1alpha1.OAuthApp)
			return engine.Content{
				Deployment: engine.DeploymentOf(o, app.Spec.DeploymentRef), Key: document.ScopeKey(app.Name, o.Spec.Scope), Value: translation.OAuthScope(o),
			}
		},
	}
}

// references returns the references to the app, and through the app to its deployment.
func references(o *v1alpha1.OAuthScope) []engine.Reference {
	return []engine.Reference{{
		Field: appField, Kind: v1alpha1.KindOAuthApp, Name: o.Spec.OAuthAppRef.Name, Protects: true,
		Next: func(app v1alpha1.Resource) engine.Reference {
			deployment := app.(*v1alpha1.OAuthApp).Spec.DeploymentRef
			return engine.Reference{Field: deploymentField, Kind: v1alpha1.KindIdentityDeployment, Name: deployment.Name}
		},
	}}
}

// appOf returns the "namespace/name" of a scope's app. In the reservation of a scope, it takes the place that the
// deployment has in other slugs.
func appOf(o *v1alpha1.OAuthScope) string { return o.Namespace + "/" + o.Spec.OAuthAppRef.Name }

// check refuses permissions that the catalog of the app's deployment does not list.
func check(o *v1alpha1.OAuthScope, refs engine.ResolvedRefs) error {
	deployment, found := refs[deploymentField].(*v1alpha1.IdentityDeployment)
	if !found {
		return nil
	}
	if name := o.Spec.OrganizationPermission; name != nil {
		return engine.CheckPermission("spec.organizationPermission", v1alpha1.RoleLevelOrganization, deployment, *name)
	}
	if name := o.Spec.WorkspacePermission; name != nil {
		return engine.CheckPermission("spec.workspacePermission", v1alpha1.RoleLevelWorkspace, deployment, *name)
	}
	return nil
}

// prepare warns of a scope that requires no permission and has the name of a permission: decisions compare scopes and
// permissions as one list.
func prepare(_ context.Context, p engine.Preparation[*v1alpha1.OAuthScope]) (prepared engine.Prepared, err error) {
	deployment, found := p.Refs[deploymentField].(*v1alpha1.IdentityDeployment)
	if !found || deployment.Spec.PermissionCatalog == nil || p.Object.Spec.OrganizationPermission != nil || p.Object.Spec.WorkspacePermission != nil {
		return prepared, nil
	}
	catalog, name := deployment.Spec.PermissionCatalog, v1alpha1.CatalogPermission(p.Object.Spec.Scope)
	if slices.Contains(catalog.Organization, name) || slices.Contains(catalog.Workspace, name) {
		prepared.Conditions = append(prepared.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionNamedAsPermission, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonInCatalog,
			Message: fmt.Sprintf("%q is also a permission of deployment %q: in decisions, a consent to the scope satisfies a requirement of the permission", name, deployment.Name),
		})
	}
	return prepared, nil
}
