package oauth

import (
	"net/url"
	"slices"
	"strings"
)

// credentialsGrant issues a client a token of its own (RFC 6749 4.4). It writes no row.
type credentialsGrant struct{}

func (credentialsGrant) parse(c *call, form url.Values) (redemption, error) {
	scopes, err := machineScopes(c, form)
	if err != nil {
		return redemption{}, err
	}
	resources, err := resources(c, form["resource"])
	if err != nil {
		return redemption{}, err
	}
	claims := c.newAccessClaims(c.client.ID, resources, scopes, c.client.AccessTokenLifetime())
	claims.Permissions = c.client.MachinePermissions
	return redemption{own: &claims}, nil
}

// machineScopes returns the scopes of a client's own token. They are within the client's ceiling and have no category,
// because a category needs a user. If the request has no scope, it returns the client's declared ceiling, or none.
func machineScopes(c *call, form url.Values) ([]string, error) {
	asked, err := scopesOf(form.Get("scope"))
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for name, scope := range c.Scopes {
		own[name] = scope.Category == "" && c.MayAsk(c.client, name)
	}
	if !form.Has("scope") && c.client.Scopes != nil {
		return slices.DeleteFunc(slices.Clone(*c.client.Scopes), func(scope string) bool { return !own[scope] }), nil
	}
	for _, scope := range asked {
		if !own[scope] {
			return nil, invalidScope("a scope is unknown, archived, not the client's, or of a category that needs a user")
		}
	}
	return asked, nil
}

// scopesOf splits a list of scopes (RFC 6749 3.3), without duplicates.
func scopesOf(list string) ([]string, error) {
	var scopes []string
	named := map[string]bool{}
	for scope := range strings.SplitSeq(list, " ") {
		switch {
		case scope == "":
		case strings.ContainsFunc(scope, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }):
			return nil, invalidScope("a scope has a character that is not allowed in scopes")
		case !named[scope]:
			named[scope] = true
			scopes = append(scopes, scope)
		}
	}
	return scopes, nil
}

// resources returns the requested resources of a client's own token (RFC 8707).
func resources(c *call, asked []string) ([]string, error) {
	for _, resource := range asked {
		if !maySeek(c, c.client, resource) {
			return nil, invalidTarget("a resource is unknown, or not the client's")
		}
	}
	return slices.Compact(slices.Sorted(slices.Values(asked))), nil
}
