package document

import (
	"cmp"
	"encoding/json"
	"time"
)

// Kinds that the store knows, by their names in package v1alpha1: those that users grant access to, that of
// deployments, and those of API keys.
const (
	KindIdentityDeployment = "IdentityDeployment"

	KindAPIAuthApp = "APIAuthApp"
	KindAPIKey     = "APIKey"

	KindOAuthApp    = "OAuthApp"
	KindOAuthClient = "OAuthClient"
)

// OAuthApp is the content of an OAuthApp.
type OAuthApp struct {
	Slug                           string `json:"slug"`
	Name                           string `json:"name"`
	Description                    string `json:"description,omitempty"`
	LogoURL                        string `json:"logo_url,omitempty"`
	FQDN                           string `json:"fqdn,omitempty"`
	AllowDynamicClientRegistration bool   `json:"allow_dynamic_client_registration,omitempty"`
	Active                         bool   `json:"active"`
	// Issuer is the issuer of the app's tokens, without a slash at its end; "" if the app has none, and in documents of
	// earlier versions.
	Issuer string `json:"issuer,omitempty"`
	// FrontendURL is where users are asked for consent: a URL of the deployment's first frontend host, without a slash
	// at its end; "" without hosts.
	FrontendURL string `json:"frontend_url,omitempty"`
	// Resources are the protected resources for which tokens may be issued, in addition to the issuer.
	Resources []string `json:"resources,omitempty"`
	// IDTokenSigningAlg is ES256 or RS256; read it through EffectiveIDTokenSigningAlg.
	IDTokenSigningAlg string `json:"id_token_signing_alg,omitempty"`
	// SigningKeys are the keys of both algorithms, the current ones first; none without a root key.
	SigningKeys []SigningKey `json:"signing_keys,omitempty"`
}

// EffectiveIDTokenSigningAlg returns the algorithm for ID tokens of clients that name no other.
func (a *OAuthApp) EffectiveIDTokenSigningAlg() string { return cmp.Or(a.IDTokenSigningAlg, "ES256") }

// OAuthScope is the content of an OAuthScope.
type OAuthScope struct {
	// App is the name of the OAuthApp resource.
	App                    string `json:"app"`
	Scope                  string `json:"scope"`
	DisplayName            string `json:"display_name"`
	Description            string `json:"description,omitempty"`
	Archived               bool   `json:"archived,omitempty"`
	Category               string `json:"category,omitempty"`
	OrganizationPermission string `json:"organization_permission,omitempty"`
	WorkspacePermission    string `json:"workspace_permission,omitempty"`
}

// OAuthClient is the content of an OAuthClient, with effective values: the data that verifies its secret, never the
// secret.
type OAuthClient struct {
	// App is the name of the OAuthApp resource.
	App  string `json:"app"`
	Name string `json:"name"`
	// Authentication is ClientSecretBasic, ClientSecretPost, PrivateKeyJWT or None.
	Authentication string   `json:"authentication"`
	GrantTypes     []string `json:"grant_types"`
	RedirectURIs   []string `json:"redirect_uris,omitempty"`
	PostLogoutURIs []string `json:"post_logout_uris,omitempty"`
	// Verifiers are the accepted secrets: the current one first, then the previous one during an overlap.
	Verifiers []Verifier `json:"verifiers,omitempty"`
	// JWKSURL or JWKS (the key set itself) says which keys verify the client's signatures.
	JWKSURL string          `json:"jwks_url,omitempty"`
	JWKS    json.RawMessage `json:"jwks,omitempty"`
	// Scopes are the scopes that the client may request; nil: all scopes of the app.
	Scopes *[]string `json:"scopes,omitempty"`
	// Resources are the resources for which the client may request tokens; nil: all resources of the app.
	Resources *[]string `json:"resources,omitempty"`
	// SkipsConsent reports whether users are not asked for consent.
	SkipsConsent bool `json:"skips_consent,omitempty"`
	// OpaqueTokens reports that access tokens are no JWTs.
	OpaqueTokens         bool     `json:"opaque_tokens,omitempty"`
	AccessTokenSeconds   int64    `json:"access_token_seconds"`
	RefreshTokenSeconds  int64    `json:"refresh_token_seconds"`
	RefreshIdleSeconds   int64    `json:"refresh_idle_seconds"`
	MachinePermissions   []string `json:"machine_permissions,omitempty"`
	IDTokenSigningAlg    string   `json:"id_token_signing_alg,omitempty"`
	UserinfoSigningAlg   string   `json:"userinfo_signing_alg,omitempty"`
	BackchannelLogoutURI string   `json:"backchannel_logout_uri,omitempty"`
	AllowedOrigins       []string `json:"allowed_origins,omitempty"`
	RequirePAR           bool     `json:"require_par,omitempty"`
	// Scheme is the name of the RateLimitScheme resource, "" if none.
	Scheme    string `json:"scheme,omitempty"`
	LogoURL   string `json:"logo_url,omitempty"`
	ClientURI string `json:"client_uri,omitempty"`
	PolicyURI string `json:"policy_uri,omitempty"`
	TOSURI    string `json:"tos_uri,omitempty"`
	Active    bool   `json:"active"`
	// Assurance is what the client requires of its users, nil for nothing.
	Assurance *ClientAssurance `json:"assurance,omitempty"`
}

// AccessTokenLifetime is how long an access token lives.
func (c *OAuthClient) AccessTokenLifetime() time.Duration {
	return time.Duration(c.AccessTokenSeconds) * time.Second
}
