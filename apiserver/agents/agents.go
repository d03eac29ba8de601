// Package agents serves AIAgents over the Model Context Protocol: an agent's tools are listed, authorized, limited and
// called. Nothing is kept between requests, so any server answers any request.
package agents

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/agents/caller"
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
	"github.com/cardea-iam/cardea/apiserver/users/tokensigner"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
)

const (
	// prefix is the path of agents.
	prefix = caller.Prefix
	// pattern is the route in metrics.
	pattern = "/mcp/{agent}"
	// maxBody bounds a request, in bytes.
	maxBody = 256 << 10
)

// DefaultToolCalls is the default of Options.MaxToolCalls.
const DefaultToolCalls = 512

// Options configures a Server.
type Options struct {
	Snapshots     *snapshot.Follower
	Authenticator *credential.Authenticator
	// Callers identify the callers.
	Callers *caller.Resolver
	Limiter *limits.Limiter
	Egress  *egress.Policy
	// Tools are the tools of agents.
	Tools *toolset.Sets
	// Keyring opens the values of headers that the operator sealed; it may be empty.
	Keyring *seal.Keyring
	// Signer signs the tokens that tools get for users.
	Signer *tokensigner.Signer
	// MaxStaleness bounds how long requests are answered without contact to the store; 0 means no bound.
	MaxStaleness time.Duration
	// MaxToolCalls bounds the calls that run at the same time, 0: DefaultToolCalls.
	MaxToolCalls int
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
	streams  *streams
	arrivals *arrivals
}

// New returns a Server.
func New(opts Options) *Server {
	opts.Metrics.Expect(pattern)
	opts.Metrics.Expect(listenPattern)
	opts.Metrics.Expect(metadataPattern)
	opts.Metrics.Expect(resultPattern)
	opts.MaxToolCalls = cmp.Or(opts.MaxToolCalls, DefaultToolCalls)
	return &Server{
		Options: opts, bindings: limits.NewBindings(opts.Limiter), client: toolcall.NewClient(opts.Egress), slots: newSlots(), streams: newStreams(),
		arrivals: newArrivals(),
	}
}

// Handler returns the handler of a request below /mcp/, of one for the metadata of an agent, and of one with a result
// that comes later, and reports whether the request is one of these.
func (s *Server) Handler(r *http.Request) (http.Handler, bool) {
	switch {
	case strings.HasPrefix(r.URL.Path, prefix):
		return http.HandlerFunc(s.serve), true
	case strings.HasPrefix(r.URL.Path, metadataPrefix):
		return http.HandlerFunc(s.serveMetadata), true
	case strings.HasPrefix(r.URL.Path, resultPrefix):
		return http.HandlerFunc(s.serveResult), true
	}
	return nil, false
}

// call is one request.
type call struct {
	*Server
	httpapi.Exchange
	r        *http.Request
	snapshot *snapshot.Snapshot
	agent    *snapshot.Entry
	content  *snapshot.Agent
	settings *document.Deployment
	caller   *caller.Caller
	request  *request
	// held are the slots of the request.
	held []slot
}

// take takes slots, which release gives back. It reports false if they are not free within slotWithin.
func (c *call) take(needed []slot) bool {
	_, taken := c.slots.take(c.r.Context(), needed)
	if taken {
		c.held = append(c.held, needed...)
	}
	return taken
}

// respondSoon sets the deadline of the response that is about to be sent. A call extends it by its timeout; a client
// that does not read must not keep a response for so long.
func respondSoon(c http.ResponseWriter) {
	_ = http.NewResponseController(c).SetWriteDeadline(time.Now().Add(respondWithin)) // a request within the process has none
}

// release gives back what the request took, after its response is sent.
func (c *call) release() { c.slots.giveBack(c.held) }

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	r.Pattern = pattern
	c := &call{Server: s, r: r}
	c.Begin(w, r, s.Metrics, s.Clock)
	c.After(c.release)
	defer c.End(r, c)
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if err := c.check(); errors.Is(err, errPreflight) {
		c.preflight()
		return
	} else if err != nil {
		recordRefusal(c, err)
		c.Refuse(err)
		return
	}
	if c.request.listens() {
		if err := listen(c); err != nil {
			c.Refuse(err)
		}
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

// response is a JSON-RPC response. An error has no id if the request has none, or could not be read.
type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Result  any             `json:"result,omitempty"`
	Error   *fault          `json:"error,omitempty"`
}

func (c *call) send(status int, answer response) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(answer); err != nil {
		panic(err) // every result can be encoded; the exchange reports the panic
	}
	encoded := out.Bytes()
	if list, is := answer.Result.(*toolList); is {
		encoded = list.fill(encoded)
	}
	header := c.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(encoded)))
	respondSoon(c)
	c.WriteHeader(status)
	_, _ = c.Write(encoded) // the client may have closed the connection
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

// errPreflight: the request is a permitted CORS preflight request.
var errPreflight = errors.New("preflight")

// check makes the checks before the method, in this order: agent, method of HTTP, origin, credential, media type, size,
// form, permission, limit.
func (c *call) check() (err error) {
	c.snapshot = c.Snapshots.Current()
	if err := credential.Fresh(c.Snapshots, c.MaxStaleness); err != nil {
		return err
	}
	if err := c.findAgent(nameIn(c.r)); err != nil {
		return err
	}
	asks := c.r.Method == http.MethodOptions && c.r.Header.Get("Access-Control-Request-Method") == http.MethodPost
	if c.r.Method != http.MethodPost && !asks {
		return apierror.MethodNotAllowed(c.r.Method, http.MethodPost)
	}
	if err := c.checkOrigin(); err != nil {
		return err
	}
	if asks {
		return errPreflight
	}
	if err := c.authenticate(); err != nil {
		return err
	}
	raw, err := c.read()
	if err != nil {
		return err
	}
	if c.request, err = readRequest(raw, c.r.Header); err != nil {
		return err
	}
	if err := c.checkAccess(); err != nil {
		return err
	}
	return c.limit()
}

// nameIn returns the name of the agent in a request's path.
func nameIn(r *http.Request) string { return strings.TrimPrefix(r.URL.Path, prefix) }

// findAgent finds the agent of a name on its deployment's first host.
func (c *call) findAgent(name string) error {
	unknown := apierror.New(http.StatusNotFound, "there is no such agent: check the host and the name of the AIAgent")
	deployment, found := c.snapshot.ByHost(site.Host(c.r))
	if !found {
		return unknown
	}
	c.settings = snapshot.ContentOf[document.Deployment](deployment)
	if len(c.settings.FrontendHosts) == 0 || c.settings.FrontendHosts[0] != site.Host(c.r) {
		return unknown
	}
	agent, found := c.snapshot.Get(store.Identity{Kind: v1alpha1.KindAIAgent, Namespace: deployment.Namespace, Name: name})
	if !found || agent.Deployment != deployment.Deployment || !snapshot.ContentOf[snapshot.Agent](agent).Active {
		return unknown
	}
	c.agent, c.content = agent, snapshot.ContentOf[snapshot.Agent](agent)
	return nil
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
