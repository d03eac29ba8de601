package agents_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// direct calls a tool over the backend listener.
func (w *world) direct(key, agent, tool, body string) (status int, answer map[string]any, raw string) {
	w.T.Helper()
	r := httptest.NewRequest("POST", "/ai/agents/"+ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", agent))+"/tools/"+tool+"/call", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+key)
	recorder := httptest.NewRecorder()
	w.Backend.ServeHTTP(recorder, r)
	_ = json.Unmarshal(recorder.Body.Bytes(), &answer)
	return recorder.Code, answer, recorder.Body.String()
}

func TestToolsAreCalledWithoutMCP(t *testing.T) {
	w := newWorld(t)
	const finding = `{"arguments":{"number":"1007"}}`
	tool := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "find-order"))
	for _, name := range []string{"find-order", tool} {
		status, answer, raw := w.direct(w.key, "support", name, finding)
		if structured, _ := answer["structured_content"].(map[string]any); status != 200 || answer["status"] != "completed" || structured["state"] != "open" || answer["call_id"] == "" || answer["is_error"] != false {
			t.Fatalf("%s: %d %s %s", name, status, raw, w.Logs.String())
		}
	}
	if sent, _ := w.up.last(); sent.url != "/orders/1007?source=agent" {
		t.Errorf("the tool got %s", sent.url)
	}
	w.answering(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `[1,2]`)
	})
	_, answer, raw := w.direct(w.key, "support", "find-order", finding)
	if list, _ := answer["structured_content"].([]any); !slices.Equal(list, []any{1., 2.}) {
		t.Errorf("a list: %s", raw)
	}
	w.answering(responding("application/json", `{"state":"open"}`))
	w.direct(w.key, "support", "cancel-order", `{"arguments":{"number":"7"},"idempotency_key":"k-1"}`)
	if sent, _ := w.up.last(); sent.header.Get("Idempotency-Key") != "k-1" {
		t.Errorf("the tool got the idempotency key %q", sent.header.Get("Idempotency-Key"))
	}
	w.Put(v1alpha1.KindRateLimitScheme, "strict", frontendtest.Deployment, "strict", document.RateLimitScheme{Name: "strict", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 1}}})
	w.declareTool("limited", document.AITool{Name: "Limited", Method: "GET", Endpoint: w.up.URL + "/limited", Scheme: "strict"})
	w.declareTool("pay", document.AITool{Name: "Pay", Method: "POST", Endpoint: w.up.URL + "/payments", RequiresUserApproval: true})
	w.declareTool("mine", document.AITool{Name: "Mine", Method: "GET", Endpoint: w.up.URL + "/mine", Permissions: []string{"orders:read"}})
	w.declareAgent("support", "find-order", "cancel-order", "limited", "pay", "mine")
	w.Eventually("the limited tool is listed", func() bool { status, _, _ := w.direct(w.key, "support", "limited", `{}`); return status == 200 })
	orders := w.declareKey("orders", frontendtest.Deployment, "orders:read")
	for name, tc := range map[string]struct {
		key, agent, tool, body, want string
		status                       int
	}{
		"wrong arguments":          {w.key, "support", "find-order", `{"arguments":{"number":7}}`, `"field":"/arguments/number"`, 400},
		"no object":                {w.key, "support", "find-order", `{"arguments":[]}`, `/arguments`, 400},
		"another member":           {w.key, "support", "find-order", `{"argument":{}}`, `argument`, 400},
		"a bad idempotency key":    {w.key, "support", "find-order", `{"arguments":{"number":"7"},"idempotency_key":"a b"}`, `idempotency-key`, 400},
		"an unknown tool":          {w.key, "support", "other", finding, "no such tool", 404},
		"a tool of no permission":  {w.key, "support", "mine", `{}`, "no such tool", 404},
		"an unknown agent":         {w.key, "other", "find-order", finding, "agent", 404},
		"a key without permission": {orders, "support", "find-order", finding, "ai_agents:call", 403},
		"beyond the limit":         {w.key, "support", "limited", `{}`, "is used up", 429},
		"no user to approve":       {w.key, "support", "pay", `{}`, `"code":"user_required"`, 200},
	} {
		if status, _, raw := w.direct(tc.key, tc.agent, tc.tool, tc.body); status != tc.status || !strings.Contains(raw, tc.want) {
			t.Errorf("%s: %d %s", name, status, raw)
		}
	}
}
