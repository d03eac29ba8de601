package translation

import (
	"encoding/json"
	"net"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/redirecturi"
)

// LocalFrontend is the scheme and port under which browsers reach hosts of this machine, such as
// "http://localhost:8081". The zero value: "https" without port, as everywhere else.
type LocalFrontend struct{ Scheme, Port string }

// URL returns the URL of a deployment's first frontend host, without a slash at its end; "" without hosts. It depends
// only on configuration.
func (l LocalFrontend) URL(d *v1alpha1.IdentityDeployment) string {
	if len(d.Spec.FrontendHosts) == 0 {
		return ""
	}
	return l.origin(d, string(d.Spec.FrontendHosts[0]))
}

// origin returns the origin of a frontend host of a deployment.
func (l LocalFrontend) origin(d *v1alpha1.IdentityDeployment, host string) string {
	if l.Scheme == "" || !Staging(d) || host != "localhost" && !strings.HasSuffix(host, ".localhost") {
		return "https://" + host
	}
	if l.Port != "" {
		host = net.JoinHostPort(host, l.Port)
	}
	return l.Scheme + "://" + host
}

// Staging reports whether a deployment has mode Staging.
func Staging(d *v1alpha1.IdentityDeployment) bool {
	return ptr.Deref(d.Spec.Mode, v1alpha1.DeploymentModeProduction) == v1alpha1.DeploymentModeStaging
}

// OAuthIssuer returns an app's issuer: its own host, or a path of the deployment's first host; "" if there is neither.
func OAuthIssuer(o *v1alpha1.OAuthApp, frontendURL string) string {
	switch {
	case o.Spec.FQDN != nil:
		return "https://" + string(*o.Spec.FQDN)
	case frontendURL != "":
		return frontendURL + "/oauth/" + string(o.Spec.Slug)
	}
	return ""
}

// OAuthApp translates an OAuthApp. frontendURL is the URL of the deployment's pages, "" if it has none. keys are the
// app's signing keys.
func OAuthApp(o *v1alpha1.OAuthApp, frontendURL string, keys []document.SigningKey) document.OAuthApp {
	return document.OAuthApp{
		Slug:                           string(o.Spec.Slug),
		Name:                           named(o.Spec.DisplayName, string(o.Spec.Slug)),
		Description:                    ptr.Deref(described(o.Spec.Description), ""),
		LogoURL:                        string(ptr.Deref(o.Spec.LogoURL, "")),
		FQDN:                           string(ptr.Deref(o.Spec.FQDN, "")),
		AllowDynamicClientRegistration: ptr.Deref(o.Spec.AllowDynamicClientRegistration, false),
		Active:                         ptr.Deref(o.Spec.Active, true),
		Issuer:                         OAuthIssuer(o, frontendURL),
		FrontendURL:                    frontendURL,
		Resources:                      words(o.Spec.Resources),
		IDTokenSigningAlg:              string(ptr.Deref(o.Spec.IDTokenSigningAlg, "")),
		SigningKeys:                    keys,
	}
}

// OAuthScope translates an OAuthScope.
func OAuthScope(o *v1alpha1.OAuthScope) document.OAuthScope {
	return document.OAuthScope{
		App:                    o.Spec.OAuthAppRef.Name,
		Scope:                  o.Spec.Scope,
		DisplayName:            named(o.Spec.DisplayName, o.Spec.Scope),
		Description:            ptr.Deref(described(o.Spec.Description), ""),
		Archived:               ptr.Deref(o.Spec.Archived, false),
		Category:               string(ptr.Deref(o.Spec.Category, "")),
		OrganizationPermission: string(ptr.Deref(o.Spec.OrganizationPermission, "")),
		WorkspacePermission:    string(ptr.Deref(o.Spec.WorkspacePermission, "")),
	}
}

// The lifetimes of a client's tokens, in seconds, if it declares none.
const (
	defaultAccessTokenSeconds  = 600
	defaultRefreshTokenSeconds = 30 * 24 * 60 * 60
	defaultRefreshIdleSeconds  = 7 * 24 * 60 * 60
)

// OAuthClient translates an OAuthClient, with the verifiers of its secrets or the key set that verifies its signatures.
func OAuthClient(o *v1alpha1.OAuthClient, verifiers []document.Verifier, jwks json.RawMessage) document.OAuthClient {
	access, refresh := ptr.Deref(o.Spec.AccessToken, v1alpha1.AccessTokenSettings{}), ptr.Deref(o.Spec.RefreshToken, v1alpha1.RefreshTokenSettings{})
	content := document.OAuthClient{
		App: o.Spec.OAuthAppRef.Name, Name: named(o.Spec.DisplayName, o.Name),
		Authentication: string(ptr.Deref(o.Spec.Authentication, v1alpha1.ClientAuthenticationSecretBasic)),
		GrantTypes:     words(o.Spec.GrantTypes),
		RedirectURIs:   words(o.Spec.RedirectURIs), PostLogoutURIs: words(o.Spec.PostLogoutRedirectURIs),
		Verifiers: verifiers, JWKSURL: ptr.Deref(o.Spec.JWKSURL, ""), JWKS: jwks,
		SkipsConsent:         ptr.Deref(o.Spec.Consent, v1alpha1.ConsentRequired) == v1alpha1.ConsentSkip,
		OpaqueTokens:         ptr.Deref(access.Format, v1alpha1.AccessTokenFormatJWT) == v1alpha1.AccessTokenFormatOpaque,
		AccessTokenSeconds:   int64(ptr.Deref(access.LifetimeSeconds, defaultAccessTokenSeconds)),
		RefreshTokenSeconds:  int64(ptr.Deref(refresh.LifetimeSeconds, defaultRefreshTokenSeconds)),
		RefreshIdleSeconds:   int64(ptr.Deref(refresh.IdleSeconds, defaultRefreshIdleSeconds)),
		MachinePermissions:   words(o.Spec.MachinePermissions),
		IDTokenSigningAlg:    string(ptr.Deref(o.Spec.IDTokenSigningAlg, "")),
		UserinfoSigningAlg:   string(ptr.Deref(o.Spec.UserinfoSigningAlg, "")),
		BackchannelLogoutURI: ptr.Deref(o.Spec.BackchannelLogoutURI, ""),
		AllowedOrigins:       words(o.Spec.AllowedOrigins),
		RequirePAR:           ptr.Deref(o.Spec.RequirePAR, false),
		Scheme:               schemeName(o.Spec.RateLimitSchemeRef),
		LogoURL:              string(ptr.Deref(o.Spec.LogoURL, "")), ClientURI: string(ptr.Deref(o.Spec.ClientURI, "")),
		PolicyURI: string(ptr.Deref(o.Spec.PolicyURI, "")), TOSURI: string(ptr.Deref(o.Spec.TOSURI, "")),
		Active:    ptr.Deref(o.Spec.Active, true),
		Assurance: clientAssurance(o.Spec.Assurance),
	}
	if len(content.GrantTypes) == 0 {
		content.GrantTypes = []string{string(v1alpha1.GrantTypeAuthorizationCode)}
	}
	if o.Spec.Scopes != nil {
		content.Scopes = ptr.To(append([]string{}, words(o.Spec.Scopes)...)) // an empty list allows no scopes
	}
	if o.Spec.Resources != nil {
		content.Resources = ptr.To(append([]string{}, words(o.Spec.Resources)...))
	}
	if o.Spec.AllowedOrigins == nil && content.Authentication == string(v1alpha1.ClientAuthenticationNone) {
		content.AllowedOrigins = redirecturi.Origins(content.RedirectURIs)
	}
	return content
}
