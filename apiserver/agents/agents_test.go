package agents_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// upstream is the HTTP API that tools call. It keeps its requests.
type upstream struct {
	*httptest.Server
	mu       sync.Mutex
	requests []sent
	answer   func(w http.ResponseWriter, r *http.Request)
}

type sent struct {
	method, url, body string
	header            http.Header
}

func newUpstream(t *testing.T) *upstream {
	u := &upstream{answer: func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"state":"open"}`)
	}}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		u.mu.Lock()
		u.requests = append(u.requests, sent{r.Method, r.URL.String(), string(body), r.Header.Clone()})
		answer := u.answer
		u.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(u.Close)
	return u
}

// last returns the newest request, and how many there were.
func (u *upstream) last() (one sent, count int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.requests) == 0 {
		return sent{}, 0
	}
	return u.requests[len(u.requests)-1], len(u.requests)
}

type world struct {
	*frontendtest.World
	up  *upstream
	key string
	// known is how many records of calls a test has seen.
	known int
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	return newWorldOver(t, "")
}

// newWorldOver is newWorld with the store of a URL, "" for SQLite.
func newWorldOver(t *testing.T, url string) *world {
	t.Helper()
	return newWorldIn(t, frontendtest.NewOver(t, url, nil, nil))
}

func newWorldIn(t *testing.T, in *frontendtest.World) *world {
	t.Helper()
	w := &world{World: in, up: newUpstream(t)}
	w.key = w.declareKey("caller", frontendtest.Deployment, "ai_agents:call")
	w.declareTool("find-order", document.AITool{
		Name: "Find an order", Description: "Finds an order by its number.", Method: "GET", Endpoint: w.up.URL + "/orders/{number}?source=agent",
		URLParamsSchema: []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}, {Name: "fields", FieldType: "ARRAY", ItemsType: "STRING"}},
	})
	w.declareTool("cancel-order", document.AITool{
		Name: "Cancel an order", Method: "POST", Endpoint: w.up.URL + "/cancellations", Headers: []document.ToolHeader{{Name: "X-Channel", Value: "agent"}},
		RequestBodySchema: []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}, {Name: "copies", FieldType: "INTEGER"}},
	})
	w.declareAgent("support", "find-order", "cancel-order")
	return w
}

func (w *world) declareKey(name, deployment string, permissions ...string) string {
	w.T.Helper()
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindAPIAuthApp, "app-"+name, deployment, "app-"+name, document.APIAuthApp{Slug: "app-" + name, Active: true, Permissions: []string{"*"}})
	w.Put(v1alpha1.KindAPIKey, name, deployment, "", document.APIKey{App: "app-" + name, Permissions: permissions, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}}})
	return minted.Plain()
}

func (w *world) declareTool(name string, tool document.AITool) {
	w.T.Helper()
	if tool.Type == "" {
		tool.Type = "api"
	}
	if tool.TimeoutSeconds == 0 {
		tool.TimeoutSeconds = 5
	}
	tool.Active = true
	w.Put(v1alpha1.KindAITool, name, frontendtest.Deployment, "", tool)
}

func (w *world) declareAgent(name string, tools ...string) {
	w.T.Helper()
	w.Put(v1alpha1.KindAIAgent, name, frontendtest.Deployment, "", document.AIAgent{Name: "Support", Active: true, Tools: tools})
	w.Eventually("the agent is served", func() bool { return w.post(name, w.key, `{"jsonrpc":"2.0","id":1,"method":"ping"}`).status == 200 })
}

type answer struct {
	status int
	header http.Header
	raw    string
	body   map[string]any
}

// post sends a request to an agent. Further headers are names and values.
func (w *world) post(agent, key, body string, header ...string) answer {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), "POST", w.Server.URL+"/mcp/"+agent, strings.NewReader(body))
	w.Must(err)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	w.Must(err)
	a := answer{status: resp.StatusCode, header: resp.Header, raw: string(raw)}
	_ = json.Unmarshal(raw, &a.body) // some responses have no body
	return a
}

// bearer adds a key to requests, and names the deployment's host.
type bearer struct {
	key  string
	next http.RoundTripper
}

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.key)
	r.Host = "localhost"
	return b.next.RoundTrip(r)
}

// connect returns a session of the Go SDK's client.
func (w *world) connect(agent string) *mcp.ClientSession {
	w.T.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil)
	session, err := client.Connect(w.T.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.Server.URL + "/mcp/" + agent, HTTPClient: &http.Client{Transport: bearer{w.key, http.DefaultTransport}}, DisableStandaloneSSE: true,
	}, nil)
	w.Must(err)
	w.T.Cleanup(func() { _ = session.Close() })
	return session
}

func TestGoClientListsAndCallsTools(t *testing.T) {
	w := newWorld(t)
	session := w.connect("support")
	list, err := session.ListTools(t.Context(), nil)
	w.Must(err)
	if len(list.Tools) != 2 || list.Tools[0].Name != "find-order" || list.Tools[1].Description != "Cancel an order" || !list.Tools[0].Annotations.ReadOnlyHint {
		t.Fatalf("the list is %+v", list.Tools)
	}
	found, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "find-order", Arguments: map[string]any{"number": "a/../b c", "fields": []string{"x", "y"}}})
	w.Must(err)
	request, _ := w.up.last()
	if found.IsError || request.method != "GET" || request.url != "/orders/a%2F..%2Fb%20c?source=agent&fields=x&fields=y" {
		t.Errorf("found %+v by %+v", found, request)
	}
	if text, is := found.Content[0].(*mcp.TextContent); !is || text.Text != `{"state":"open"}` {
		t.Errorf("the content is %v", found.Content[0])
	}
	done, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "cancel-order", Arguments: map[string]any{"number": "7", "copies": 9007199254740991}})
	w.Must(err)
	request, count := w.up.last()
	if done.IsError || count != 2 || request.body != `{"copies":9007199254740991,"number":"7"}` || request.header.Get("X-Channel") != "agent" || request.header.Get("Idempotency-Key") == "" {
		t.Errorf("done %+v by %+v", done, request)
	}
	if request.header.Get("Authorization") != "" || request.header.Get("Cookie") != "" {
		t.Error("the caller's credential reached the tool")
	}
}

func TestEachRevisionIsServed(t *testing.T) {
	w := newWorld(t)
	meta := `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	for name, tc := range map[string]struct {
		body   string
		header []string
		status int
		want   string
	}{
		"initialize":             {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`, nil, 200, `"protocolVersion":"2025-06-18"`},
		"initialize of another":  {`{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"1999-01-01"}}`, nil, 200, `"id":"a","result":{"protocolVersion":"2025-11-25"`},
		"notification":           {`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil, 202, ``},
		"ping":                   {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"Mcp-Protocol-Version", "2025-11-25"}, 200, `"result":{}`},
		"unknown revision":       {`{"jsonrpc":"2.0","id":1,"method":"ping"}`, []string{"Mcp-Protocol-Version", "2024-01-01"}, 400, `-32022`},
		"unknown method":         {`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`, nil, 200, `-32601`},
		"batch":                  {`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, nil, 400, `-32600`},
		"not JSON":               {`{`, nil, 400, `-32700`},
		"null id":                {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, nil, 400, `-32600`},
		"fractional id":          {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, nil, 400, `-32600`},
		"cursor":                 {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}}`, nil, 200, `-32602`},
		"discover":               {`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover"}, 200, `"supportedVersions":["2026-07-28","2025-11-25","2025-06-18"]`},
		"modern list":            {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, 200, `"ttlMs":5000,"cacheScope":"private"`},
		"modern ping":            {`{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + meta + `}}`, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "ping"}, 404, `-32601`},
		"modern without method":  {`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + meta + `}}`, []string{"Mcp-Protocol-Version", "2026-07-28"}, 400, `-32020`},
		"modern without meta":    {`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"}, 400, `-32602`},
		"modern with wrong name": {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find-order",` + meta + `}}`, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "other"}, 400, `-32020`},
		"modern with base64":     {`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find-order",` + meta + `}}`, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "=?base64?ZmluZC1vcmRlcg==?="}, 200, `missing property 'number'`},
	} {
		if a := w.post("support", w.key, tc.body, tc.header...); a.status != tc.status || !strings.Contains(a.raw, tc.want) {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
}

func TestCallersAreChecked(t *testing.T) {
	w := newWorld(t)
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	lacking := w.declareKey("lacking", frontendtest.Deployment, "ai_agents:read")
	w.Eventually("the other key is known", func() bool { return w.post("support", lacking, ping).status == 403 })
	for name, tc := range map[string]struct {
		agent, key string
		header     []string
		status     int
	}{
		"no credential":       {"support", "", nil, 401},
		"unknown key":         {"support", "ck_unknown", nil, 401},
		"unknown agent":       {"other", w.key, nil, 404},
		"nested path":         {"support/x", w.key, nil, 404},
		"unknown host":        {"support", w.key, []string{"Host", "rebound.example"}, 404},
		"page of another":     {"support", w.key, []string{"Origin", "https://evil.example"}, 403},
		"page without origin": {"support", w.key, []string{"Origin", "null"}, 403},
		"another media type":  {"support", w.key, []string{"Content-Type", "text/plain"}, 415},
	} {
		a := w.post(tc.agent, tc.key, ping, tc.header...)
		if a.status != tc.status || !strings.Contains(a.raw, `"code":-32000`) || !strings.Contains(a.raw, `"request_id"`) {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
		if tc.status == 401 && !strings.HasPrefix(a.header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: no challenge", name)
		}
	}
	if a := w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"`+strings.Repeat("x", 256<<10)+`"}`); a.status != 413 {
		t.Errorf("a large body: %d", a.status)
	}
	r, err := http.NewRequestWithContext(t.Context(), "GET", w.Server.URL+"/mcp/support", http.NoBody)
	w.Must(err)
	r.Host = "localhost"
	resp, err := http.DefaultClient.Do(r)
	w.Must(err)
	w.Must(resp.Body.Close())
	if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %d", resp.StatusCode)
	}
}

// call calls a tool and returns the text, the code of the error, and the result.
func (w *world) call(tool, arguments string) (text, code string) {
	w.T.Helper()
	a := w.post("support", w.key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, tool, arguments))
	var body struct {
		Result struct {
			Content []struct{ Text string }
			IsError bool
			Meta    map[string]struct{ Code string } `json:"_meta"`
		}
	}
	w.Must(json.Unmarshal([]byte(a.raw), &body))
	if len(body.Result.Content) == 0 {
		w.T.Fatalf("no content: %s", a.raw)
	}
	code = body.Result.Meta["dev.cardea.iam/error"].Code
	if body.Result.IsError != (code != "") {
		w.T.Errorf("isError does not fit the code %q: %s", code, a.raw)
	}
	return body.Result.Content[0].Text, code
}

func TestWrongArgumentsAreNotSent(t *testing.T) {
	w := newWorld(t)
	for arguments, want := range map[string]string{
		`{}`: "missing property 'number'", `{"number":1}`: "/number:", `{"number":"1","more":1}`: "additional", `{"number":".."}`: "segment of a path", `{"number":""}`: "segment of a path",
	} {
		if text, code := w.call("find-order", arguments); code != "invalid_arguments" || !strings.Contains(text, want) {
			t.Errorf("%s: %s %s", arguments, code, text)
		}
	}
	if _, count := w.up.last(); count != 0 {
		t.Errorf("%d requests were sent", count)
	}
	if a := w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop-order"}}`); !strings.Contains(a.raw, `-32602`) || !strings.Contains(a.raw, "Unknown tool: drop-order") {
		t.Errorf("an unknown tool: %s", a.raw)
	}
}

