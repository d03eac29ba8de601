package callrecord

import (
	"context"
	"encoding/json"
	"time"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// Arrive completes the record of a call whose result came later. The result is kept, sealed, whatever the tool keeps:
// no caller may have received it. It reports false if the deployment has kept as much as it may.
func (r *Recorder) Arrive(deployment string, record *people.ToolCall, result toolcall.Result, now time.Time) bool {
	content, fits := contentOf(&result)
	if !fits {
		result = toolcall.Failed(toolcall.CodeTooLarge, "The tool's answer is too large to be kept.")
		content, _ = contentOf(&result)
	}
	kept := r.sealContent(&Tool{Deployment: deployment}, record, content, now)
	if kept == "" {
		return false
	}
	record.CallResult = people.CallResult{
		Outcome: outcomeOf(&result), Code: result.Code, Status: record.Status, Latency: now.Sub(record.At), Upstream: now.Sub(record.At),
		BytesIn: int64(result.BytesIn), BytesOut: record.BytesOut, Result: kept,
	}
	return true
}

// Arrived returns the result of a record that Arrive completed, and reports whether it can be read.
func (r *Recorder) Arrived(deployment string, record *people.ToolCall) (result toolcall.Result, found bool) {
	plain, err := r.Keyring.Open(people.SealedCallResult, record.SealedFor(deployment), record.Result)
	if err != nil || json.Unmarshal(plain, &result.Content) != nil || len(result.Content) == 0 {
		return toolcall.Result{}, false
	}
	result.Code, result.BytesIn, result.Recorded = record.Code, int(record.BytesIn), true
	if result.Code == "" {
		result.Structured = json.RawMessage(result.Content[0].Text) // the text of a result that came later is its JSON
	}
	return result, true
}

// forget erases the kept result of a call whose caller has it, unless the tool keeps results. If the store is
// unavailable, the result stays for as long as kept ones.
func (r *Recorder) forget(ctx context.Context, of *Tool, id int64) {
	if of.Keep == document.RecordAll {
		return
	}
	err := r.Store.Change(ctx, of.Deployment, func(tx people.Tx) error { return tx.Records().ForgetToolResult(id) })
	if err != nil {
		r.Log.Error(err, "The result of a tool's call was not erased after its caller got it", "deployment", of.Deployment)
	}
}
