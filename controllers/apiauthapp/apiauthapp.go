// Package apiauthapp is the kind APIAuthApp: a group of API keys.
package apiauthapp

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=apiauthapps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=apiauthapps/status,verbs=patch

const schemeField = "spec.rateLimitSchemeRef"

// Kind returns how an APIAuthApp is reconciled.
func Kind() engine.Kind[*v1alpha1.APIAuthApp] {
	return engine.Kind[*v1alpha1.APIAuthApp]{
		Name:       v1alpha1.KindAPIAuthApp,
		RefersTo:   []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindRateLimitScheme},
		References: references,
		Reserves: func(a *v1alpha1.APIAuthApp) []string {
			return []string{reservation.Slug(v1alpha1.KindAPIAuthApp, engine.DeploymentOf(a, a.Spec.DeploymentRef), string(a.Spec.Slug))}
		},
		Check:     check,
		Translate: translate,
	}
}

func references(a *v1alpha1.APIAuthApp) []engine.Reference {
	parent := engine.DeploymentReference(a.Spec.DeploymentRef)
	return append([]engine.Reference{parent}, engine.SchemeReference(schemeField, a.Spec.RateLimitSchemeRef)...)
}

func check(a *v1alpha1.APIAuthApp, refs engine.ResolvedRefs) error {
	return engine.CheckScheme(schemeField, a.Spec.DeploymentRef.Name, refs)
}

func translate(a *v1alpha1.APIAuthApp, _ engine.ResolvedRefs, _ engine.Prepared) engine.Content {
	return engine.Content{
		Deployment: engine.DeploymentOf(a, a.Spec.DeploymentRef), Key: string(a.Spec.Slug), Value: translation.APIAuthApp(a),
	}
}
