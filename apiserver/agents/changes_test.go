package agents_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// toolChange is a change of a tool or its agent, and what calls of the tool then come to.
type toolChange struct {
	name string
	how  func(*document.AITool, *document.AIAgent)
	// want is in the answer of a call, and url is what the tool got, "" for no request.
	want, url string
}

// changes are applied one after the other.
func (w *world) changes() []toolChange {
	sealed := func(value string) []document.ToolHeader {
		id := ids.Format(ids.Derive(v1alpha1.KindAITool, "acme", "moving"))
		return []document.ToolHeader{{Name: "X-Key", Secret: true, Sealed: w.Keyring.Seal(document.SealedToolHeader, document.ToolHeaderID(id, "X-Key"), []byte(value))}}
	}
	number := []schemafield.Field{{Name: "number", FieldType: "STRING"}}
	return []toolChange{
		{"the endpoint", func(t *document.AITool, _ *document.AIAgent) { t.Endpoint = w.up.URL + "/second" }, `"open"`, "/second?number=7"},
		{"the method", func(t *document.AITool, _ *document.AIAgent) { t.Method = "DELETE" }, `"open"`, "/second?number=7"},
		{"a required argument", func(t *document.AITool, _ *document.AIAgent) {
			t.URLParamsSchema = append(number, schemafield.Field{Name: "reason", FieldType: "STRING", Required: true})
		}, "missing property 'reason'", ""},
		{"another type of an argument", func(t *document.AITool, _ *document.AIAgent) {
			t.URLParamsSchema = []schemafield.Field{{Name: "number", FieldType: "INTEGER"}}
		}, "/number:", ""},
		{"the argument's place", func(t *document.AITool, _ *document.AIAgent) {
			t.Endpoint, t.URLParamsSchema = w.up.URL+"/third/{number}", []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}}
		}, `"open"`, "/third/7"},
		{"the value of a Secret", func(t *document.AITool, _ *document.AIAgent) { t.Headers = sealed("new-value") }, `"open"`, "/third/7"},
		{"the bound of answers", func(t *document.AITool, _ *document.AIAgent) { t.Response = &document.ToolResponse{Select: "/none"} }, `"invalid_response"`, "/third/7"},
		{"the form of answers", func(t *document.AITool, _ *document.AIAgent) { t.Response = &document.ToolResponse{Select: "/state"} }, `{"result":"open"}`, "/third/7"},
		{"a permission of the tool", func(t *document.AITool, _ *document.AIAgent) { t.Permissions = []string{"orders:purge"} }, "Unknown tool: moving", ""},
		{"no permission of the tool", func(t *document.AITool, _ *document.AIAgent) { t.Permissions = nil }, `"result":"open"`, "/third/7"},
		{"a permission of the agent", func(_ *document.AITool, a *document.AIAgent) { a.Permissions = []string{"orders:purge"} }, `"code":-32000`, ""},
		{"no permission of the agent", func(_ *document.AITool, a *document.AIAgent) { a.Permissions = nil }, `"result":"open"`, "/third/7"},
		{"an approval", func(t *document.AITool, _ *document.AIAgent) { t.RequiresUserApproval = true }, `"user_required"`, ""},
		{"no approval", func(t *document.AITool, _ *document.AIAgent) { t.RequiresUserApproval = false }, `"result":"open"`, "/third/7"},
		{"the name for models", func(t *document.AITool, _ *document.AIAgent) { t.ToolName = "renamed" }, "Unknown tool: moving", ""},
		{"the former name", func(t *document.AITool, _ *document.AIAgent) { t.ToolName = "" }, `"result":"open"`, "/third/7"},
		{"an inactive tool", func(t *document.AITool, _ *document.AIAgent) { t.Active = false }, "Unknown tool: moving", ""},
		{"an active tool", func(t *document.AITool, _ *document.AIAgent) { t.Active = true }, `"result":"open"`, "/third/7"},
		{"an agent without the tool", func(_ *document.AITool, a *document.AIAgent) { a.Tools = nil }, "Unknown tool: moving", ""},
		{"an agent with the tool", func(_ *document.AITool, a *document.AIAgent) { a.Tools = []string{"moving"} }, `"result":"open"`, "/third/7"},
		{"an inactive agent", func(_ *document.AITool, a *document.AIAgent) { a.Active = false }, "there is no such agent", ""},
	}
}

