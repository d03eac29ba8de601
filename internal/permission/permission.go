// Package permission holds the names of what a credential may do on the management API, and how grants are combined.
package permission

import "slices"

// All satisfies every permission.
const All = "*"

// The built-in permissions; an app's own names never collide with them, for equal means built-in.
const (
	AnalyticsRead        = "analytics:read"
	OAuthAppsRead        = "oauth_apps:read"
	OAuthScopesWrite     = "oauth_scopes:write"
	AIToolsRead          = "ai_tools:read"
	AIAgentsRead         = "ai_agents:read"
	B2BSettingsRead      = "b2b_settings:read"
	B2BSettingsWrite     = "b2b_settings:write"
	RateLimitSchemesRead = "rate_limit_schemes:read"
	RateLimitSchemeWrite = "rate_limit_schemes:write"
	UsersRead            = "users:read"
	UsersWrite           = "users:write"
	OrganizationsWrite   = "organizations:write"
)

// Set is a set of permissions. The zero Set grants nothing.
type Set struct {
	all   bool
	names []string
}

// NewSet returns the set of the names; All grants everything.
func NewSet(names []string) Set {
	set := Set{all: slices.Contains(names, All), names: slices.Clone(names)}
	slices.Sort(set.names)
	set.names = slices.Compact(set.names)
	return set
}

// Allows tells whether the set grants a permission.
func (s Set) Allows(name string) bool {
	if s.all {
		return true
	}
	_, found := slices.BinarySearch(s.names, name)
	return found
}

// Within returns what both sets grant: a key's permissions count only within its app's.
func (s Set) Within(ceiling Set) Set {
	switch {
	case ceiling.all:
		return s
	case s.all:
		return ceiling
	}
	var both []string
	for _, name := range s.names {
		if ceiling.Allows(name) {
			both = append(both, name)
		}
	}
	return Set{names: both}
}

// Names returns the names in order.
func (s Set) Names() []string { return slices.Clone(s.names) }
