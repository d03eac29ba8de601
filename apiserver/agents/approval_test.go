package agents_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/store/people"
)

// approvalWorld is a world with the tool "pay", whose calls need an approval.
type approvalWorld struct {
	*peopleWorld
	token, session string
}

func newApprovalWorld(t *testing.T, approval *document.ToolApproval) *approvalWorld {
	t.Helper()
	return newApprovalWorldIn(t, newWorld(t), approval)
}

func newApprovalWorldIn(t *testing.T, in *world, approval *document.ToolApproval) *approvalWorld {
	t.Helper()
	w := &approvalWorld{peopleWorld: newPeopleWorldIn(t, in, func(a *document.AIAgent) { a.Tools = []string{"find-order", "pay"} })}
	w.declarePay(approval, "Pays.")
	w.token = w.peopleWorld.token("orders:read")
	w.session = w.sessions()(agentURL)
	w.Eventually("the tool is declared", func() bool { return strings.Contains(w.post("support", w.token, listing).raw, `"pay"`) })
	return w
}

func (w *approvalWorld) declarePay(approval *document.ToolApproval, description string) {
	w.T.Helper()
	w.declareTool("pay", document.AITool{
		Name: "Pay", Description: description, Method: "POST", Endpoint: w.up.URL + "/payments", RequiresUserApproval: true, Approval: approval,
		RequestBodySchema: []schemafield.Field{{Name: "cents", FieldType: "INTEGER", Required: true}, {Name: "note", FieldType: "STRING"}},
	})
}