func TestAnswersAreBoundedAndCleaned(t *testing.T) {
	w := newWorld(t)
	for name, tc := range map[string]struct {
		answer     http.HandlerFunc
		text, code string
	}{
		"text": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(rw, "a\x1b[2J\u202eb\U000E0041c")
		}, "a[2Jbc", ""},
		"empty": {func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }, "Done (204).", ""},
		"status": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(404)
			_, _ = io.WriteString(rw, `{"detail":"no \u202eorder"}`)
		}, "The tool answered 404 Not Found. no order", "upstream_status"},
		"redirect": {func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "http://169.254.169.254/", http.StatusFound)
		}, "not followed", "redirected"},
		"large": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/plain")
			_, _ = rw.Write(make([]byte, 300<<10))
		}, "more than 262144 bytes", "response_too_large"},
		"html event": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(rw, "data: x\n\n")
		}, "neither", "unsupported_media_type"},
		"not JSON": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, "{")
		}, "no JSON", "invalid_response"},
		"deep JSON": {func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, strings.Repeat("[", 40)+strings.Repeat("]", 40))
		}, "levels", "invalid_response"},
		"broken": {func(rw http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, "unavailable", "unreachable"},
	} {
		w.up.mu.Lock()
		w.up.answer = tc.answer
		w.up.mu.Unlock()
		if text, code := w.call("find-order", `{"number":"1"}`); code != tc.code || !strings.Contains(text, tc.text) {
			t.Errorf("%s: %q %q", name, code, text)
		}
	}
}

