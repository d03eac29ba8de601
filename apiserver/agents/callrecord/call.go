// Package callrecord records and counts the calls of agents' tools. A call that may change something has its record
// before its request is sent, so that a call that a server left is known and never sent again. Every other call is
// recorded in batches after it. The package knows no protocol of agents.
package callrecord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// longestTimeout is the largest timeoutSeconds of an AITool.
	longestTimeout = 10 * time.Minute
	// AbandonedAfter is when a call that has started and not ended was abandoned by its server: after the longest
	// timeout, with a margin for slow stores and clocks that differ.
	AbandonedAfter = longestTimeout + 5*time.Minute
	// startWithin bounds the write before a call, and settleWithin the one after it; a result that is not written by then
	// waits.
	startWithin, settleWithin = 5 * time.Second, 2 * time.Second
)

// CodeInternal is the code of a call that ended by a fault of the server.
const CodeInternal = "internal"

// ErrNotRecorded means that a call was not run, because it could not be recorded before.
var ErrNotRecorded = errors.New("the call cannot be recorded")

// ErrNotClaimed means that a call was not run, because another call has what it claims.
var ErrNotClaimed = errors.New("the call has no claim")

// Tool is the tool of a call.
type Tool struct {
	// Deployment is "namespace/name".
	Deployment string
	// Agent and ID are ids of resources; AgentName and Name are how callers name them.
	Agent, ID       int64
	AgentName, Name string
	// ReadOnly reports that a call changes nothing.
	ReadOnly bool
	// Later reports that the result may come after the response. The tool sends it once the record is there.
	Later bool
	// Keep is what is kept of the bodies of calls, sealed: document.RecordArguments, RecordAll, or "" for nothing.
	Keep string
}

// Call is one call of a tool. It is recorded when it ends: by Refuse, Fail or Run.
type Call struct {
	recorder *Recorder
	tool     Tool
	began    time.Time
	record   people.ToolCall
	// canonical is the canonical form of the arguments.
	canonical []byte
	claim     func(people.Tx) (bool, error)
}

// Begin begins a call that arrived at a time. revision is the revision of the protocol.
func (r *Recorder) Begin(at time.Time, of Tool, caller people.ToolCaller, revision string) (*Call, error) {
	at = at.UTC().Truncate(time.Microsecond) // the precision of the store
	id, err := r.ids.next(at)
	if err != nil {
		return nil, err
	}
	return &Call{recorder: r, tool: of, began: time.Now(), record: people.ToolCall{
		ID: id, At: at, Agent: of.Agent, AgentName: of.AgentName, Tool: of.ID, ToolName: of.Name, Caller: caller, Revision: revision, Decision: people.CallAllowed,
	}}, nil
}

// ID returns the id of the call. Run may change it until the call is sent.
func (c *Call) ID() int64 { return c.record.ID }

// Digest returns the keyed digest of the arguments, "" if there is no key, and Canonical their canonical form.
func (c *Call) Digest() string { return c.record.Digest }

// Canonical returns the canonical form of the arguments (RFC 8785).
func (c *Call) Canonical() []byte { return c.canonical }

// UseApproval notes the approval that the call needs.
func (c *Call) UseApproval(id int64) { c.record.Approval = id }

// Claim has Run claim something in the transaction that commits the record before the request is sent. If claim reports
// false, the call does not run, and the error wraps ErrNotClaimed.
func (c *Call) Claim(claim func(people.Tx) (bool, error)) { c.claim = claim }

// recordedBefore reports whether the record of the call is committed before its request is sent.
func (c *Call) recordedBefore() bool { return !c.tool.ReadOnly || c.tool.Later || c.claim != nil }

// Refuse records a call that is not allowed.
func (c *Call) Refuse(decision, code string) {
	c.record.Decision = decision
	c.record.CallResult = people.CallResult{Code: code, Latency: time.Since(c.began)}
	c.recorder.count(&c.tool, decision)
	if !c.recorder.rejected.Take(c.tool.Deployment, 1, c.record.At) {
		c.recorder.notRecorded.Add(1)
		return
	}
	c.recorder.add(&waiting{deployment: c.tool.Deployment, call: c.record})
}

