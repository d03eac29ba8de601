// Package jwttemplate is the kind JWTTemplate: the tokens that AITools get.
package jwttemplate

import (
	"net/url"
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/claimtemplate"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=jwttemplates,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=jwttemplates/status,verbs=patch

// Kind returns how a JWTTemplate is reconciled.
func Kind() engine.Kind[*v1alpha1.JWTTemplate] {
	return engine.Kind[*v1alpha1.JWTTemplate]{
		Name:     v1alpha1.KindJWTTemplate,
		RefersTo: []string{v1alpha1.KindIdentityDeployment},
		References: func(t *v1alpha1.JWTTemplate) []engine.Reference {
			return []engine.Reference{engine.CatalogReference(t.Spec.DeploymentRef)} // its hosts are no audiences
		},
		Check: check,
		Translate: func(t *v1alpha1.JWTTemplate, _ engine.ResolvedRefs, _ engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(t, t.Spec.DeploymentRef), Value: translation.JWTTemplate(t)}
		},
	}
}

// check refuses claims that do not compile, and audiences that are Cardea's own: it would accept its own tokens.
func check(t *v1alpha1.JWTTemplate, refs engine.ResolvedRefs) error {
	if _, err := claimtemplate.Compile(translation.JWTTemplate(t)); err != nil {
		return engine.Terminal(v1alpha1.ReasonInvalid, "spec.%v", err)
	}
	deployment, found := engine.DeploymentIn(refs)
	if !found {
		return nil
	}
	for i, audience := range t.Spec.Audiences {
		if parsed, err := url.Parse(audience); err == nil && slices.Contains(deployment.Spec.FrontendHosts, v1alpha1.Hostname(parsed.Hostname())) {
			return engine.Terminal(v1alpha1.ReasonInvalid, "spec.audiences[%d]: is a URL of the deployment itself, which issues the tokens: write that of the API", i)
		}
	}
	return nil
}
