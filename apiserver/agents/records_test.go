package agents_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// records returns the records of the deployment, the oldest first.
func (w *world) records(in people.Store) (calls []people.ToolCall) {
	w.T.Helper()
	w.Must(in.View(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) (err error) {
		calls, err = tx.Records().ListToolCalls(people.ToolCallFilter{OldestFirst: true}, 1000)
		return err
	}))
	return calls
}

// recorded waits for a number of records that have ended, and returns them.
func (w *world) recorded(n int) (calls []people.ToolCall) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("%d calls are recorded", n), func() bool { calls = w.records(w.Store); return len(calls) >= n })
	if len(calls) != n {
		w.T.Fatalf("%d calls are recorded, want %d: %+v", len(calls), n, calls)
	}
	return calls
}

// callBody is the body of a request that calls a tool.
func callBody(tool, arguments string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments)
}

func TestEveryCallOfAToolIsRecorded(t *testing.T) {
	w := newWorld(t)
	w.declareTool("sealed", document.AITool{
		Name: "Find an order", Method: "GET", Endpoint: w.up.URL, Headers: []document.ToolHeader{{Name: "X-Api-Token", Secret: true, Sealed: "v2.00000000.AAAA"}},
	})
	w.declareAgent("support", "find-order", "cancel-order", "sealed")
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("fields") == "missing" {
			rw.WriteHeader(404)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"state":"open"}`)
	})
	type want struct {
		tool, arguments, decision, outcome, code string
		status, in, out                          int64
		digest                                   bool
	}
	wants := []want{
		{"find-order", `{"number":"1"}`, people.CallAllowed, people.CallSucceeded, "", 200, 16, 0, true},
		{"find-order", `{ "number" : "1" }`, people.CallAllowed, people.CallSucceeded, "", 200, 16, 0, true},
		{"find-order", `{"number":"1","fields":["missing"]}`, people.CallAllowed, people.CallFailed, "upstream_status", 404, 0, 0, true},
		{"find-order", `{"number":1}`, people.CallInvalid, "", "invalid_arguments", 0, 0, 0, false},
		{"find-order", `{"number":".."}`, people.CallInvalid, "", "invalid_arguments", 0, 0, 0, true},
		{"cancel-order", `{"number":"2"}`, people.CallAllowed, people.CallSucceeded, "", 200, 16, 14, true},
		{"cancel-order", `{}`, people.CallInvalid, "", "invalid_arguments", 0, 0, 0, false},
		{"sealed", `{}`, people.CallAllowed, people.CallFailed, "not_configured", 0, 0, 0, true},
	}
	if a := w.post("support", w.key, callBody("unknown", `{}`)); !strings.Contains(a.raw, "Unknown tool") {
		t.Fatalf("an unknown tool: %s", a.raw)
	}
	for _, one := range wants {
		w.Clock.Advance(time.Millisecond) // the ids order the records
		w.post("support", w.key, callBody(one.tool, one.arguments), "X-Forwarded-For", "203.0.113.9")
	}
	calls := w.recorded(len(wants))
	key, err := apikey.Read(w.key)
	w.Must(err)
	for i, one := range wants {
		c := calls[i]
		got := want{c.ToolName, one.arguments, c.Decision, c.Outcome, c.Code, c.Status, c.BytesIn, c.BytesOut, c.Digest != ""}
		if got != one {
			t.Errorf("call %d: %+v, want %+v", i, got, one)
		}
		caller := people.ToolCaller{Kind: people.CallerKey, ID: key.ID(), Address: "203.0.113.9"}
		if c.Caller != caller || c.AgentName != "support" || c.Agent != ids.Derive(v1alpha1.KindAIAgent, "acme", "support") ||
			c.Tool != ids.Derive(v1alpha1.KindAITool, "acme", one.tool) || c.Revision != "2025-06-18" {
			t.Errorf("call %d: %+v", i, c)
		}
		if c.Arguments != "" || c.Result != "" {
			t.Errorf("call %d keeps bodies", i)
		}
	}
	if calls[0].Digest != calls[1].Digest || calls[0].Digest == calls[2].Digest || strings.Contains(calls[0].Digest, "1\"") {
		t.Errorf("the digests are %s, %s, %s", calls[0].Digest, calls[1].Digest, calls[2].Digest)
	}
	expected := `
# HELP cardea_tool_calls_total Calls of agents' tools by their outcome, or by the decision on a call that was refused.
# TYPE cardea_tool_calls_total counter
cardea_tool_calls_total{agent="support",deployment="acme/staging",outcome="failed",tool="find-order"} 1
cardea_tool_calls_total{agent="support",deployment="acme/staging",outcome="failed",tool="sealed"} 1
cardea_tool_calls_total{agent="support",deployment="acme/staging",outcome="invalid",tool="cancel-order"} 1
cardea_tool_calls_total{agent="support",deployment="acme/staging",outcome="invalid",tool="find-order"} 2
cardea_tool_calls_total{agent="support",deployment="acme/staging",outcome="succeeded",tool="cancel-order"} 1
cardea_tool_calls_total{agent="support",deployment="acme/staging",outcome="succeeded",tool="find-order"} 2
`
	w.Must(testutil.GatherAndCompare(w.Registry, strings.NewReader(expected), "cardea_tool_calls_total"))
	w.Withdraw(v1alpha1.KindAIAgent, "acme", "support")
	w.Must(testutil.GatherAndCompare(w.Registry, strings.NewReader(""), "cardea_tool_calls_total"))
}

func TestRefusedCallsAreRecorded(t *testing.T) {
	w := newWorld(t)
	w.Put(v1alpha1.KindRateLimitScheme, "few", frontendtest.Deployment, "few", document.RateLimitScheme{Slug: "few", Name: "few", Rules: []scheme.Rule{{Unit: "day", Duration: 1, MaxRequests: 1}}})
	lacking, limited := w.declareKey("lacking", frontendtest.Deployment, "ai_agents:read"), w.limitedKey("few")
	call, list := callBody("find-order", `{"number":"1"}`), `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	for _, one := range []struct {
		key, body string
		status    int
	}{
		{lacking, call, 403}, {lacking, list, 403}, {lacking, callBody("unknown", `{}`), 403}, {lacking, `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"find-order"}}`, 403},
		{"ck_unknown", call, 401}, {limited, call, 200}, {limited, call, 429}, {limited, list, 429},
	} {
		w.Clock.Advance(time.Millisecond)
		if a := w.post("support", one.key, one.body); a.status != one.status {
			t.Errorf("%s: %d, want %d: %s", one.body, a.status, one.status, a.raw)
		}
	}
	calls := w.recorded(3)
	for i, want := range [][3]string{{people.CallPermissionDenied, "", "permission_denied"}, {people.CallAllowed, people.CallSucceeded, ""}, {people.CallRateLimited, "", "rate_limited"}} {
		if c := calls[i]; c.Decision != want[0] || c.Outcome != want[1] || c.Code != want[2] || c.Tool == 0 {
			t.Errorf("call %d: %+v, want %v", i, c, want)
		}
	}
}

