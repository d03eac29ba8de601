package document

import (
	"encoding/json"
	"time"

	"github.com/cardea-iam/cardea/internal/schemafield"
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

// SealedToolHeader is the kind under which the value of a tool's header is sealed, for ToolHeaderID.
const SealedToolHeader = "ai-tool-header"

// ToolHeaderID returns the id to which the sealed value of a header is bound, of the tool's id in the API.
func ToolHeaderID(tool, header string) string { return tool + "/" + header }

// AITool is the content of an AITool. Header values that come from Secrets are part of it only sealed.
type AITool struct {
	Name                 string              `json:"name"`
	Description          string              `json:"description,omitempty"`
	Type                 string              `json:"type"`
	Active               bool                `json:"active"`
	RequiresUserApproval bool                `json:"requires_user_approval,omitempty"`
	Endpoint             string              `json:"endpoint,omitempty"`
	Method               string              `json:"method"`
	TimeoutSeconds       int64               `json:"timeout_seconds"`
	Headers              []ToolHeader        `json:"headers,omitempty"`
	Parameters           []ToolParameter     `json:"parameters,omitempty"`
	Authorization        ToolAuthorization   `json:"authorization"`
	RequestBodySchema    []schemafield.Field `json:"request_body_schema,omitempty"`
	URLParamsSchema      []schemafield.Field `json:"url_params_schema,omitempty"`
}

// ToolHeader is a header of a tool.
type ToolHeader struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	// Secret reports that the value comes from a Secret.
	Secret bool `json:"secret,omitempty"`
	// Sealed is the value of the Secret, sealed for kind SealedToolHeader; "" while it may not be used, and in documents
	// of earlier versions. It is never served.
	Sealed string `json:"sealed,omitempty"`
}

// ToolParameter is a parameter of a tool.
type ToolParameter struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

// ToolAuthorization says how a tool's requests are authorized.
type ToolAuthorization struct {
	AuthorizeAsUser bool                `json:"authorize_as_user,omitempty"`
	JWTTemplateID   string              `json:"jwt_template_id,omitempty"`
	CustomHeaders   []schemafield.Field `json:"custom_headers,omitempty"`
}

// AIAgent is the content of an AIAgent.
type AIAgent struct {
	Name         string `json:"name"`
	Description  string `json:"description,omitempty"`
	Model        string `json:"model,omitempty"`
	SystemPrompt string `json:"system_prompt,omitempty"`
	// Temperature is a decimal number as declared, "" if absent.
	Temperature string `json:"temperature,omitempty"`
	MaxTokens   *int64 `json:"max_tokens,omitempty"`
	// Tools are the names of AITool resources, in declared order.
	Tools          []string `json:"tools,omitempty"`
	KnowledgeBases []string `json:"knowledge_bases,omitempty"`
	Active         bool     `json:"active"`
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

// SigningKey is a key with which a deployment signs the tokens of its end users' sessions, or an OAuthApp signs its
// tokens.
type SigningKey struct {
	// ID is the key's id, its thumbprint (RFC 7638).
	ID string `json:"id"`
	// Public is the public key as a JSON Web Key.
	Public json.RawMessage `json:"public"`
	// Sealed is the private key (PKCS #8), sealed for the key's id and kind SealedSigningKey or, for an OAuthApp,
	// SealedOAuthKey.
	Sealed string `json:"sealed"`
	// CreatedAt is when it was created, nil if that is not known.
	CreatedAt *time.Time `json:"created_at,omitempty"`
	// ExpiresAt is when a previous key stops being accepted; nil for the current one.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}
