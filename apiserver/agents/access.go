package agents

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// checkOrigin refuses pages of other sites (section "Security" of the specification's transports), and lets those of
// declared origins read the response.
func (c *call) checkOrigin() error {
	origin, sent := c.r.Header["Origin"]
	if !sent {
		return nil
	}
	switch {
	case len(origin) == 1 && slices.Contains(c.settings.AllowedOrigins, origin[0]):
		header := c.Header()
		header.Add("Vary", "Origin")
		header.Set("Access-Control-Allow-Origin", origin[0])
		header.Set("Access-Control-Expose-Headers", "WWW-Authenticate, Retry-After, X-Request-Id")
		return nil
	case len(origin) == 1 && site.OwnOrigin(c.settings, c.r, origin[0]):
		return nil
	}
	return apierror.New(http.StatusForbidden, "requests of pages of this origin are refused: add the origin to spec.allowedOrigins of the IdentityDeployment")
}

// preflight responds to a CORS preflight request of a declared origin.
func (c *call) preflight() {
	header := c.Header()
	header.Set("Access-Control-Allow-Methods", http.MethodPost)
	header.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Accept, "+headerRevision+", "+headerMethod+", "+headerName)
	header.Set("Access-Control-Max-Age", "600")
	c.WriteHeader(http.StatusNoContent)
}

// authenticate identifies the caller. The refusal of every credential that the agent does not accept is the same; it
// names the metadata by which OAuth clients find the agent's authorization server (RFC 9728 5.1).
func (c *call) authenticate() error {
	raw, err := credential.Bearer(c.r)
	if err == nil {
		c.caller, err = c.Callers.Of(c.r.Context(), c.snapshot, c.agent, raw, c.Authenticator.Proxies.ClientAddress(c.r))
	}
	if refused := apierror.Of(err); err != nil && refused.Status == http.StatusUnauthorized {
		failure := ""
		if len(c.r.Header["Authorization"]) > 0 {
			failure = "invalid_token"
		}
		at := *refused
		at.Header = http.Header{"Www-Authenticate": {c.challenge(failure, c.scopesOf(c.content.Permissions))}}
		return &at
	}
	return err
}

// checkAccess refuses callers that may call none of the agent's tools.
func (c *call) checkAccess() error {
	if !c.caller.MayCall() {
		return apierror.New(http.StatusForbidden, "the credential lacks the permission %s: grant it to the key and to its app, or to the token", caller.Permission)
	}
	return c.require(c.content.Permissions)
}

// require refuses a caller without the permissions. The refusal names the scopes that an OAuth client needs, if its
// user can grant them.
func (c *call) require(permissions []string) error {
	if c.caller.Has(permissions) {
		return nil
	}
	refused := apierror.New(http.StatusForbidden, "the caller lacks a permission of this agent: %s", strings.Join(permissions, ", "))
	if c.caller.CanObtain(permissions) {
		refused = apierror.New(http.StatusForbidden, "the access token lacks a scope: request one with the scopes in WWW-Authenticate")
		refused.Header = http.Header{"Www-Authenticate": {c.challenge("insufficient_scope", c.caller.ScopesFor(permissions))}}
	}
	return refused
}

// sees reports whether the caller may call a tool, at once or after its user granted further scopes.
func (c *call) sees(t *toolset.Tool) bool { return c.caller.CanObtain(t.Content.Permissions) }

// lists reports whether the list of a caller has a tool: one that it may call, with the user that the call needs.
func (c *call) lists(t *snapshot.Tool) bool {
	return c.caller.CanObtain(t.Permissions) && c.missingPerson(t) == ""
}

// challenge returns the value of WWW-Authenticate (RFC 6750 3, RFC 9728 5.1).
func (c *call) challenge(failure string, scopes []string) string {
	var parameters []string
	if failure != "" {
		parameters = append(parameters, fmt.Sprintf("error=%q", failure))
	}
	if len(scopes) > 0 {
		parameters = append(parameters, fmt.Sprintf("scope=%q", strings.Join(scopes, " ")))
	}
	if _, accepted := c.app(); accepted {
		parameters = append(parameters, fmt.Sprintf("resource_metadata=%q", caller.MetadataURL(c.agent)))
	}
	return strings.TrimSpace("Bearer " + strings.Join(parameters, ", "))
}
