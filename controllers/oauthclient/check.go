package oauthclient

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/redirecturi"
)

// check validates what the schema and CEL rules cannot: redirect URIs, the app's resources, the required assurance
// level, and the rate-limit scheme.
func check(o *v1alpha1.OAuthClient, refs engine.ResolvedRefs) error {
	public := ptr.Deref(o.Spec.Authentication, v1alpha1.ClientAuthenticationSecretBasic) == v1alpha1.ClientAuthenticationNone
	for _, list := range []struct {
		field string
		uris  []v1alpha1.RedirectURI
	}{{"spec.redirectURIs", o.Spec.RedirectURIs}, {"spec.postLogoutRedirectURIs", o.Spec.PostLogoutRedirectURIs}} {
		for i, uri := range list.uris {
			form, err := redirecturi.Classify(string(uri))
			if err != nil {
				return engine.Terminal(v1alpha1.ReasonInvalid, "%s[%d]: %v", list.field, i, err)
			}
			if form == redirecturi.PrivateUse && !public {
				return engine.Terminal(v1alpha1.ReasonInvalid, "%s[%d]: an app's own scheme is only for clients with authentication None, because other programs on the machine can claim it", list.field, i)
			}
		}
	}
	app, found := refs[appField].(*v1alpha1.OAuthApp)
	if !found {
		return nil
	}
	for i, resource := range o.Spec.Resources {
		if !slices.Contains(app.Spec.Resources, resource) {
			return engine.Terminal(v1alpha1.ReasonInvalid, "spec.resources[%d]: %q is not among the resources of OAuthApp %q: add it there", i, resource, app.Name)
		}
	}
	if deployment, found := refs[deploymentField].(*v1alpha1.IdentityDeployment); found && o.Spec.Assurance != nil {
		if err := engine.CheckAssurance("spec.assurance.required", o.Spec.Assurance.Required, deployment); err != nil {
			return err
		}
	}
	return engine.CheckScheme(schemeField, app.Spec.DeploymentRef.Name, refs)
}