// Fail records an allowed call of which nothing was sent.
func (c *Call) Fail(code string) {
	c.end(toolcall.Result{Code: code}, 0)
	c.recorder.add(&waiting{deployment: c.tool.Deployment, call: c.record})
}

// Run runs an allowed call and records it. Without a record, a call that may change something does not run, and the
// error wraps ErrNotRecorded.
func (c *Call) Run(ctx context.Context, do func() toolcall.Result) (toolcall.Result, error) {
	ctx = context.WithoutCancel(ctx) // a caller that is gone has a record too
	if c.recordedBefore() {
		if err := c.start(ctx); errors.Is(err, ErrNotClaimed) {
			c.record.Outcome = ""
			return toolcall.Result{}, err
		} else if err != nil {
			return toolcall.Result{}, fmt.Errorf("%w: %w", ErrNotRecorded, err)
		}
	}
	c.recorder.inFlight.Inc()
	defer c.recorder.inFlight.Dec()
	result, sent := toolcall.Result{Code: CodeInternal}, time.Now()
	defer func() { // also if do panics
		c.end(result, time.Since(sent))
		c.recorder.seconds.Observe(c.record.Latency.Seconds())
		c.settle(ctx, &result)
	}()
	result = do()
	return result, nil
}

// start commits the record of a call that has not ended.
func (c *Call) start(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	c.record.Outcome = people.CallStarted
	err := c.begin(ctx)
	if !errors.Is(err, people.ErrDuplicate) {
		return err
	}
	if c.record.ID, err = c.recorder.ids.next(c.record.At); err != nil { // a call of another server in the same millisecond has the id
		return err
	}
	return c.begin(ctx)
}

// begin inserts the record, in one transaction with the claim.
func (c *Call) begin(ctx context.Context) error {
	if c.claim == nil {
		return c.recorder.group.commit(ctx, c.tool.Deployment, c.record, false)
	}
	return c.recorder.Store.Change(ctx, c.tool.Deployment, func(tx people.Tx) error {
		claimed, err := c.claim(tx)
		if err != nil {
			return err
		}
		if !claimed {
			return ErrNotClaimed
		}
		return tx.Records().InsertToolCall(c.record)
	})
}

// end sets the result of the call and counts it.
func (c *Call) end(result toolcall.Result, upstream time.Duration) {
	record := &c.record
	record.CallResult = people.CallResult{
		Outcome: outcomeOf(&result), Code: result.Code, Status: int64(result.Status), Latency: time.Since(c.began), Upstream: upstream,
		BytesIn: int64(result.BytesIn), BytesOut: int64(result.BytesOut),
	}
	outcome := record.Outcome
	if result.Code == toolcall.CodeArguments { // the request could not be made of the arguments
		record.Decision, record.Outcome, record.Upstream = people.CallInvalid, "", 0
		outcome = record.Decision
	}
	record.Result = c.recorder.sealResult(&c.tool, record, &result, record.At)
	c.recorder.count(&c.tool, outcome)
}

// outcomeOf returns the outcome of a call that ended with a result.
func outcomeOf(result *toolcall.Result) string {
	switch {
	case result.Later:
		return people.CallAccepted
	case result.Code == "":
		return people.CallSucceeded
	case result.Code == toolcall.CodeTimeout:
		return people.CallTimeout
	case result.Code == toolcall.CodeCancelled:
		return people.CallCancelled
	}
	return people.CallFailed
}

// settle writes the result of a call. If the store is unavailable, the result waits. A result that came later is
// written already.
func (c *Call) settle(ctx context.Context, result *toolcall.Result) {
	if !c.recordedBefore() {
		c.recorder.add(&waiting{deployment: c.tool.Deployment, call: c.record})
		return
	}
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	if result.Recorded {
		c.recorder.forget(ctx, &c.tool, c.record.ID)
		return
	}
	if err := c.recorder.group.commit(ctx, c.tool.Deployment, c.record, true); err != nil {
		c.recorder.add(&waiting{deployment: c.tool.Deployment, call: c.record, started: true})
	}
}
