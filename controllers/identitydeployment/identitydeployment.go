// Package identitydeployment is the kind IdentityDeployment: a tenant.
package identitydeployment

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/claims"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=identitydeployments,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=identitydeployments/status,verbs=patch

const defaultSchemeField = "spec.defaultRateLimitSchemeRef"

// Kind returns how an IdentityDeployment is reconciled.
func Kind() engine.Kind[*v1alpha1.IdentityDeployment] {
	return engine.Kind[*v1alpha1.IdentityDeployment]{
		Name:       v1alpha1.KindIdentityDeployment,
		New:        func() *v1alpha1.IdentityDeployment { return &v1alpha1.IdentityDeployment{} },
		NewList:    func() client.ObjectList { return &v1alpha1.IdentityDeploymentList{} },
		RefersTo:   []string{v1alpha1.KindRateLimitScheme},
		References: references,
		Claims:     hosts,
		Check:      check,
		Translate:  translate,
		// What is retained is people's rows; the document itself is withdrawn either way.
		RetainByDefault:  true,
		WithdrawOnRetain: true,
	}
}

func references(d *v1alpha1.IdentityDeployment) []engine.Reference {
	return engine.SchemeReference(defaultSchemeField, d.Spec.DefaultRateLimitSchemeRef)
}

func check(d *v1alpha1.IdentityDeployment, referents engine.Referents) error {
	return engine.CheckScheme(defaultSchemeField, d.Name, referents)
}

func hosts(d *v1alpha1.IdentityDeployment) []string {
	var needed []string
	for _, host := range d.Spec.FrontendHosts {
		needed = append(needed, claims.Host(string(host)))
	}
	return needed
}

func translate(d *v1alpha1.IdentityDeployment, _ engine.Referents, _ engine.Material) engine.Content {
	return engine.Content{Deployment: d.Namespace + "/" + d.Name, Key: d.Name, Value: translation.Deployment(d)}
}
