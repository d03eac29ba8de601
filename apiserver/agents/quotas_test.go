package agents_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

// declareScheme declares a scheme that permits a number of requests an hour.
func (w *world) declareScheme(name, mode string, most int64) {
	w.T.Helper()
	w.Put(v1alpha1.KindRateLimitScheme, name, frontendtest.Deployment, name, document.RateLimitScheme{
		Name: name, Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: most, Mode: mode}},
	})
}

// admitted makes concurrent calls of a tool, half of them without MCP, and returns how many were performed. Every other
// call must be refused by the limit.
func (w *world) admitted(credential, tool, arguments string, calls int) (performed int) {
	w.T.Helper()
	var group sync.WaitGroup
	var mu sync.Mutex
	for i := range calls {
		group.Go(func() {
			good, refused, raw := false, false, ""
			if i%2 == 0 {
				a := w.post("support", credential, callBody(tool, arguments))
				code, _, _ := failureOf(a)
				good, refused, raw = strings.Contains(a.raw, `"open"`), code == "rate_limited" && strings.Contains(a.raw, `"retry_after":`), a.raw
			} else {
				a := w.directAnswer(credential, "acme", "support", tool, `{"arguments":`+arguments+`}`)
				good, refused, raw = a.Code == 200 && strings.Contains(a.Body.String(), `"completed"`), a.Code == 429 && a.Header().Get("Retry-After") != "", a.Body.String()
			}
			if good == refused {
				w.T.Errorf("call %d of %s: %s", i, tool, raw)
			}
			if good {
				mu.Lock()
				defer mu.Unlock()
				performed++
			}
		})
	}
	group.Wait()
	return performed
}

// The limit of a tool holds for each caller, and the limit of an agent for all of its tools. Calls over both protocols
// count together, and a concurrent burst performs no call more.
func TestQuotasAreStrictOverBothProtocols(t *testing.T) {
	w := newWorld(t)
	w.declareScheme("each", "per_key", 7)
	w.declareScheme("all", "per_app", 12)
	w.declareTool("limited", document.AITool{Name: "Limited", Method: "GET", Endpoint: w.up.URL + "/limited", Scheme: "each", MaxConcurrentCalls: 256, TimeoutSeconds: 60})
	w.declareTool("free", document.AITool{Name: "Free", Method: "GET", Endpoint: w.up.URL + "/free", MaxConcurrentCalls: 256, TimeoutSeconds: 60})
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{Name: "Support", Active: true, Tools: []string{"limited", "free"}, Scheme: "all", MaxConcurrentCalls: 1024})
	if n := w.admitted(w.key, "limited", `{}`, 40); n != 7 || w.up.sentTo("/limited") != 7 {
		t.Errorf("%d calls were performed, and the tool got %d requests, want 7", n, w.up.sentTo("/limited"))
	}
	// The refusals by the tool's limit consumed nothing of the agent's: five calls are left.
	if n := w.admitted(w.key, "free", `{}`, 40); n != 5 || w.up.sentTo("/free") != 5 {
		t.Errorf("%d calls of the other tool were performed, and it got %d requests, want 5", n, w.up.sentTo("/free"))
	}
	other := w.declareKey("other", frontendtest.Deployment, "ai_agents:call")
	if n := w.admitted(other, "limited", `{}`, 40); n != 7 {
		t.Errorf("%d calls of another caller were performed, want 7", n)
	}
	w.Clock.Advance(2 * time.Hour)
	if n := w.admitted(w.key, "limited", `{}`, 40); n != 7 {
		t.Errorf("%d calls were performed in the next window, want 7", n)
	}
}