// A change of a tool or its agent is in effect for calls a second after it was written: with the new endpoint, schema,
// Secret and rights. From then on, no call is made by the earlier declaration.
func TestChangedToolIsInEffectForCallsWithinASecond(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, engine string) {
		w := newWorldOver(t, engine)
		tool := document.AITool{
			Name: "Moving", Type: "api", Active: true, TimeoutSeconds: 10, Method: "GET", Endpoint: w.up.URL + "/first", URLParamsSchema: []schemafield.Field{{Name: "number", FieldType: "STRING"}},
		}
		agent := document.AIAgent{Name: "Support", Active: true, Tools: []string{"moving"}, URL: agentURL}
		w.declareTool("moving", tool)
		w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", agent)
		try := func() (raw string, got sent, requests int) {
			_, before := w.up.last()
			a := w.post("support", w.key, callBody("moving", `{"number":"7"}`))
			got, after := w.up.last()
			return a.raw, got, after - before
		}
		if raw, got, _ := try(); !strings.Contains(raw, `"open"`) || got.url != "/first?number=7" {
			t.Fatalf("before the changes: %s", raw)
		}
		var late []string
		for _, one := range w.changes() {
			one.how(&tool, &agent)
			// These writes do not wait for the server.
			w.World.World.Put(v1alpha1.KindAITool, "moving", frontendtest.Deployment, "", tool)
			w.World.World.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", agent)
			written := time.Now()
			effective := func() bool {
				raw, got, requests := try()
				if !strings.Contains(raw, one.want) || one.url == "" && requests != 0 {
					return false
				}
				return one.url == "" || got.url == one.url && got.method == tool.RequestMethod() && (len(tool.Headers) == 0 || got.header.Get("X-Key") == "new-value")
			}
			w.Eventually("calls follow the change of "+one.name, effective)
			if took := time.Since(written); took > inTime {
				late = append(late, fmt.Sprint(one.name, " after ", took))
			}
			for range 5 {
				if !effective() {
					raw, got, requests := try()
					t.Errorf("%s: a later call is made by the earlier declaration: %s, %+v, %d", one.name, raw, got, requests)
				}
			}
		}
		if len(late) > len(w.changes())/10 { // a busy machine may delay single calls
			t.Errorf("calls followed changes too late: %v", late)
		}
	})
}

// A call that runs while its tool changes ends by the declaration with which it began.
func TestRunningCallKeepsItsDeclaration(t *testing.T) {
	w := newWorld(t)
	w.declareTool("moving", document.AITool{Name: "Moving", Method: "POST", Endpoint: w.up.URL + "/first"})
	w.declareAgent("support", "moving")
	arrived, release := make(chan struct{}), make(chan struct{})
	w.answering(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/first" {
			close(arrived)
			<-release
		}
		responding("application/json", `{"state":"open"}`)(rw, r)
	})
	done := make(chan answer)
	go func() { done <- w.post("support", w.key, callBody("moving", `{}`)) }()
	<-arrived
	w.declareTool("moving", document.AITool{Name: "Moving", Method: "POST", Endpoint: w.up.URL + "/second", Response: &document.ToolResponse{Select: "/none"}})
	if a := w.post("support", w.key, callBody("moving", `{}`)); !strings.Contains(a.raw, `"invalid_response"`) || w.up.sentTo("/second") != 1 {
		t.Errorf("a call after the change: %s", a.raw)
	}
	close(release)
	if a := <-done; !strings.Contains(a.raw, `"open"`) || w.up.sentTo("/first") != 1 {
		t.Errorf("the call from before the change: %s", a.raw)
	}
}
