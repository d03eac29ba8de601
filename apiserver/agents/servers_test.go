package agents_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// serverOf returns the path of an agent's MCP server in the backend API, and a key that may read it.
func (w *world) serverOf(agent string) (path, reader string) {
	w.T.Helper()
	reader = w.declareKey("reader", frontendtest.Deployment, "ai_agents:read")
	w.Eventually("the agent is in the list of servers", func() bool {
		_, list := w.backend("/ai/mcp-servers", reader)
		found, _ := list["data"].([]any)
		for _, one := range found {
			if one.(map[string]any)["name"] == agent {
				path = "/ai/agents/" + one.(map[string]any)["id"].(string) + "/mcp"
			}
		}
		return path != ""
	})
	return path, reader
}

// Operators see every tool of an agent; callable ones are those that the agent's MCP server lists.
func TestServerShowsWhichToolsAreCallable(t *testing.T) {
	w := newWorld(t)
	w.declareTool("refund", document.AITool{
		Name: "Refund", Method: "POST", Endpoint: "https://api.acme.example:8443/v1/refunds", RequiresUserApproval: true, Permissions: []string{"orders:write"},
	})
	w.declareTool("draw-chart", document.AITool{Name: "Draw a chart", Type: "function", Method: "GET"})
	w.declareTool("again", document.AITool{Name: "Again", ToolName: "find-order", Method: "GET", Endpoint: "https://api.acme.example/"})
	w.Put(v1alpha1.KindAITool, "retired", frontendtest.Deployment, "", document.AITool{Name: "Retired", Type: "api", Method: "GET", Endpoint: "https://api.acme.example/"})
	w.declareAgent("desk", "find-order", "refund", "draw-chart", "again", "retired", "none")
	path, reader := w.serverOf("desk")
	var body map[string]any
	w.Eventually("the tools are known", func() bool {
		_, body = w.backend(path, reader)
		return len(body["tools"].([]any)) == 5
	})
	if body["name"] != "desk" || body["title"] != "Support" || body["is_active"] != true || body["tool_count"] != 5.0 || body["url"] != nil {
		t.Errorf("the server is %v", body)
	}
	callable := []string{}
	shown := map[string]string{}
	for _, one := range body["tools"].([]any) {
		tool := one.(map[string]any)
		shown[tool["title"].(string)] = strings.TrimSpace(fmt.Sprintln(tool["name"], tool["type"], tool["method"], tool["host"], tool["requires_user_approval"], tool["read_only"],
			tool["permissions"], tool["is_active"], tool["callable"]))
		if tool["callable"] == true {
			callable = append(callable, tool["name"].(string))
		}
	}
	for title, want := range map[string]string{
		"Refund":       "refund api POST api.acme.example:8443 true false [orders:write] true true",
		"Draw a chart": "draw-chart function   false false [] true false",
		"Again":        "find-order api GET api.acme.example false true [] true false",
		"Retired":      "retired api GET api.acme.example false true [] false false",
	} {
		if got := shown[title]; got != want {
			t.Errorf("%s is %q, want %q", title, got, want)
		}
	}
	key := w.declareKey("person", frontendtest.Deployment, "*")
	var listed []string
	w.Eventually("the key is known", func() bool {
		answer := w.post("desk", key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		return answer.status == 200 && len(answer.body["result"].(map[string]any)["tools"].([]any)) > 0
	})
	for _, one := range w.post("desk", key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).body["result"].(map[string]any)["tools"].([]any) {
		listed = append(listed, one.(map[string]any)["name"].(string))
	}
	// Calls that need an approval are not for callers without a user.
	if want := []string{"find-order"}; !reflect.DeepEqual(listed, want) || !reflect.DeepEqual(callable, []string{"find-order", "refund"}) {
		t.Errorf("callable are %v, and a key without a user sees %v", callable, listed)
	}
}

func TestServersAreListedByPages(t *testing.T) {
	w := newWorld(t)
	w.declareAgent("first", "find-order")
	w.declareAgent("second")
	w.Put(v1alpha1.KindAIAgent, "paused", frontendtest.Deployment, "", document.AIAgent{Name: "Paused", Description: "Not now.", URL: "https://localhost/mcp/paused"})
	w.Put(v1alpha1.KindAIAgent, "foreign", "acme/other", "", document.AIAgent{Name: "Foreign", Active: true})
	_, reader := w.serverOf("paused")
	status, all := w.backend("/ai/mcp-servers?limit=100", reader)
	total := int(all["total"].(float64))
	if status != 200 || len(all["data"].([]any)) != total || all["has_more"] != false {
		t.Fatalf("%d %v", status, all)
	}
	var paged []any
	for offset := range total {
		_, page := w.backend(fmt.Sprintf("/ai/mcp-servers?limit=1&offset=%d", offset), reader)
		if page["total"] != float64(total) || page["has_more"] != (offset < total-1) {
			t.Errorf("page %d: %v", offset, page)
		}
		paged = append(paged, page["data"].([]any)...)
	}
	if !reflect.DeepEqual(paged, all["data"]) {
		t.Errorf("the pages have %v, the list %v", paged, all["data"])
	}
	for query, want := range map[string]int{"is_active=false": 1, "is_active=true": total - 1, "search=NOT+NOW": 1, "search=foreign": 0, "search=not&is_active=true": 0, "offset=1000": 0} {
		_, found := w.backend("/ai/mcp-servers?"+query, reader)
		if len(found["data"].([]any)) != want {
			t.Errorf("%s: %v", query, found)
		}
		if paused := found["data"].([]any); query == "is_active=false" && paused[0].(map[string]any)["url"] != "https://localhost/mcp/paused" {
			t.Errorf("%s: %v", query, paused)
		}
	}
}

func TestServersAreRefused(t *testing.T) {
	w := newWorld(t)
	w.declareAgent("desk", "find-order")
	path, reader := w.serverOf("desk")
	w.Put(v1alpha1.KindIdentityDeployment, "other", "acme/other", "other", document.Deployment{Mode: "Staging", FrontendHosts: []string{"other.example"}})
	foreign := w.declareKey("foreign", "acme/other", "*")
	w.Eventually("the other deployment's key is known", func() bool {
		status, list := w.backend("/ai/mcp-servers", foreign)
		return status == 200 && list["total"] == 0.0
	})
	for name, tc := range map[string]struct {
		path, key string
		status    int
	}{
		"no such page":                   {"/ai/mcp-servers?limit=0", reader, 400},
		"no such state":                  {"/ai/mcp-servers?is_active=perhaps", reader, 400},
		"a list without the permission":  {"/ai/mcp-servers", w.key, 403},
		"without the permission":         {path, w.key, 403},
		"without a key":                  {path, "", 401},
		"of an agent of another tenant":  {path, foreign, 404},
		"of an unknown agent":            {"/ai/agents/17/mcp", reader, 404},
		"of a name in place of an id":    {"/ai/agents/desk/mcp", reader, 404},
		"the numbers without permission": {path[:len(path)-len("mcp")] + "analytics?from=2026-05-09T00:00:00Z&to=2026-05-10T00:00:00Z", reader, 403},
	} {
		if status, body := w.backend(tc.path, tc.key); status != tc.status {
			t.Errorf("%s: %d %v", name, status, body)
		}
	}
}
