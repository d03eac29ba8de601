package agents_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// foreignMark is part of what a caller sends, and of nothing that a tool gets. foreignAddress is a caller's address.
const foreignMark, foreignAddress = "foreign-4711", "203.0.113.77"

// foreignTrace is a trace of the caller.
const foreignTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// foreignHeaders are headers of a caller that no tool gets, as names and values.
func foreignHeaders() []string {
	headers := []string{
		"X-Forwarded-For", foreignAddress, "Forwarded", "for=" + foreignAddress, "X-Real-Ip", foreignAddress, "Traceparent", foreignTrace,
		"Origin", "https://app.example.com", "Range", "bytes=0-0", "If-None-Match", `"` + foreignMark + `"`, "Cookie", "__session=" + foreignMark + "; other=" + foreignMark,
	}
	for _, name := range []string{
		"X-Api-Key", "X-Forwarded-Host", "X-Forwarded-Proto", "Mcp-Session-Id", "Mcp-Param-Number", "Mcp-Param-X", "Last-Event-Id", "Tracestate", "Baggage", "X-Foo",
		"Proxy-Authorization", "Idempotency-Key", "Cardea-Call-Id", "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp", "User-Agent", "Accept", "Accept-Language",
		"Referer", "Via", "X-Channel", "X-User-Id", "X-Request-Id", "Www-Authenticate", "Set-Cookie", "X-Http-Method-Override", "Te", "Trailer",
	} {
		headers = append(headers, name, foreignMark)
	}
	return headers
}

// newHeaderWorld is a world with a tool of each kind; the tools whose names end with "mine" act for the user.
func newHeaderWorld(t *testing.T, in *world) *peopleWorld {
	t.Helper()
	w := newPeopleWorldIn(t, in, nil)
	number := []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}}
	asUser := document.ToolAuthorization{AuthorizeAsUser: true}
	channel := []document.ToolHeader{{Name: "X-Channel", Value: "agent"}}
	for name, tool := range map[string]document.AITool{
		"read": {Method: "GET", Endpoint: w.up.URL + "/read", URLParamsSchema: number}, "write": {Method: "POST", Endpoint: w.up.URL + "/write", RequestBodySchema: number, Headers: channel},
		"readmine":  {Method: "GET", Endpoint: w.up.URL + "/read", URLParamsSchema: number, Authorization: asUser},
		"writemine": {Method: "POST", Endpoint: w.up.URL + "/write", RequestBodySchema: number, Headers: channel, Authorization: asUser},
		"function":  {Type: "function", Method: "GET", Endpoint: w.up.URL + "/function", RequestBodySchema: number},
		"webhook":   {Type: "webhook", Method: "GET", Endpoint: w.up.URL + "/webhook", RequestBodySchema: number},
	} {
		tool.Name = name
		w.declareTool(name, tool)
	}
	settings := w.Settings()
	settings.WebhookKeys = []document.SigningKey{w.webhookKey(nil)}
	w.Declare(settings)
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{
		Name: "Support", Active: true, Tools: []string{"read", "write", "readmine", "writemine", "function", "webhook"}, URL: agentURL, OAuthApp: "portal", Sessions: true,
	})
	return w
}

// directWith calls a tool over the backend listener with further headers.
func (w *world) directWith(credential, tool, body string, header ...string) *httptest.ResponseRecorder {
	w.T.Helper()
	r := httptest.NewRequestWithContext(w.T.Context(), "POST", "/ai/agents/"+ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))+"/tools/"+tool+"/call", strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+credential)
	recorder := httptest.NewRecorder()
	w.Backend.ServeHTTP(recorder, r)
	return recorder
}

// expectedHeaders returns the names of all headers that a tool gets, sorted. Accept-Encoding, and the length of a body,
// are the transport's.
func expectedHeaders(tool string, traced bool) []string {
	names := []string{"Accept", "Accept-Encoding", "Cardea-Call-Id", "User-Agent"}
	if !strings.HasPrefix(tool, "read") {
		names = append(names, "Content-Length", "Content-Type", "Idempotency-Key")
	}
	if strings.HasPrefix(tool, "write") {
		names = append(names, "X-Channel")
	}
	if strings.HasSuffix(tool, "mine") {
		names = append(names, "Authorization")
	}
	if tool == "function" || tool == "webhook" {
		names = append(names, "Webhook-Id", "Webhook-Signature", "Webhook-Timestamp")
	}
	if traced {
		names = append(names, "Traceparent")
	}
	slices.Sort(names)
	return names
}

