package connection

import (
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/claimpermission"
	"github.com/cardea-iam/cardea/internal/domainname"
	"github.com/cardea-iam/cardea/internal/translation"
)

// check validates what the schema and CEL rules cannot: the role expression, the domains, and http URLs, which only a
// deployment with mode Staging may use.
func check(c *v1alpha1.Connection, refs engine.ResolvedRefs) error {
	if m := c.Spec.Membership; m != nil && m.RoleExpression != nil {
		if _, err := claimpermission.Compile(*m.RoleExpression); err != nil {
			return engine.Terminal(v1alpha1.ReasonInvalid, "spec.membership.roleExpression: %v", err)
		}
	}
	if c.Spec.Organization != nil && ptr.Deref(ptr.Deref(c.Spec.Membership, v1alpha1.ConnectionMembership{}).JustInTime, true) && admitsEverybody(&c.Spec) {
		return engine.Terminal(v1alpha1.ReasonInvalid, "spec.membership.justInTime: every user of the public provider would become a member: write false, or restrict the provider "+
			"(google.hostedDomains, microsoft.tenant or allowedTenants, gitlab.baseURL or github.baseURL of an own instance)")
	}
	for i, domain := range c.Spec.Domains {
		if err := domainname.Check(string(domain)); err != nil { // the schema's pattern checks the form
			return engine.Terminal(v1alpha1.ReasonInvalid, "spec.domains[%d]: %q %v", i, domain, err)
		}
	}
	deployment, found := engine.DeploymentIn(refs)
	if !found || translation.Staging(deployment) {
		return nil
	}
	for _, at := range urls(c) {
		if strings.HasPrefix(string(at.url), "http:") {
			return engine.Terminal(v1alpha1.ReasonInvalid, "%s: http is only for deployments with mode Staging: use https, or set spec.mode of IdentityDeployment %q to Staging",
				at.field, deployment.Name)
		}
	}
	return nil
}

// admitsEverybody reports whether everybody can get an account at the provider of a connection.
func admitsEverybody(s *v1alpha1.ConnectionSpec) bool {
	switch s.Type {
	case v1alpha1.ConnectionTypeOIDC:
		return translation.PublicIssuer(string(s.OIDC.Issuer))
	case v1alpha1.ConnectionTypeGoogle:
		return s.Google == nil || len(s.Google.HostedDomains) == 0
	case v1alpha1.ConnectionTypeMicrosoft:
		shared := s.Microsoft.Tenant == "common" || s.Microsoft.Tenant == "organizations" || s.Microsoft.Tenant == "consumers"
		return shared && len(s.Microsoft.AllowedTenants) == 0
	case v1alpha1.ConnectionTypeGitHub:
		return s.GitHub == nil || s.GitHub.BaseURL == nil
	case v1alpha1.ConnectionTypeGitLab:
		return s.GitLab == nil || s.GitLab.BaseURL == nil
	case v1alpha1.ConnectionTypeApple:
		return true
	}
	return false
}

// fieldURL is a URL of an identity provider with its field.
type fieldURL struct {
	field string
	url   v1alpha1.UpstreamURL
}

// urls returns the URLs that a connection declares, "" for each that it leaves out.
func urls(c *v1alpha1.Connection) []fieldURL {
	all := []fieldURL{{"spec.logoURL", ptr.Deref(c.Spec.LogoURL, "")}}
	if o := c.Spec.OIDC; o != nil {
		all = append(all, fieldURL{"spec.oidc.issuer", o.Issuer})
		if e := o.Endpoints; e != nil {
			all = append(all, fieldURL{"spec.oidc.endpoints.authorizationURL", e.AuthorizationURL}, fieldURL{"spec.oidc.endpoints.tokenURL", e.TokenURL},
				fieldURL{"spec.oidc.endpoints.jwksURL", e.JWKSURL}, fieldURL{"spec.oidc.endpoints.userinfoURL", ptr.Deref(e.UserinfoURL, "")})
		}
	}
	if s := c.Spec.SAML; s != nil {
		all = append(all, fieldURL{"spec.saml.metadataURL", ptr.Deref(s.MetadataURL, "")})
	}
	for _, hosted := range []struct {
		field string
		of    *v1alpha1.HostedProvider
	}{{"spec.github.baseURL", c.Spec.GitHub}, {"spec.gitlab.baseURL", c.Spec.GitLab}} {
		if hosted.of != nil {
			all = append(all, fieldURL{hosted.field, ptr.Deref(hosted.of.BaseURL, "")})
		}
	}
	return all
}
