package management

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/authn"
	"github.com/cardea-iam/cardea/apiserver/openapi"
	"github.com/cardea-iam/cardea/apiserver/problem"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
)

// maxBody is the longest request body, in bytes.
const maxBody = 1 << 20

// call is one request: the answer's status as it is written, and what the checks found out.
type call struct {
	recorder
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
	api *API
	// mux serves; what it has no route for falls to unrouted, so that a request is matched once.
	mux *http.ServeMux
	// bare has the same routes and no fallback: it knows which methods a path takes.
	bare   *http.ServeMux
	routes map[string]openapi.Route
}

func newPipeline(api *API, routes map[string]openapi.Route) *pipeline {
	p := &pipeline{api: api, mux: http.NewServeMux(), bare: http.NewServeMux(), routes: routes}
	p.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		r.Pattern = ""
		p.unrouted(w, r)
	})
	return p
}

// HandleFunc implements openapi.ServeMux: the generated code registers each operation here.
func (p *pipeline) HandleFunc(pattern string, handler func(http.ResponseWriter, *http.Request)) {
	route, documented := p.routes[pattern]
	if !documented {
		panic(fmt.Sprintf("the generated code serves %s, which the document does not have: regenerate", pattern))
	}
	p.handlePublic(pattern, func(w http.ResponseWriter, r *http.Request) {
		if err := p.check(r, route, callOf(r)); err != nil {
			p.api.refuse(w, r, err)
			return
		}
		handler(w, r)
	})
}

// handlePublic registers what needs no credential.
func (p *pipeline) handlePublic(pattern string, handler http.HandlerFunc) {
	p.api.Metrics.expect(pattern)
	p.mux.HandleFunc(pattern, handler)
	p.bare.HandleFunc(pattern, handler)
}

// ServeHTTP gives the request its id, routes it, and measures it.
func (p *pipeline) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{recorder: recorder{ResponseWriter: w, status: http.StatusOK}, received: p.api.Clock()}
	c.id[0] = requestID(r)
	w.Header()["X-Request-Id"] = c.id[:]
	// One copy of the request for all that is known of it: this is the hottest path there is.
	r = r.WithContext(context.WithValue(problem.WithRequestID(r.Context(), c.id[0]), callKey{}, c))
	defer func() {
		if fault := recover(); fault != nil {
			p.api.refuse(c, r, fmt.Errorf("panic: %v", fault))
		}
		p.api.Metrics.observe(r, c.status, p.api.Clock().Sub(c.received))
	}()
	if !routable(r) {
		p.unrouted(c, r)
		return
	}
	p.mux.ServeHTTP(c, r)
}

// routable tells whether the mux may see a request. It would clean some paths and redirect, but a redirect turns one
// request into two and loses the body of a write.
func routable(r *http.Request) bool {
	escaped := r.URL.EscapedPath()
	return r.Method != http.MethodConnect && strings.HasPrefix(escaped, "/") && (escaped == "/" || path.Clean(escaped) == escaped)
}

// unrouted answers 405 where another method would match, else 404.
func (p *pipeline) unrouted(w http.ResponseWriter, r *http.Request) {
	if routable(r) {
		handler, _ := p.bare.Handler(r)
		probe := &headerProbe{header: http.Header{}}
		handler.ServeHTTP(probe, r)
		if probe.status == http.StatusMethodNotAllowed {
			refused := problem.New(http.StatusMethodNotAllowed, "this path does not take %s: use %s", r.Method, probe.header.Get("Allow"))
			refused.Header = http.Header{"Allow": probe.header["Allow"]}
			p.api.refuse(w, r, refused)
			return
		}
	}
	p.api.refuse(w, r, problem.New(http.StatusNotFound, "there is no such path: see /docs for those there are"))
}

// check authenticates and authorizes a request and reads its body.
func (p *pipeline) check(r *http.Request, route openapi.Route, c *call) (err error) {
	c.snapshot = p.api.Snapshots.Current()
	if err := p.api.fresh(); err != nil {
		return err
	}
	c.principal, err = p.api.Authenticator.Authenticate(c.snapshot, r)
	if err != nil {
		return err
	}
	if route.HasBody {
		if c.body, err = readBody(r); err != nil {
			return err
		}
	}
	if !c.principal.Allows(route.Permission) {
		return problem.New(http.StatusForbidden, "the credential lacks the permission %s: grant it to the key and to its app", route.Permission)
	}
	if route.Write && c.principal.Settings.ManagementWrites == "Disabled" {
		return problem.New(http.StatusForbidden, "the deployment disables management writes (spec.management.writes): change the resource in Kubernetes instead")
	}
	return nil
}

// fresh refuses to authenticate on a snapshot that was never loaded, or is older than the operator of this server allows.
func (a *API) fresh() error {
	select {
	case <-a.Snapshots.Loaded():
	default:
		return problem.Unavailable(nil, "the configuration is not loaded yet: try again")
	}
	if a.MaxStaleness > 0 && a.Snapshots.Staleness() > a.MaxStaleness {
		return problem.Unavailable(nil, "the configuration could not be refreshed for too long (--max-staleness): try again")
	}
	return nil
}

func readBody(r *http.Request) ([]byte, error) {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" || len(r.Header.Values("Content-Type")) > 1 {
		return nil, problem.New(http.StatusUnsupportedMediaType, "the Content-Type is not application/json: send JSON and say so")
	}
	if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return nil, problem.New(http.StatusUnsupportedMediaType, "the charset is not UTF-8: send JSON in UTF-8")
	}
	tooLarge := problem.New(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes: send a shorter one", maxBody)
	if r.ContentLength > maxBody {
		return nil, tooLarge
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		bad := problem.New(http.StatusBadRequest, "the body could not be read to its end: send it again")
		bad.Cause = err
		return nil, bad
	}
	if len(raw) > maxBody {
		return nil, tooLarge
	}
	return raw, nil
}

// refuse answers with an error and logs what is the server's own fault.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problem.Write(w, r, err)
	if p.Status >= 500 && !errors.Is(r.Context().Err(), context.Canceled) {
		a.Log.Error(p, "A request failed", "method", r.Method, "route", r.Pattern, "request_id", problem.RequestID(r.Context()))
	}
}

// requestID echoes a sensible X-Request-Id, else makes one of 128 random bits.
func requestID(r *http.Request) string {
	if sent := r.Header["X-Request-Id"]; len(sent) == 1 && len(sent[0]) > 0 && len(sent[0]) <= 128 && strings.Trim(sent[0], requestIDAlphabet) == "" {
		return sent[0]
	}
	var id [16]byte // unique, not secret
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.EncodeToString(id[:])
}

const requestIDAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_.:"

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// headerProbe takes an answer of the mux without sending it.
type headerProbe struct {
	header http.Header
	status int
}

func (p *headerProbe) Header() http.Header         { return p.header }
func (p *headerProbe) Write(b []byte) (int, error) { return len(b), nil }
func (p *headerProbe) WriteHeader(status int)      { p.status = status }
