package translation

import (
	"cmp"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// The issuers and URLs of the providers with a type of their own.
const (
	googleIssuer    = "https://accounts.google.com"
	appleIssuer     = "https://appleid.apple.com"
	microsoftOrigin = "https://login.microsoftonline.com/"
	gitLabIssuer    = "https://gitlab.com"
	gitHubBase      = "https://github.com"
	gitHubAPI       = "https://api.github.com"
)

// Connection translates a Connection. sealed is its sealed client secret or private key, "" for an inactive connection.
func Connection(c *v1alpha1.Connection, sealed string) document.Connection {
	s := &c.Spec
	content := document.Connection{
		Slug: string(s.Slug), Type: string(s.Type), Name: named(s.DisplayName, presetName(c)), LogoURL: string(ptr.Deref(s.LogoURL, "")),
		Active: ptr.Deref(s.Active, true), Shown: ptr.Deref(s.Button, v1alpha1.ConnectionButtonShown) == v1alpha1.ConnectionButtonShown,
		Domains: texts(s.Domains), Enforcement: string(ptr.Deref(s.Enforcement, v1alpha1.ConnectionEnforcementOptional)),
		RefusesSignUp: ptr.Deref(s.SignUp, v1alpha1.ConnectionSignUpAllowed) == v1alpha1.ConnectionSignUpRefused,
		TrustsEmail:   s.Type != v1alpha1.ConnectionTypeSAML && ptr.Deref(s.EmailProof, v1alpha1.EmailProofCode) == v1alpha1.EmailProofUpstream,
		Attributes:    connectionAttributes(s), Client: connectionClient(c, sealed), Scopes: connectionScopes(c), Provider: connectionProvider(s),
	}
	if s.Organization != nil {
		content.Organization = s.Organization.Slug
		content.Membership = connectionMembership(s.Membership)
	}
	if a := s.Assurance; a != nil {
		content.AMR, content.ACR, content.RequestsACR = a.AMR, a.ACR, ptr.Deref(a.RequestedContext, false)
	}
	if session := s.Session; session != nil {
		content.SessionSeconds = int64(ptr.Deref(session.LifetimeSeconds, 0))
		content.SignOutUpstream = ptr.Deref(session.SignOut, v1alpha1.ConnectionSignOutLocal) == v1alpha1.ConnectionSignOutUpstream
	}
	for _, p := range s.AuthorizationParameters {
		content.Parameters = append(content.Parameters, document.Parameter{Name: p.Name, Value: p.Value})
	}
	return content
}

// presetName returns the name of a connection that declares none: the provider's, or the slug for a type of many
// providers.
func presetName(c *v1alpha1.Connection) string {
	switch c.Spec.Type {
	case v1alpha1.ConnectionTypeOIDC, v1alpha1.ConnectionTypeSAML:
		return string(c.Spec.Slug)
	}
	return string(c.Spec.Type)
}

// texts returns strings of a type as plain strings.
func texts[T ~string](of []T) []string {
	var plain []string
	for _, one := range of {
		plain = append(plain, string(one))
	}
	return plain
}

func connectionAttributes(s *v1alpha1.ConnectionSpec) document.ConnectionAttributes {
	a := ptr.Deref(s.Attributes, v1alpha1.ConnectionAttributes{})
	var names document.ConnectionAttributes
	if s.Type != v1alpha1.ConnectionTypeSAML { // whose usual names servers know
		names = document.DefaultConnectionAttributes()
	}
	return document.ConnectionAttributes{
		Email: cmp.Or(word(a.Email), names.Email), FirstName: cmp.Or(word(a.FirstName), names.FirstName), LastName: cmp.Or(word(a.LastName), names.LastName),
	}
}

func connectionMembership(m *v1alpha1.ConnectionMembership) document.ConnectionMembership {
	if m == nil {
		m = &v1alpha1.ConnectionMembership{}
	}
	return document.ConnectionMembership{
		JustInTime: ptr.Deref(m.JustInTime, true), RoleExpression: ptr.Deref(m.RoleExpression, ""),
		FirstOnly: ptr.Deref(m.RoleSync, v1alpha1.RoleSyncEverySignIn) == v1alpha1.RoleSyncFirstSignIn,
	}
}

func connectionClient(c *v1alpha1.Connection, sealed string) document.ConnectionClient {
	if c.Spec.Type == v1alpha1.ConnectionTypeSAML {
		return document.ConnectionClient{}
	}
	client := document.ConnectionClient{ID: c.Spec.Client.ClientID, Authentication: string(ptr.Deref(c.Spec.Client.Authentication, v1alpha1.UpstreamAuthenticationBasic)), Sealed: sealed}
	switch c.Spec.Type {
	case v1alpha1.ConnectionTypeApple, v1alpha1.ConnectionTypeGitHub: // both read client_secret from the body only
		client.Authentication = string(v1alpha1.UpstreamAuthenticationPost)
	}
	return client
}

func connectionScopes(c *v1alpha1.Connection) []string {
	switch {
	case len(c.Spec.Scopes) > 0:
		return texts(c.Spec.Scopes)
	case c.Spec.Type == v1alpha1.ConnectionTypeGitHub:
		return []string{"read:user", "user:email"}
	case c.Spec.Type == v1alpha1.ConnectionTypeApple:
		return []string{"name", "email"}
	case c.Spec.Type == v1alpha1.ConnectionTypeSAML:
		return nil
	}
	return document.DefaultScopes()
}

func connectionProvider(s *v1alpha1.ConnectionSpec) document.UpstreamProvider {
	p := document.UpstreamProvider{Userinfo: string(v1alpha1.UserinfoUseIfMissing), Algs: document.IDTokenAlgs()}
	switch s.Type {
	case v1alpha1.ConnectionTypeOIDC:
		return oidcProvider(s.OIDC, p)
	case v1alpha1.ConnectionTypeSAML:
		return document.UpstreamProvider{Issuer: string(ptr.Deref(s.SAML.EntityID, ""))}
	case v1alpha1.ConnectionTypeGoogle:
		p.Issuer = googleIssuer
		if s.Google != nil {
			p.HostedDomains = texts(s.Google.HostedDomains)
		}
	case v1alpha1.ConnectionTypeMicrosoft:
		p.Tenant, p.AllowedTenants = s.Microsoft.Tenant, s.Microsoft.AllowedTenants
		p.Issuer = microsoftOrigin + p.Tenant + "/v2.0"
	case v1alpha1.ConnectionTypeGitLab:
		p.Issuer = baseURL(s.GitLab, gitLabIssuer)
	case v1alpha1.ConnectionTypeApple:
		p.Issuer, p.FormPost, p.Userinfo = appleIssuer, true, string(v1alpha1.UserinfoUseNever)
		p.TeamID, p.KeyID = s.Apple.TeamID, s.Apple.KeyID
	case v1alpha1.ConnectionTypeGitHub:
		p.Algs, p.Userinfo = nil, ""
		p.BaseURL = baseURL(s.GitHub, gitHubBase)
		p.AuthorizationURL, p.TokenURL = p.BaseURL+"/login/oauth/authorize", p.BaseURL+"/login/oauth/access_token"
		p.UserinfoURL = gitHubAPI + "/user"
		if p.BaseURL != gitHubBase {
			p.UserinfoURL = p.BaseURL + "/api/v3/user"
		}
	}
	return p
}

func oidcProvider(o *v1alpha1.OIDCProvider, p document.UpstreamProvider) document.UpstreamProvider {
	p.Issuer = string(o.Issuer)
	p.Userinfo = cmp.Or(string(ptr.Deref(o.Userinfo, "")), p.Userinfo)
	p.FormPost = ptr.Deref(o.ResponseMode, v1alpha1.ResponseModeQuery) == v1alpha1.ResponseModeFormPost
	if len(o.IDTokenSigningAlgs) > 0 {
		p.Algs = texts(o.IDTokenSigningAlgs)
	}
	if e := o.Endpoints; e != nil {
		p.AuthorizationURL, p.TokenURL, p.JWKSURL = string(e.AuthorizationURL), string(e.TokenURL), string(e.JWKSURL)
		p.UserinfoURL = string(ptr.Deref(e.UserinfoURL, ""))
	}
	return p
}

// baseURL returns the base of an instance, without a slash at its end.
func baseURL(h *v1alpha1.HostedProvider, public string) string {
	if h == nil || h.BaseURL == nil {
		return public
	}
	return strings.TrimRight(string(*h.BaseURL), "/")
}

// PublicIssuer reports whether an issuer is that of a provider at which everybody can get an account.
func PublicIssuer(issuer string) bool {
	switch strings.TrimRight(issuer, "/") {
	case googleIssuer, appleIssuer, gitLabIssuer:
		return true
	}
	for _, tenant := range []string{"common", "organizations", "consumers"} {
		if strings.HasPrefix(issuer, microsoftOrigin+tenant+"/") {
			return true
		}
	}
	return false
}

// ConnectionPath is the path of a connection's endpoints on every frontend host.
func ConnectionPath(id int64) string { return "/sso/" + ids.Format(id) }

// Frontends returns the origins of a deployment's frontend hosts.
func (l LocalFrontend) Frontends(d *v1alpha1.IdentityDeployment) []string {
	var origins []string
	for _, host := range d.Spec.FrontendHosts {
		origins = append(origins, l.origin(d, string(host)))
	}
	return origins
}
