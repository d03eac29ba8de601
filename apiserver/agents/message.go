package agents

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
)

// The revisions of the Model Context Protocol, newest first.
const (
	modern   = "2026-07-28"
	november = "2025-11-25"
	june     = "2025-06-18"
)

func revisions() []string { return []string{modern, november, june} }

// Codes of JSON-RPC errors.
const (
	codeParse          = -32700
	codeRequest        = -32600
	codeMethod         = -32601
	codeParams         = -32602
	codeRefused        = -32000
	codeHeaderMismatch = -32020
	codeRevision       = -32022
)

// Names of members of _meta.
const (
	metaRevision     = "io.modelcontextprotocol/protocolVersion"
	metaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
	metaIdempotency  = "dev.cardea.iam/idempotency-key"
	metaError        = "dev.cardea.iam/error"
	metaAccepted     = "dev.cardea.iam/accepted"
)

// The headers of requests.
const (
	headerRevision = "Mcp-Protocol-Version"
	headerMethod   = "Mcp-Method"
	headerName     = "Mcp-Name"
)

// fault is a JSON-RPC error with the status of its HTTP response.
type fault struct {
	Status  int    `json:"-"`
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (f *fault) Error() string { return f.Message }

func faulty(code int, message string) *fault {
	return &fault{Status: http.StatusOK, Code: code, Message: message}
}

func badRequest(code int, message string) *fault {
	return &fault{Status: http.StatusBadRequest, Code: code, Message: message}
}

// message is a JSON-RPC request or notification.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
}

// params are the members of parameters that the server reads.
type params struct {
	Name            string                     `json:"name"`
	Arguments       json.RawMessage            `json:"arguments"`
	Cursor          *string                    `json:"cursor"`
	Notifications   *filter                    `json:"notifications"`
	ProtocolVersion string                     `json:"protocolVersion"`
	Meta            map[string]json.RawMessage `json:"_meta"`
	// RequestState and InputResponses continue a call that needed an input.
	RequestState   string                     `json:"requestState"`
	InputResponses map[string]json.RawMessage `json:"inputResponses"`
}

// request is a message with its parameters and the revision under which it is answered.
type request struct {
	message
	params   params
	revision string
}

// notification reports that no response is expected.
func (r *request) notification() bool { return len(r.ID) == 0 }

// readRequest reads a body.
func readRequest(raw []byte, header http.Header) (*request, error) {
	if err := body.Check(raw); err != nil {
		return nil, badRequest(codeParse, "the body is not valid JSON: "+err.Error())
	}
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	if trimmed[0] != '{' {
		return nil, badRequest(codeRequest, "send one JSON-RPC request: batches are not served")
	}
	r := &request{}
	if err := json.Unmarshal(raw, &r.message); err != nil || r.Version != "2.0" || r.Method == "" || !validID(r.ID) {
		return nil, badRequest(codeRequest, "the body is no JSON-RPC 2.0 request with a method, and an id that is a text or a whole number")
	}
	if len(r.Params) > 0 && string(r.Params) != "null" {
		if err := json.Unmarshal(r.Params, &r.params); err != nil {
			return r, badRequest(codeParams, "params do not have the form that the method takes")
		}
	}
	return r, r.chooseRevision(header)
}

// validID reports whether an id is absent, a text or a whole number.
func validID(id json.RawMessage) bool {
	if len(id) == 0 || id[0] == '"' {
		return true
	}
	var number json.Number
	return string(id) != "null" && json.Unmarshal(id, &number) == nil && !strings.ContainsAny(number.String(), ".eE")
}

// chooseRevision determines the revision. A request of the modern one names it in _meta and in a header.
func (r *request) chooseRevision(header http.Header) error {
	inHeader := header.Get(headerRevision)
	_, inMeta := r.params.Meta[metaRevision]
	switch {
	case inHeader == modern || inMeta:
		return r.checkModern(header)
	case r.Method == "initialize":
		if r.revision = r.params.ProtocolVersion; !slices.Contains(revisions()[1:], r.revision) {
			r.revision = november
		}
	case inHeader == "":
		r.revision = june
	case slices.Contains(revisions(), inHeader):
		r.revision = inHeader
	default:
		return unknownRevision(inHeader)
	}
	return nil
}

func unknownRevision(asked string) error {
	return &fault{Status: http.StatusBadRequest, Code: codeRevision, Message: "this protocol version is not served",
		Data: map[string]any{"supported": revisions(), "requested": asked}}
}

// checkModern checks what a request of the modern revision must have, in the order of the specification.
func (r *request) checkModern(header http.Header) error {
	var named string
	var capabilities map[string]any
	if json.Unmarshal(r.params.Meta[metaRevision], &named) != nil || json.Unmarshal(r.params.Meta[metaCapabilities], &capabilities) != nil || capabilities == nil {
		return badRequest(codeParams, "params._meta needs "+metaRevision+" and "+metaCapabilities)
	}
	expected := [][2]string{{headerRevision, named}, {headerMethod, r.Method}}
	if r.Method == "tools/call" {
		expected = append(expected, [2]string{headerName, r.params.Name})
	}
	for _, one := range expected {
		if decoded(header.Get(one[0])) != one[1] {
			return badRequest(codeHeaderMismatch, "the header "+one[0]+" must be sent and equal the body")
		}
	}
	if r.revision = named; named != modern {
		return unknownRevision(named)
	}
	return nil
}

// decoded returns the value of a header: a text that is no visible ASCII is sent as =?base64?...?=.
func decoded(value string) string {
	inner, found := strings.CutPrefix(value, "=?base64?")
	inner, closed := strings.CutSuffix(inner, "?=")
	if !found || !closed {
		return value
	}
	text, err := base64.StdEncoding.DecodeString(inner)
	if err != nil {
		return value
	}
	return string(text)
}
