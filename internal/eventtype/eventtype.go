// Package eventtype has the names of the types of events, and the patterns that select them: the operator checks the
// patterns of WebhookEndpoints, and servers filter by them. Package events of the server describes the types.
package eventtype

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// MaxPatterns is the largest number of patterns of a filter.
const MaxPatterns = 64

// Versions has the version of each type. It counts the incompatible changes of the form of its data.
var Versions = map[string]int64{
	"user.created":                     1,
	"user.updated":                     1,
	"user.disabled":                    1,
	"user.enabled":                     1,
	"user.deleted":                     1,
	"user.password_changed":            1,
	"user.password_removed":            1,
	"user.password_reset":              1,
	"user.email_added":                 1,
	"user.email_verified":              1,
	"user.email_primary_changed":       1,
	"user.email_removed":               1,
	"user.phone_added":                 1,
	"user.phone_verified":              1,
	"user.phone_primary_changed":       1,
	"user.phone_removed":               1,
	"session.created":                  1,
	"session.ended":                    1,
	"session.revoked":                  1,
	"session.organization_switched":    1,
	"signin.failing":                   1,
	"organization.created":             1,
	"organization.updated":             1,
	"organization.deleted":             1,
	"workspace.created":                1,
	"workspace.updated":                1,
	"membership.created":               1,
	"membership.updated":               1,
	"membership.deleted":               1,
	"invitation.created":               1,
	"invitation.accepted":              1,
	"invitation.revoked":               1,
	"invitation.expired":               1,
	"api_key.created":                  1,
	"api_key.updated":                  1,
	"api_key.rotated":                  1,
	"api_key.revoked":                  1,
	"api_key.expired":                  1,
	"oauth.client.created":             1,
	"oauth.client.updated":             1,
	"oauth.client.secret_rotated":      1,
	"oauth.client.deleted":             1,
	"oauth.grant.created":              1,
	"oauth.grant.revoked":              1,
	"oauth.grant.lapsed":               1,
	"oauth.code_replayed":              1,
	"oauth.refresh_token_reused":       1,
	"import.completed":                 1,
	"agent.approval.requested":         1,
	"agent.approval.approved":          1,
	"agent.approval.denied":            1,
	"agent.approval.expired":           1,
	"configuration.created":            1,
	"configuration.updated":            1,
	"configuration.deleted":            1,
	"agent.tool_call.completed":        1,
	"rate_limit.exceeded":              1,
	"webhook_endpoint.failing":         1,
	"webhook_endpoint.recovered":       1,
	"webhook_endpoint.disabled":        1,
	"webhook_endpoint.backlog_expired": 1,
	"webhook_endpoint.enabled":         1,
}

// optIn has the types that can be too many for readers that did not ask for them.
var optIn = map[string]bool{"agent.tool_call.completed": true, "rate_limit.exceeded": true}

// OptIn reports whether only patterns select a type that name it, or all that its name has before the last dot: "*" and
// shorter prefixes do not.
func OptIn(name string) bool { return optIn[name] }

// Select returns the types that patterns select: "*" is all types that are not opt-in, "user.*" those whose name begins
// so, and every other pattern is a type. With "@1" at its end, a pattern selects only types of this version. The error
// names the pattern that selects nothing, and the nearest one that does.
func Select(patterns []string) (map[string]bool, error) {
	if len(patterns) > MaxPatterns {
		return nil, fmt.Errorf("%d patterns, at most %d are allowed", len(patterns), MaxPatterns)
	}
	selected := map[string]bool{}
	for _, pattern := range patterns {
		found := false
		for name, version := range Versions {
			if selects(pattern, name, version, OptIn(name)) {
				selected[name], found = true, true
			}
		}
		if !found {
			return nil, errNoType(pattern)
		}
	}
	return selected, nil
}

// Matches reports whether one of the patterns selects an event by its type and version, also of a type that only a
// later version of Cardea knows.
func Matches(patterns []string, name string, version int64) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return strings.Contains(name, ".") && selects(pattern, name, version, OptIn(name))
	})
}

// selects reports whether a pattern selects a version of a type.
func selects(pattern string, t string, version int64, optIn bool) bool {
	pattern, pin, pinned := strings.Cut(pattern, "@")
	if pinned && pin != strconv.FormatInt(version, 10) {
		return false
	}
	prefix, all := strings.CutSuffix(pattern, "*")
	if !all {
		return pattern == t
	}
	if optIn {
		return prefix == t[:strings.LastIndex(t, ".")+1]
	}
	return prefix == "" || strings.HasSuffix(prefix, ".") && strings.HasPrefix(t, prefix)
}

// errNoType is the error of a pattern that selects nothing. It names the version that the type has, or the pattern that
// is the most similar one.
func errNoType(pattern string) error {
	name, pin, pinned := strings.Cut(pattern, "@")
	if version, found := Versions[name]; found && pinned {
		return fmt.Errorf("%q selects no type of events: %s has no version %q, its version is %d", pattern, name, pin, version)
	}
	if len(name) > longestPattern {
		return fmt.Errorf("a pattern of %d characters, which selects no type of events: GET /events/types lists the types", len(pattern))
	}
	nearest, least := "", len(name)+longestPattern
	consider := func(known string) {
		if d := distance(name, known); d < least {
			nearest, least = known, d
		}
	}
	for _, name := range slices.Sorted(maps.Keys(Versions)) {
		consider(name)
		consider(name[:strings.LastIndex(name, ".")] + ".*")
	}
	return fmt.Errorf("%q selects no type of events: the nearest is %q, and GET /events/types lists the types", pattern, nearest)
}

// longestPattern is more than the length of each type, in bytes.
const longestPattern = 100

// distance is the least number of bytes that must be inserted, deleted or replaced to make one text of another.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			changed := before
			if a[i] != b[j] {
				changed++
			}
			before = row[j+1]
			row[j+1] = min(changed, before+1, row[j]+1)
		}
	}
	return row[len(b)]
}
