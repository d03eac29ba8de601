package agents

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// respondWithin is the time to send a response after a call has ended.
	respondWithin = 30 * time.Second
	// listTTL is how long clients may keep lists, in milliseconds.
	listTTL = 5000
)

// Codes of calls that were not performed.
const (
	codeBusy          = "busy"
	codeNotConfigured = "not_configured"
	codeRateLimited   = "rate_limited"
	codeUserRequired  = "user_required"
)

// unknownTool begins the refusal of a tool that the agent does not have, or not for the caller.
const unknownTool = "Unknown tool: "

const notConfigured = "The tool is not configured, so nothing was sent. Do not call it again; say that the tool is unavailable."

// limit counts a request by the scheme that binds its credential.
func (c *call) limit() error {
	return c.bindings.CountAll(c.snapshot, c.caller.Principal, c.r, prefix+c.agent.Name, c.Authenticator.Proxies.ClientAddress(c.r), c.Header())
}

// answer performs the method of a request. The result is nil for a notification.
func (c *call) answer() (any, error) {
	r := c.request
	legacy := r.revision != modern
	switch {
	case r.notification():
		return nil, nil
	case legacy && r.Method == "initialize":
		return c.initialize(), nil
	case legacy && r.Method == "ping":
		return struct{}{}, nil
	case !legacy && r.Method == "server/discover":
		return c.discover(), nil
	case r.Method == "tools/list":
		return c.list()
	case r.Method == "tools/call":
		return c.callTool()
	}
	unknown := faulty(codeMethod, "this method is not served: an agent has tools only")
	if !legacy {
		unknown.Status = http.StatusNotFound
	}
	return nil, unknown
}

// implementation names the server: the agent.
type implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Version string `json:"version"`
}

func (c *call) server() implementation {
	return implementation{c.agent.Name, snapshot.ContentOf[snapshot.Agent](c.agent).Name, c.Version}
}

// common are the members that every result of the modern revision has.
type common struct {
	ResultType string         `json:"resultType,omitempty"`
	Meta       map[string]any `json:"_meta,omitempty"`
}

// cacheable are the members of results that clients may keep.
type cacheable struct {
	TTL   *int   `json:"ttlMs,omitempty"`
	Scope string `json:"cacheScope,omitempty"`
}

func (c *call) common() common {
	if c.request.revision != modern {
		return common{}
	}
	return common{"complete", map[string]any{metaServer: c.server()}}
}

func (c *call) cacheable() cacheable {
	if c.request.revision != modern {
		return cacheable{}
	}
	return cacheable{new(listTTL), "private"}
}

type capabilities struct {
	Tools struct {
		ListChanged bool `json:"listChanged,omitempty"`
	} `json:"tools"`
}

// capabilitiesIn returns what the server can do in a revision: in the modern one, clients can listen for changes.
func capabilitiesIn(revision string) (can capabilities) {
	can.Tools.ListChanged = revision == modern
	return can
}

func (c *call) initialize() any {
	return struct {
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    capabilities   `json:"capabilities"`
		ServerInfo      implementation `json:"serverInfo"`
		Instructions    string         `json:"instructions,omitempty"`
	}{c.request.revision, capabilitiesIn(c.request.revision), c.server(), c.content.Instructions}
}

func (c *call) discover() any {
	return struct {
		common
		cacheable
		SupportedVersions []string       `json:"supportedVersions"`
		Capabilities      capabilities   `json:"capabilities"`
		ServerInfo        implementation `json:"serverInfo"`
		Instructions      string         `json:"instructions,omitempty"`
	}{c.common(), c.cacheable(), revisions(), capabilitiesIn(c.request.revision), c.server(), c.content.Instructions}
}

func (c *call) list() (any, error) {
	if c.request.params.Cursor != nil {
		return nil, faulty(codeParams, "the list has one page: send no cursor")
	}
	list := &toolList{common: c.common(), cacheable: c.cacheable()}
	size := 0
	for _, one := range c.Tools.Of(c.snapshot, c.agent).Tools {
		if c.lists(one.Content) {
			list.rendered = append(list.rendered, c.listed(one))
			size += len(c.listed(one))
		}
	}
	if !c.take(responseRoom(c.agent.Deployment, int64(size))) {
		return nil, apierror.Unavailable(nil, "too many large lists are being sent: try again")
	}
	return list, nil
}