func pay(cents int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"cents":%d}}}`, cents)
}

// failureOf returns the member of _meta that says why a call failed.
func failureOf(a answer) (code, approval, url string) {
	result, _ := a.body["result"].(map[string]any)
	meta, _ := result["_meta"].(map[string]any)
	failed, _ := meta["dev.cardea.iam/error"].(map[string]any)
	code, _ = failed["code"].(string)
	waits, _ := failed["approval"].(map[string]any)
	approval, _ = waits["id"].(string)
	url, _ = waits["url"].(string)
	return code, approval, url
}

// asks calls the tool, and returns the id of the approval that the call needs.
func (w *approvalWorld) asks(credential string, cents int) int64 {
	w.T.Helper()
	a := w.post("support", credential, pay(cents))
	code, approval, url := failureOf(a)
	if code != "approval_required" || url != "http://localhost/approvals/"+approval {
		w.T.Fatalf("the call: %s", a.raw)
	}
	id, err := ids.Parse(approval)
	w.Must(err)
	return id
}

// decide decides an approval as its user does in a browser.
func (w *approvalWorld) decide(id int64, status string) {
	w.T.Helper()
	now := w.Clock.Now().UTC()
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		decided, err := tx.Approvals().DecideApproval(id, status, 7, now, now.Add(approvals.UsableFor))
		if err == nil && !decided {
			w.T.Errorf("the approval is not pending")
		}
		return err
	}))
}

func (w *approvalWorld) payments() (n int) {
	w.up.mu.Lock()
	defer w.up.mu.Unlock()
	for _, one := range w.up.requests {
		if one.url == "/payments" {
			n++
		}
	}
	return n
}

func TestApprovedCallIsMadeOnce(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newApprovalWorldIn(t, newWorldOver(t, url), nil)
		id := w.asks(w.token, 500)
		if again := w.asks(w.token, 500); again != id {
			t.Errorf("the same call asks twice: %d, %d", id, again)
		}
		if w.payments() != 0 {
			t.Fatal("the call was made without an approval")
		}
		w.decide(id, people.ApprovalApproved)
		var group sync.WaitGroup
		var mu sync.Mutex
		succeeded := 0
		for range 100 {
			group.Go(func() {
				if a := w.post("support", w.token, pay(500)); strings.Contains(a.raw, `"open"`) {
					mu.Lock()
					defer mu.Unlock()
					succeeded++
				}
			})
		}
		group.Wait()
		if succeeded != 1 || w.payments() != 1 {
			t.Errorf("%d calls succeeded, and the tool got %d requests", succeeded, w.payments())
		}
		var record people.ToolCall
		w.Must(w.Store.View(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
			list, err := tx.Records().ListToolCalls(people.ToolCallFilter{Outcome: people.CallSucceeded}, 1)
			if err == nil && len(list) == 1 {
				record = list[0]
			}
			return err
		}))
		if record.Approval != id {
			t.Errorf("the record names approval %d, want %d", record.Approval, id)
		}
	})
}

func TestApprovalIsForItsCallAlone(t *testing.T) {
	w := newApprovalWorld(t, nil)
	approve := func() { w.decide(w.asks(w.token, 500), people.ApprovalApproved) }
	approve()
	for name, call := range map[string]func() answer{
		"other arguments":   func() answer { return w.post("support", w.token, pay(501)) },
		"another principal": func() answer { return w.post("support", w.session, pay(500)) },
	} {
		if code, _, _ := failureOf(call()); code != "approval_required" {
			t.Errorf("%s: %s", name, code)
		}
	}
	w.declarePay(nil, "Pays at once.")
	w.Eventually("the changed tool asks again", func() bool {
		code, _, _ := failureOf(w.post("support", w.token, pay(500)))
		return code == "approval_required"
	})
	if w.payments() != 0 {
		t.Errorf("%d payments", w.payments())
	}

	denied := w.asks(w.token, 7)
	w.decide(denied, people.ApprovalDenied)
	if code, _, _ := failureOf(w.post("support", w.token, pay(7))); code != "approval_denied" {
		t.Errorf("after the denial: %s", code)
	}
	w.Clock.Advance(approvals.UsableFor + time.Second)
	if again := w.asks(w.peopleWorld.token("orders:read"), 7); again == denied {
		t.Error("the denial is for ever")
	}
}

func TestApprovalEnds(t *testing.T) {
	w := newApprovalWorld(t, &document.ToolApproval{LifetimeSeconds: 60})
	first := w.asks(w.token, 1)
	w.Clock.Advance(61 * time.Second)
	if again := w.asks(w.token, 1); again == first {
		t.Error("an approval that was not decided in time is asked for again")
	}
	w.decide(w.asks(w.token, 1), people.ApprovalApproved)
	w.Clock.Advance(approvals.UsableFor)
	w.asks(w.token, 1)
	if w.payments() != 0 {
		t.Error("an approval was used after its end")
	}
}

func TestCallsWithoutAnApproverAreRefused(t *testing.T) {
	w := newApprovalWorld(t, nil)
	refused := w.post("support", w.key, pay(1))
	if code, _, _ := failureOf(refused); code != "user_required" || !strings.Contains(refused.raw, "The user of a call approves it") {
		t.Errorf("a key without a user: %s", refused.raw)
	}
	if list := names(w.post("support", w.key, listing)); len(list) != 1 {
		t.Errorf("its list is %v", list)
	}
	w.declarePay(&document.ToolApproval{Permission: "payments:approve"}, "Pays.")
	w.Eventually("a call in no organization has no approver", func() bool {
		refused := w.post("support", w.session, pay(1))
		code, _, _ := failureOf(refused)
		return code == "user_required" && strings.Contains(refused.raw, "Members of an organization approve calls")
	})
	id := w.asks(w.token, 1) // in the user's organization
	w.decide(id, people.ApprovalApproved)
	if code, _, _ := failureOf(w.post("support", w.token, pay(1))); code != "approval_expired" {
		t.Errorf("an approver who lost the permission: %s", code)
	}
}

func TestTooManyApprovalsWait(t *testing.T) {
	w := newApprovalWorld(t, nil)
	for i := range approvals.MaxPending {
		w.asks(w.token, i)
	}
	if code, _, _ := failureOf(w.post("support", w.token, pay(99))); code != "rate_limited" {
		t.Errorf("one more: %s", code)
	}
	w.asks(w.token, 0)
}

func TestConcurrentCallsShareTheBoundOfApprovals(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newApprovalWorldIn(t, newWorldOver(t, url), nil)
		codes := make([]string, approvals.MaxPending+10)
		var group sync.WaitGroup
		for i := range codes {
			group.Go(func() { codes[i], _, _ = failureOf(w.post("support", w.token, pay(i))) })
		}
		group.Wait()
		slices.Sort(codes)
		want := slices.Concat(slices.Repeat([]string{"approval_required"}, approvals.MaxPending), slices.Repeat([]string{"rate_limited"}, 10))
		if !slices.Equal(codes, want) {
			t.Errorf("the calls answer %v, want %d that wait", codes, approvals.MaxPending)
		}
	})
}

// modernPay calls the tool under the modern revision, with what the client declares and sends again.
func (w *approvalWorld) modernPay(credential string, cents int, capabilities, more string) answer {
	w.T.Helper()
	return w.post("support", credential, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"cents":%d}%s,"_meta":{
		"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":%s}}}`, cents, more, capabilities),
		"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "pay")
}