func TestUnsafeCallIsSentOnce(t *testing.T) {
	w := newWorld(t)
	w.up.mu.Lock()
	w.up.answer = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	w.up.mu.Unlock()
	for range 3 { // the later ones find connections that were kept
		_, before := w.up.last()
		if text, code := w.call("cancel-order", `{"number":"1"}`); code != "unreachable" {
			t.Errorf("%s %s", code, text)
		}
		if _, after := w.up.last(); after != before+1 {
			t.Errorf("%d requests were sent", after-before)
		}
		w.up.mu.Lock()
		abort := w.up.answer
		w.up.answer = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) }
		w.up.mu.Unlock()
		w.call("cancel-order", `{"number":"1"}`)
		w.up.mu.Lock()
		w.up.answer = abort
		w.up.mu.Unlock()
	}
}

// A safe method is no promise that a call changes nothing, and a server may close a kept connection after a call.
func TestCallThatMayChangeSomethingIsSentOnceWhateverItsMethod(t *testing.T) {
	w := newWorld(t)
	changes := false
	w.declareTool("touch", document.AITool{Name: "Touch", Method: "GET", Endpoint: w.up.URL + "/touch", Annotations: &document.ToolAnnotations{ReadOnly: &changes}})
	w.declareTool("keyed", document.AITool{Name: "Keyed", Method: "POST", Endpoint: w.up.URL + "/keyed", Headers: []document.ToolHeader{{Name: "X-Idempotency-Key", Value: "1"}}})
	w.declareAgent("support", "touch", "keyed")
	for _, tool := range []string{"touch", "keyed"} {
		w.answering(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(204) })
		if _, code := w.call(tool, `{}`); code != "" {
			t.Fatal(code)
		}
		got, _ := w.up.last()
		if got.body != "" || len(got.header["Transfer-Encoding"]) > 0 {
			t.Errorf("%s: %+v", tool, got)
		}
		w.answering(func(rw http.ResponseWriter, _ *http.Request) {
			connection, _, err := rw.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_ = connection.Close() // before a byte of a response
		})
		_, before := w.up.last()
		if _, code := w.call(tool, `{}`); code != "unreachable" {
			t.Error(code)
		}
		if _, after := w.up.last(); after != before+1 {
			t.Errorf("%s: %d requests were sent", tool, after-before)
		}
	}
}