// toolList is the result of tools/list. Its tools are rendered once for each state of the tools, and not encoded again
// for each request.
type toolList struct {
	common
	cacheable
	Tools    [0]struct{} `json:"tools"` // the last member
	rendered []json.RawMessage
}

// fill returns an encoded response with the rendered tools in its last list, which is the empty one.
func (l *toolList) fill(encoded []byte) []byte {
	at := bytes.LastIndexByte(encoded, ']')
	size := len(encoded)
	for _, one := range l.rendered {
		size += len(one) + 1
	}
	filled := append(make([]byte, 0, size), encoded[:at]...)
	for i, one := range l.rendered {
		if i > 0 {
			filled = append(filled, ',')
		}
		filled = append(filled, one...)
	}
	return append(filled, encoded[at:]...)
}

// listed returns the JSON object of a tool in lists. Before the modern revision, structured results are objects, so
// that the schema of a list is left out.
func (c *call) listed(t *toolset.Tool) json.RawMessage {
	if c.request.revision == modern {
		return t.Listed
	}
	return t.Older
}

// failure is the member of _meta that says why a call failed.
type failure struct {
	Code   string `json:"code"`
	CallID string `json:"call_id"`
	// RetryAfter is in seconds.
	RetryAfter int              `json:"retry_after,omitempty"`
	Approval   *pendingApproval `json:"approval,omitempty"`
}

// called is the result of a call.
type called struct {
	common
	Content    []toolcall.Block `json:"content"`
	Structured json.RawMessage  `json:"structuredContent,omitempty"`
	IsError    bool             `json:"isError,omitempty"`
	id         int64
}

func (c *call) callTool() (any, error) {
	one, found := c.Tools.Of(c.snapshot, c.agent).ByName[c.request.params.Name]
	if !found || !c.sees(one) {
		if found {
			recordRefused(c, one, people.CallPermissionDenied)
		}
		return nil, faulty(codeParams, unknownTool+toolcall.Clean(c.request.params.Name))
	}
	if err := c.require(slices.Concat(c.content.Permissions, one.Content.Permissions)); err != nil {
		recordRefused(c, one, people.CallPermissionDenied)
		return nil, err
	}
	key, err := idempotencyKeyOf(c.request)
	if err != nil {
		return nil, err
	}
	record, err := beginRecord(c, one)
	if err != nil {
		return nil, err
	}
	of := &recorded{c, one, record}
	arguments, canonical, refused := readArguments(one, c.request.params.Arguments)
	if refused != nil {
		return of.refused(people.CallInvalid, *refused), nil
	}
	record.Arguments(canonical)
	if refused := (&toolcall.Call{Tool: &one.Content.AITool, Arguments: arguments}).Check(c.r.Context()); refused != nil {
		return of.refused(people.CallInvalid, *refused), nil
	}
	if missing := c.missingPerson(one.Content); missing != "" {
		return of.refused(people.CallPermissionDenied, toolcall.Failed(codeUserRequired, "%s", missing)), nil
	}
	approval, answer, err := of.approve()
	if err != nil {
		return nil, of.broken(err)
	}
	if answer != nil {
		return answer, nil
	}
	return of.run(arguments, key, approval)
}

