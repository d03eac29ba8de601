package connection

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// Settings are the settings of a connection that an organization or a backend set up, as its row keeps them.
type Settings struct {
	// Type is TypeOIDC or TypeSAML.
	Type string `json:"type"`
	// Name is what users see.
	Name string `json:"name"`
	// Issuer and ClientID are "" for type SAML, and SAML is nil for type OIDC.
	Issuer   string        `json:"issuer"`
	ClientID string        `json:"client_id"`
	SAML     *SAMLSettings `json:"saml,omitempty"`
	// Enforcement is Optional, Domains or Members.
	Enforcement string        `json:"enforcement"`
	JustInTime  bool          `json:"just_in_time,omitempty"`
	Mappings    []RoleMapping `json:"role_mappings,omitempty"`
	// ProviderAt is when the issuer, the client id, the client secret or what is known of a provider of SAML was changed
	// last. Earlier sign-ins do not show that the connection works.
	ProviderAt time.Time `json:"provider_at"`
}

// SAMLSettings are the settings of a connection of type SAML alone.
type SAMLSettings struct {
	SAMLProvider
	// ServiceEntityID is the entity ID of the connection as a service provider. It never changes.
	ServiceEntityID string `json:"service_entity_id"`
	// Certificate is the certificate of the connection's own key in PEM. The private key is among the secrets of the row.
	Certificate string `json:"certificate"`
}

// SAMLProvider is what an organization or a backend states of an identity provider of SAML: the URL of its metadata, or
// what the metadata says. Neither: nothing yet.
type SAMLProvider struct {
	MetadataURL string                 `json:"metadata_url,omitempty"`
	Given       *document.SAMLMetadata `json:"given,omitempty"`
}

// Source returns what decides which identity provider it is: the URL of the metadata or the entity ID, "" if nothing is
// stated.
func (p SAMLProvider) Source() string {
	switch {
	case p.MetadataURL != "":
		return "url " + p.MetadataURL
	case p.Given != nil:
		return "entity " + p.Given.EntityID
	}
	return ""
}

// equal reports whether two statements are the same.
func (p SAMLProvider) equal(other SAMLProvider) bool {
	own, _ := json.Marshal(p) // texts, bytes and times: it does not fail
	others, _ := json.Marshal(other)
	return bytes.Equal(own, others)
}

// RoleMapping gives a role to members with a value of a claim.
type RoleMapping struct {
	Claim string `json:"claim"`
	Value string `json:"value"`
	// Role is the id of a MembershipRole of the level Organization.
	Role int64 `json:"role,string"`
}

// MaxRoleMappings is how many mappings a connection may have.
const MaxRoleMappings = 50

// ReadSettings reads the settings of a row.
func ReadSettings(row string) (s Settings, err error) {
	if err = json.Unmarshal([]byte(row), &s); err != nil {
		err = fmt.Errorf("the settings of a connection: %w", err)
	}
	return s, err
}

// String returns the settings as a row keeps them.
func (s Settings) String() string {
	raw, _ := json.Marshal(s) // texts, times and ids: it does not fail
	return string(raw)
}

// Content returns the content that a Connection resource with these settings has. organization is the slug of the
// connection's organization, "" for none, and sealed the sealed client secret or private key.
func (s Settings) Content(slug string, active bool, organization, sealed string) *document.Connection {
	c := &document.Connection{
		Slug: slug, Type: s.Type, Name: s.Name, Active: active, Shown: true, Organization: organization, Enforcement: s.Enforcement,
		Membership: document.ConnectionMembership{JustInTime: s.JustInTime},
	}
	if s.SAML != nil {
		c.SAML = s.SAML.content(sealed)
		if given := c.SAML.Given; given != nil {
			c.Provider.Issuer = given.EntityID
		}
		return c
	}
	c.Attributes, c.Scopes = document.DefaultConnectionAttributes(), document.DefaultScopes()
	c.Client = document.ConnectionClient{ID: s.ClientID, Authentication: document.ClientSecretBasic, Sealed: sealed}
	c.Provider = document.UpstreamProvider{Issuer: s.Issuer, Userinfo: document.UserinfoIfMissing, Algs: document.IDTokenAlgs()}
	return c
}

func (s SAMLSettings) content(sealed string) *document.ConnectionSAML {
	return &document.ConnectionSAML{
		MetadataURL: s.MetadataURL, Given: s.Given, ServiceEntityID: s.ServiceEntityID, SkewSeconds: document.DefaultSAMLSkewSeconds,
		Keys: []document.SAMLKey{{Certificate: s.Certificate, Sealed: sealed}},
	}
}

// IsComplete reports whether users can sign in by a connection with the settings and some sealed secrets.
func (s Settings) IsComplete(secrets string) bool {
	if s.SAML != nil {
		return s.SAML.Source() != "" && secrets != ""
	}
	return s.Issuer != "" && s.ClientID != "" && secrets != ""
}

// MappedRoles returns the roles of the mappings that claims satisfy, in the order of the mappings. A claim satisfies a
// mapping if it is the value, or a list with it.
func MappedRoles(mappings []RoleMapping, claims map[string]any) (roles []int64) {
	for _, m := range mappings {
		if has(claims[m.Claim], m.Value) {
			roles = append(roles, m.Role)
		}
	}
	return roles
}

func has(claim any, value string) bool {
	switch claim := claim.(type) {
	case string:
		return claim == value
	case []any:
		for _, one := range claim {
			if one == any(value) {
				return true
			}
		}
	}
	return false
}
