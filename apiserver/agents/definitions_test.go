package agents_test

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// backend sends a GET request to the backend API.
func (w *world) backend(path, key string) (status int, body map[string]any) {
	w.T.Helper()
	r, recorder := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
	r.Header.Set("Authorization", "Bearer "+key)
	w.Backend.ServeHTTP(recorder, r)
	w.Must(json.Unmarshal(recorder.Body.Bytes(), &body))
	return recorder.Code, body
}

// definitions returns the address of the definitions of an agent's tools, and a key that may read them.
func (w *world) definitions(agent string) (address, reader string) {
	w.T.Helper()
	reader = w.declareKey("reader", frontendtest.Deployment, "ai_agents:read")
	w.Eventually("the agent is in the list of agents", func() bool {
		status, list := w.backend("/ai/agents?search="+agent, reader)
		if status != 200 || len(list["data"].([]any)) != 1 {
			return false
		}
		address = "/ai/agents/" + list["data"].([]any)[0].(map[string]any)["id"].(string) + "/tool-definitions"
		return true
	})
	return address, reader
}

func TestDefinitionsHaveTheFormOfTheModelsAPI(t *testing.T) {
	w := newWorld(t)
	w.declareTool("draw-chart", document.AITool{
		Name: "Draw a chart", Description: "Draws a chart for the user.", Type: "function", Method: "GET",
		RequestBodySchema: []schemafield.Field{{Name: "title", FieldType: "STRING", Required: true}},
	})
	w.declareTool("ask-later", document.AITool{Name: "Ask later", Type: "webhook", Method: "POST"})
	w.declareAgent("support", "find-order", "draw-chart", "ask-later", "cancel-order")
	address, reader := w.definitions("Support")
	list := w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).body["result"].(map[string]any)["tools"].([]any)
	if len(list) != 2 {
		t.Fatalf("clients see %v", list)
	}
	for query, rename := range map[string]func(map[string]any) map[string]any{
		"": func(tool map[string]any) map[string]any { return tool }, "?format=mcp": func(tool map[string]any) map[string]any { return tool },
		"?format=openai": func(tool map[string]any) map[string]any {
			return map[string]any{"type": "function", "name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"], "strict": false}
		},
		"?format=openai-chat": func(tool map[string]any) map[string]any {
			return map[string]any{"type": "function", "function": map[string]any{"name": tool["name"], "description": tool["description"], "parameters": tool["inputSchema"]}}
		},
		"?format=anthropic": func(tool map[string]any) map[string]any {
			return map[string]any{"name": tool["name"], "description": tool["description"], "input_schema": tool["inputSchema"]}
		},
	} {
		status, body := w.backend(address+query, reader)
		tools, _ := body["tools"].([]any)
		if status != 200 || len(body) != 1 || len(tools) != 3 {
			t.Fatalf("%q: %d %v", query, status, body)
		}
		if !reflect.DeepEqual(tools[0], any(rename(list[0].(map[string]any)))) || !reflect.DeepEqual(tools[2], any(rename(list[1].(map[string]any)))) {
			t.Errorf("%q: %v", query, tools)
		}
		function := rename(map[string]any{
			"name": "draw-chart", "title": "Draw a chart", "description": "Draws a chart for the user.",
			"inputSchema": map[string]any{"type": "object", "properties": map[string]any{"title": map[string]any{"type": "string"}}, "required": []any{"title"}, "additionalProperties": false},
			"annotations": map[string]any{"readOnlyHint": false, "destructiveHint": false, "idempotentHint": false, "openWorldHint": true},
		})
		if !reflect.DeepEqual(tools[1], any(function)) {
			t.Errorf("%q: the function is %v", query, tools[1])
		}
	}
}

func TestFunctionOfTheApplicationIsNotCalled(t *testing.T) {
	w := newWorld(t)
	w.declareTool("draw-chart", document.AITool{Name: "Draw a chart", Type: "function", Method: "GET"})
	w.declareAgent("support", "draw-chart")
	a := w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"draw-chart"}}`)
	if problem, _ := a.body["error"].(map[string]any); problem["message"] != "Unknown tool: draw-chart" {
		t.Errorf("got %s", a.raw)
	}
}

func TestDefinitionsAreRefused(t *testing.T) {
	w := newWorld(t)
	address, reader := w.definitions("Support")
	for name, tc := range map[string]struct {
		address, key string
		status       int
	}{
		"another form":           {address + "?format=gemini", reader, 400},
		"a form of another case": {address + "?format=MCP", reader, 400},
		"without the permission": {address, w.key, 403},
		"without a key":          {address, "", 401},
		"of an unknown agent":    {"/ai/agents/17/tool-definitions", reader, 404},
		"of no id":               {"/ai/agents/support/tool-definitions", reader, 404},
	} {
		if status, body := w.backend(tc.address, tc.key); status != tc.status {
			t.Errorf("%s: %d %v", name, status, body)
		}
	}
}
