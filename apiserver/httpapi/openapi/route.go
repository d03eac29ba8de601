package openapi

import (
	"slices"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// Session is the session that an end-user operation needs.
type Session int

const (
	// NoSession is for operations that do not read the session cookie. Their response is the same for every browser.
	NoSession Session = iota
	// AnySession is for operations that take a request with or without an active sign-in.
	AnySession
	// SignedIn is for operations that need an active sign-in.
	SignedIn
	// Fresh is for operations that need an active sign-in whose user authenticated recently, within the deployment's
	// limit.
	Fresh
)

// NoDailyLimit is the daily limit of an operation that declares "none". Other limits bound the rows that it creates.
const NoDailyLimit = -1

// Route is what an operation needs of a request, as the document declares it.
type Route struct {
	// Permissions are the built-in permissions of which the credential must have one (x-cardea-permission).
	Permissions []string
	// AgentTokens reports that the operation also takes users' tokens for an agent's URL (security: userToken).
	AgentTokens bool
	// Session is the session that an end-user operation needs (security; x-cardea-session: fresh).
	Session Session
	// Held reports that an end-user operation is open to a sign-in that has proven less than its account or deployment
	// requires (x-cardea-held: open).
	Held bool
	// Confined reports that an end-user operation is open to a sign-in that is confined to an organization; it must look
	// at the organization itself (x-cardea-confined: open).
	Confined bool
	// Setup are the intents of setup links whose sessions may use an end-user operation without a signed-in user
	// (x-cardea-setup, separated by spaces). One of them suffices.
	Setup []string
	// CrossSite reports that pages of other sites may send the browser to an end-user operation (x-cardea-origin: any).
	CrossSite bool
	// Write reports that the operation changes resources or rows (x-cardea-write).
	Write bool
	// DailyLimit is how many requests of one signed-in user may succeed in a day (x-cardea-daily-limit): NoDailyLimit if
	// the document says "none", 0 if the document declares no limit.
	DailyLimit int
	// HasBody reports that the operation reads a body.
	HasBody bool
	// BodyOptional reports that a request may have no body: the server reads an empty object then.
	BodyOptional bool
	// Lines reports that the body is JSON Lines, in place of one JSON object.
	Lines bool
}

// Routes returns every operation by its "METHOD /path/{parameter}". Callers must not change them.
func (d *Document) Routes() map[string]Route { return d.routes }

func routesOf(spec *openapi3.T) map[string]Route {
	routes := map[string]Route{}
	for path, item := range spec.Paths.Map() {
		for method, op := range item.Operations() {
			routes[method+" "+path] = routeOf(op)
		}
	}
	return routes
}

func routeOf(op *openapi3.Operation) Route {
	route := Route{Permissions: permissions(op), Session: session(op), DailyLimit: dailyLimit(op)}
	route.Write, _ = op.Extensions["x-cardea-write"].(bool)
	route.AgentTokens = op.Security != nil && slices.ContainsFunc(*op.Security, func(one openapi3.SecurityRequirement) bool { _, named := one["userToken"]; return named })
	route.Confined = op.Extensions["x-cardea-confined"] == "open"
	setup, _ := op.Extensions["x-cardea-setup"].(string)
	route.Setup = strings.Fields(setup)
	route.CrossSite = op.Extensions["x-cardea-origin"] == "any"
	route.Held = op.Extensions["x-cardea-held"] == "open"
	if op.RequestBody != nil {
		route.HasBody, route.BodyOptional = true, !op.RequestBody.Value.Required
		route.Lines = op.RequestBody.Value.Content.Get(MediaTypeLines) != nil
	}
	return route
}

// permissions returns the permissions that an operation names: one, or a list of which one is enough.
func permissions(op *openapi3.Operation) []string {
	switch named := op.Extensions["x-cardea-permission"].(type) {
	case string:
		return []string{named}
	case []any:
		names := make([]string, len(named))
		for i := range named {
			names[i], _ = named[i].(string)
		}
		return names
	}
	return nil
}

// session returns the session that an operation needs. An empty `security` list means NoSession. A list with several
// alternatives means AnySession. A list with one alternative means SignedIn. An operation without `security` inherits
// the document's, which requires a session: SignedIn. Any value of x-cardea-session means Fresh, so that a misspelled
// value does not weaken the check.
func session(op *openapi3.Operation) Session {
	switch {
	case op.Extensions["x-cardea-session"] != nil:
		return Fresh
	case op.Security == nil:
		return SignedIn
	case len(*op.Security) == 0:
		return NoSession
	case len(*op.Security) > 1:
		return AnySession
	}
	return SignedIn
}

// dailyLimit returns the limit that an operation declares, 0 if it declares neither a number nor "none".
func dailyLimit(op *openapi3.Operation) int {
	declared := op.Extensions["x-cardea-daily-limit"]
	if declared == "none" {
		return NoDailyLimit
	}
	limit, _ := declared.(float64)
	return int(limit)
}