// expectOwnHeaders checks that the newest request of a tool has exactly the expected headers, and nothing of the
// caller.
func (w *peopleWorld) expectOwnHeaders(what, tool, credential string, traced bool) {
	w.T.Helper()
	request, _ := w.up.last()
	if got, want := slices.Sorted(maps.Keys(request.header)), expectedHeaders(tool, traced); !slices.Equal(got, want) {
		w.T.Errorf("%s: the tool got the headers %v, want %v", what, got, want)
	}
	all := request.url + "\n" + request.body + "\n"
	for name, values := range request.header {
		if len(values) != 1 {
			w.T.Errorf("%s: the tool got %s %d times", what, name, len(values))
		}
		all += name + ": " + strings.Join(values, "\n") + "\n"
	}
	for _, foreign := range []string{foreignMark, foreignAddress, credential, foreignTrace, strings.Split(foreignTrace, "-")[2]} {
		if strings.Contains(all, foreign) {
			w.T.Errorf("%s: the tool got %q of the caller: %s", what, foreign, all)
		}
	}
	if agent := request.header.Get("User-Agent"); !strings.HasPrefix(agent, "Cardea/") || request.header.Get("Accept-Encoding") != "gzip" ||
		request.header.Get("Accept") != "application/json, text/*;q=0.8, image/*;q=0.5, audio/*;q=0.5" {
		w.T.Errorf("%s: the tool got %v", what, request.header)
	}
	if key := request.header.Get("Idempotency-Key"); key != "" && key != request.header.Get("Cardea-Call-Id") {
		w.T.Errorf("%s: the idempotency key is %q", what, key)
	}
}

// expectNothingForeign calls each tool with each credential on both listeners.
func expectNothingForeign(t *testing.T, w *peopleWorld, traced bool) {
	t.Helper()
	credentials := map[string]string{"a key": w.key, "a user's key": w.declareKeyOf(7).Plain(), "an access token": w.token("orders:read"), "a session token": w.sessionToken()}
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"traceparent":"` + foreignTrace + `","baggage":"` + foreignMark +
		`","progressToken":"` + foreignMark + `","x":"` + foreignMark + `"}`
	for kind, credential := range credentials {
		for _, tool := range []string{"read", "write", "readmine", "writemine", "function", "webhook"} {
			what := tool + " with " + kind
			if strings.HasSuffix(tool, "mine") && kind == "a key" {
				continue // without a user there is no call
			}
			legacy := w.post("support?number="+foreignMark+"&access_token="+foreignMark, credential, callBody(tool, `{"number":"1007"}`), foreignHeaders()...)
			if !strings.Contains(legacy.raw, `"open"`) {
				t.Fatalf("%s: %d %s", what, legacy.status, legacy.raw)
			}
			w.expectOwnHeaders(what, tool, credential, traced)
			modern := w.post("support", credential, `{"jsonrpc":"2.0","id":"`+foreignMark+`","method":"tools/call","params":{"name":"`+tool+`","arguments":{"number":"1007"},`+meta+`}}`,
				append(foreignHeaders(), "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", tool)...)
			if !strings.Contains(modern.raw, `"open"`) {
				t.Fatalf("%s: %d %s", what, modern.status, modern.raw)
			}
			w.expectOwnHeaders(what+" under the modern revision", tool, credential, traced)
			if a := w.directWith(credential, tool, `{"arguments":{"number":"1007"}}`, foreignHeaders()...); a.Code != 200 || !strings.Contains(a.Body.String(), `"completed"`) {
				t.Fatalf("%s without MCP: %d %s", what, a.Code, a.Body)
			}
			w.expectOwnHeaders(what+" without MCP", tool, credential, traced)
		}
	}
}

// sessionToken gives the user a session, and returns its token, while the deployment keeps its webhook keys.
func (w *peopleWorld) sessionToken() string {
	w.T.Helper()
	keys := []document.SigningKey{w.webhookKey(nil)}
	token := w.sessions()(agentURL)
	settings := w.Settings()
	settings.SigningKeys, settings.WebhookKeys = w.signingKeys, keys
	w.Declare(settings)
	return token
}

func TestToolsGetNoHeaderCookieOrTokenOfTheCaller(t *testing.T) {
	w := newHeaderWorld(t, newWorld(t))
	expectNothingForeign(t, w, false)
}

// With tracing, a tool gets the server's own span, and neither the caller's state nor its baggage.
func TestTracedToolsGetNoHeaderCookieOrTokenOfTheCaller(t *testing.T) {
	t.Parallel()
	_, tracer := servertest.Collect(t)
	w := newHeaderWorld(t, newWorldIn(t, frontendtest.NewTraced(t, tracer)))
	expectNothingForeign(t, w, true)
}

// An idempotency key comes from the members that are for it, and from no header.
func TestIdempotencyKeyIsNoHeaderOfTheCaller(t *testing.T) {
	w := newHeaderWorld(t, newWorld(t))
	w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"write","arguments":{"number":"1"},"_meta":{"dev.cardea.iam/idempotency-key":"own-1"}}}`, foreignHeaders()...)
	if request, _ := w.up.last(); request.header.Get("Idempotency-Key") != "own-1" {
		t.Errorf("the tool got the key %q", request.header.Get("Idempotency-Key"))
	}
	if a := w.directWith(w.key, "write", `{"arguments":{"number":"1"},"idempotency_key":"own-2"}`, foreignHeaders()...); a.Code != http.StatusOK {
		t.Errorf("without MCP: %d %s", a.Code, a.Body)
	}
	if request, _ := w.up.last(); request.header.Get("Idempotency-Key") != "own-2" {
		t.Errorf("without MCP, the tool got the key %q", request.header.Get("Idempotency-Key"))
	}
}
