package agents_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/httpapi/openapi"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// kindsWorld is a world whose tools have every kind of result: answers of each type, failures with each code, calls
// that wait for an approval, and calls that are answered later.
type kindsWorld struct{ *approvalWorld }

// answers are the paths of the tools of a kindsWorld with what the API answers there, and the code of the call.
func (w *kindsWorld) answers() map[string]struct {
	answer http.HandlerFunc
	code   string
} {
	type kind = struct {
		answer http.HandlerFunc
		code   string
	}
	t := w.T.(*testing.T)
	return map[string]kind{
		"object": {responding("application/json", `{"state":"open"}`), ""}, "list": {responding("application/json", `[{"state":"open"}]`), ""}, "text-value": {responding("application/json", `"open"`), ""},
		"null": {responding("application/json", `null`), ""}, "number": {responding("application/json", `7`), ""}, "text": {responding("text/plain", "open"), ""},
		"image": {responding("image/png", "PNG"), ""}, "audio": {responding("audio/wav", "RIFF"), ""}, "empty": {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }, ""},
		"accepted": {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(202) }, ""},
		"missing":  {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(404) }, "upstream_status"},
		"moved":    {func(rw http.ResponseWriter, r *http.Request) { http.Redirect(rw, r, "/", http.StatusFound) }, "redirected"},
		"large":    {responding("text/plain", strings.Repeat("y", 300<<10)), "response_too_large"}, "binary": {responding("application/octet-stream", "x"), "unsupported_media_type"},
		"broken-json": {responding("application/json", `{`), "invalid_response"}, "closed": {respondingRaw(t, func(io.Writer) {}), "unreachable"},
		"silent": {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "timeout"},
		"once":   {responding("application/json", `{}`), ""}, "lost": {responding("application/json", `{}`), "not_configured"},
	}
}

func newKindsWorld(t *testing.T) *kindsWorld {
	t.Helper()
	w := &kindsWorld{newApprovalWorld(t, nil)}
	settings := (&flowWorld{world: w.world}).declareSessionKey()
	settings.WebhookKeys = []document.SigningKey{w.webhookKey(nil)}
	w.Declare(settings)
	w.declareScheme("once", "per_app", 1)
	tools := slices.Sorted(maps.Keys(w.answers()))
	for _, name := range tools {
		tool := document.AITool{Name: name, Method: "POST", Endpoint: w.up.URL + "/" + name, TimeoutSeconds: 60}
		switch name {
		case "accepted":
			tool.Type, tool.TimeoutSeconds = "webhook", 2
		case "silent":
			tool.TimeoutSeconds = 2
		case "once":
			tool.Scheme = "once"
		case "lost":
			tool.Authorization.JWTTemplate = "nowhere"
		case "list":
			tool.Response = &document.ToolResponse{Array: true, Schema: []schemafield.Field{{Name: "state", FieldType: "STRING"}}}
		}
		w.declareTool(name, tool)
	}
	w.declareTool("write", document.AITool{Name: "Write", Method: "POST", Endpoint: w.up.URL, Permissions: []string{"orders:write"}})
	w.declareTool("mine", document.AITool{Name: "Mine", Method: "POST", Endpoint: w.up.URL, Authorization: document.ToolAuthorization{AuthorizeAsUser: true}})
	w.Put("AIAgent", "support", frontendtest.Deployment, "", document.AIAgent{
		Name: "Support", Active: true, URL: agentURL, OAuthApp: "portal", Sessions: true, Tools: append(tools, "find-order", "pay", "write", "mine"),
	})
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		w.answers()[strings.TrimPrefix(r.URL.Path, "/")].answer(rw, r)
	})
	w.Eventually("the tools are listed", func() bool { return len(names(w.post("support", w.token, listing))) == len(tools)+4 })
	return w
}

