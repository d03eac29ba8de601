package document

// KindConnection is the kind of a connection, by its name in package v1alpha1.
const KindConnection = "Connection"

// SealedConnectionSecret is the kind of values that a Connection takes from a Secret.
const SealedConnectionSecret = "connection-secret"

// Connection is the content of a Connection, with effective values.
type Connection struct {
	Slug string `json:"slug"`
	// Type is OIDC, SAML, Google, Microsoft, GitHub, GitLab or Apple.
	Type    string `json:"type"`
	Name    string `json:"name"`
	LogoURL string `json:"logo_url,omitempty"`
	Active  bool   `json:"active"`
	// Shown reports that a deployment's connection is offered on the sign-in page, and an organization's by discovery.
	Shown bool `json:"shown,omitempty"`
	// Organization is the slug of the organization whose members sign in by it, "" for all users of the deployment.
	Organization string `json:"organization,omitempty"`
	// Domains are domains whose addresses the identity provider controls.
	Domains []string `json:"domains,omitempty"`
	// Enforcement is Optional, Domains or Members.
	Enforcement   string `json:"enforcement"`
	RefusesSignUp bool   `json:"refuses_sign_up,omitempty"`
	// TrustsEmail reports that the provider's claim verifies an address for a new account.
	TrustsEmail bool                 `json:"trusts_email,omitempty"`
	Attributes  ConnectionAttributes `json:"attributes"`
	Membership  ConnectionMembership `json:"membership"`
	// AMR and ACR are values of these claims that make a sign-in level 2; RequestsACR requests the latter.
	AMR         []string `json:"amr,omitempty"`
	ACR         []string `json:"acr,omitempty"`
	RequestsACR bool     `json:"requests_acr,omitempty"`
	// SessionSeconds is how long a sign-in lasts; 0: as long as the deployment's sessions.
	SessionSeconds  int64            `json:"session_seconds,omitempty"`
	SignOutUpstream bool             `json:"sign_out_upstream,omitempty"`
	Client          ConnectionClient `json:"client"`
	Scopes          []string         `json:"scopes"`
	Parameters      []Parameter      `json:"parameters,omitempty"`
	Provider        UpstreamProvider `json:"provider"`
	// SAML is nil for all other types.
	SAML *ConnectionSAML `json:"saml,omitempty"`
}

// ConnectionAttributes are names of claims, or of attributes of an assertion. For type SAML, "" stands for the first of
// the usual names that the assertion has.
type ConnectionAttributes struct {
	Email     string `json:"email"`
	FirstName string `json:"first_name"`
	LastName  string `json:"last_name"`
}

// ConnectionMembership is how users become members of the connection's organization.
type ConnectionMembership struct {
	JustInTime bool `json:"just_in_time,omitempty"`
	// RoleExpression is a CEL expression, "" for none. FirstOnly applies it at the first sign-in only.
	RoleExpression string `json:"role_expression,omitempty"`
	FirstOnly      bool   `json:"first_only,omitempty"`
}

// ConnectionClient is Cardea's registration at an identity provider.
type ConnectionClient struct {
	ID string `json:"id"`
	// Authentication is ClientSecretBasic, ClientSecretPost or PrivateKeyJWT.
	Authentication string `json:"authentication"`
	// Sealed is the client secret, or the private key in PEM (PKCS #8), sealed for the kind SealedConnectionSecret and the
	// connection's id; "" for an inactive connection.
	Sealed string `json:"sealed"`
}

// Parameter is a further parameter of authorization requests.
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// UpstreamProvider is the identity provider of a connection.
type UpstreamProvider struct {
	// Issuer is the expected issuer; of Microsoft, the one of its discovery document; "" for GitHub.
	Issuer string `json:"issuer,omitempty"`
	// The URLs replace discovery; "" stands for those of the discovery document.
	AuthorizationURL string `json:"authorization_url,omitempty"`
	TokenURL         string `json:"token_url,omitempty"`
	JWKSURL          string `json:"jwks_url,omitempty"`
	UserinfoURL      string `json:"userinfo_url,omitempty"`
	// Userinfo is IfMissing, Always or Never.
	Userinfo string   `json:"userinfo,omitempty"`
	FormPost bool     `json:"form_post,omitempty"`
	Algs     []string `json:"algs,omitempty"`
	// Tenant and AllowedTenants are Microsoft's, and HostedDomains Google's.
	Tenant         string   `json:"tenant,omitempty"`
	AllowedTenants []string `json:"allowed_tenants,omitempty"`
	HostedDomains  []string `json:"hosted_domains,omitempty"`
	// BaseURL is GitHub's, without a slash at its end.
	BaseURL string `json:"base_url,omitempty"`
	// TeamID and KeyID are Apple's.
	TeamID string `json:"team_id,omitempty"`
	KeyID  string `json:"key_id,omitempty"`
}

// When the userinfo endpoint is called; IfMissing: if the ID token has no email.
const (
	UserinfoIfMissing = "IfMissing"
	UserinfoAlways    = "Always"
	UserinfoNever     = "Never"
)

// ClientSecretBasic sends the client secret in the header Authorization (RFC 6749 2.3.1).
const ClientSecretBasic = "ClientSecretBasic"

// DefaultConnectionAttributes returns the names of the claims of OpenID Connect.
func DefaultConnectionAttributes() ConnectionAttributes {
	return ConnectionAttributes{Email: "email", FirstName: "given_name", LastName: "family_name"}
}

// DefaultScopes returns the scopes that are requested of an OpenID provider.
func DefaultScopes() []string { return []string{"openid", "email", "profile"} }

// IDTokenAlgs returns all accepted algorithms of ID tokens.
func IDTokenAlgs() []string { return []string{"RS256", "PS256", "ES256", "EdDSA"} }
