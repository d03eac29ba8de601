package people

import (
	"context"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
)

// The decisions on a call of a tool. Only an allowed call runs.
const (
	CallAllowed          = "allowed"
	CallInvalid          = "invalid"
	CallPermissionDenied = "permission_denied"
	CallRateLimited      = "rate_limited"
	CallBusy             = "busy"
	CallApprovalRequired = "approval_required"
	CallApprovalDenied   = "approval_denied"
)

// CallDecisions returns all decisions.
func CallDecisions() []string {
	return []string{CallAllowed, CallInvalid, CallPermissionDenied, CallRateLimited, CallBusy, CallApprovalRequired, CallApprovalDenied}
}

// The outcomes of an allowed call. A call that was refused has none.
const (
	// CallStarted is the outcome until the call has ended.
	CallStarted   = "started"
	CallSucceeded = "succeeded"
	CallFailed    = "failed"
	CallTimeout   = "timeout"
	// CallCancelled: the caller ended the call.
	CallCancelled = "cancelled"
	// CallUnknown: the server ended during the call, so the tool may have been called or not.
	CallUnknown = "unknown"
	// CallAccepted: the tool accepted the call and answers later.
	CallAccepted = "accepted"
)

// CallOutcomes returns the outcomes of calls that have ended by themselves, or by their server.
func CallOutcomes() []string {
	return []string{CallSucceeded, CallFailed, CallTimeout, CallCancelled, CallUnknown}
}

// Unanswered returns the outcomes of calls that have no result yet: they have started, were accepted, or ended without
// an answer of their tool.
func Unanswered() []string {
	return []string{CallStarted, CallUnknown, CallAccepted, CallTimeout, CallCancelled}
}

// CodeApprovalExpired is the code of a call whose decision is CallApprovalDenied because its approval expired.
const CodeApprovalExpired = "approval_expired"

// The kinds of principals that call tools.
const (
	CallerKey     = "key"
	CallerClient  = "client"
	CallerSession = "session"
	CallerToken   = "token"
)

// ToolCall is the record of one call of an agent's tool.
type ToolCall struct {
	// ID is made of At by ids.New: records are ordered by it.
	ID int64
	// At is when the request arrived.
	At time.Time
	// Agent and Tool are ids of resources, and AgentName and ToolName their names at the time of the call.
	Agent, Tool         int64
	AgentName, ToolName string
	Caller              ToolCaller
	// Revision is the revision of the protocol, "" for a call by another protocol.
	Revision string
	Decision string
	// Approval is the approval that the call needs or used, 0: none.
	Approval int64
	// Digest is a keyed digest of validated arguments, "" if there are none.
	Digest string
	// Arguments are the sealed arguments, a JSON object; "" if they are not kept.
	Arguments string
	CallResult
}

// ToolCaller is the caller of a tool.
type ToolCaller struct {
	// Kind is the kind of the principal, and ID names it: the public id of a key, a client, a session, or the subject of a
	// token.
	Kind, ID string
	// Client is the OAuth client, "" if there is none.
	Client string
	// User is the user of the call, and Organization and Workspace are those of the credential, 0: none.
	User, Organization, Workspace int64
	// Address is the client's address, "" if unknown.
	Address string
}

// CallResult is how a call ended.
type CallResult struct {
	// Outcome is "" for a call that was refused. Code is the code of a refusal or a failure, "" for success.
	Outcome, Code string
	// Status is the HTTP status of the tool's answer, 0: none.
	Status int64
	// Latency is the time from the request to the result, and Upstream the part of it that the tool took, both in
	// whole milliseconds.
	Latency, Upstream time.Duration
	// BytesIn is the size of the tool's answer, and BytesOut that of the request to it.
	BytesIn, BytesOut int64
	// Result is the sealed result, a JSON list of content blocks; "" if it is not kept.
	Result string
}

// ToolCallFilter selects the records that match each of its members that is set.
type ToolCallFilter struct {
	Agent, Tool, User int64
	Outcome           string
	// Since is included, Until excluded, in whole microseconds; zero: no bound.
	Since, Until time.Time
	// After leaves out this record and all records before it in the listing; 0: none.
	After int64
	// OldestFirst reverses the listing.
	OldestFirst bool
}

