package agents_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	tokens "github.com/cardea-iam/cardea/apiserver/credential/bearer"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/scheme"
	"github.com/cardea-iam/cardea/store/people"
)

const findingOrder = `{"arguments":{"number":"7"}}`

// backendAnswer sends a request to the backend listener with a bearer credential, "" for none.
func (w *world) backendAnswer(method, path, credential, body string) *httptest.ResponseRecorder {
	w.T.Helper()
	r := httptest.NewRequestWithContext(w.T.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	if credential != "" {
		r.Header.Set("Authorization", "Bearer "+credential)
	}
	recorder := httptest.NewRecorder()
	w.Backend.ServeHTTP(recorder, r)
	return recorder
}

// directAnswer is direct with the whole response.
func (w *world) directAnswer(credential, namespace, agent, tool, body string) *httptest.ResponseRecorder {
	w.T.Helper()
	return w.backendAnswer("POST", "/ai/agents/"+ids.Format(ids.Derive(v1alpha1.KindAIAgent, namespace, agent))+"/tools/"+tool+"/call", credential, body)
}

func TestUsersCallToolsWithoutMCP(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newPeopleWorldIn(t, newWorldOver(t, url), nil)
		session := w.sessions()(agentURL)
		w.Eventually("a session token is accepted", func() bool {
			status, _, _ := w.direct(session, "support", "find-order", findingOrder)
			return status == 200
		})
		w.recorded(1)
		access := w.token("orders:read")
		w.Clock.Advance(time.Millisecond)
		if status, answer, raw := w.direct(access, "support", "find-order", findingOrder); status != 200 || answer["status"] != "completed" {
			t.Fatalf("an access token: %d %s", status, raw)
		}
		if sent, _ := w.up.last(); sent.header.Get("Authorization") != "" || sent.header.Get("Cookie") != "" {
			t.Error("the caller's credential reached the tool")
		}
		for _, one := range w.recorded(2) {
			who := one.Caller
			if who.User != 7 || who.Kind == people.CallerSession && who.ID != "12" || who.Kind == people.CallerClient && (who.Client != w.family.Client || who.Organization != 50) {
				t.Errorf("the caller is recorded as %+v", who)
			}
		}
		w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { _, err := tx.OAuth().EndTokenFamily(40); return err }))
		if status, _, raw := w.direct(access, "support", "find-order", findingOrder); status != 401 {
			t.Errorf("a revoked token: %d %s", status, raw)
		}
	})
}

func TestKeyOfAUserCallsToolsWithoutMCP(t *testing.T) {
	w := newPeopleWorld(t, nil)
	key := w.declareKeyOf(7).Plain()
	if status, _, raw := w.direct(key, "support", "find-order", findingOrder); status != 200 {
		t.Fatalf("the call: %d %s", status, raw)
	}
	if one := w.recorded(1)[0]; one.Caller.User != 7 || one.Caller.Kind != people.CallerKey {
		t.Errorf("the caller is recorded as %+v", one.Caller)
	}
	if a := w.backendAnswer("GET", "/ai/agents", key, ""); a.Code != 403 {
		t.Errorf("the key manages: %d", a.Code)
	}
}

// requestID finds the only difference of equal refusals.
var requestID = regexp.MustCompile(`"request_id":"[^"]*"`)

