package connection

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
)

func TestCheckRefusesWhatTheSchemaCannot(t *testing.T) {
	url := func(text string) *v1alpha1.UpstreamURL { return ptr.To(v1alpha1.UpstreamURL(text)) }
	oidc := func(issuer string, endpoints *v1alpha1.OIDCEndpoints) v1alpha1.ConnectionSpec {
		return v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeOIDC, OIDC: &v1alpha1.OIDCProvider{Issuer: v1alpha1.UpstreamURL(issuer), Endpoints: endpoints}}
	}
	roles := func(expression string) v1alpha1.ConnectionSpec {
		return v1alpha1.ConnectionSpec{Membership: &v1alpha1.ConnectionMembership{RoleExpression: &expression}}
	}
	domains := func(names ...v1alpha1.DomainName) v1alpha1.ConnectionSpec {
		return v1alpha1.ConnectionSpec{Domains: names}
	}
	member := func(kind v1alpha1.ConnectionType, change func(*v1alpha1.ConnectionSpec)) v1alpha1.ConnectionSpec {
		s := v1alpha1.ConnectionSpec{Type: kind, Organization: &v1alpha1.ConnectionOrganization{Slug: "globex"}}
		if change != nil {
			change(&s)
		}
		return s
	}
	const public = "spec.membership.justInTime: every user of the public provider would become a member"
	const https, http = "https://idp.example", "http://127.0.0.1:5556"
	for name, tc := range map[string]struct {
		spec v1alpha1.ConnectionSpec
		mode v1alpha1.DeploymentMode
		want string
	}{
		"nothing optional":                {},
		"a role expression":               {spec: roles(`'eng' in claims.groups ? ['developer'] : []`)},
		"an expression that ends early":   {spec: roles(`claims.groups ?`), want: "spec.membership.roleExpression: "},
		"an expression of another type":   {spec: roles(`'developer'`), want: "spec.membership.roleExpression: yields string: it must yield a list of strings"},
		"a membership without roles":      {spec: v1alpha1.ConnectionSpec{Membership: &v1alpha1.ConnectionMembership{}}},
		"domains":                         {spec: domains("globex.example", "a--b.globex.co.uk", "xn--bcher-kva.example")},
		"a public suffix":                 {spec: domains("globex.example", "co.uk"), want: `spec.domains[1]: "co.uk" is a public suffix`},
		"a provider's suffix":             {spec: domains("github.io"), want: `spec.domains[0]: "github.io" is a public suffix`},
		"a label that is no A-label":      {spec: domains("xn--a.example"), want: `spec.domains[0]: "xn--a.example" has an invalid label`},
		"https in Production":             {spec: oidc(https, nil)},
		"http in Production":              {spec: oidc(http, nil), want: `spec.oidc.issuer: http is only for deployments with mode Staging: use https, or set spec.mode of IdentityDeployment "acme" to Staging`},
		"http in Staging":                 {spec: oidc(http, nil), mode: v1alpha1.DeploymentModeStaging},
		"an endpoint over http":           {spec: oidc(https, &v1alpha1.OIDCEndpoints{AuthorizationURL: https, TokenURL: http, JWKSURL: https}), want: "spec.oidc.endpoints.tokenURL: http"},
		"keys over http":                  {spec: oidc(https, &v1alpha1.OIDCEndpoints{AuthorizationURL: https, TokenURL: https, JWKSURL: http}), want: "spec.oidc.endpoints.jwksURL: http"},
		"claims over http":                {spec: oidc(https, &v1alpha1.OIDCEndpoints{AuthorizationURL: https, TokenURL: https, JWKSURL: https, UserinfoURL: url(http)}), want: "spec.oidc.endpoints.userinfoURL: http"},
		"browsers over http":              {spec: oidc(https, &v1alpha1.OIDCEndpoints{AuthorizationURL: http, TokenURL: https, JWKSURL: https}), want: "spec.oidc.endpoints.authorizationURL: http"},
		"GitHub over http":                {spec: v1alpha1.ConnectionSpec{GitHub: &v1alpha1.HostedProvider{BaseURL: url(http)}}, want: "spec.github.baseURL: http"},
		"GitLab over http":                {spec: v1alpha1.ConnectionSpec{GitLab: &v1alpha1.HostedProvider{BaseURL: url(http)}}, want: "spec.gitlab.baseURL: http"},
		"the public GitLab":               {spec: v1alpha1.ConnectionSpec{GitLab: &v1alpha1.HostedProvider{}}},
		"members by every Google account": {spec: member(v1alpha1.ConnectionTypeGoogle, nil), want: public},
		"members by a Google Workspace": {spec: member(v1alpha1.ConnectionTypeGoogle, func(s *v1alpha1.ConnectionSpec) {
			s.Google = &v1alpha1.GoogleProvider{HostedDomains: []v1alpha1.DomainName{"globex.example"}}
		})},
		"members by every GitHub account": {spec: member(v1alpha1.ConnectionTypeGitHub, nil), want: public},
		"members by the public GitLab":    {spec: member(v1alpha1.ConnectionTypeGitLab, func(s *v1alpha1.ConnectionSpec) { s.GitLab = &v1alpha1.HostedProvider{} }), want: public},
		"members by an own GitLab": {spec: member(v1alpha1.ConnectionTypeGitLab, func(s *v1alpha1.ConnectionSpec) {
			s.GitLab = &v1alpha1.HostedProvider{BaseURL: url("https://git.globex.example")}
		})},
		"members by every Apple account": {spec: member(v1alpha1.ConnectionTypeApple, nil), want: public},
		"members by every tenant of Microsoft": {spec: member(v1alpha1.ConnectionTypeMicrosoft, func(s *v1alpha1.ConnectionSpec) {
			s.Microsoft = &v1alpha1.MicrosoftProvider{Tenant: "organizations"}
		}), want: public},
		"members by one tenant of Microsoft": {spec: member(v1alpha1.ConnectionTypeMicrosoft, func(s *v1alpha1.ConnectionSpec) {
			s.Microsoft = &v1alpha1.MicrosoftProvider{Tenant: "5f2b0c4e-0000-4000-8000-000000000000"}
		})},
		"a public provider for members only": {spec: member(v1alpha1.ConnectionTypeGitHub, func(s *v1alpha1.ConnectionSpec) {
			s.Membership = &v1alpha1.ConnectionMembership{JustInTime: ptr.To(false)}
		})},
		"metadata over http": {spec: v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeSAML, SAML: &v1alpha1.SAMLProvider{MetadataURL: url(http)}}, want: "spec.saml.metadataURL: http"},
		"metadata of a ConfigMap": {spec: v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeSAML, SAML: &v1alpha1.SAMLProvider{
			MetadataConfigMapRef: &v1alpha1.ConfigMapKeyReference{Name: "globex", Key: "metadata.xml"},
		}}},
		"members by a provider of SAML": {spec: member(v1alpha1.ConnectionTypeSAML, func(s *v1alpha1.ConnectionSpec) { s.SAML = &v1alpha1.SAMLProvider{MetadataURL: url(https)} })},
		"a logo over http":              {spec: v1alpha1.ConnectionSpec{LogoURL: url(http)}, want: "spec.logoURL: http"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := &v1alpha1.IdentityDeployment{}
			deployment.Name = "acme"
			if tc.mode != "" {
				deployment.Spec.Mode = &tc.mode
			}
			err := check(&v1alpha1.Connection{Spec: tc.spec}, engine.ResolvedRefs{"spec.deploymentRef": deployment})
			if tc.want == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			var terminal *engine.TerminalError
			if !errors.As(err, &terminal) || terminal.Reason != v1alpha1.ReasonInvalid || !strings.Contains(terminal.Message, tc.want) {
				t.Errorf("got %v, want Invalid with %q", err, tc.want)
			}
		})
	}
}

func TestCheckAcceptsHTTPWhileTheDeploymentIsMissing(t *testing.T) {
	c := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{OIDC: &v1alpha1.OIDCProvider{Issuer: "http://127.0.0.1"}}}
	if err := check(c, engine.ResolvedRefs{}); err != nil {
		t.Errorf("refused before the mode is known: %v", err)
	}
}