// ToolCalls are the records of calls of agents' tools.
type ToolCalls interface {
	// InsertToolCall inserts a record. For a deleted user the record has neither the user nor what leads to the user: the
	// id of the principal, the address, the arguments and the result. ErrDuplicate: another record has the id.
	InsertToolCall(ToolCall) error
	// RecordToolCalls is InsertToolCall for many records. It leaves out those whose ids have a record already, and
	// returns how many it inserted.
	RecordToolCalls([]ToolCall) (int64, error)
	// SettleToolCalls writes the decisions and the results of calls that have started, also if their outcome is
	// CallUnknown by now, and returns how many there were. It stores no result for a deleted user.
	SettleToolCalls([]ToolCall) (int64, error)
	// ReceiveToolResult writes the decision and the result of a call whose outcome is among Unanswered, and reports
	// whether there was such a call. It stores no result for a deleted user.
	ReceiveToolResult(ToolCall) (bool, error)
	// ToolCallOutcome returns the outcome of a call, "" if there is no such call.
	ToolCallOutcome(id int64) (string, error)
	// ForgetToolResult erases the stored result of a call.
	ForgetToolResult(id int64) error
	ToolCall(id int64) (ToolCall, bool, error)
	// ListToolCalls returns up to limit records, the newest first unless the filter says OldestFirst, without arguments
	// and results. With one of Agent, Tool and User, or an outcome other than CallSucceeded, it reads an index of such
	// records; further members are compared record by record.
	ListToolCalls(filter ToolCallFilter, limit int) ([]ToolCall, error)
	// SummarizeToolCalls counts the calls of an agent in a period. All numbers are of one moment. It reads every record
	// of the period.
	SummarizeToolCalls(agent int64, period Period) (ToolCallSummary, error)
}

// ToolCallSummary are the numbers of an agent's calls.
type ToolCallSummary struct {
	CallCounts
	// Denied counts the calls without a permission, and RateLimited those beyond a limit.
	Denied, RateLimited int64
	// Approvals counts the approvals, each once, that calls asked for, used, and found denied or expired.
	Approvals struct{ Requested, Approved, Denied, Expired int64 }
	// Tools are the called tools, ordered by name and id.
	Tools []ToolCounts
	// Days are the days with calls, in order.
	Days []CallDay
}

// CallCounts counts calls.
type CallCounts struct {
	// Calls counts all, also those that were refused. Failed counts the allowed calls that ended as CallFailed,
	// CallTimeout or CallUnknown.
	Calls, Failed int64
}

// ToolCounts are the numbers of one tool.
type ToolCounts struct {
	CallCounts
	Tool int64
	// Name is one of the names under which the tool was called.
	Name string
	// Median and Slow are the nearest-rank percentiles 50 and 95 of the latencies of calls that ran and ended, 0 if there
	// is none.
	Median, Slow time.Duration
}

// CallDay are the numbers of a UTC day.
type CallDay struct {
	CallCounts
	// Start is the midnight at which the day begins.
	Start time.Time
}

// CallUpkeep is periodic work over the records of calls of all deployments.
type CallUpkeep interface {
	// AbandonToolCalls sets the outcome of up to limit calls that started before a time and have not ended to
	// CallUnknown, and returns how many.
	AbandonToolCalls(ctx context.Context, startedBefore time.Time, limit int) (int64, error)
}

// Retention is how long records are kept.
type Retention struct {
	// Audit is for audit records and completed imports, ToolCalls for records of calls.
	Audit, ToolCalls time.Duration
	// Events makes the events of what ends because its time is over; nil: it has no events.
	Events ExpiryEvents
}

// The kinds for which the arguments and results of calls are sealed, for SealedFor.
const (
	SealedCallArguments = "tool-call-arguments"
	SealedCallResult    = "tool-call-result"
)

// SealedFor returns the id for which the arguments and the result of a deployment's call are sealed.
func (c ToolCall) SealedFor(deployment string) string { return deployment + "/" + ids.Format(c.ID) }

// CallBodiesFor is how long the arguments and results of calls are kept.
const CallBodiesFor = 7 * 24 * time.Hour