// Refused tokens get the same response, whether the agent exists or not.
func TestWrongTokensDoNotRevealAgents(t *testing.T) {
	w := newPeopleWorld(t, nil)
	sign := w.sessions()
	w.declareAgent("other", "find-order")
	const rival = "rival/rival"
	w.Put(v1alpha1.KindIdentityDeployment, "rival", rival, "rival", document.Deployment{
		DisplayName: "Rival", Mode: "Staging", FrontendHosts: []string{"rival.localhost"}, ManagementWrites: "Enabled", FieldConflicts: "Reject",
	})
	w.Put(v1alpha1.KindAIAgent, "theirs", rival, "", document.AIAgent{Name: "Theirs", Active: true, URL: "http://rival.localhost/mcp/theirs", OAuthApp: "portal", Sessions: true})
	access, session := w.token("orders:read"), sign(agentURL)
	w.Eventually("the tokens are accepted", func() bool {
		return w.directAnswer(access, "acme", "support", "find-order", findingOrder).Code == 200 && w.directAnswer(session, "acme", "support", "find-order", findingOrder).Code == 200
	})
	now := w.Clock.Now()
	audience := func(of string) func(*tokens.AccessClaims) {
		return func(c *tokens.AccessClaims) { c.Audience = jwt.Audience{of} }
	}
	want := requestID.ReplaceAllString(w.directAnswer("unknown", "acme", "support", "find-order", findingOrder).Body.String(), "")
	for name, token := range map[string]string{
		"an access token":                          access,
		"a session token":                          session,
		"an access token for another audience":     w.token("orders:read", audience("https://api.acme.example")),
		"an access token for the other agent":      w.token("orders:read", audience("http://localhost/mcp/other")),
		"an access token for the rival's agent":    w.token("orders:read", audience("http://rival.localhost/mcp/theirs")),
		"an expired access token":                  w.token("orders:read", func(c *tokens.AccessClaims) { c.Expiry = jwt.NewNumericDate(now.Add(-time.Minute)) }),
		"an access token of another issuer":        w.token("orders:read", func(c *tokens.AccessClaims) { c.Issuer = "https://evil.example" }),
		"an access token of an unknown family":     w.token("orders:read", func(c *tokens.AccessClaims) { c.Authorization = "99" }),
		"a session token for the deployment":       sign("cardea:acme:staging"),
		"a session token for the agent's neighbor": sign(agentURL + "2"),
		"a word": "hello",
	} {
		for _, at := range [][2]string{{"acme", "support"}, {"acme", "other"}, {"acme", "unknown"}, {"rival", "theirs"}} {
			if at[1] == "support" && (token == access || token == session) {
				continue
			}
			a := w.directAnswer(token, at[0], at[1], "find-order", findingOrder)
			if a.Code != 401 || a.Header().Get("Www-Authenticate") != `Bearer error="invalid_token"` || requestID.ReplaceAllString(a.Body.String(), "") != want {
				t.Errorf("%s at the agent %s: %d %s %s", name, at[1], a.Code, a.Header().Get("Www-Authenticate"), a.Body)
			}
		}
	}
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{Name: "Support", Active: true, Tools: []string{"find-order"}, URL: agentURL})
	for name, token := range map[string]string{"an access token": access, "a session token": session} {
		if a := w.directAnswer(token, "acme", "support", "find-order", findingOrder); a.Code != 401 {
			t.Errorf("%s at an agent that takes keys only: %d %s", name, a.Code, a.Body)
		}
	}
}

func TestWrongTokensOfDirectCallsAreThrottled(t *testing.T) {
	w := newPeopleWorld(t, nil)
	wrong := w.token("orders:read", func(c *tokens.AccessClaims) { c.Authorization = "99" })
	good := w.token("orders:read")
	expired := w.token("orders:read", func(c *tokens.AccessClaims) { c.Expiry = jwt.NewNumericDate(w.Clock.Now().Add(-time.Minute)) })
	call := func(token string) int {
		return w.directAnswer(token, "acme", "support", "find-order", findingOrder).Code
	}
	for range 150 {
		if status := call(expired); status != 401 {
			t.Fatalf("an expired token: %d", status)
		}
	}
	statuses := map[int]int{}
	for range 150 {
		statuses[call(wrong)]++
	}
	if statuses[401] < 90 || statuses[429] == 0 || len(statuses) != 2 {
		t.Errorf("the statuses are %v", statuses)
	}
	if status := call(good); status != 200 {
		t.Errorf("a good token from a throttled address: %d", status)
	}
}

