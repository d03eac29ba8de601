package backend

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store/people"
)

// listToolCalls serves a page of the recorded calls of tools. With the oldest first it omits records younger than
// auditSettled, as listAudit does.
func listToolCalls(c *call) (reply, error) {
	q := c.query()
	limit := q.Limit(defaultLimit, maxLimit)
	filter := people.ToolCallFilter{
		Agent: q.ID("agent_id"), Tool: q.ID("tool_id"), User: q.ID("user_id"), Since: q.Time("since"), Until: q.Time("until"), After: q.ID("cursor"),
		OldestFirst: q.oldestFirst(),
		Outcome: q.OneOf("outcome", "", people.CallStarted, people.CallSucceeded, people.CallFailed, people.CallTimeout, people.CallCancelled,
			people.CallUnknown, people.CallAccepted),
	}
	q.ordered(filter.Since, filter.Until)
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	filter.Until = c.settled(filter.Until, filter.OldestFirst)
	ctx, cancel := context.WithTimeout(c.r.Context(), auditReadWithin)
	defer cancel()
	var found []people.ToolCall
	err := peopleError(c.people().View(ctx, func(u *account.Unit) (err error) {
		found, err = u.Records().ListToolCalls(filter, limit+1)
		return err
	}))
	list := backendapi.ToolCallList{Data: []backendapi.ToolCall{}}
	if list.HasMore = len(found) > limit; list.HasMore {
		found = found[:limit]
		list.NextCursor = optionalID(found[limit-1].ID)
	}
	for i := range found {
		list.Data = append(list.Data, toolCallView(&found[i]))
	}
	return object(list), err
}

// toolCallDetail is a recorded call with its bodies, which are null if they are not kept.
type toolCallDetail struct {
	backendapi.ToolCall
	Arguments json.RawMessage `json:"arguments"`
	Result    json.RawMessage `json:"result"`
}

// getToolCall serves one recorded call.
func getToolCall(c *call) (reply, error) {
	unknown := &apierror.Error{Status: http.StatusNotFound, Faults: []apierror.Fault{{
		Pointer: ":tool_call_id", Message: "is the id of no recorded call of the deployment: list them to see which there are"}}}
	id, err := ids.Parse(c.r.PathValue("tool_call_id"))
	if err != nil {
		return reply{}, unknown
	}
	var found bool
	var one people.ToolCall
	if err := c.people().view(func(u *account.Unit) (err error) { one, found, err = u.Records().ToolCall(id); return err }); err != nil {
		return reply{}, err
	}
	if !found {
		return reply{}, unknown
	}
	return object(toolCallDetail{
		toolCallView(&one), c.openBody(&one, people.SealedCallArguments, one.Arguments), c.openBody(&one, people.SealedCallResult, one.Result),
	}), nil
}

// openBody returns a kept body of a call, nil if there is none.
func (c *call) openBody(of *people.ToolCall, kind, sealed string) json.RawMessage {
	if sealed == "" {
		return nil
	}
	plain, err := c.api.Keyring.Open(kind, of.SealedFor(c.tenant()), sealed)
	if err != nil {
		tracing.Logger(c.r.Context(), c.api.Log).Error(err, "A kept body of a call cannot be opened: give the server the root keys of all servers",
			"kind", kind, "deployment", c.tenant(), "call", ids.Format(of.ID), "request_id", c.ID[0])
		return nil
	}
	return plain
}

func toolCallView(c *people.ToolCall) backendapi.ToolCall {
	view := backendapi.ToolCall{
		Id: ids.Format(c.ID), At: c.At, Agent: backendapi.CalledResource{Id: ids.Format(c.Agent), Name: c.AgentName}, Tool: backendapi.CalledResource{Id: ids.Format(c.Tool), Name: c.ToolName},
		Principal: backendapi.ToolCallPrincipal{Type: backendapi.ToolCallPrincipalType(c.Caller.Kind), Id: c.Caller.ID}, ClientId: optional(c.Caller.Client),
		UserId: optionalID(c.Caller.User), OrganizationId: optionalID(c.Caller.Organization), WorkspaceId: optionalID(c.Caller.Workspace), IpAddress: c.Caller.Address,
		Revision: c.Revision, Decision: backendapi.ToolCallDecision(c.Decision), ApprovalId: optionalID(c.Approval), Outcome: optional(c.Outcome), Code: optional(c.Code),
		LatencyMs: c.Latency.Milliseconds(), UpstreamMs: c.Upstream.Milliseconds(), BytesIn: c.BytesIn, BytesOut: c.BytesOut, ArgumentsDigest: optional(c.Digest),
	}
	if c.Status != 0 {
		view.UpstreamStatus = &c.Status
	}
	return view
}

// getAgentAnalytics serves the numbers of an agent's calls in a period.
func getAgentAnalytics(c *call) (reply, error) {
	period, faults := parsePeriod(c.r.URL.Query())
	if faults != nil {
		return reply{}, apierror.Invalid(faults...)
	}
	agent, err := findAgent(c)
	if err != nil {
		return reply{}, err
	}
	var summary people.ToolCallSummary
	err = c.analyze(func(ctx context.Context) error {
		return c.people().View(ctx, func(u *account.Unit) (err error) {
			summary, err = u.Records().SummarizeToolCalls(agent.ID, period)
			return err
		})
	})
	return object(agentAnalyticsView(period, summary)), peopleError(err)
}

func agentAnalyticsView(period people.Period, s people.ToolCallSummary) backendapi.AgentAnalytics {
	view := backendapi.AgentAnalytics{
		Calls: s.Calls, Failed: s.Failed, Denied: s.Denied, RateLimited: s.RateLimited,
		Approvals: backendapi.ApprovalCounts{Requested: s.Approvals.Requested, Approved: s.Approvals.Approved, Denied: s.Approvals.Denied, Expired: s.Approvals.Expired},
		Tools:     []backendapi.ToolCounts{}, Daily: []backendapi.CallDay{},
	}
	for _, t := range s.Tools {
		view.Tools = append(view.Tools, backendapi.ToolCounts{
			ToolId: ids.Format(t.Tool), Name: t.Name, Calls: t.Calls, Failed: t.Failed, P50Ms: t.Median.Milliseconds(), P95Ms: t.Slow.Milliseconds(),
		})
	}
	for _, d := range daysOf(period, s.Days, func(d *people.CallDay) *time.Time { return &d.Start }) {
		view.Daily = append(view.Daily, backendapi.CallDay{Day: d.Start.Format(time.DateOnly), Calls: d.Calls, Failed: d.Failed})
	}
	return view
}
