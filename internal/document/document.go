// Package document holds the payloads of config documents. The operator translates resources into payloads, and servers
// read them. A payload carries a version; readers ignore members they do not know and refuse versions they do not know.
package document

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// version is the payload version this binary writes. Members may be added within a version; a change of meaning needs
// the next one, which servers must be able to read before an operator writes it.
const version = 1

// Meta is the part of every document other than its content.
type Meta struct {
	// CreatedAt is the resource's creation time.
	CreatedAt time.Time `json:"created_at"`
	// UpdatedAt is when the content last changed, in microseconds.
	UpdatedAt time.Time `json:"updated_at"`
}

// B2BKey is the natural key of the one B2BSettings of a deployment.
const B2BKey = "b2b"

// ScopeKey is the natural key of an OAuthScope in its deployment: the name of the OAuthApp resource, a separator
// (U+001F) and the scope. Neither the name nor the scope can contain the separator.
func ScopeKey(app, scope string) string { return ScopePrefix(app) + scope }

// ScopePrefix begins the natural keys of an app's scopes.
func ScopePrefix(app string) string { return app + "\x1f" }

// Deployment is the content of an IdentityDeployment.
type Deployment struct {
	DisplayName   string   `json:"display_name"`
	Mode          string   `json:"mode"`
	FrontendHosts []string `json:"frontend_hosts,omitempty"`
	// DefaultScheme is the name of the default RateLimitScheme resource, "" if none.
	DefaultScheme    string      `json:"default_scheme,omitempty"`
	FieldConflicts   string      `json:"field_conflicts"`
	ManagementWrites string      `json:"management_writes"`
	JWTIssuers       []JWTIssuer `json:"jwt_issuers,omitempty"`
	// SigningKeys are the deployment's own keys, the current one first; none if the deployment signs nothing.
	SigningKeys []SigningKey `json:"signing_keys,omitempty"`
	// WebhookKeys are the Ed25519 keys that sign calls of tools of types function and webhook, the current one first; none
	// if the deployment has no frontend host.
	WebhookKeys []SigningKey `json:"webhook_keys,omitempty"`
	// OrganizationPermissions and WorkspacePermissions are the permission catalog: the permissions that roles of each
	// level may grant.
	OrganizationPermissions []string `json:"organization_permissions,omitempty"`
	WorkspacePermissions    []string `json:"workspace_permissions,omitempty"`
	// AllowedOrigins are the origins from which end users' browsers may call, in addition to those of FrontendHosts.
	AllowedOrigins []string `json:"allowed_origins,omitempty"`
	// Session and SignIn have effective values; read them through EffectiveSession and EffectiveSignIn, because
	// documents of earlier versions have neither.
	Session *SessionSettings `json:"session,omitempty"`
	SignIn  *SignInSettings  `json:"sign_in,omitempty"`
	// Email and SMS have effective values; nil: nothing is sent.
	Email *Email `json:"email,omitempty"`
	SMS   *SMS   `json:"sms,omitempty"`
	// Pages is nil if nothing is declared; read it through EffectivePages.
	Pages *Pages `json:"pages,omitempty"`
	// Assurance is nil in documents of earlier versions; read it through Strong.
	Assurance *Assurance `json:"assurance,omitempty"`
	// Connections is nil if nothing is declared; read it through EffectiveConnections.
	Connections *OrganizationConnections `json:"connections,omitempty"`
	// AddressRetentionDays is 0 if none is declared; read it through AddressRetention.
	AddressRetentionDays int `json:"address_retention_days,omitempty"`
}

// RateLimitScheme is the content of a RateLimitScheme, with its rules as sent.
type RateLimitScheme struct {
	Slug        string        `json:"slug"`
	Name        string        `json:"name"`
	Description *string       `json:"description,omitempty"`
	Rules       []scheme.Rule `json:"rules"`
}