// limitedKey declares a key of an app with a rate-limit scheme.
func (w *world) limitedKey(schemeName string) string {
	w.T.Helper()
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindAPIAuthApp, "limited", frontendtest.Deployment, "limited", document.APIAuthApp{Slug: "limited", Active: true, Permissions: []string{"*"}, Scheme: schemeName})
	w.Put(v1alpha1.KindAPIKey, "limited", frontendtest.Deployment, "", document.APIKey{App: "limited", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}}})
	return minted.Plain()
}

// declareKeyOf gives out a key with all permissions that acts for a user.
func (w *world) declareKeyOf(user int64) apikey.Key {
	w.T.Helper()
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	now := w.Clock.Now()
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		return tx.APIKeys().InsertAPIKey(people.APIKey{
			ID: 9, PublicID: minted.ID(), Digest: minted.Digest(), Prefix: "ck", Suffix: "0000", App: "app-caller", Name: "Ada's", Permissions: []string{"*"}, Owner: user, CreatedAt: now, UpdatedAt: now,
		})
	}))
	return minted
}

// insertAda inserts user 7.
func (w *world) insertAda() {
	w.T.Helper()
	now := w.Clock.Now()
	w.Must(w.Store.Change(w.T.Context(), frontendtest.Deployment, func(tx people.Tx) error {
		return tx.Users().InsertUser(people.User{ID: 7, CreatedAt: now, UpdatedAt: now}, people.Email{ID: 8, User: 7, Address: "ada@example.com", Primary: true, CreatedAt: now})
	}))
}