func TestArgumentsAreSentAsTheyAreRecorded(t *testing.T) {
	w := newWorld(t)
	w.declareTool("pay", document.AITool{Name: "Pay", Method: "POST", Endpoint: w.up.URL, RequestBodySchema: []schemafield.Field{{Name: "amount", FieldType: "NUMBER"}, {Name: "open", FieldType: "OBJECT"}}})
	w.declareAgent("support", "pay")
	if _, code := w.call("pay", `{"open":{"b":1e2,"a":0.1000000000000000055},"amount":1.50}`); code != "" {
		t.Fatal(code)
	}
	if got, _ := w.up.last(); got.body != `{"amount":1.5,"open":{"a":0.1,"b":100}}` {
		t.Errorf("sent %s", got.body)
	}
	for arguments, want := range map[string]string{
		`{"amount":9007199254740993}`: "/amount: JSON readers round", `{"open":{"x":1,"x":2}}`: "a name twice", `{"amount":1e999999}`: "/amount: the number is too long",
	} {
		_, before := w.up.last()
		text, code := w.call("pay", arguments)
		if _, after := w.up.last(); code != "invalid_arguments" || !strings.Contains(text, want) || after != before {
			t.Errorf("%s: %s %s", arguments, code, text)
		}
	}
}

func TestOnlyCallableToolsAreListed(t *testing.T) {
	w := newWorld(t)
	for name, change := range map[string]func(*document.AITool){
		"function": func(a *document.AITool) { a.Type = "function" }, "approved": func(a *document.AITool) { a.RequiresUserApproval = true },
		"as-user": func(a *document.AITool) { a.Authorization.AuthorizeAsUser = true }, "secret": func(a *document.AITool) { a.Headers = []document.ToolHeader{{Name: "X", Secret: true}} },
		"host": func(a *document.AITool) { a.Endpoint = "https://{number}.example/" }, "credentials": func(a *document.AITool) { a.Endpoint = "https://a:b@c.example/" },
		"missing": func(a *document.AITool) { a.Endpoint = "https://c.example/{other}" }, "no-endpoint": func(a *document.AITool) { a.Endpoint = "" },
	} {
		tool := document.AITool{Name: name, Method: "GET", Endpoint: "https://c.example/", Parameters: []document.ToolParameter{{Name: "number", Type: "int"}}}
		change(&tool)
		w.declareTool(name, tool)
	}
	w.declareAgent("limited", "function", "approved", "as-user", "secret", "host", "credentials", "missing", "no-endpoint", "find-order")
	a := w.post("limited", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	if tools := a.body["result"].(map[string]any)["tools"].([]any); len(tools) != 1 {
		t.Errorf("the list is %s", a.raw)
	}
}

func TestSlowToolHoldsUpItselfOnly(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	w.up.mu.Lock()
	w.up.answer = func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/cancellations") {
			<-release
		}
		rw.WriteHeader(204)
	}
	w.up.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() { w.call("cancel-order", `{"number":"1"}`) })
	}
	w.Eventually("the slots are used", func() bool { _, count := w.up.last(); return count == 16 || ctx.Err() != nil })
	if text, code := w.call("cancel-order", `{"number":"1"}`); code != "busy" {
		t.Errorf("%s %s", code, text)
	}
	if text, code := w.call("find-order", `{"number":"1"}`); code != "" {
		t.Errorf("another tool: %s %s", code, text)
	}
	close(release)
	all.Wait()
	if text, code := w.call("cancel-order", `{"number":"1"}`); code != "" {
		t.Errorf("after the slots are free: %s %s", code, text)
	}
}
