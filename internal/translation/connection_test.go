package translation

import (
	"reflect"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// allAlgs are the algorithms of a connection that declares none.
var allAlgs = []string{"RS256", "PS256", "ES256", "EdDSA"}

// declared returns the document of a connection that declares only what it must, changed by a function.
func declared(change func(*document.Connection)) document.Connection {
	d := document.Connection{
		Slug: "globex", Type: "OIDC", Name: "globex", Active: true, Shown: true, Enforcement: "Optional",
		Attributes: document.ConnectionAttributes{Email: "email", FirstName: "given_name", LastName: "family_name"},
		Client:     document.ConnectionClient{ID: "abc", Authentication: "ClientSecretBasic", Sealed: "sealed"},
		Scopes:     []string{"openid", "email", "profile"},
		Provider:   document.UpstreamProvider{Userinfo: "IfMissing", Algs: allAlgs},
	}
	change(&d)
	return d
}

func TestConnectionsOfEachType(t *testing.T) {
	const own = v1alpha1.UpstreamURL("https://git.acme.example/sub/")
	for name, tc := range map[string]struct {
		spec v1alpha1.ConnectionSpec
		want document.Connection
	}{
		"OIDC": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeOIDC, OIDC: &v1alpha1.OIDCProvider{Issuer: "https://idp.example/"}},
			declared(func(d *document.Connection) { d.Provider.Issuer = "https://idp.example/" }),
		},
		"OIDC without discovery": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeOIDC, OIDC: &v1alpha1.OIDCProvider{
				Issuer: "https://idp.example", Userinfo: ptr.To(v1alpha1.UserinfoUseAlways), ResponseMode: ptr.To(v1alpha1.ResponseModeFormPost),
				IDTokenSigningAlgs: []v1alpha1.UpstreamSigningAlg{"ES256"},
				Endpoints: &v1alpha1.OIDCEndpoints{
					AuthorizationURL: "https://idp.example/a", TokenURL: "https://idp.example/t", JWKSURL: "https://idp.example/j", UserinfoURL: ptr.To[v1alpha1.UpstreamURL]("https://idp.example/u"),
				},
			}},
			declared(func(d *document.Connection) {
				d.Provider = document.UpstreamProvider{
					Issuer: "https://idp.example", AuthorizationURL: "https://idp.example/a", TokenURL: "https://idp.example/t", JWKSURL: "https://idp.example/j",
					UserinfoURL: "https://idp.example/u", Userinfo: "Always", FormPost: true, Algs: []string{"ES256"},
				}
			}),
		},
		"Google": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeGoogle},
			declared(func(d *document.Connection) {
				d.Type, d.Name, d.Provider.Issuer = "Google", "Google", "https://accounts.google.com"
			}),
		},
		"Google for a Workspace": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeGoogle, Google: &v1alpha1.GoogleProvider{HostedDomains: []v1alpha1.DomainName{"globex.example"}}},
			declared(func(d *document.Connection) {
				d.Type, d.Name, d.Provider.Issuer, d.Provider.HostedDomains = "Google", "Google", "https://accounts.google.com", []string{"globex.example"}
			}),
		},
		"Microsoft": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeMicrosoft, Microsoft: &v1alpha1.MicrosoftProvider{Tenant: "organizations", AllowedTenants: []string{"t"}}},
			declared(func(d *document.Connection) {
				d.Type, d.Name, d.Provider.Issuer = "Microsoft", "Microsoft", "https://login.microsoftonline.com/organizations/v2.0"
				d.Provider.Tenant, d.Provider.AllowedTenants = "organizations", []string{"t"}
			}),
		},
		"GitLab": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeGitLab},
			declared(func(d *document.Connection) {
				d.Type, d.Name, d.Provider.Issuer = "GitLab", "GitLab", "https://gitlab.com"
			}),
		},
		"GitLab of one's own": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeGitLab, GitLab: &v1alpha1.HostedProvider{BaseURL: ptr.To(own)}},
			declared(func(d *document.Connection) {
				d.Type, d.Name, d.Provider.Issuer = "GitLab", "GitLab", "https://git.acme.example/sub"
			}),
		},
		"GitHub": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeGitHub, GitHub: &v1alpha1.HostedProvider{}},
			declared(func(d *document.Connection) {
				d.Type, d.Name, d.Scopes, d.Client.Authentication = "GitHub", "GitHub", []string{"read:user", "user:email"}, "ClientSecretPost"
				d.Provider = document.UpstreamProvider{
					AuthorizationURL: "https://github.com/login/oauth/authorize", TokenURL: "https://github.com/login/oauth/access_token",
					UserinfoURL: "https://api.github.com/user", BaseURL: "https://github.com",
				}
			}),
		},
		"GitHub of one's own": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeGitHub, GitHub: &v1alpha1.HostedProvider{BaseURL: ptr.To(own)}},
			declared(func(d *document.Connection) {
				d.Type, d.Name, d.Scopes, d.Client.Authentication = "GitHub", "GitHub", []string{"read:user", "user:email"}, "ClientSecretPost"
				d.Provider = document.UpstreamProvider{
					AuthorizationURL: "https://git.acme.example/sub/login/oauth/authorize", TokenURL: "https://git.acme.example/sub/login/oauth/access_token",
					UserinfoURL: "https://git.acme.example/sub/api/v3/user", BaseURL: "https://git.acme.example/sub",
				}
			}),
		},
		"Apple": {
			v1alpha1.ConnectionSpec{Type: v1alpha1.ConnectionTypeApple, Apple: &v1alpha1.AppleProvider{TeamID: "TEAMTEAM01", KeyID: "KEYKEYKEY1"}},
			declared(func(d *document.Connection) {
				d.Type, d.Name, d.Scopes, d.Client.Authentication = "Apple", "Apple", []string{"name", "email"}, "ClientSecretPost"
				d.Provider = document.UpstreamProvider{
					Issuer: "https://appleid.apple.com", Userinfo: "Never", FormPost: true, Algs: allAlgs, TeamID: "TEAMTEAM01", KeyID: "KEYKEYKEY1",
				}
			}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.spec.Slug, tc.spec.Client = "globex", v1alpha1.UpstreamClient{ClientID: "abc"}
			if got := Connection(&v1alpha1.Connection{Spec: tc.spec}, "sealed"); !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestSettingsOfAConnection(t *testing.T) {
	c := &v1alpha1.Connection{Spec: v1alpha1.ConnectionSpec{
		Slug: "globex", Type: v1alpha1.ConnectionTypeOIDC, DisplayName: ptr.To[v1alpha1.DisplayName](" Globex "), LogoURL: ptr.To[v1alpha1.UpstreamURL]("https://globex.example/logo.svg"),
		Active: ptr.To(false), Button: ptr.To(v1alpha1.ConnectionButtonHidden), Organization: &v1alpha1.ConnectionOrganization{Slug: "globex-inc"},
		Domains: []v1alpha1.DomainName{"globex.example", "globex.test"}, Enforcement: ptr.To(v1alpha1.ConnectionEnforcementMembers),
		SignUp: ptr.To(v1alpha1.ConnectionSignUpRefused), EmailProof: ptr.To(v1alpha1.EmailProofUpstream),
		Attributes: &v1alpha1.ConnectionAttributes{Email: ptr.To[v1alpha1.ClaimName]("mail"), LastName: ptr.To[v1alpha1.ClaimName]("sn")},
		Membership: &v1alpha1.ConnectionMembership{JustInTime: ptr.To(false), RoleExpression: ptr.To("['developer']"), RoleSync: ptr.To(v1alpha1.RoleSyncFirstSignIn)},
		Assurance:  &v1alpha1.ConnectionAssurance{AMR: []string{"mfa"}, ACR: []string{"gold"}, RequestedContext: ptr.To(true)},
		Session:    &v1alpha1.ConnectionSession{LifetimeSeconds: ptr.To[int32](28800), SignOut: ptr.To(v1alpha1.ConnectionSignOutUpstream)},
		Client:     v1alpha1.UpstreamClient{ClientID: "abc", Authentication: ptr.To(v1alpha1.UpstreamAuthenticationPrivateKeyJWT)},
		Scopes:     []v1alpha1.ScopeName{"openid", "groups"}, AuthorizationParameters: []v1alpha1.AuthorizationParameter{{Name: "domain_hint", Value: "globex.example"}},
		OIDC: &v1alpha1.OIDCProvider{Issuer: "https://idp.example"},
	}}
	want := document.Connection{
		Slug: "globex", Type: "OIDC", Name: "Globex", LogoURL: "https://globex.example/logo.svg", Organization: "globex-inc", Domains: []string{"globex.example", "globex.test"},
		Enforcement: "Members", RefusesSignUp: true, TrustsEmail: true, Attributes: document.ConnectionAttributes{Email: "mail", FirstName: "given_name", LastName: "sn"},
		Membership: document.ConnectionMembership{RoleExpression: "['developer']", FirstOnly: true}, AMR: []string{"mfa"}, ACR: []string{"gold"}, RequestsACR: true,
		SessionSeconds: 28800, SignOutUpstream: true, Client: document.ConnectionClient{ID: "abc", Authentication: "PrivateKeyJWT", Sealed: "sealed"},
		Scopes: []string{"openid", "groups"}, Parameters: []document.Parameter{{Name: "domain_hint", Value: "globex.example"}},
		Provider: document.UpstreamProvider{Issuer: "https://idp.example", Userinfo: "IfMissing", Algs: allAlgs},
	}
	if got := Connection(c, "sealed"); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	c.Spec.Membership = nil
	if got := Connection(c, "sealed").Membership; got != (document.ConnectionMembership{JustInTime: true}) {
		t.Errorf("an organization's connection without membership: %+v, want members just in time", got)
	}
}

func TestFrontendsAreThoseOfTheDeployment(t *testing.T) {
	d := &v1alpha1.IdentityDeployment{Spec: v1alpha1.IdentityDeploymentSpec{
		Mode: ptr.To(v1alpha1.DeploymentModeStaging), FrontendHosts: []v1alpha1.Hostname{"id.acme.example", "acme.localhost"},
	}}
	for _, tc := range []struct {
		local LocalFrontend
		want  []string
	}{
		{LocalFrontend{}, []string{"https://id.acme.example", "https://acme.localhost"}},
		{LocalFrontend{Scheme: "http", Port: "8081"}, []string{"https://id.acme.example", "http://acme.localhost:8081"}},
	} {
		if got := tc.local.Frontends(d); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("got %v, want %v", got, tc.want)
		}
	}
	if got := (LocalFrontend{}).Frontends(&v1alpha1.IdentityDeployment{}); got != nil {
		t.Errorf("a deployment without hosts has %v", got)
	}
}
