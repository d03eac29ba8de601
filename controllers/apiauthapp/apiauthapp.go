// Package apiauthapp is the kind APIAuthApp: a family of API keys.
package apiauthapp

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/claims"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=apiauthapps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=apiauthapps/status,verbs=patch

const schemeField = "spec.rateLimitSchemeRef"

// Kind returns how an APIAuthApp is reconciled.
func Kind() engine.Kind[*v1alpha1.APIAuthApp] {
	return engine.Kind[*v1alpha1.APIAuthApp]{
		Name:       v1alpha1.KindAPIAuthApp,
		New:        func() *v1alpha1.APIAuthApp { return &v1alpha1.APIAuthApp{} },
		NewList:    func() client.ObjectList { return &v1alpha1.APIAuthAppList{} },
		RefersTo:   []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindRateLimitScheme},
		References: references,
		Claims: func(a *v1alpha1.APIAuthApp) []string {
			return []string{claims.Slug(v1alpha1.KindAPIAuthApp, engine.DeploymentOf(a, a.Spec.DeploymentRef), string(a.Spec.Slug))}
		},
		Check:     check,
		Translate: translate,
	}
}

func references(a *v1alpha1.APIAuthApp) []engine.Reference {
	parent := engine.DeploymentReference(a.Spec.DeploymentRef)
	return append([]engine.Reference{parent}, engine.SchemeReference(schemeField, a.Spec.RateLimitSchemeRef)...)
}

func check(a *v1alpha1.APIAuthApp, referents engine.Referents) error {
	return engine.CheckScheme(schemeField, a.Spec.DeploymentRef.Name, referents)
}

func translate(a *v1alpha1.APIAuthApp, _ engine.Referents, _ engine.Material) engine.Content {
	return engine.Content{
		Deployment: engine.DeploymentOf(a, a.Spec.DeploymentRef), Key: string(a.Spec.Slug), Value: translation.APIAuthApp(a),
	}
}
