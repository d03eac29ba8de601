package management

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/authn"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/route"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// call is one request: the answer's status as it is written, and what the checks found out.
type call struct {
	route.Recorder
	// id is the request's, as the value of its header.
	id [1]string
	// received is when the request came.
	received  time.Time
	snapshot  *snapshot.Snapshot
	principal *authn.Principal
	body      []byte
}

type callKey struct{}

func callOf(r *http.Request) *call { return r.Context().Value(callKey{}).(*call) }

// pipeline routes and checks, in the documented order: 404 route, 405, 401, 415, 413, 403; what follows is the
// operation's.
type pipeline struct {
	api    *API
	router *route.Router
	routes map[string]openapi.Route
}

func newPipeline(api *API, routes map[string]openapi.Route) *pipeline {
	p := &pipeline{api: api, routes: routes}
	p.router = route.New(p.unrouted)
	return p
}

// HandleFunc implements openapi.ServeMux: the generated code registers each operation here.
func (p *pipeline) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	documentedAs, documented := p.routes[pattern]
	if !documented {
		panic(fmt.Sprintf("the generated code serves %s, which the document does not have: regenerate", pattern))
	}
	p.handlePublic(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := p.check(r, documentedAs, callOf(r)); err != nil {
			p.api.refuse(w, r, err)
			return
		}
		handler(w, r)
	})
}

// handlePublic registers what needs no credential.
func (p *pipeline) handlePublic(pattern string, handler http.HandlerFunc) {
	p.api.Metrics.Expect(pattern)
	p.router.HandleFunc(pattern, handler)
}

// ServeHTTP gives the request its id, routes it, and measures it.
func (p *pipeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{Recorder: route.Recorder{ResponseWriter: w, Status: http.StatusOK}, received: p.api.Clock()}
	c.id[0] = route.RequestID(r)
	w.Header()["X-Request-Id"] = c.id[:]
	// One copy of the request for all that is known of it: this is the hottest path there is.
	r = r.WithContext(context.WithValue(r.Context(), callKey{}, c))
	defer func() {
		if fault := recover(); fault != nil {
			p.api.refuse(c, r, fmt.Errorf("panic: %v", fault))
		}
		p.api.Metrics.Observe(r, c.Status, p.api.Clock().Sub(c.received))
	}()
	p.router.ServeHTTP(c, r)
}

// unrouted answers 405 where another method would match, else 404.
func (p *pipeline) unrouted(w http.ResponseWriter, r *http.Request, allow string) {
	if allow != "" {
		refused := apierror.New(http.StatusMethodNotAllowed, "this path does not take %s: use %s", r.Method, allow)
		refused.Header = http.Header{"Allow": {allow}}
		p.api.refuse(w, r, refused)
		return
	}
	p.api.refuse(w, r, apierror.New(http.StatusNotFound, "there is no such path: see /docs for those there are"))
}

// check authenticates and authorizes a request and reads its body.
func (p *pipeline) check(r *http.Request, asked openapi.Route, c *call) (err error) {
	c.snapshot = p.api.Snapshots.Current()
	if err := p.api.fresh(); err != nil {
		return err
	}
	c.principal, err = p.api.Authenticator.Authenticate(c.snapshot, r)
	if err != nil {
		return err
	}
	if asked.HasBody {
		if c.body, err = readBody(r); err != nil {
			return err
		}
	}
	if !c.principal.Allows(asked.Permission) {
		return apierror.New(http.StatusForbidden, "the credential lacks the permission %s: grant it to the key and to its app", asked.Permission)
	}
	if asked.Write && c.principal.Settings.ManagementWrites == "Disabled" {
		return apierror.New(http.StatusForbidden, "the deployment disables management writes (spec.management.writes): change the resource in Kubernetes instead")
	}
	return nil
}

// fresh refuses to authenticate on a snapshot that was never loaded, or is older than the operator of this server allows.
func (a *API) fresh() error {
	select {
	case <-a.Snapshots.Loaded():
	default:
		return apierror.Unavailable(nil, "the configuration is not loaded yet: try again")
	}
	if a.MaxStaleness > 0 && a.Snapshots.Staleness() > a.MaxStaleness {
		return apierror.Unavailable(nil, "the configuration could not be refreshed for too long (--max-staleness): try again")
	}
	return nil
}

func readBody(r *http.Request) ([]byte, error) {
	if err := body.RequireJSON(r); err != nil {
		return nil, err
	}
	return body.Read(r, body.MaxBackendBytes)
}
