package examples

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/testing/process"
)

const agents = "agents.md"

// declareAgent declares the agent of the page with one tool, and returns the agent's id.
func (w *world) declareAgent(tool string, content document.AITool) string {
	w.T.Helper()
	w.Clock.Advance(time.Since(w.Clock.Now())) // verifiers compare the time of a signature with their own
	content.Name, content.Active, content.Method = tool, true, "POST"
	content.RequestBodySchema = []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}}
	w.Put(v1alpha1.KindAITool, tool, frontendtest.Deployment, "", content)
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{
		Name: "Support", Active: true, Tools: []string{tool}, URL: w.frontend + "/mcp/support",
	})
	return ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support"))
}

// call calls a tool without MCP until the agent serves it.
func (w *world) call(agent, tool, number string) (result *backend.ToolCallResult) {
	w.T.Helper()
	caller, err := backend.New(w.backend, client.WithToken(w.manager))
	w.Must(err)
	w.Eventually("the tool is called", func() bool {
		result, err = caller.CallTool(w.T.Context(), agent, tool, backend.ToolCallRequest{Arguments: &map[string]any{"number": number}})
		return err == nil
	})
	return result
}

// expectLateResult calls the webhook of the page, whose program runs at an address, and expects its result in the
// response, because it comes in time.
func (w *world) expectLateResult(at string, spec process.Spec) {
	w.T.Helper()
	secret := "whsec_" + base64.StdEncoding.EncodeToString([]byte(rand.Text()))
	id := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "ship-order"))
	agent := w.declareAgent("ship-order", document.AITool{
		Type: "webhook", Endpoint: "http://" + at + "/hooks/agents", TimeoutSeconds: 20, ResultSeconds: 3600, SigningSecret: true,
		SealedSigningSecret: w.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(id, document.ToolSigningSecret), []byte(secret)),
	})
	spec.Env = append(spec.Env, "SIGNING_SECRET="+secret)
	w.start(at, spec)
	got := w.call(agent, "ship-order", "1007")
	content, err := json.Marshal(got.StructuredContent)
	w.Must(err)
	if got.IsError || string(content) != `{"parcel":"parcel of 1007"}` {
		w.T.Errorf("the call returned %+v: %s", got, content)
	}
	unsigned, err := http.Post("http://"+at+"/hooks/agents", "application/json", strings.NewReader(`{"type":"agent.tool.call"}`))
	w.Must(err)
	_ = unsigned.Body.Close()
	if unsigned.StatusCode != http.StatusUnauthorized {
		w.T.Errorf("the program answers a call without a signature with %d", unsigned.StatusCode)
	}
}

func TestGoAnswersCallsOfAWebhookLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := address(t)
	_, port, _ := strings.Cut(at, ":")
	dir := folder(t, map[string]string{"main.go": strings.ReplaceAll(block(t, agents, "go", 0), `":9000"`, `"127.0.0.1:`+port+`"`)})
	application := filepath.Join(dir, "application")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", application, filepath.Join(dir, "main.go"))
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.expectLateResult(at, process.Spec{Name: "webhook", Path: application, Dir: dir})
}

func TestTypeScriptAnswersCallsOfAWebhookLater(t *testing.T) {
	t.Parallel()
	node := program(t, "node", "install nodejs 20 or newer")
	w := newWorld(t)
	at := address(t)
	_, port, _ := strings.Cut(at, ":")
	dir := compiled(t, strings.ReplaceAll(block(t, agents, "ts", 1), "listen(9000)", "listen("+port+", '127.0.0.1')"))
	w.expectLateResult(at, process.Spec{Name: "webhook", Path: node, Args: []string{"main.js"}, Dir: dir})
}

// compiled returns a folder with a program in TypeScript that is checked and compiled.
func compiled(t *testing.T, text string) string {
	t.Helper()
	dir := nodeFolder(t, map[string]string{"main.ts": text, "package.json": `{"type":"module"}`})
	tsc := exec.CommandContext(t.Context(), filepath.Join("node_modules", ".bin", "tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--types", "node", "main.ts")
	tsc.Dir = dir
	if out, err := tsc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}

// model is a server with the Chat Completions API. Its model calls the first tool it gets, and then repeats what the
// tool returned.
func model(t *testing.T) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var asked struct {
			Messages []struct{ Role, Content, ToolCallID string }
			Tools    []struct {
				Type     string
				Function struct {
					Name       string
					Parameters struct{ Required []string }
				}
			}
		}
		err := json.NewDecoder(r.Body).Decode(&asked)
		if err != nil || r.URL.Path != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer model-key" || len(asked.Tools) != 1 || asked.Tools[0].Type != "function" {
			http.Error(rw, `{"error":{"message":"this is no request of the API"}}`, http.StatusBadRequest)
			return
		}
		message := map[string]any{"role": "assistant"}
		if last := asked.Messages[len(asked.Messages)-1]; last.Role == "tool" {
			message["content"] = "The tool says " + last.Content
		} else {
			function := map[string]string{"name": asked.Tools[0].Function.Name, "arguments": `{"` + asked.Tools[0].Function.Parameters.Required[0] + `":"1007"}`}
			message["content"], message["tool_calls"] = nil, []any{map[string]any{"id": "call_1", "type": "function", "function": function}}
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"choices": []any{map[string]any{"index": 0, "message": message}}})
	}))
	t.Cleanup(server.Close)
	return server
}

func TestLoopOfAModelCallsTools(t *testing.T) {
	t.Parallel()
	node := program(t, "node", "install nodejs 20 or newer")
	w := newWorld(t)
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var arguments struct{ Number string }
		_ = json.NewDecoder(r.Body).Decode(&arguments)
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]string{"state": "open", "number": arguments.Number})
	}))
	t.Cleanup(api.Close)
	agent := w.declareAgent("find-order", document.AITool{Type: "api", Endpoint: api.URL + "/orders", TimeoutSeconds: 5})
	w.call(agent, "find-order", "1") // the agent is served
	dir := compiled(t, block(t, agents, "ts", 0))
	base, err := url.JoinPath(model(t).URL, "v1")
	w.Must(err)
	loop := exec.CommandContext(t.Context(), node, "main.js", "Where is my order?")
	loop.Dir = dir
	loop.Env = []string{
		"PATH=" + os.Getenv("PATH"), "CARDEA_BASE_URL=" + w.backend, "CARDEA_API_KEY=" + w.manager, "AGENT_ID=" + agent, "MODEL_URL=" + base, "MODEL_KEY=model-key", "MODEL=large",
	}
	out, err := loop.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `The tool says`) || !strings.Contains(string(out), `\"number\":\"1007\"`) {
		t.Errorf("%v: %s", err, out)
	}
}
