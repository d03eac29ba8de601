// Package oauthapp is the kind OAuthApp: an OAuth app.
package oauthapp

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthapps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=oauthapps/status,verbs=patch

// Kind returns how an OAuthApp is reconciled.
func Kind() engine.Kind[*v1alpha1.OAuthApp] {
	return engine.Kind[*v1alpha1.OAuthApp]{
		Name:     v1alpha1.KindOAuthApp,
		RefersTo: []string{v1alpha1.KindIdentityDeployment},
		References: func(o *v1alpha1.OAuthApp) []engine.Reference {
			return []engine.Reference{engine.DeploymentReference(o.Spec.DeploymentRef)}
		},
		Reserves: func(o *v1alpha1.OAuthApp) []string {
			return []string{reservation.Slug(v1alpha1.KindOAuthApp, engine.DeploymentOf(o, o.Spec.DeploymentRef), string(o.Spec.Slug))}
		},
		Translate: func(o *v1alpha1.OAuthApp, _ engine.ResolvedRefs, _ engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(o, o.Spec.DeploymentRef), Key: string(o.Spec.Slug), Value: translation.OAuthApp(o)}
		},
	}
}