func TestClientsThatOpenURLsContinueACall(t *testing.T) {
	w := newApprovalWorld(t, nil)
	const opens = `{"elicitation":{"url":{}}}`
	if code, _, _ := failureOf(w.modernPay(w.token, 500, `{"elicitation":{"form":{}}}`, "")); code != "approval_required" {
		t.Errorf("a client that opens no URLs: %s", code)
	}
	a := w.modernPay(w.token, 500, opens, "")
	var got struct {
		Result struct {
			ResultType    string
			InputRequests map[string]struct {
				Method string
				Params map[string]string
			}
			RequestState string
		}
	}
	w.Must(json.Unmarshal([]byte(a.raw), &got))
	asked := got.Result.InputRequests["approval"]
	if got.Result.ResultType != "input_required" || asked.Method != "elicitation/create" || asked.Params["mode"] != "url" || !strings.HasPrefix(asked.Params["url"], "http://localhost/approvals/") ||
		asked.Params["message"] != "Approve or deny this call of Pay by Support." || strings.Contains(a.raw, "500") {
		t.Fatalf("the result is %s", a.raw)
	}
	id, err := ids.Parse(asked.Params["url"][strings.LastIndexByte(asked.Params["url"], '/')+1:])
	w.Must(err)
	state, err := json.Marshal(got.Result.RequestState)
	w.Must(err)
	retry := fmt.Sprintf(`,"requestState":%s,"inputResponses":{"approval":{"action":"accept"}}`, state)

	for name, one := range map[string]func() answer{
		"other arguments":   func() answer { return w.modernPay(w.token, 501, opens, retry) },
		"another principal": func() answer { return w.modernPay(w.session, 500, opens, retry) },
		"an altered state": func() answer {
			return w.modernPay(w.token, 500, opens, strings.Replace(retry, `"requestState":"`, `"requestState":"x`, 1))
		},
	} {
		if a := one(); !strings.Contains(a.raw, `-32602`) {
			t.Errorf("%s: %s", name, a.raw)
		}
	}
	w.Must(w.Store.View(t.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		failed, err := tx.Records().ListToolCalls(people.ToolCallFilter{Outcome: people.CallFailed}, 9)
		if len(failed) != 0 {
			t.Errorf("a request that continues no call is recorded as failed: %+v", failed)
		}
		return err
	}))
	done := make(chan answer)
	go func() { done <- w.modernPay(w.token, 500, opens, retry) }() // "accept" means only that the URL was opened
	w.decide(id, people.ApprovalApproved)
	if a := <-done; !strings.Contains(a.raw, `"open"`) || w.payments() != 1 {
		t.Errorf("the continued call: %s", a.raw)
	}
	if code, _, _ := failureOf(w.modernPay(w.token, 500, opens, retry)); code != "approval_expired" || w.payments() != 1 {
		t.Errorf("the same state again: %s", code)
	}

	var next struct{ Result struct{ RequestState string } }
	w.Must(json.Unmarshal([]byte(w.modernPay(w.token, 9, opens, "").raw), &next))
	state, err = json.Marshal(next.Result.RequestState)
	w.Must(err)
	if code, _, _ := failureOf(w.modernPay(w.token, 9, opens, fmt.Sprintf(`,"requestState":%s,"inputResponses":{"approval":{"action":"decline"}}`, state))); code != "approval_denied" {
		t.Errorf("a declined call: %s", code)
	}
	var audited []people.Audit
	w.Must(w.Store.View(t.Context(), frontendtest.Deployment, func(tx people.Tx) (err error) {
		audited, err = tx.Listings().ListAudit(people.AuditFilter{Action: "tool_approval.denied"}, 10)
		return err
	}))
	if len(audited) != 1 || !strings.HasPrefix(audited[0].Object, "tool_approval:") {
		t.Errorf("the decision is audited as %+v", audited)
	}
}
