package backend

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/caller"
	"github.com/cardea-iam/cardea/apiserver/backend/console"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/asset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/ids"
)

// call is one request: its response with the status, and the results of the checks.
type call struct {
	httpapi.Exchange
	api       *API
	r         *http.Request
	snapshot  *snapshot.Snapshot
	principal *credential.Principal
	// caller is the caller of an agent's tool, nil in other operations.
	caller *caller.Caller
	body   []byte

	context callContext
	// head is the buffer for the beginning of a short response.
	head [48]byte
}

type callKey struct{}

// callContext is the request's context with the call. It is part of the call to save an allocation, because this is the
// hottest path.
type callContext struct {
	context.Context
	call *call
}

// Value implements context.Context.
func (c *callContext) Value(key any) any {
	if key == (callKey{}) {
		return c.call
	}
	return c.Context.Value(key)
}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// tenant is the "namespace/name" of the credential's deployment.
func (c *call) tenant() string { return c.principal.Deployment.Deployment }

// overrides reports whether management writes take over fields that other managers declare.
func (c *call) overrides() bool {
	return c.principal.Settings.FieldConflicts == string(v1alpha1.FieldConflictsOverride)
}

// pipeline routes and checks in the documented order: 404 route, 405, 401, 415, 413, 403. The operation makes all
// further checks.
type pipeline struct {
	api     *API
	router  *httpapi.Router
	console *console.Console
}

func newPipeline(api *API) (p *pipeline, err error) {
	p = &pipeline{api: api}
	p.router = httpapi.New(p.unrouted)
	p.console, err = console.New()
	return p, err
}

// handle registers an operation with the requirements in the document.
func (p *pipeline) handle(pattern string, needs openapi.Route, serve operation) {
	p.handlePublic(pattern, func(_ http.ResponseWriter, r *http.Request) {
		c := callOf(r)
		c.r = r // with its pattern and path values
		err := p.check(c, needs)
		if err == nil {
			var answer reply
			if answer, err = serve(c); err == nil {
				c.send(answer)
				return
			}
		}
		c.Refuse(err)
	})
}

// handlePublic registers a handler that needs no credential.
func (p *pipeline) handlePublic(pattern string, handler http.HandlerFunc) {
	p.api.Metrics.Expect(pattern)
	p.router.HandleFunc(pattern, handler)
}

// ServeHTTP routes a request.
func (p *pipeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{api: p.api}
	c.Begin(w, r, p.api.Metrics, p.api.Clock)
	c.context = callContext{Context: r.Context(), call: c}
	r = r.WithContext(&c.context) // one copy of the request for all its values
	c.r = r
	defer c.End(r, c)
	p.router.ServeHTTP(c, r)
}

// unrouted responds with 405 if another method would match, otherwise 404. At the root, browsers get a page and other
// clients a 404.
func (p *pipeline) unrouted(_ http.ResponseWriter, r *http.Request, allow string) {
	if r.URL.EscapedPath() == "/" && asset.WantsPage(r) {
		p.console.ServeWelcome(callOf(r), r)
		return
	}
	if allow != "" {
		callOf(r).Refuse(apierror.MethodNotAllowed(r.Method, allow))
		return
	}
	callOf(r).Refuse(apierror.NoSuchPath("see /docs for the paths that are served"))
}

// check authenticates and authorizes a request and reads its body.
func (p *pipeline) check(c *call, needs openapi.Route) (err error) {
	c.snapshot = p.api.Snapshots.Current()
	if err := credential.Fresh(p.api.Snapshots, p.api.MaxStaleness); err != nil {
		return err
	}
	if err := c.authenticate(needs); err != nil {
		return err
	}
	switch {
	case needs.BodyOptional && c.r.ContentLength == 0:
		c.body = []byte("{}")
	case needs.HasBody:
		if c.body, err = readBody(c.r, needs.Lines); err != nil {
			return err
		}
	}
	if err := c.authorize(needs); err != nil {
		return err
	}
	if needs.Write && c.principal.Settings.ManagementWrites == string(v1alpha1.ManagementWritesDisabled) {
		return apierror.New(http.StatusForbidden, "the deployment disables management writes (spec.management.writes): change the resource in Kubernetes instead")
	}
	return c.limit()
}

// authenticate determines the principal. In an operation that takes the tokens for an agent, it also determines the
// caller of the agent's tool.
func (c *call) authenticate(needs openapi.Route) (err error) {
	if !needs.AgentTokens {
		c.principal, err = c.api.Authenticator.Authenticate(c.snapshot, c.r)
		return err
	}
	raw, err := credential.Bearer(c.r)
	if err != nil {
		return err
	}
	id, _ := ids.Parse(c.r.PathValue("agent_id")) // 0 is the id of no agent
	if c.caller, err = c.api.Callers.OfID(c.r.Context(), c.snapshot, id, raw, c.api.Authenticator.Proxies.ClientAddress(c.r)); err != nil {
		return err
	}
	c.principal = c.caller.Principal
	return nil
}

// authorize refuses a principal without the permission that the operation needs. A caller of an agent's tool has it as
// over the Model Context Protocol: keys that are bound may call, and users need no built-in permission.
func (c *call) authorize(needs openapi.Route) error {
	allowed := slices.ContainsFunc(needs.Permissions, c.principal.Allows)
	switch {
	case c.caller != nil:
		allowed = c.caller.MayCall()
	case c.principal.Bound:
		return apierror.New(http.StatusForbidden, "the key is bound to a user, an organization or a workspace and has no management permissions: use a key that is not bound")
	}
	if !allowed {
		return lacking(strings.Join(needs.Permissions, " or "))
	}
	return nil
}

// lacking is the error for a credential without a permission.
func lacking(permission string) error {
	return apierror.New(http.StatusForbidden, "the credential lacks the permission %s: grant it to the key and to its app", permission)
}

// limit counts a request of an API key by the scheme that binds it, and refuses it with 429 if the limit is exhausted.
// The tokens of callers of agents' tools are limited too.
func (c *call) limit() error {
	path := c.r.URL.EscapedPath()
	if canonical, err := engine.CanonicalPath(path); err == nil { // else as sent: a scope may contain an encoded slash
		path = canonical
	}
	client := c.api.Authenticator.Proxies.ClientAddress(c.r)
	if c.caller != nil {
		return c.api.bindings.CountAll(c.snapshot, c.principal, c.r, path, client, c.Header())
	}
	return c.api.bindings.Count(c.snapshot, c.principal, c.r, path, client, c.Header())
}

func readBody(r *http.Request, lines bool) ([]byte, error) {
	require := body.RequireJSON
	if lines {
		require = body.RequireLines
	}
	if err := require(r); err != nil {
		return nil, err
	}
	return body.Read(r, body.MaxBackendBytes)
}