func TestCallOfAUsersKeyNamesTheUser(t *testing.T) {
	w := newWorld(t)
	w.insertAda()
	minted := w.declareKeyOf(7)
	for _, tool := range []string{"find-order", "cancel-order"} {
		w.Clock.Advance(time.Millisecond)
		if a := w.post("support", minted.Plain(), callBody(tool, `{"number":"1"}`)); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.raw)
		}
	}
	for _, c := range w.recorded(2) {
		if c.Caller.User != 7 || c.Caller.ID != minted.ID() {
			t.Errorf("%+v", c)
		}
	}
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { return tx.Users().DeleteUser(7) }))
	for _, c := range w.recorded(2) {
		if c.Caller != (people.ToolCaller{Kind: people.CallerKey}) {
			t.Errorf("after the user is deleted: %+v", c.Caller)
		}
	}
}

// A call that may change something has its record while the tool works; another has not.
func TestUnsafeCallHasItsRecordBeforeItIsSent(t *testing.T) {
	w := newWorld(t)
	var during atomic.Pointer[[]people.ToolCall]
	w.answering(func(rw http.ResponseWriter, _ *http.Request) {
		var found []people.ToolCall
		_ = w.Store.View(context.Background(), frontendtest.Deployment, func(tx people.Tx) (err error) {
			found, err = tx.Records().ListToolCalls(people.ToolCallFilter{}, 10)
			return err
		})
		during.Store(&found)
		rw.WriteHeader(204)
	})
	w.call("cancel-order", `{"number":"1"}`)
	if found := *during.Load(); len(found) != 1 || found[0].Outcome != people.CallStarted || found[0].Decision != people.CallAllowed {
		t.Errorf("during the call: %+v", found)
	}
	request, _ := w.up.last()
	calls := w.records(w.Store)
	if len(calls) != 1 || calls[0].Outcome != people.CallSucceeded || ids.Format(calls[0].ID) != request.header.Get("Cardea-Call-Id") {
		t.Errorf("with the answer: %+v", calls)
	}
}

// A tool that keeps bodies keeps them sealed, without values of Secrets, and the backend serves them.
func TestKeptBodiesAreServedToAuditors(t *testing.T) {
	w := newWorld(t)
	own := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "kept"))
	w.declareTool("kept", document.AITool{
		Name: "Find an order", Method: "POST", Endpoint: w.up.URL, Record: document.RecordAll, RequestBodySchema: []schemafield.Field{{Name: "q", FieldType: "STRING"}},
		Headers: []document.ToolHeader{{Name: "X-Api-Token", Secret: true, Sealed: w.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(own, "X-Api-Token"), []byte(canary))}},
	})
	w.declareAgent("support", "kept")
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(rw, `{"token":%q,"total":12345678901234567890}`, r.Header.Get("X-Api-Token"))
	})
	w.call("kept", `{"q":"private words"}`)
	id := ids.Format(w.recorded(1)[0].ID)
	for name, tc := range map[string]struct {
		key    string
		status int
		want   []string
	}{
		"an auditor": {w.declareKey("auditor", frontendtest.Deployment, "audit:read"), 200, []string{
			`"arguments":{"q":"private words"}`, `"result":[{"text":"{\"token\":\"[redacted]\",\"total\":12345678901234567890}","type":"text"}]`,
		}},
		"a caller":                         {w.key, 403, []string{"audit:read"}},
		"an auditor of another deployment": {w.foreignKey("audit:read"), 404, []string{":tool_call_id"}},
	} {
		status, body := w.backendText(tc.key, "/ai/tool-calls/"+id)
		if status != tc.status {
			t.Errorf("%s: %d %s", name, status, body)
		}
		for _, want := range tc.want {
			if !strings.Contains(body, want) {
				t.Errorf("%s: %s, want %s", name, body, want)
			}
		}
	}
	db := w.Open()
	defer func() { _ = db.Close() }()
	var arguments, result string
	w.Must(db.QueryRowContext(t.Context(), "SELECT arguments, result FROM tool_calls").Scan(&arguments, &result))
	if stored := arguments + result; strings.Contains(stored, "private") || strings.Contains(stored, "total") {
		t.Errorf("the store has %s", stored)
	}
}

