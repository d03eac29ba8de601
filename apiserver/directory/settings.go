// Package directory has the settings of the directories that organizations and backends set up, as their rows keep
// them.
package directory

import (
	"encoding/json"
	"fmt"

	"github.com/cardea-iam/cardea/internal/document"
)

// Settings are the settings of a directory.
type Settings struct {
	// GroupRoles give members a role. The first one whose group contains the user counts.
	GroupRoles []GroupRole `json:"group_roles,omitempty"`
	// Erases reports that DELETE of a user deletes the account that the directory created.
	Erases bool `json:"erases,omitempty"`
}

// GroupRole gives the members of a directory's group a role.
type GroupRole struct {
	// Group is the displayName of the group, compared exactly.
	Group string `json:"group"`
	// Role is the id of a MembershipRole of the level Organization.
	Role int64 `json:"role,string"`
}

const (
	// MaxGroupRoles is how many group roles a directory may have.
	MaxGroupRoles = 100
	// MaxGroup bounds the displayName of a group, in characters.
	MaxGroup = 256
)

// Read reads the settings of a row.
func Read(row string) (s Settings, err error) {
	if err = json.Unmarshal([]byte(row), &s); err != nil {
		err = fmt.Errorf("the settings of a directory: %w", err)
	}
	return s, err
}

// String returns the settings as a row keeps them.
func (s Settings) String() string {
	raw, _ := json.Marshal(s) // texts and ids: it does not fail
	return string(raw)
}

// Content returns the content that a Directory resource with these settings has, without roles, tokens and connection,
// which rows keep by id. organization is the slug of its organization.
func (s Settings) Content(slug, organization string, active bool) *document.Directory {
	return &document.Directory{Slug: slug, Organization: organization, Active: active, Erases: s.Erases}
}