// run performs a call that is permitted, with its approval (nil for none), as soon as there is room and quota for it.
func (r *recorded) run(arguments map[string]any, idempotencyKey string, approval *people.Approval) (any, error) {
	secrets, refused := r.open(r.tool)
	if refused != nil {
		return r.failed(*refused), nil
	}
	token, refused, err := r.token(r.tool, r.record.ID())
	if err != nil {
		return nil, r.broken(err)
	}
	if refused != nil {
		return r.failed(*refused), nil
	}
	allowed := &toolcall.Call{
		Tool: &r.tool.Content.AITool, Arguments: arguments, Secrets: secrets, Output: r.tool.Output, Token: token, ID: ids.Format(r.record.ID()), IdempotencyKey: idempotencyKey,
		Version: r.Version, Room: func(bytes int64) bool { return r.take(responseRoom(r.agent.Deployment, bytes)) },
	}
	if refused, err = r.sign(allowed); err != nil {
		return nil, r.broken(err)
	}
	if refused != nil {
		return r.failed(*refused), nil
	}
	taken := r.take(slotsFor(r.agent, r.content, r.tool, r.MaxToolCalls))
	if !taken { // what is taken is given back after the response is sent
		return r.refused(people.CallBusy, toolcall.Failed(codeBusy, "Too many calls of this tool are in progress. Wait a moment before you try again.")), nil
	}
	if refused, err := r.takeQuota(r.tool); err != nil {
		return nil, r.broken(err)
	} else if refused != nil {
		return r.refused(people.CallRateLimited, *refused), nil
	}
	if approval != nil {
		r.record.Claim(func(tx people.Tx) (bool, error) { return tx.Approvals().UseApproval(approval.ID, r.Clock()) })
	}
	return r.perform(allowed)
}

// takeQuota counts a call that is about to be performed by the schemes of the agent and of the tool. It returns the
// result of the call if a limit is used up; then nothing is counted.
func (c *call) takeQuota(t *toolset.Tool) (*toolcall.Result, error) {
	path := "/agents/" + c.agent.Name + "/tools/" + t.Name
	limit, after, err := c.Limiter.Take(c.r.Context(), c.snapshot, c.caller.Principal, c.agent, [2]string{c.content.Scheme, t.Content.Scheme},
		path, c.Authenticator.Proxies.ClientAddress(c.r))
	if err != nil {
		return nil, apierror.Unavailable(err, "the limits of the tool are not known here yet: try again")
	}
	if limit == "" {
		return nil, nil
	}
	seconds := max(1, int((after+time.Second-1)/time.Second))
	refused := toolcall.Failed(codeRateLimited, "The limit %s for calls of this tool is used up. Wait %d seconds before you call it again.", limit, seconds)
	refused.RetryAfter = seconds
	return &refused, nil
}

// open returns the values of the tool's headers that come from Secrets, by the headers' names. It returns the result of
// the call if a value cannot be opened.
func (c *call) open(t *toolset.Tool) (map[string]string, *toolcall.Result) {
	values := map[string]string{}
	for _, header := range t.Content.Headers {
		if !header.Secret {
			continue
		}
		value, err := c.Keyring.Open(document.SealedToolHeader, document.ToolHeaderID(ids.Format(t.Entry.ID), header.Name), header.Sealed)
		if err != nil {
			tracing.Logger(c.r.Context(), c.Log).Error(err, "The value of a tool's header cannot be opened: give the server the operator's root keys",
				"namespace", t.Entry.Namespace, "name", t.Entry.Name, "header", header.Name, "request_id", c.ID[0])
			refused := toolcall.Failed(codeNotConfigured, notConfigured)
			return nil, &refused
		}
		values[header.Name] = string(value)
	}
	return values, nil
}

// result returns the result of a call as it is sent.
func (c *call) result(id int64, of toolcall.Result) called {
	out := called{common: c.common(), Content: append([]toolcall.Block{}, of.Content...), Structured: of.Structured, IsError: of.Code != "", id: id}
	if of.Later {
		out.Content = acceptedText(ids.Format(id))
		out.note(metaAccepted, accepted{ids.Format(id)})
	}
	// Results are objects in the revisions before the modern one. A call without the protocol has no revision.
	if older := c.request.revision != modern && c.request.revision != ""; older && len(of.Structured) > 0 && of.Structured[0] != '{' {
		out.Structured, _ = json.Marshal(map[string]json.RawMessage{"result": of.Structured}) // valid JSON can be encoded
	}
	if of.Code != "" {
		out.note(metaError, failure{Code: of.Code, CallID: ids.Format(id), RetryAfter: of.RetryAfter})
	}
	return out
}

// note adds a member to _meta.
func (c *called) note(name string, value any) {
	if c.Meta == nil {
		c.Meta = map[string]any{}
	}
	c.Meta[name] = value
}