// The limits of an agent and its tools are those of a deployment: an equal agent elsewhere has its own counts.
func TestQuotasOfDeploymentsAreApart(t *testing.T) {
	w := newWorld(t)
	const rival = "rival/rival"
	w.Put(v1alpha1.KindIdentityDeployment, "rival", rival, "rival", document.Deployment{DisplayName: "Rival", Mode: "Production"})
	key := w.declareKey("theirs", rival, "*")
	for _, deployment := range []string{frontendtest.Deployment, rival} {
		w.Put(v1alpha1.KindRateLimitScheme, "few", deployment, "few", document.RateLimitScheme{Name: "few", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 2}}})
		w.Put(v1alpha1.KindAITool, "limited", deployment, "", document.AITool{Name: "Limited", Type: "api", Active: true, Method: "GET", Endpoint: w.up.URL + "/limited", Scheme: "few", TimeoutSeconds: 60})
		w.Put(v1alpha1.KindAIAgent, "support", deployment, "", document.AIAgent{Name: "Support", Active: true, Tools: []string{"limited"}})
	}
	for name, tc := range map[string]struct{ key, namespace string }{"this": {w.key, "acme"}, "the other": {key, "rival"}} {
		statuses := map[int]int{}
		for range 4 {
			statuses[w.directAnswer(tc.key, tc.namespace, "support", "limited", `{}`).Code]++
		}
		if statuses[200] != 2 || statuses[429] != 2 {
			t.Errorf("%s deployment: %v", name, statuses)
		}
	}
}

// quotaWorld is a world whose agent has one limit for all of its tools, of which nothing may be consumed by refusals.
type quotaWorld struct {
	*approvalWorld
	// blocked is closed to end the calls of the tool "slow".
	blocked chan struct{}
}

const fewCalls = 3

func newQuotaWorld(t *testing.T) *quotaWorld {
	t.Helper()
	w := &quotaWorld{newApprovalWorld(t, nil), make(chan struct{})}
	w.declareScheme("few", "per_app", fewCalls)
	number := []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}}
	declare := func(name string, change func(*document.AITool)) {
		tool := document.AITool{Name: name, Method: "POST", Endpoint: w.up.URL + "/counted", TimeoutSeconds: 60}
		change(&tool)
		w.declareTool(name, tool)
	}
	declare("counted", func(*document.AITool) {})
	declare("find-order", func(t *document.AITool) {
		t.Endpoint, t.URLParamsSchema = w.up.URL+"/orders/{number}", number
		t.Authorization.CustomHeaders = []schemafield.Field{{Name: "X-Note", FieldType: "STRING"}}
	})
	declare("pay-order", func(t *document.AITool) {
		t.Endpoint, t.URLParamsSchema, t.RequiresUserApproval = w.up.URL+"/orders/{number}", number, true
	})
	declare("purge", func(t *document.AITool) { t.Permissions = []string{"orders:purge"} })
	declare("write", func(t *document.AITool) { t.Permissions = []string{"orders:write"} })
	declare("mine", func(t *document.AITool) { t.Authorization.AuthorizeAsUser = true })
	declare("lost", func(t *document.AITool) { t.Authorization.JWTTemplate = "nowhere" })
	declare("sealed", func(t *document.AITool) {
		t.Headers = []document.ToolHeader{{Name: "X-Key", Secret: true, Sealed: "v2.00000000.AAAA"}}
	})
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{
		Name: "Support", Active: true, URL: agentURL, OAuthApp: "portal", Sessions: true, Scheme: "few",
		Tools: []string{"counted", "find-order", "pay-order", "purge", "write", "mine", "lost", "sealed", "pay", "slow"},
	})
	return w
}

