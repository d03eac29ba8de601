package agents_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

// A record names the program and the user, whatever the credential is, and the reason of each refusal.
func TestRecordsNameProgramAndUser(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) {
		a.Permissions = []string{"orders:read"}
		a.Tools = []string{"find-order", "cancel-order", "purge", "mine", "limited"}
	})
	w.declareTool("cancel-order", document.AITool{Name: "Cancel", Method: "POST", Endpoint: w.up.URL + "/cancellations", Permissions: []string{"orders:write"}})
	w.declareTool("purge", document.AITool{Name: "Purge", Method: "DELETE", Endpoint: w.up.URL + "/orders", Permissions: []string{"orders:purge"}})
	w.declareTool("mine", document.AITool{Name: "Mine", Method: "GET", Endpoint: w.up.URL + "/mine", Authorization: document.ToolAuthorization{AuthorizeAsUser: true}})
	w.Put(v1alpha1.KindRateLimitScheme, "once", frontendtest.Deployment, "once", document.RateLimitScheme{Name: "once", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 1, Mode: "per_key"}}})
	w.declareTool("limited", document.AITool{Name: "Limited", Method: "GET", Endpoint: w.up.URL + "/limited", Scheme: "once"})
	session := w.sessions()
	key := w.declareKey("all", frontendtest.Deployment, "*")
	reader, narrow := w.token("orders:read"), w.token("orders.change")
	user := people.ToolCaller{Kind: people.CallerClient, ID: w.family.Client, Client: w.family.Client, User: 7, Organization: 50, Address: "203.0.113.9"}
	signedIn := people.ToolCaller{Kind: people.CallerSession, ID: "12", User: 7, Address: "203.0.113.9"}
	program := people.ToolCaller{Kind: people.CallerKey, Address: "203.0.113.9"}
	type want struct {
		caller                            people.ToolCaller
		tool, decision, outcome, code     string
		credential, arguments, answerPart string
	}
	wants := []want{
		{user, "find-order", people.CallAllowed, people.CallSucceeded, "", reader, `{"number":"1"}`, `"open"`},
		{signedIn, "find-order", people.CallAllowed, people.CallSucceeded, "", session(agentURL, "orders:read"), `{"number":"1"}`, `"open"`},
		{user, "mine", people.CallAllowed, people.CallSucceeded, "", reader, `{}`, `"open"`},
		{user, "cancel-order", people.CallPermissionDenied, "", "permission_denied", reader, `{}`, `-32000`},           // the scope is missing
		{user, "purge", people.CallPermissionDenied, "", "permission_denied", reader, `{}`, `Unknown tool`},            // the permission is missing
		{user, "find-order", people.CallPermissionDenied, "", "permission_denied", narrow, `{"number":"1"}`, `-32000`}, // the agent's permission is missing
		{program, "mine", people.CallPermissionDenied, "", "user_required", key, `{}`, `user_required`},
		{user, "limited", people.CallAllowed, people.CallSucceeded, "", reader, `{}`, `"open"`},
		{user, "limited", people.CallRateLimited, "", "rate_limited", reader, `{}`, `retry_after`},
	}
	w.Eventually("the configuration is in effect", func() bool { return len(names(w.post("support", key, listing))) == 4 })
	for _, one := range wants {
		w.Clock.Advance(time.Millisecond)
		if a := w.post("support", one.credential, callBody(one.tool, one.arguments), "X-Forwarded-For", "203.0.113.9"); !strings.Contains(a.raw, one.answerPart) {
			t.Errorf("%s: %d %s", one.tool, a.status, a.raw)
		}
	}
	for i, c := range w.recorded(len(wants)) {
		one := wants[i]
		if one.caller.Kind == people.CallerKey {
			one.caller.ID = c.Caller.ID
		}
		if c.Caller != one.caller || c.ToolName != one.tool || c.Decision != one.decision || c.Outcome != one.outcome || c.Code != one.code {
			t.Errorf("call %d: %+v, want %+v", i, c, one)
		}
	}
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { return tx.Users().DeleteUser(7) }))
	for i, c := range w.recorded(len(wants)) {
		if c.Caller.User != 0 || wants[i].caller.User != 0 && c.Caller.Address != "" || c.Caller.Kind == people.CallerSession && c.Caller.ID != "" {
			t.Errorf("call %d, after the user is deleted: %+v", i, c.Caller)
		}
	}
}