// backendText is backend with the body as text, its members in the order of their names.
func (w *world) backendText(key, path string) (status int, text string) {
	w.T.Helper()
	status, body := w.backend(path, key)
	raw, err := json.Marshal(body)
	w.Must(err)
	return status, string(raw)
}

// foreignKey declares a key of another deployment.
func (w *world) foreignKey(permissions ...string) string {
	w.T.Helper()
	const other = "rival/rival"
	w.Put(v1alpha1.KindIdentityDeployment, "rival", other, "rival", document.Deployment{DisplayName: "Rival", Mode: "Production", ManagementWrites: "Enabled", FieldConflicts: "Reject"})
	return w.declareKey("rival", other, permissions...)
}

// The lists and numbers of a deployment have no calls of another.
func TestCallsOfAnotherDeploymentAreNotServed(t *testing.T) {
	w := newWorld(t)
	w.call("cancel-order", `{"number":"1"}`)
	foreign, own := w.foreignKey("*"), w.declareKey("auditor", frontendtest.Deployment, "*")
	call, agent := w.recorded(1)[0], ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))
	const period = "?from=2000-01-01T00:00:00Z&to=2002-01-01T00:00:00Z"
	for _, tc := range []struct {
		path         string
		own, foreign int
	}{
		{"/ai/tool-calls/" + ids.Format(call.ID), 200, 404}, {"/ai/agents/" + agent + "/analytics" + period, 200, 404},
		{"/ai/tool-calls/0", 404, 404}, {"/ai/tool-calls/12", 404, 404}, {"/ai/agents/12/analytics" + period, 404, 404},
	} {
		if status, body := w.backendText(own, tc.path); status != tc.own {
			t.Errorf("%s with the own key: %d %s", tc.path, status, body)
		}
		if status, body := w.backendText(foreign, tc.path); status != tc.foreign {
			t.Errorf("%s with a foreign key: %d %s", tc.path, status, body)
		}
	}
	for _, query := range []string{"", "?agent_id=" + agent, "?tool_id=" + ids.Format(call.Tool), "?outcome=succeeded", "?order=asc"} {
		if status, body := w.backendText(foreign, "/ai/tool-calls"+query); status != 200 || !strings.Contains(body, `"data":[]`) {
			t.Errorf("%s with a foreign key: %d %s", query, status, body)
		}
	}
}

// unreliable is a store whose writes a test can interrupt.
type unreliable struct {
	people.Store
	away atomic.Bool
}

func (u *unreliable) Single(ctx context.Context, deployment string, do func(people.Tx) error) error {
	return u.Change(ctx, deployment, do)
}

func (u *unreliable) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if u.away.Load() {
		return fmt.Errorf("%w: interrupted by a test", store.ErrUnavailable)
	}
	return u.Store.Change(ctx, deployment, do)
}

