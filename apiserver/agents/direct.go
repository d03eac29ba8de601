package agents

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/agents/toolset"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// CallDirectly performs a call with the same checks, limits, approvals and records as over the protocol. Faulty
// arguments are a 400, an unknown tool is a 404, a missing permission a 403, a used-up limit a 429, and a call without
// a free slot a 503. Every other failure is part of the result.
func (s *Server) CallDirectly(x *httpapi.Exchange, r *http.Request, of toolset.Call) (*backendapi.ToolCallResult, error) {
	c := &call{
		Server: s, Exchange: *x, r: r, snapshot: of.Snapshot, agent: of.Agent, content: snapshot.ContentOf[snapshot.Agent](of.Agent), settings: of.Caller.Principal.Settings,
		caller: of.Caller,
	}
	x.After(c.release)
	defer respondSoon(c)
	if !c.content.Active {
		return nil, apierror.New(http.StatusNotFound, "the agent is inactive")
	}
	c.request = &request{message: message{Method: "tools/call"}, params: params{Name: of.Tool, Arguments: of.Arguments, Meta: map[string]json.RawMessage{}}}
	for _, one := range c.Tools.Of(c.snapshot, c.agent).Tools {
		if ids.Format(one.Entry.ID) == of.Tool {
			c.request.params.Name = one.Name
		}
	}
	if of.IdempotencyKey != "" {
		key, err := json.Marshal(of.IdempotencyKey)
		if err != nil {
			return nil, err
		}
		c.request.params.Meta[metaIdempotency] = key
	}
	if err := c.checkAccess(); err != nil {
		recordRefusalOfTool(c, err)
		return nil, err
	}
	answer, err := c.callTool()
	var wrong *fault
	if errors.As(err, &wrong) {
		if strings.HasPrefix(wrong.Message, unknownTool) {
			return nil, apierror.New(http.StatusNotFound, "the agent has no such tool for this caller: list them to see which there are")
		}
		return nil, apierror.New(http.StatusBadRequest, "%s", wrong.Message)
	}
	if err != nil {
		return nil, err
	}
	return direct(answer.(called), time.Since(c.Received))
}

// direct returns the result of a call as the backend API sends it.
func direct(of called, took time.Duration) (*backendapi.ToolCallResult, error) {
	out := &backendapi.ToolCallResult{CallId: ids.Format(of.id), Status: "completed", IsError: of.IsError, Content: []backendapi.ToolContent{}, LatencyMs: took.Milliseconds()}
	var text string
	for _, one := range of.Content {
		text += one.Text
		content := backendapi.ToolContent{Type: backendapi.ToolContentType(one.Type)}
		if one.Text != "" {
			content.Text = &one.Text
		}
		if len(one.Data) > 0 {
			content.Data, content.MimeType = &one.Data, &one.MediaType
		}
		out.Content = append(out.Content, content)
	}
	if len(of.Structured) > 0 {
		out.StructuredContent = &of.Structured
	}
	if _, later := of.Meta[metaAccepted]; later {
		out.Status = people.CallAccepted
	}
	failed, is := of.Meta[metaError].(failure)
	if !is {
		return out, nil
	}
	switch failed.Code {
	case toolcall.CodeArguments:
		return nil, argumentFaults(text)
	case codeRateLimited:
		refused := apierror.New(http.StatusTooManyRequests, "%s", text)
		refused.RetryAfter = time.Duration(failed.RetryAfter) * time.Second
		return nil, refused
	case codeBusy:
		return nil, apierror.New(http.StatusServiceUnavailable, "%s", text)
	}
	out.Status = "failed"
	out.Error = &backendapi.ToolCallFailure{Code: failed.Code, Message: text}
	if failed.Approval != nil {
		out.Status = codeApprovalRequired
		out.Approval = &backendapi.ToolCallApproval{Id: failed.Approval.ID, Url: failed.Approval.URL, ExpiresAt: failed.Approval.ExpiresAt}
	}
	return out, nil
}

// argumentFaults returns the refusal of arguments; lines of the text have a JSON pointer and a fault.
func argumentFaults(text string) error {
	var faults []apierror.Fault
	for line := range strings.Lines(text) {
		pointer, message, found := strings.Cut(strings.TrimSpace(line), ": ")
		if found && (pointer == "" || strings.HasPrefix(pointer, "/")) {
			faults = append(faults, apierror.Fault{Pointer: "/arguments" + strings.TrimSuffix(pointer, "/"), Message: message})
		}
	}
	if faults == nil {
		faults = []apierror.Fault{{Pointer: "/arguments", Message: text}}
	}
	return apierror.Invalid(faults...)
}