// APIAuthApp is the content of an APIAuthApp.
type APIAuthApp struct {
	Slug        string   `json:"slug"`
	Name        string   `json:"name"`
	Description *string  `json:"description,omitempty"`
	Permissions []string `json:"permissions,omitempty"`
	Active      bool     `json:"active"`
	// Scheme is the name of the RateLimitScheme resource, "" if none.
	Scheme string `json:"scheme,omitempty"`
	// KeyPrefix begins the app's keys, "" if none is declared; read it through EffectiveKeyPrefix.
	KeyPrefix string `json:"key_prefix,omitempty"`
	// SelfService is nil if users cannot create keys for themselves.
	SelfService *KeySelfService `json:"self_service,omitempty"`
}

// KeySelfService says which keys of an app users may create for themselves, with effective values.
type KeySelfService struct {
	MaxKeysPerUser int      `json:"max_keys_per_user"`
	Permissions    []string `json:"permissions,omitempty"`
}

// EffectiveKeyPrefix is the prefix of the app's keys.
func (a APIAuthApp) EffectiveKeyPrefix() string {
	if a.KeyPrefix == "" {
		return apikey.DefaultPrefix
	}
	return a.KeyPrefix
}

// APIKey is the content of an APIKey: the data that verifies the key, never the key.
type APIKey struct {
	// App is the name of the APIAuthApp resource.
	App          string   `json:"app"`
	Name         string   `json:"name"`
	Permissions  []string `json:"permissions,omitempty"`
	AllowedCIDRs []string `json:"allowed_cidrs,omitempty"`
	// Scheme is the name of the RateLimitScheme resource, "" if none.
	Scheme string `json:"scheme,omitempty"`
	// Verifiers are the accepted keys: the current one first, then the previous one during an overlap.
	Verifiers []Verifier `json:"verifiers"`
	// Expired reports whether the key's lifetime was over when the operator wrote the document: the write that sets it
	// has the event. Servers refuse the key by the time of its verifier.
	Expired bool `json:"expired,omitempty"`
}

// Verifier verifies one key.
type Verifier struct {
	// ID is the public id.
	ID string `json:"id"`
	// Digest is the SHA-256 of the whole key.
	Digest apikey.Digest `json:"sha256"`
	Last4  string        `json:"last4"`
	// ExpiresAt is when the key stops being accepted; nil: never.
	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

type envelope struct {
	Version int             `json:"v"`
	Meta    Meta            `json:"meta"`
	Content json.RawMessage `json:"content"`
}

// Hash returns the content hash: 64 hexadecimal digits, equal for equal content of one kind. Meta is no part of it.
func Hash(kind string, content any) (string, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return "", fmt.Errorf("encode %s: %w", kind, err)
	}
	sum := sha256.Sum256(append([]byte(kind+"\x00"), raw...))
	return hex.EncodeToString(sum[:]), nil
}

// Encode writes a payload.
func Encode(meta Meta, content any) ([]byte, error) {
	raw, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	meta.CreatedAt, meta.UpdatedAt = meta.CreatedAt.UTC(), meta.UpdatedAt.UTC()
	return json.Marshal(envelope{Version: version, Meta: meta, Content: raw})
}

// DecodeMeta reads a payload's meta alone.
func DecodeMeta(payload []byte) (Meta, error) {
	var ignored struct{}
	return Decode(payload, &ignored)
}

// Decode reads a payload into content, a pointer.
func Decode(payload []byte, content any) (Meta, error) {
	var e envelope
	if err := json.Unmarshal(payload, &e); err != nil {
		return Meta{}, fmt.Errorf("decode payload: %w", err)
	}
	if e.Version != version {
		return Meta{}, fmt.Errorf("payload version %d is not supported; this binary reads version %d: upgrade servers before operators", e.Version, version)
	}
	if err := json.Unmarshal(e.Content, content); err != nil {
		return Meta{}, fmt.Errorf("decode content: %w", err)
	}
	return e.Meta, nil
}