// ask sends a request of a revision. capabilities are the client's, as JSON.
func (w *kindsWorld) ask(revision, credential, method, params, capabilities string, header ...string) answer {
	w.T.Helper()
	header = append([]string{"Mcp-Protocol-Version", revision}, header...)
	if revision == "2026-07-28" {
		meta := strings.Replace(modernMeta, `clientCapabilities":{}`, `clientCapabilities":`+capabilities, 1)
		params = strings.TrimSuffix(params, "}") + map[bool]string{true: "", false: ","}[params == "{}"] + meta + "}"
		header = append(header, "Mcp-Method", method)
		var named struct{ Name string }
		w.Must(json.Unmarshal([]byte(params), &named))
		if named.Name != "" {
			header = append(header, "Mcp-Name", named.Name)
		}
	}
	return w.post("support", credential, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`, header...)
}

// resultsOf returns a message for each result of a call in a revision.
func (w *kindsWorld) resultsOf(revision string) (all []checked) {
	w.T.Helper()
	call := func(credential, tool, arguments, code, capabilities string) {
		a := w.ask(revision, credential, "tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments), capabilities)
		if got, _, _ := failureOf(a); got != code || a.status != http.StatusOK || a.body["result"] == nil {
			w.T.Errorf("%s: %s: %d %s, want %s", revision, tool, a.status, a.raw, code)
		}
		all = append(all, checked{revision, "CallToolResult", json.RawMessage(a.raw)})
	}
	for tool, kind := range w.answers() {
		if tool != "once" {
			call(w.token, tool, `{}`, kind.code, `{}`)
		}
	}
	w.post("support", w.token, callBody("once", `{}`)) // uses the limit up
	call(w.token, "once", `{}`, "rate_limited", `{}`)
	call(w.token, "find-order", `{}`, "invalid_arguments", `{}`)
	call(w.token, "pay", `{"cents":1}`, "approval_required", `{}`)
	call(w.key, "pay", `{"cents":1}`, "user_required", `{}`)
	if revision == "2026-07-28" {
		a := w.ask(revision, w.token, "tools/call", `{"name":"pay","arguments":{"cents":2}}`, `{"elicitation":{"url":{}}}`)
		if !strings.Contains(a.raw, `"input_required"`) {
			w.T.Errorf("a call that needs an input: %s", a.raw)
		}
		all = append(all, checked{revision, "InputRequiredResult", json.RawMessage(a.raw)})
	}
	return all
}

// refusalsOf returns a message for each refusal of a request in a revision.
func (w *kindsWorld) refusalsOf(revision string, limited string) (all []checked) {
	w.T.Helper()
	lacking := w.declareKey("lacking", frontendtest.Deployment, "orders:read")
	is := func(name string, a answer, status, code int) {
		problem, _ := a.body["error"].(map[string]any)
		if a.status != status || problem["code"] != float64(code) {
			w.T.Errorf("%s: %s: %d %s, want %d %d", revision, name, a.status, a.raw, status, code)
		}
		all = append(all, checked{revision, "error", json.RawMessage(a.raw)})
	}
	isModern := revision == "2026-07-28"
	list := func(credential string, header ...string) answer {
		return w.ask(revision, credential, "tools/list", "{}", "{}", header...)
	}
	is("no credential", list(""), 401, -32000)
	is("a wrong credential", list("ck_unknown"), 401, -32000)
	is("no permission", list(lacking), 403, -32000)
	is("a foreign page", list(w.token, "Origin", "https://evil.example"), 403, -32000)
	is("another host", list(w.token, "Host", "rebound.example"), 404, -32000)
	is("another media type", list(w.token, "Content-Type", "text/plain"), 415, -32000)
	list(limited)
	is("beyond the limit", list(limited), 429, -32000)
	is("a large body", w.ask(revision, w.token, "tools/list", `{"x":"`+strings.Repeat("y", 256<<10)+`"}`, "{}"), 413, -32000)
	is("a missing scope", w.ask(revision, w.token, "tools/call", `{"name":"write","arguments":{}}`, "{}"), 403, -32000)
	is("an unknown tool", w.ask(revision, w.token, "tools/call", `{"name":"none","arguments":{}}`, "{}"), 200, -32602)
	is("a cursor", w.ask(revision, w.token, "tools/list", `{"cursor":"x"}`, "{}"), 200, -32602)
	is("parameters of another form", w.ask(revision, w.token, "tools/list", `{"cursor":7}`, "{}"), 400, -32602)
	is("an unknown method", w.ask(revision, w.token, "prompts/list", `{}`, "{}"), map[bool]int{true: 404, false: 200}[isModern], -32601)
	is("an unknown revision", w.post("support", w.token, listing, "Mcp-Protocol-Version", "1999-01-01"), 400, -32022)
	for text, code := range map[string]int{"{": -32700, "": -32700, "[]": -32600, "7": -32600, `{"jsonrpc":"1.0","id":1,"method":"ping"}`: -32600, `{"jsonrpc":"2.0","id":null,"method":"ping"}`: -32600} {
		is("the body "+text, w.post("support", w.token, text, "Mcp-Protocol-Version", revision), 400, code)
	}
	if isModern {
		const head = `{"jsonrpc":"2.0","id":7,"method":"tools/list"`
		is("no header", w.post("support", w.token, head+`,"params":{`+modernMeta+`}}`, "Mcp-Protocol-Version", revision), 400, -32020)
		is("no metadata", w.post("support", w.token, head+`}`, "Mcp-Protocol-Version", revision, "Mcp-Method", "tools/list"), 400, -32602)
		is("a foreign state", w.ask(revision, w.token, "tools/call", `{"name":"pay","arguments":{"cents":3},"requestState":"x"}`, `{"elicitation":{"url":{}}}`), 200, -32602)
		is("a stream without filter", w.ask(revision, w.token, "subscriptions/listen", "{}", "{}"), 200, -32602)
	}
	return all
}

// Every result and every refusal has the form that its revision publishes.
func TestResultsAndRefusalsFitThePublishedSchemas(t *testing.T) {
	program := node(t)
	w := newKindsWorld(t)
	w.declareScheme("few", "per_key", 1)
	var all []checked
	for _, revision := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		all = append(all, w.resultsOf(revision)...)
		all = append(all, w.refusalsOf(revision, w.limitedKey("few"))...)
		a := w.ask(revision, w.token, "tools/list", "{}", "{}")
		all = append(all, checked{revision, "ListToolsResult", json.RawMessage(a.raw)})
		if n := w.post("support", w.token, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, "Mcp-Protocol-Version", "2025-11-25"); n.status != 202 || n.raw != "" {
			t.Errorf("a notification is answered: %d %q", n.status, n.raw)
		}
	}
	w.fitSchemas(program, all)
	if perRevision := len(w.answers()) - 1 + 4 + 20 + 1; len(all) != 3*perRevision+1+4 {
		t.Errorf("%d messages were checked, want %d", len(all), 3*perRevision+1+4)
	}
}

// Every answer to a call without MCP has the form that the document of the backend API declares for its status.
func TestAnswersWithoutMCPFitTheDocument(t *testing.T) {
	w := newKindsWorld(t)
	documented, err := openapi.Load()
	w.Must(err)
	operation := documented.Spec().Paths.Find("/ai/agents/{agent_id}/tools/{tool}/call").Post
	fits := func(name string, status int, raw string) {
		t.Helper()
		declared := operation.Responses.Status(status)
		if declared == nil {
			declared = operation.Responses.Default()
		}
		var value any
		if err := json.Unmarshal([]byte(raw), &value); err != nil {
			t.Errorf("%s: %d %s", name, status, raw)
			return
		}
		if members, is := value.(map[string]any); is && members["structured_content"] == nil {
			delete(members, "structured_content") // its schema has no type, so null fits; kin-openapi refuses that
		}
		if err := declared.Value.Content.Get("application/json").Schema.Value.VisitJSON(value, openapi3.VisitAsResponse(), openapi3.MultiErrors()); err != nil {
			t.Errorf("%s: %d %s: %v", name, status, raw, err)
		}
	}
	states := map[string]int{}
	call := func(name, credential, tool, body string, want int) {
		t.Helper()
		status, answer, raw := w.direct(credential, "support", tool, body)
		if status != want {
			t.Errorf("%s: %d %s, want %d", name, status, raw, want)
		}
		states[fmt.Sprint(answer["status"])]++
		fits(name, status, raw)
	}
	for tool, kind := range w.answers() {
		call(tool, w.token, tool, `{}`, 200)
		if _, answer, raw := w.direct(w.token, "support", tool, `{}`); tool != "once" {
			failed, _ := answer["error"].(map[string]any)
			if code, _ := failed["code"].(string); code != kind.code || answer["is_error"] != (kind.code != "") {
				t.Errorf("%s: %s, want the code %q", tool, raw, kind.code)
			}
		}
	}
	call("the limit", w.token, "once", `{}`, 429)
	call("an approval", w.token, "pay", `{"arguments":{"cents":1}}`, 200)
	call("no user", w.key, "mine", `{}`, 200)
	call("wrong arguments", w.token, "find-order", `{"arguments":{}}`, 400)
	for _, body := range []string{`[]`, `{"more":1}`, `{`} {
		call("the body "+body, w.token, "find-order", body, 400)
	}
	call("a wrong credential", "ck_unknown", "find-order", `{}`, 401)
	call("no permission", w.declareKey("lacking", frontendtest.Deployment, "orders:read"), "find-order", `{}`, 403)
	call("a missing scope", w.token, "write", `{}`, 403)
	call("an unknown tool", w.token, "none", `{}`, 404)
	call("a large body", w.token, "find-order", `{"arguments":{"number":"`+strings.Repeat("y", 2<<20)+`"}}`, 413)
	for _, state := range []string{"completed", "failed", "approval_required", "accepted"} {
		if states[state] == 0 {
			t.Errorf("no call is %s: %v", state, states)
		}
	}
}
