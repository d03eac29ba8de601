// Package oauthscope is the kind OAuthScope: a scope of an OAuth app.
package oauthscope

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/claims"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthscopes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthscopes/status,verbs=patch

const appField = "spec.oauthAppRef"

// Kind returns how an OAuthScope is reconciled. The cache answers which deployment an app belongs to.
func Kind(resources cache.Cache) engine.Kind[*v1alpha1.OAuthScope] {
	return engine.Kind[*v1alpha1.OAuthScope]{
		Name:     v1alpha1.KindOAuthScope,
		New:      func() *v1alpha1.OAuthScope { return &v1alpha1.OAuthScope{} },
		NewList:  func() client.ObjectList { return &v1alpha1.OAuthScopeList{} },
		RefersTo: []string{v1alpha1.KindOAuthApp},
		References: func(o *v1alpha1.OAuthScope) []engine.Reference {
			return []engine.Reference{{Field: appField, Kind: v1alpha1.KindOAuthApp, Name: o.Spec.OAuthAppRef.Name, Protects: true}}
		},
		Claims: func(o *v1alpha1.OAuthScope) []string {
			return []string{claims.Slug(v1alpha1.KindOAuthScope, appOf(o), o.Spec.Scope)}
		},
		Prepare: func(ctx context.Context, p engine.Preparation[*v1alpha1.OAuthScope]) (engine.Material, error) {
			return engine.Material{}, checkCatalog(ctx, resources, p.Object, p.Referents[appField].(*v1alpha1.OAuthApp))
		},
		Translate: func(o *v1alpha1.OAuthScope, referents engine.Referents, _ engine.Material) engine.Content {
			app := referents[appField].(*v1alpha1.OAuthApp)
			return engine.Content{
				Deployment: engine.DeploymentOf(o, app.Spec.DeploymentRef), Key: app.Name + "\x1f" + o.Spec.Scope, Value: translation.OAuthScope(o),
			}
		},
		Sources: []source.TypedSource[reconcile.Request]{source.Kind(resources, &v1alpha1.IdentityDeployment{},
			handler.TypedEnqueueRequestsFromMapFunc(scopesOf(resources)), predicate.TypedGenerationChangedPredicate[*v1alpha1.IdentityDeployment]{})},
	}
}

// appOf is the app of a scope, in the place where other kinds' slugs have their deployment.
func appOf(o *v1alpha1.OAuthScope) string { return o.Namespace + "/" + o.Spec.OAuthAppRef.Name }

// checkCatalog holds the scope's permissions against the catalog of its app's deployment.
func checkCatalog(ctx context.Context, resources client.Reader, o *v1alpha1.OAuthScope, app *v1alpha1.OAuthApp) error {
	var deployment v1alpha1.IdentityDeployment
	err := resources.Get(ctx, client.ObjectKey{Namespace: o.Namespace, Name: app.Spec.DeploymentRef.Name}, &deployment)
	if apierrors.IsNotFound(err) {
		return engine.Waiting(v1alpha1.ConditionReferencesResolved, v1alpha1.ReasonNotFound,
			"%s: the app's IdentityDeployment %q does not exist: create it", appField, app.Spec.DeploymentRef.Name)
	}
	if err != nil {
		return err
	}
	if name := o.Spec.OrganizationPermission; name != nil {
		return engine.CheckPermission("spec.organizationPermission", v1alpha1.RoleLevelOrganization, &deployment, *name)
	}
	if name := o.Spec.WorkspacePermission; name != nil {
		return engine.CheckPermission("spec.workspacePermission", v1alpha1.RoleLevelWorkspace, &deployment, *name)
	}
	return nil
}

// scopesOf finds the scopes of a deployment's apps: its catalog decides about them.
func scopesOf(resources client.Reader) func(context.Context, *v1alpha1.IdentityDeployment) []reconcile.Request {
	return func(ctx context.Context, d *v1alpha1.IdentityDeployment) []reconcile.Request {
		var apps v1alpha1.OAuthAppList
		if resources.List(ctx, &apps, client.InNamespace(d.Namespace), engine.ReferringTo(v1alpha1.KindIdentityDeployment, d.Name)) != nil {
			return nil // the cache is stopping
		}
		var requests []reconcile.Request
		for _, app := range apps.Items {
			var scopes v1alpha1.OAuthScopeList
			if resources.List(ctx, &scopes, client.InNamespace(d.Namespace), engine.ReferringTo(v1alpha1.KindOAuthApp, app.Name)) != nil {
				return nil
			}
			for i := range scopes.Items {
				requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&scopes.Items[i])})
			}
		}
		return requests
	}
}