func TestWithoutTheStoreOnlyReadOnlyCallsContinue(t *testing.T) {
	w := newWorld(t)
	interrupted := &unreliable{Store: w.Store}
	w.Server, _ = w.Serve(w.Store, interrupted)
	interrupted.away.Store(true)
	for range 5 {
		if text, code := w.call("find-order", `{"number":"1"}`); code != "" {
			t.Errorf("%s %s", code, text)
		}
	}
	a := w.post("support", w.key, callBody("cancel-order", `{"number":"1"}`))
	if a.status != 503 || a.header.Get("Retry-After") == "" || !strings.Contains(a.raw, "was not sent") || !strings.Contains(a.raw, `"code":-32000`) {
		t.Errorf("%d %s", a.status, a.raw)
	}
	if request, count := w.up.last(); count != 5 || request.method != "GET" {
		t.Errorf("%d requests were sent, the last by %s", count, request.method)
	}
	w.Eventually("the records wait", func() bool { return w.metric("cardea_tool_call_records_waiting") == 5 })
	interrupted.away.Store(false)
	w.recorded(5)
	w.Eventually("no record waits", func() bool { return w.metric("cardea_tool_call_records_waiting") == 0 })
	if text, code := w.call("cancel-order", `{"number":"1"}`); code != "" {
		t.Errorf("after the outage: %s %s", code, text)
	}
}

// metric returns the value of a metric without labels.
func (w *world) metric(name string) float64 {
	w.T.Helper()
	families, err := w.Registry.Gather()
	w.Must(err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	w.T.Fatalf("there is no metric %s", name)
	return 0
}

// The result of a call whose store fails while the tool works is written when the store is available again.
func TestResultWaitsForTheStore(t *testing.T) {
	w := newWorld(t)
	interrupted := &unreliable{Store: w.Store}
	w.Server, _ = w.Serve(w.Store, interrupted)
	w.answering(func(rw http.ResponseWriter, _ *http.Request) {
		interrupted.away.Store(true)
		rw.WriteHeader(204)
	})
	if text, code := w.call("cancel-order", `{"number":"1"}`); code != "" {
		t.Errorf("%s %s", code, text)
	}
	if calls := w.records(w.Store); len(calls) != 1 || calls[0].Outcome != people.CallStarted {
		t.Errorf("during the outage: %+v", calls)
	}
	interrupted.away.Store(false)
	w.Eventually("the result is written", func() bool { return w.records(w.Store)[0].Outcome == people.CallSucceeded })
	if _, count := w.up.last(); count != 1 {
		t.Errorf("%d requests were sent", count)
	}
}

func TestCallThatItsCallerEndsIsRecordedAsCancelled(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.answering(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	r, err := http.NewRequestWithContext(ctx, "POST", w.Server.URL+"/mcp/support", strings.NewReader(callBody("cancel-order", `{"number":"1"}`)))
	w.Must(err)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+w.key)
	if resp, err := http.DefaultClient.Do(r); err == nil {
		_ = resp.Body.Close()
		t.Errorf("the call was answered: %d", resp.StatusCode)
	}
	w.Eventually("the call is recorded as cancelled", func() bool {
		calls := w.records(w.Store)
		return len(calls) == 1 && calls[0].Outcome == people.CallCancelled
	})
}

func TestBusyCallIsRecorded(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.answering(func(rw http.ResponseWriter, _ *http.Request) {
		<-release
		rw.WriteHeader(204)
	})
	done := make(chan struct{})
	for range 16 {
		go func() {
			w.call("find-order", `{"number":"1"}`)
			done <- struct{}{}
		}()
	}
	w.Eventually("the slots are used", func() bool { return w.metric("cardea_tool_calls_in_flight") == 16 })
	if _, code := w.call("find-order", `{"number":"1"}`); code != "busy" {
		t.Errorf("%s", code)
	}
	close(release)
	for range 16 {
		<-done
	}
	busy := 0
	for _, c := range w.recorded(17) {
		if c.Decision == people.CallBusy && c.Outcome == "" && c.Code == "busy" && c.Latency >= time.Second {
			busy++
		}
	}
	if busy != 1 {
		t.Errorf("%d calls are recorded as busy", busy)
	}
	var ran uint64
	families, err := w.Registry.Gather()
	w.Must(err)
	for _, family := range families {
		if family.GetName() == "cardea_tool_call_seconds" {
			ran = family.GetMetric()[0].GetHistogram().GetSampleCount()
		}
	}
	if ran != 16 {
		t.Errorf("the histogram has %d calls", ran)
	}
}
