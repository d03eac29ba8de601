// Package agents serves AIAgents over the Model Context Protocol: an agent's tools are listed, authorized, limited and
// called. Nothing is kept between requests, so any server answers any request.
package agents

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/outage"
	"github.com/cardea-iam/cardea/apiserver/httpapi/site"
	"github.com/cardea-iam/cardea/apiserver/limits"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
)

const (
	// Permission is the permission to call the tools of agents.
	Permission = "ai_agents:call"
	// prefix is the path of agents.
	prefix = "/mcp/"
	// pattern is the route in metrics.
	pattern = "/mcp/{agent}"
	// maxBody bounds a request, in bytes.
	maxBody = 256 << 10
)

// Options configures a Server.
type Options struct {
	Snapshots     *snapshot.Follower
	Authenticator *credential.Authenticator
	Limiter       *limits.Limiter
	Egress        *egress.Policy
	// Tools are the tools of agents.
	Tools *toolset.Sets
	// Keyring opens the values of headers that the operator sealed; it may be empty.
	Keyring *seal.Keyring
	// MaxStaleness bounds how long requests are answered without contact to the store; 0 means no bound.
	MaxStaleness time.Duration
	// Version is the product's version.
	Version string
	Clock   func() time.Time
	Log     logr.Logger
	Metrics *httpapi.Metrics
	// Records records and counts calls.
	Records *callrecord.Recorder
}

// Server serves the agents of all deployments on the end-user listener.
type Server struct {
	Options
	bindings *limits.Bindings
	client   *toolcall.Client
	slots    *slots
}

// New returns a Server.
func New(opts Options) *Server {
	opts.Metrics.Expect(pattern)
	return &Server{
		Options: opts, bindings: limits.NewBindings(opts.Limiter), client: toolcall.NewClient(opts.Egress), slots: newSlots(),
	}
}

// Handler returns the handler of a request below /mcp/, and reports whether the request is one.
func (s *Server) Handler(r *http.Request) (http.Handler, bool) {
	if !strings.HasPrefix(r.URL.Path, prefix) {
		return nil, false
	}
	return http.HandlerFunc(s.serve), true
}

// call is one request.
type call struct {
	*Server
	httpapi.Exchange
	r         *http.Request
	snapshot  *snapshot.Snapshot
	agent     *snapshot.Entry
	settings  *document.Deployment
	principal *credential.Principal
	request   *request
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	r.Pattern = pattern
	c := &call{Server: s, r: r}
	c.Begin(w, r, s.Metrics, s.Clock)
	defer c.End(r, c)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if err := c.check(); err != nil {
		c.recordRefusal(err)
		c.Refuse(err)
		return
	}
	result, err := c.answer()
	switch {
	case err != nil:
		c.Refuse(err)
	case result == nil:
		c.WriteHeader(http.StatusAccepted) // a notification
	default:
		c.send(http.StatusOK, response{Version: "2.0", ID: c.request.ID, Result: result})
	}
}

// response is a JSON-RPC response.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result,omitempty"`
	Error   *fault          `json:"error,omitempty"`
}

func (c *call) send(status int, answer response) {
	if len(answer.ID) == 0 {
		answer.ID = json.RawMessage("null")
	}
	c.Header().Set("Content-Type", "application/json")
	c.WriteHeader(status)
	encoder := json.NewEncoder(c)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(answer) // the client may have closed the connection
}

// Refuse responds with an error: a JSON-RPC error of the request, or a refusal by HTTP status.
func (c *call) Refuse(err error) {
	var wrong *fault
	if errors.As(err, &wrong) {
		var id json.RawMessage
		if c.request != nil {
			id = c.request.ID
		}
		c.send(wrong.Status, response{Version: "2.0", ID: id, Error: wrong})
		return
	}
	refused := apierror.Of(err)
	if refused.Status >= 500 && !outage.Quiet(refused) && c.r.Context().Err() == nil {
		tracing.Logger(c.r.Context(), c.Log).Error(refused, "A request to an agent failed", "request_id", c.ID[0])
	}
	for name, values := range refused.Header {
		c.Header()[name] = values
	}
	if refused.RetryAfter > 0 {
		c.Header().Set("Retry-After", strconv.Itoa(refused.RetrySeconds()))
	}
	c.send(refused.Status, response{Version: "2.0", Error: &fault{
		Code: codeRefused, Message: refused.Text(), Data: map[string]string{"request_id": c.ID[0]},
	}})
}

// check makes the checks before the method, in this order: agent, method of HTTP, origin, credential, media type, size,
// form, permission, limit.
func (c *call) check() (err error) {
	c.snapshot = c.Snapshots.Current()
	if err := credential.Fresh(c.Snapshots, c.MaxStaleness); err != nil {
		return err
	}
	if err := c.findAgent(); err != nil {
		return err
	}
	if c.r.Method != http.MethodPost {
		return apierror.MethodNotAllowed(c.r.Method, http.MethodPost)
	}
	if err := c.checkOrigin(); err != nil {
		return err
	}
	if c.principal, err = c.authenticate(); err != nil {
		return err
	}
	raw, err := c.read()
	if err != nil {
		return err
	}
	if c.request, err = readRequest(raw, c.r.Header); err != nil {
		return err
	}
	if !c.principal.Grants(Permission) {
		return apierror.New(http.StatusForbidden, "the key lacks the permission %s: grant it to the key and to its app", Permission)
	}
	return c.limit()
}

// findAgent finds the agent of the path on its deployment's first host.
func (c *call) findAgent() error {
	unknown := apierror.New(http.StatusNotFound, "there is no such agent: check the host and the name of the AIAgent")
	deployment, found := c.snapshot.ByHost(site.Host(c.r))
	if !found {
		return unknown
	}
	c.settings = snapshot.ContentOf[document.Deployment](deployment)
	if len(c.settings.FrontendHosts) == 0 || c.settings.FrontendHosts[0] != site.Host(c.r) {
		return unknown
	}
	name := strings.TrimPrefix(c.r.URL.Path, prefix)
	agent, found := c.snapshot.Get(store.Identity{Kind: v1alpha1.KindAIAgent, Namespace: deployment.Namespace, Name: name})
	if !found || agent.Deployment != deployment.Deployment || !snapshot.ContentOf[snapshot.Agent](agent).Active {
		return unknown
	}
	c.agent = agent
	return nil
}

// checkOrigin refuses pages of other sites (section "Security" of the specification's transports).
func (c *call) checkOrigin() error {
	origin, sent := c.r.Header["Origin"]
	if !sent {
		return nil
	}
	if len(origin) == 1 && (site.OwnOrigin(c.settings, c.r, origin[0]) || slices.Contains(c.settings.AllowedOrigins, origin[0])) {
		return nil
	}
	return apierror.New(http.StatusForbidden, "requests of pages of this origin are refused: add the origin to spec.allowedOrigins of the IdentityDeployment")
}

// authenticate accepts API keys of the agent's deployment. The refusal of every other credential is the same.
func (c *call) authenticate() (*credential.Principal, error) {
	p, err := c.Authenticator.Authenticate(c.snapshot, c.r)
	if err != nil {
		return nil, err
	}
	if p.KeyID == "" || p.Deployment.Deployment != c.agent.Deployment {
		return nil, apierror.InvalidToken()
	}
	return p, nil
}

func (c *call) read() ([]byte, error) {
	if err := body.RequireJSON(c.r); err != nil {
		return nil, err
	}
	raw, err := body.Read(c.r, maxBody)
	if err == nil && len(raw) == 0 {
		err = badRequest(codeParse, "the body is empty: send one JSON-RPC request")
	}
	return raw, err
}