func TestTokensForAnAgentOpenNoOtherBackendPath(t *testing.T) {
	w := newPeopleWorld(t, nil)
	session := w.sessions()(agentURL, "*")
	access := w.token("orders:read")
	documented, err := openapi.Load()
	w.Must(err)
	agent := ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))
	w.Eventually("the tokens are accepted", func() bool {
		return w.directAnswer(session, "acme", "support", "find-order", findingOrder).Code == 200 && w.directAnswer(access, "acme", "support", "find-order", findingOrder).Code == 200
	})
	parameters, tried := regexp.MustCompile(`\{\w+\}`), 0
	for pattern, route := range documented.Routes() {
		method, path, _ := strings.Cut(pattern, " ")
		if route.AgentTokens {
			if pattern != "POST /ai/agents/{agent_id}/tools/{tool}/call" {
				t.Errorf("%s takes tokens for an agent", pattern)
			}
			continue
		}
		path = parameters.ReplaceAllString(strings.Replace(path, "{agent_id}", agent, 1), "1")
		for name, token := range map[string]string{"a session token": session, "an access token": access} {
			tried++
			if a := w.backendAnswer(method, path, token, "{}"); a.Code != 401 {
				t.Errorf("%s with %s: %d %s", pattern, name, a.Code, a.Body)
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d requests", tried)
	}
}

func TestDirectCallNamesTheScopesItNeeds(t *testing.T) {
	w := newPeopleWorld(t, func(a *document.AIAgent) {
		a.Permissions, a.Tools = []string{"orders:read"}, []string{"find-order", "cancel-order", "purge"}
	})
	w.declareTool("cancel-order", document.AITool{Name: "Cancel", Method: "POST", Endpoint: w.up.URL + "/cancellations", Permissions: []string{"orders:write"}})
	w.declareTool("purge", document.AITool{Name: "Purge", Method: "DELETE", Endpoint: w.up.URL + "/orders", Permissions: []string{"orders:purge"}})
	session := w.sessions()
	w.Eventually("session tokens are accepted", func() bool {
		return w.directAnswer(session(agentURL, "orders:read"), "acme", "support", "find-order", findingOrder).Code == 200
	})
	const challenge = `Bearer error="insufficient_scope", scope="%", resource_metadata="http://localhost/.well-known/oauth-protected-resource/mcp/support"`
	for name, tc := range map[string]struct {
		token, tool, scopes string
		status              int
	}{
		"without the agent's scope":               {w.token("orders.change"), "find-order", "orders:read", 403},
		"without the tool's scope":                {w.token("orders:read"), "cancel-order", "orders.change orders:read", 403},
		"with both scopes":                        {w.token("orders:read orders.change"), "cancel-order", "", 200},
		"a tool that its user may not call":       {w.token("orders:read"), "purge", "", 404},
		"an unknown tool":                         {w.token("orders:read"), "unknown", "", 404},
		"a session without the agent's right":     {session(agentURL), "find-order", "", 403},
		"a session without the tool's permission": {session(agentURL, "orders:read"), "cancel-order", "", 404},
	} {
		want := ""
		if tc.scopes != "" {
			want = strings.Replace(challenge, "%", tc.scopes, 1)
		}
		a := w.directAnswer(tc.token, "acme", "support", tc.tool, `{}`)
		if tc.tool == "find-order" {
			a = w.directAnswer(tc.token, "acme", "support", tc.tool, findingOrder)
		}
		if a.Code != tc.status || a.Header().Get("Www-Authenticate") != want || tc.status == 403 && !strings.Contains(a.Body.String(), `"errors":[{`) {
			t.Errorf("%s: %d %s %s", name, a.Code, a.Header().Get("Www-Authenticate"), a.Body)
		}
	}
	w.Eventually("a refused call is recorded", func() bool {
		return slices.ContainsFunc(w.records(w.Store), func(c people.ToolCall) bool {
			return c.ToolName == "find-order" && c.Decision == people.CallPermissionDenied
		})
	})
}

func TestTokensOfUsersAreLimitedWithoutMCP(t *testing.T) {
	w := newPeopleWorld(t, nil)
	w.Put(v1alpha1.KindRateLimitScheme, "users", frontendtest.Deployment, "users", document.RateLimitScheme{Name: "users", Rules: []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 2, Mode: "per_key"}}})
	settings := w.Settings()
	settings.DefaultScheme = "users"
	w.Declare(settings)
	token := w.token("orders:read")
	statuses := map[int]int{}
	for range 4 {
		a := w.directAnswer(token, "acme", "support", "find-order", findingOrder)
		statuses[a.Code]++
		if a.Code == 429 && a.Header().Get("Retry-After") == "" {
			t.Error("Retry-After is missing")
		}
	}
	if statuses[200] != 2 || statuses[429] != 2 {
		t.Errorf("the statuses are %v", statuses)
	}
}

// A token asks for an approval, and approves nothing.
func TestDirectCallOfAUserWaitsForAnApproval(t *testing.T) {
	w := newApprovalWorld(t, nil)
	const paying = `{"arguments":{"cents":500}}`
	_, answer, raw := w.direct(w.token, "support", "pay", paying)
	approval, _ := answer["approval"].(map[string]any)
	id, _ := approval["id"].(string)
	if answer["status"] != "approval_required" || approval["url"] != "http://localhost/approvals/"+id || id == "" {
		t.Fatalf("the call: %s", raw)
	}
	for _, path := range []string{"/me/tool-approvals/" + id + "/approve", "/me/tool-approvals/" + id + "/deny"} {
		for _, token := range []string{w.token, w.session} {
			if a := w.backendAnswer("POST", path, token, `{}`); a.Code != http.StatusNotFound {
				t.Errorf("%s on the backend listener: %d", path, a.Code)
			}
			r, err := http.NewRequestWithContext(t.Context(), "POST", w.Server.URL+path, strings.NewReader(`{}`))
			w.Must(err)
			r.Host = "localhost"
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			resp, err := http.DefaultClient.Do(r)
			w.Must(err)
			w.Must(resp.Body.Close())
			if resp.StatusCode < 400 {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
	}
	if _, answer, raw := w.direct(w.token, "support", "pay", paying); answer["status"] != "approval_required" || w.payments() != 0 {
		t.Fatalf("without a decision: %s", raw)
	}
	number, err := ids.Parse(id)
	w.Must(err)
	w.decide(number, people.ApprovalApproved)
	if _, answer, raw := w.direct(w.token, "support", "pay", paying); answer["status"] != "completed" || w.payments() != 1 {
		t.Errorf("after the approval: %s", raw)
	}
}