// A call that is refused, for whatever reason, consumes nothing of a limit: afterwards the whole limit is left.
func TestRefusedCallsConsumeNoQuota(t *testing.T) {
	w := newQuotaWorld(t)
	denied := w.asks(w.token, 7)
	w.decide(denied, people.ApprovalDenied)
	type refusal struct{ credential, tool, arguments, code string }
	for name, tc := range map[string]refusal{
		"wrong arguments": {w.token, "find-order", `{"number":7}`, "invalid_arguments"}, "missing arguments": {w.token, "find-order", `{}`, "invalid_arguments"},
		"a segment that cannot be sent": {w.token, "find-order", `{"number":".."}`, "invalid_arguments"}, "an empty segment": {w.token, "find-order", `{"number":""}`, "invalid_arguments"},
		"a header that cannot be sent":                     {w.token, "find-order", `{"number":"1","X-Note":"a\r\nb"}`, "invalid_arguments"},
		"a segment of an approved tool that is not sent":   {w.token, "pay-order", `{"number":".."}`, "invalid_arguments"},
		"a call without an approval":                       {w.token, "pay", `{"cents":1}`, "approval_required"},
		"a denied call":                                    {w.token, "pay", `{"cents":7}`, "approval_denied"},
		"a call without a user":                            {w.key, "mine", `{}`, "user_required"},
		"a call that no user approves":                     {w.key, "pay", `{"cents":1}`, "user_required"},
		"a template that does not exist":                   {w.token, "lost", `{}`, "not_configured"},
		"a Secret that cannot be opened":                   {w.token, "sealed", `{}`, "not_configured"},
		"a tool without the permission":                    {w.token, "purge", `{}`, ""},
		"a tool that does not exist":                       {w.token, "none", `{}`, ""},
		"a tool without the scope":                         {w.token, "write", `{}`, ""},
		"an API key that may not call":                     {w.declareKey("lacking", frontendtest.Deployment, "orders:read"), "counted", `{}`, ""},
		"an API key without the tool's permission":         {w.key, "purge", `{}`, ""},
		"a credential that does not exist":                 {"ck_unknown", "counted", `{}`, ""},
		"a call with arguments that are no JSON object":    {w.token, "counted", `[]`, "invalid_arguments"},
		"a call with an argument that the tool lacks":      {w.token, "counted", `{"more":1}`, "invalid_arguments"},
		"a call with arguments that would be sent rounded": {w.token, "pay", `{"cents":9007199254740993}`, "invalid_arguments"},
	} {
		for range fewCalls + 1 {
			a := w.post("support", tc.credential, callBody(tc.tool, tc.arguments))
			if code, _, _ := failureOf(a); code != tc.code || strings.Contains(a.raw, `"open"`) {
				t.Fatalf("%s: %d %s", name, a.status, a.raw)
			}
			if status, _, raw := w.direct(tc.credential, "support", tc.tool, `{"arguments":`+tc.arguments+`}`); status == 429 || strings.Contains(raw, `"completed"`) {
				t.Fatalf("%s without MCP: %d %s", name, status, raw)
			}
		}
	}
	for _, key := range []string{`""`, `"a b"`, `7`} { // the idempotency key
		body := strings.Replace(callBody("counted", `{}`), `"params":{`, `"params":{"_meta":{"dev.cardea.iam/idempotency-key":`+key+`},`, 1)
		if a := w.post("support", w.token, body); !strings.Contains(a.raw, `-32602`) {
			t.Errorf("the idempotency key %s: %s", key, a.raw)
		}
	}
	w.expectWholeQuota(t)
}

// expectWholeQuota checks that no call was sent, and that the whole limit is left.
func (w *quotaWorld) expectWholeQuota(t *testing.T) {
	t.Helper()
	if n := w.up.sentTo("/counted"); n != 0 {
		t.Errorf("%d refused calls were sent", n)
	}
	if n := w.admitted(w.token, "counted", `{}`, 2*fewCalls); n != fewCalls {
		t.Errorf("after the refusals, %d calls are left of the limit, want %d", n, fewCalls)
	}
}

// A call that finds no free slot consumes nothing of a limit, and a call that runs consumes one.
func TestBusyCallsConsumeNoQuota(t *testing.T) {
	w := newQuotaWorld(t)
	w.declareTool("slow", document.AITool{Name: "Slow", Method: "POST", Endpoint: w.up.URL + "/slow", MaxConcurrentCalls: 1, TimeoutSeconds: 60})
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-w.blocked
		}
		rw.Header().Set("Content-Type", "application/json")
		_, _ = rw.Write([]byte(`{"state":"open"}`))
	})
	var running sync.WaitGroup
	running.Go(func() { w.post("support", w.token, callBody("slow", `{}`)) })
	w.Eventually("the slot is used", func() bool { return w.up.sentTo("/slow") == 1 })
	var busy sync.WaitGroup
	for range 2 * fewCalls {
		busy.Go(func() {
			if code, _, _ := failureOf(w.post("support", w.token, callBody("slow", `{}`))); code != "busy" {
				t.Errorf("a call beside the running one: %q", code)
			}
		})
		busy.Go(func() {
			if a := w.directAnswer(w.token, "acme", "support", "slow", `{}`); a.Code != http.StatusServiceUnavailable {
				t.Errorf("a call without MCP beside the running one: %d %s", a.Code, a.Body)
			}
		})
	}
	busy.Wait()
	if n := w.admitted(w.token, "counted", `{}`, 2*fewCalls); n != fewCalls-1 {
		t.Errorf("%d calls are left of the limit, want %d", n, fewCalls-1)
	}
	close(w.blocked)
	running.Wait()
}
