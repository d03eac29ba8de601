package agents_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/apiserver/users/approvals"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/people"
)

// continues makes a modern call of a client that opens URLs, with a requestState ("" for none), and returns the
// response, the approval, and the next requestState.
func (w *boundWorld) continues(c boundCall, state string) (a answer, approval int64, next string) {
	w.T.Helper()
	params := map[string]any{"name": c.tool, "arguments": json.RawMessage(c.arguments), "_meta": map[string]any{
		"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": map[string]any{"elicitation": map[string]any{"url": map[string]any{}}},
	}}
	if state != "" {
		params["requestState"], params["inputResponses"] = state, map[string]any{"approval": map[string]any{"action": "accept"}}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
	w.Must(err)
	a = w.post(c.agent, c.credential, string(body), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", c.tool)
	var got struct {
		Result struct {
			InputRequests struct {
				Approval struct{ Params struct{ URL string } }
			}
			RequestState string
		}
	}
	w.Must(json.Unmarshal([]byte(a.raw), &got))
	if address := got.Result.InputRequests.Approval.Params.URL; address != "" {
		approval = w.approvalAt(address)
	}
	return a, approval, got.Result.RequestState
}

// expectNoState checks that a requestState continues no call: the code is -32602, nothing is sent, and no approval is
// asked for or used.
func (w *boundWorld) expectNoState(what string, c boundCall, state string, approval int64) {
	w.T.Helper()
	_, before := w.up.last()
	status := w.approvalOf(approval).Status
	a, asked, next := w.continues(c, state)
	if !strings.Contains(a.raw, `"code":-32602`) || !strings.Contains(a.raw, "requestState") || asked != 0 || next != "" {
		w.T.Errorf("%s: %d %s", what, a.status, a.raw)
	}
	if _, after := w.up.last(); after != before || w.approvalOf(approval).Status != status {
		w.T.Errorf("%s: %d calls were sent, and the approval is %s", what, after-before, w.approvalOf(approval).Status)
	}
}

// approvedState asks for an approval, approves it, and returns it with the requestState of the call.
func (w *boundWorld) approvedState(c boundCall) (approval int64, state string) {
	w.T.Helper()
	a, approval, state := w.continues(c, "")
	if approval == 0 || state == "" {
		w.T.Fatalf("the call: %d %s", a.status, a.raw)
	}
	(&approvalWorld{peopleWorld: w.peopleWorld}).decide(approval, people.ApprovalApproved)
	return approval, state
}

func TestForgedRequestStateContinuesNoCall(t *testing.T) {
	servertest.OnOneEngine(t, func(t *testing.T, url string) {
		w := newBoundWorld(t, url)
		own := boundCall{w.own, "support", "pay", `{"cents":1}`}
		id, state := w.approvedState(own)
		key := w.approvalOf(id).Key
		file := filepath.Join(t.TempDir(), "other.key")
		w.Must(os.WriteFile(file, []byte(strings.Repeat("x", 32)), 0o600))
		other, err := seal.Load([]string{file})
		w.Must(err)
		content := fmt.Appendf(nil, `{"approval":%d,"ends":"2999-01-01T00:00:00Z"}`, id)
		const deployment = frontendtest.Deployment + "/"
		for name, forged := range map[string]string{
			"a word": "approved", "the approval": ids.Format(id), "plain JSON": string(content), "encoded JSON": base64.RawURLEncoding.EncodeToString(content), "blanks": "   ",
			"the key of another server":    other.Seal(document.SealedCallState, deployment+key, content),
			"another kind of object":       w.Keyring.Seal(document.SealedResultToken, deployment+key, content),
			"another deployment":           w.Keyring.Seal(document.SealedCallState, "rival/rival/"+key, content),
			"another call":                 w.Keyring.Seal(document.SealedCallState, deployment+strings.Repeat("0", len(key)), content),
			"the arguments of an approval": w.approvalOf(id).Arguments, "another content": w.Keyring.Seal(document.SealedCallState, deployment+key, []byte("approved")),
			"a doubled state": state + state, "a state in quotes": `"` + state + `"`, "a state in another case": strings.ToUpper(state), "a state with a blank": state + " ", "a state with a line break": state + "\n",
		} {
			w.expectNoState(name, own, forged, id)
		}
		for name, raw := range map[string]string{"a number": `7`, "an object": `{"approval":1}`, "true": `true`, "a list": `["x"]`} {
			a := w.post("support", w.own, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"pay","arguments":{"cents":1},"requestState":`+raw+`}}`)
			if _, count := w.up.last(); count != 0 || !strings.Contains(a.raw, `"code":-32602`) {
				t.Errorf("%s: %d %s, %d calls were sent", name, a.status, a.raw, count)
			}
		}
		for at := range state {
			w.expectNoState(fmt.Sprintf("a state without character %d", at), own, state[:at]+state[at+1:], id)
			changed := []byte(state)
			if changed[at] ^= 1; at == len(state)-1 || at%4 == 0 {
				w.expectNoState(fmt.Sprintf("a state with another character %d", at), own, string(changed), id)
			}
		}
		if a, _, _ := w.continues(own, state); !strings.Contains(a.raw, `"open"`) || w.approvalOf(id).Status != people.ApprovalUsed {
			t.Errorf("the state itself: %d %s", a.status, a.raw)
		}
	})
}

func TestForeignRequestStateContinuesNoCall(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newBoundWorld(t, url)
		second := w.secondClient()
		otherUser := w.bothAgents(w.authorizes(101, nil))
		otherClient := w.bothAgents(w.authorizes(7, func(f *people.TokenFamily) { f.Client = second }))
		session := w.sessions()(agentURL)
		for i, one := range []struct {
			what   string
			change func(*boundCall)
		}{
			{"other arguments", func(c *boundCall) { c.arguments = strings.Replace(c.arguments, ":", ":1", 1) }},
			{"another tool", func(c *boundCall) { c.tool = "refund" }},
			{"another agent", func(c *boundCall) { c.agent = "helpdesk" }},
			{"another client", func(c *boundCall) { c.credential = otherClient }},
			{"another user", func(c *boundCall) { c.credential = otherUser }},
			{"the user's session", func(c *boundCall) { c.credential = session }},
		} {
			own := boundCall{w.own, "support", "pay", fmt.Sprintf(`{"cents":%d}`, 10+i)}
			id, state := w.approvedState(own)
			other := own
			one.change(&other)
			w.expectNoState(one.what, other, state, id)
			foreign, foreignState := w.approvedState(other)
			w.expectNoState("the state of "+one.what, own, foreignState, id)
			w.expectNoState("the state for "+one.what, other, state, foreign)
			if a, _, _ := w.continues(own, state); !strings.Contains(a.raw, `"open"`) || w.approvalOf(id).Status != people.ApprovalUsed || w.approvalOf(foreign).Status != people.ApprovalApproved {
				t.Errorf("the call itself, after %s: %d %s", one.what, a.status, a.raw)
			}
		}
	})
}

// A state that was used once, or too late, sends nothing: it names the approval that it was made for, and no other.
func TestUsedAndExpiredRequestStateSendsNothing(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newBoundWorld(t, url)
		own := boundCall{w.own, "support", "pay", `{"cents":1}`}
		id, state := w.approvedState(own)
		if a, _, _ := w.continues(own, state); !strings.Contains(a.raw, `"open"`) {
			t.Fatalf("the call: %d %s", a.status, a.raw)
		}
		replay := func(what, wanted string) {
			t.Helper()
			_, before := w.up.last()
			a, asked, next := w.continues(own, state)
			if code, _, _ := failureOf(a); code != wanted || asked != 0 || next != "" {
				t.Errorf("%s: %d %s", what, a.status, a.raw)
			}
			if _, after := w.up.last(); after != before || w.approvalOf(id).Status == people.ApprovalApproved {
				t.Errorf("%s: %d calls were sent", what, after-before)
			}
		}
		replay("a state that was used", "approval_expired")
		// A second approval of the same call is not for the first one's state.
		again, _ := w.approvedState(own)
		replay("a state that was used, with another approval", "approval_expired")
		if again == id || w.approvalOf(again).Status != people.ApprovalApproved {
			t.Errorf("the second approval is %s", w.approvalOf(again).Status)
		}

		own.arguments = `{"cents":2}`
		_, id, state = w.continues(own, "")
		(&approvalWorld{peopleWorld: w.peopleWorld}).decide(id, people.ApprovalDenied)
		replay("the state of a denied call", "approval_denied")

		own.arguments = `{"cents":3}`
		id, state = w.approvedState(own)
		w.declareMoneyTool("pay", func(a *document.AITool) { a.Description = "Pays at once." })
		w.expectNoState("the state of a changed tool", own, state, id)
		w.declareMoneyTool("pay", nil)

		own.arguments = `{"cents":4}`
		id, state = w.approvedState(own)
		end := w.approvalOf(id).RequestedAt.Add(10*time.Minute + approvals.UsableFor)
		w.Clock.Advance(end.Sub(w.Clock.Now()) - 6*time.Minute) // approvals end 5 minutes after the decision
		own.credential = w.bothAgents(w.authorizes(7, nil))
		_, before := w.up.last()
		if a, _, _ := w.continues(own, state); strings.Contains(a.raw, `"open"`) || !strings.Contains(a.raw, `"code":"approval_expired"`) {
			t.Errorf("the state of an approval that ended: %d %s", a.status, a.raw)
		}
		w.Clock.Advance(6 * time.Minute)
		own.credential = w.bothAgents(w.authorizes(7, nil))
		w.expectNoState("a state after its end", own, state, id)
		if _, after := w.up.last(); after != before {
			t.Errorf("%d calls were sent", after-before)
		}
	})
}
