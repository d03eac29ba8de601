package connection

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// Settings are the settings of a connection that an organization or a backend set up, as its row keeps them.
type Settings struct {
	// Type is TypeOIDC.
	Type string `json:"type"`
	// Name is what users see.
	Name     string `json:"name"`
	Issuer   string `json:"issuer"`
	ClientID string `json:"client_id"`
	// Enforcement is Optional, Domains or Members.
	Enforcement string        `json:"enforcement"`
	JustInTime  bool          `json:"just_in_time,omitempty"`
	Mappings    []RoleMapping `json:"role_mappings,omitempty"`
	// ProviderAt is when the issuer, the client id or the client secret was changed last. Earlier sign-ins do not show
	// that the connection works.
	ProviderAt time.Time `json:"provider_at"`
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
// connection's organization, "" for none, and sealed the sealed client secret.
func (s Settings) Content(slug string, active bool, organization, sealed string) *document.Connection {
	return &document.Connection{
		Slug: slug, Type: s.Type, Name: s.Name, Active: active, Shown: true, Organization: organization, Enforcement: s.Enforcement,
		Attributes: document.DefaultConnectionAttributes(),
		Membership: document.ConnectionMembership{JustInTime: s.JustInTime},
		Client:     document.ConnectionClient{ID: s.ClientID, Authentication: document.ClientSecretBasic, Sealed: sealed},
		Scopes:     document.DefaultScopes(),
		Provider:   document.UpstreamProvider{Issuer: s.Issuer, Userinfo: document.UserinfoIfMissing, Algs: document.IDTokenAlgs()},
	}
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
