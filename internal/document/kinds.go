package document

import (
	"encoding/json"
	"time"
)

// B2BSettings is the content of a B2BSettings, with effective values. Roles are names of MembershipRole resources, ""
// if none.
type B2BSettings struct {
	Enabled                bool   `json:"enabled"`
	AllowWorkspaceCreation bool   `json:"allow_workspace_creation"`
	DefaultWorkspaceLimit  int64  `json:"default_workspace_limit"`
	RequireOrgForSignup    bool   `json:"require_org_for_signup"`
	OrgRole                string `json:"org_role,omitempty"`
	WorkspaceRole          string `json:"workspace_role,omitempty"`
	// MaxOrganizationsPerUser is how many organizations a user may own; absent in documents of earlier versions.
	MaxOrganizationsPerUser *int64 `json:"max_organizations_per_user,omitempty"`
	// OwnerAssurance is what owners of organizations need, nil for nothing.
	OwnerAssurance *Requirement `json:"owner_assurance,omitempty"`
	// OrganizationAssuranceOff reports that what organizations require themselves has no effect.
	OrganizationAssuranceOff bool `json:"organization_assurance_off,omitempty"`
}

// OrganizationsPerUser is the effective MaxOrganizationsPerUser: 20 if it is absent.
func (b B2BSettings) OrganizationsPerUser() int64 {
	if b.MaxOrganizationsPerUser == nil {
		return 20
	}
	return *b.MaxOrganizationsPerUser
}

// DefaultB2BSettings returns the settings of a deployment that declares none.
func DefaultB2BSettings() B2BSettings {
	return B2BSettings{AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5}
}

// MembershipRole is the content of a MembershipRole.
type MembershipRole struct {
	Level       string   `json:"level"`
	Name        string   `json:"name"`
	Permissions []string `json:"permissions,omitempty"`
	// Assurance is what holders of the role need in its organization, nil for nothing.
	Assurance *Requirement `json:"assurance,omitempty"`
}

// JWTIssuer is an issuer of tokens that a deployment accepts, with effective values.
type JWTIssuer struct {
	Name string `json:"name"`
	// Issuer is "" for the Kubernetes API.
	Issuer     string   `json:"issuer,omitempty"`
	Audiences  []string `json:"audiences"`
	Algorithms []string `json:"algorithms"`
	// JWKSURL, JWKS (the key set itself) or Kubernetes says where keys come from.
	JWKSURL    string          `json:"jwks_url,omitempty"`
	JWKS       json.RawMessage `json:"jwks,omitempty"`
	Kubernetes bool            `json:"kubernetes,omitempty"`
	// OwnSessions reports that the deployment issues the tokens itself, with times of Cardea's own clock.
	OwnSessions bool `json:"own_sessions,omitempty"`
	// OAuthApp is the name of the OAuthApp resource that issues the tokens, "" for other issuers. Issuer and keys are
	// those of the app.
	OAuthApp string `json:"oauth_app,omitempty"`
	// MaxLifetimeSeconds bounds exp - iat; 0: DefaultMaxLifetimeSeconds, and no bound with Kubernetes.
	MaxLifetimeSeconds int32 `json:"max_lifetime_seconds,omitempty"`
	// PermissionsClaim or PermissionsExpression says what a token may do.
	PermissionsClaim      string `json:"permissions_claim,omitempty"`
	PermissionsExpression string `json:"permissions_expression,omitempty"`
}

// DefaultMaxLifetimeSeconds bounds the lifetime of tokens whose issuer's entry says nothing else: a day.
const DefaultMaxLifetimeSeconds = 24 * 60 * 60

// SigningKey is a key with which a deployment signs the tokens of its end users' sessions or the calls of its tools, or
// an OAuthApp signs its tokens.
type SigningKey struct {
	// ID is the key's id, its thumbprint (RFC 7638).
	ID string `json:"id"`
	// Public is the public key as a JSON Web Key.
	Public json.RawMessage `json:"public"`
	// Sealed is the private key (PKCS #8), sealed for the key's id and kind SealedSigningKey, SealedWebhookKey or, for an
	// OAuthApp, SealedOAuthKey.
	Sealed string `json:"sealed"`
	// CreatedAt is when it was created, nil if that is not known.
	CreatedAt *time.Time `json:"created_at,omitempty"`
	// ExpiresAt is when a previous key stops being accepted; nil for the current one.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}
