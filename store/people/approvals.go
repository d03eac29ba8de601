package people

import "time"

// The states of approvals in the store. A pending or approved one whose EndsAt has passed is expired.
const (
	ApprovalPending  = "pending"
	ApprovalApproved = "approved"
	ApprovalDenied   = "denied"
	// ApprovalUsed: a call claimed it.
	ApprovalUsed = "used"
)

// ApprovalArgumentsFor is how long the arguments of an approval are kept after its end.
const ApprovalArgumentsFor = time.Hour

// Approval is the approval of one call of an agent's tool, which a person gives or refuses.
type Approval struct {
	ID int64
	// Agent and Tool are ids of resources, and AgentName and ToolName their names at the time of the request.
	Agent, Tool         int64
	AgentName, ToolName string
	// Caller is the principal that asked, without its address.
	Caller ToolCaller
	// Permission is what the approver needs in the caller's organization; "": the caller's user approves.
	Permission string
	// Key identifies what is approved: principal, user, agent, tool, their content, and the arguments. At most one
	// approval has it; it is "" after the end.
	Key string
	// Content is the digest of tool and agent, and Digest the keyed digest of the arguments.
	Content, Digest string
	// Arguments are the sealed arguments; "" from ApprovalArgumentsFor after the end on.
	Arguments string
	Status    string
	// RequestedAt is when a call asked, and DecidedAt when DecidedBy decided, zero before.
	RequestedAt, DecidedAt time.Time
	DecidedBy              int64
	// EndsAt is when the state has no effect anymore.
	EndsAt time.Time
}

// ApprovalFilter selects the approvals that match each of its members that is set.
type ApprovalFilter struct {
	Agent, User int64
	Status      string
	// Organization selects those that members of an organization with a permission decide.
	Organization int64
	// Before leaves out this approval and all newer ones; 0: none.
	Before int64
}

// Approvals are the approvals of calls of agents' tools.
type Approvals interface {
	// InsertApproval inserts an approval, and reports false if another one has its Key.
	InsertApproval(Approval) (bool, error)
	// LiveApproval returns the approval with a key.
	LiveApproval(key string) (Approval, bool, error)
	Approval(id int64) (Approval, bool, error)
	// PendingApprovals counts the approvals of an agent that no person has decided and that have not ended at a time,
	// those that the client itself declined among them: of a user, or for 0 of a principal.
	PendingApprovals(agent, user int64, principal string, now time.Time) (int, error)
	// DecideApproval writes the decision on an approval that is pending at a time, and reports whether there was one.
	DecideApproval(id int64, status string, by int64, now, ends time.Time) (bool, error)
	// UseApproval claims an approval that is approved at a time, and reports whether this call did. It frees its Key.
	UseApproval(id int64, now time.Time) (bool, error)
	// FreeApproval frees the key of an approval that has ended by a time, and reports whether this call did.
	FreeApproval(id int64, now time.Time) (bool, error)
	// ListApprovals returns up to limit approvals, the newest first, without arguments.
	ListApprovals(filter ApprovalFilter, limit int) ([]Approval, error)
}
