package agents_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// checked is a message with the name of the schema that it must fit, or error.
type checked struct {
	Revision string          `json:"revision"`
	Kind     string          `json:"kind"`
	Message  json.RawMessage `json:"message"`
}

// messagesOf returns a message of each kind that the server sends in a revision.
func (w *world) messagesOf(revision string) (all []checked) {
	w.T.Helper()
	isModern := revision == "2026-07-28"
	ask := func(kind, method, params string) {
		header := []string{"Mcp-Protocol-Version", revision}
		if isModern {
			params = strings.TrimSuffix(params, "}") + map[bool]string{true: ",", false: ""}[params != "{}"] + modernMeta + "}"
			header = append(header, "Mcp-Method", method)
			if method == "tools/call" {
				var named struct{ Name string }
				w.Must(json.Unmarshal([]byte(params), &named))
				header = append(header, "Mcp-Name", named.Name)
			}
		}
		a := w.post("support", w.key, `{"jsonrpc":"2.0","id":"a","method":"`+method+`","params":`+params+`}`, header...)
		if (a.body["error"] != nil) != (kind == "error") {
			w.T.Errorf("%s: %s: %s", revision, method, a.raw)
		}
		all = append(all, checked{revision, kind, json.RawMessage(a.raw)})
	}
	if isModern {
		ask("DiscoverResult", "server/discover", "{}")
	} else {
		ask("InitializeResult", "initialize", `{"protocolVersion":"`+revision+`"}`)
		ask("EmptyResult", "ping", "{}")
	}
	ask("ListToolsResult", "tools/list", "{}")
	for _, arguments := range []string{`{"number":"7"}`, `{}`, `{"number":"missing"}`, `{"number":"text"}`, `{"number":"image"}`, `{"number":"list"}`} {
		ask("CallToolResult", "tools/call", `{"name":"find-order","arguments":`+arguments+`}`)
	}
	ask("CallToolResult", "tools/call", `{"name":"list-orders","arguments":{"number":"list"}}`)
	ask("error", "tools/call", `{"name":"unknown"}`)
	ask("error", "prompts/list", "{}")
	ask("error", "tools/list", `{"cursor":"x"}`)
	for _, refused := range []answer{
		w.post("support", "", listing), w.post("other", w.key, listing), w.post("support", w.key, "{"), w.post("support", w.key, "[]"),
		w.post("support", w.key, listing, "Mcp-Protocol-Version", "1999-01-01"), w.post("support", w.key, listing, "Content-Type", "text/plain"),
	} {
		all = append(all, checked{revision, "error", json.RawMessage(refused.raw)})
	}
	return all
}

// fitSchemas compares messages with the schemas of the published packages.
func (w *world) fitSchemas(node string, all []checked) {
	w.T.Helper()
	in, err := json.Marshal(all)
	w.Must(err)
	cmd := exec.CommandContext(w.T.Context(), node, filepath.Join(peers, "messages.js"))
	cmd.Env, cmd.Stdin, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH")}, bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	w.Must(err)
	var problems []string
	w.Must(json.Unmarshal(out, &problems))
	for _, problem := range problems {
		w.T.Error(problem)
	}
}

func TestMessagesFitThePublishedSchemas(t *testing.T) {
	program := node(t)
	w := newWorld(t)
	w.up.mu.Lock()
	w.up.answer = answerByKind
	w.up.mu.Unlock()
	number := []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}}
	w.declareTool("list-orders", document.AITool{
		Name: "List orders", Method: "GET", Endpoint: w.up.URL + "/orders/{number}", URLParamsSchema: number,
		Response: &document.ToolResponse{Array: true, Schema: []schemafield.Field{{Name: "state", FieldType: "STRING"}}},
	})
	w.declareAgent("support", "find-order", "cancel-order", "list-orders")
	w.Eventually("the agent has its tools", func() bool { return len(names(w.post("support", w.key, listing))) == 3 })
	var all []checked
	for _, revision := range []string{"2026-07-28", "2025-11-25", "2025-06-18"} {
		all = append(all, w.messagesOf(revision)...)
	}
	l := w.listen(w.key)
	w.Withdraw("AITool", "acme", "cancel-order")
	changed := l.next()
	w.Withdraw("APIKey", "acme", "caller")
	for kind, message := range map[string]string{"SubscriptionsAcknowledgedNotification": acknowledgedEvent, "ToolListChangedNotification": changed, "SubscriptionsListenResult": l.next()} {
		all = append(all, checked{"2026-07-28", kind, json.RawMessage(message)})
	}
	w.fitSchemas(program, all)
	if len(all) != 18+2*19+3 {
		t.Errorf("%d messages were checked", len(all))
	}
}

// answerByKind answers as the order's number says.
func answerByKind(rw http.ResponseWriter, r *http.Request) {
	kinds := map[string][2]string{
		"7": {"application/json", `{"state":"open"}`}, "missing": {"application/json", `{"error":"no such order"}`}, "text": {"text/plain", "open"},
		"image": {"image/png", "PNG"}, "list": {"application/json", `[{"state":"open"}]`},
	}
	number := path.Base(r.URL.Path)
	rw.Header().Set("Content-Type", kinds[number][0])
	if number == "missing" {
		rw.WriteHeader(http.StatusNotFound)
	}
	_, _ = io.WriteString(rw, kinds[number][1])
}
