// Package ratelimitscheme is the kind RateLimitScheme: a reusable set of rate limits.
package ratelimitscheme

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/reservation"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=ratelimitschemes,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=ratelimitschemes/status,verbs=patch

// Kind returns how a RateLimitScheme is reconciled.
func Kind() engine.Kind[*v1alpha1.RateLimitScheme] {
	return engine.Kind[*v1alpha1.RateLimitScheme]{
		Name:     v1alpha1.KindRateLimitScheme,
		RefersTo: []string{v1alpha1.KindIdentityDeployment},
		References: func(s *v1alpha1.RateLimitScheme) []engine.Reference {
			return []engine.Reference{engine.DeploymentReference(s.Spec.DeploymentRef)}
		},
		Reserves: func(s *v1alpha1.RateLimitScheme) []string {
			return []string{reservation.Slug(v1alpha1.KindRateLimitScheme, engine.DeploymentOf(s, s.Spec.DeploymentRef), string(s.Spec.Slug))}
		},
		Check:     check,
		Translate: translate,
	}
}

// check repeats in code the rules of schema and CEL: a CRD of another version may have let something through.
func check(s *v1alpha1.RateLimitScheme, _ engine.ResolvedRefs) error {
	for _, fault := range scheme.Validate(translation.Rules(s.Spec.Rules)) {
		return engine.Terminal(v1alpha1.ReasonInvalid, "spec.rules%s: %s", fault.Pointer, fault.Message)
	}
	return nil
}

func translate(s *v1alpha1.RateLimitScheme, _ engine.ResolvedRefs, _ engine.Prepared) engine.Content {
	return engine.Content{
		Deployment: engine.DeploymentOf(s, s.Spec.DeploymentRef), Key: string(s.Spec.Slug), Value: translation.RateLimitScheme(s),
	}
}
