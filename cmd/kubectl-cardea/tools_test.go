package main

import (
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/terminal"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// agentWorld is a server with an agent and an API that its tools call.
type agentWorld struct {
	*frontendtest.World
	env map[string]string

	mu   sync.Mutex
	last string // the method, the address and the body of the last request of a tool
}

func newAgentWorld(t *testing.T) *agentWorld {
	t.Helper()
	w := &agentWorld{World: frontendtest.New(t, nil)}
	upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.last = r.Method + " " + r.URL.String() + " " + string(body)
		w.mu.Unlock()
		if r.URL.Path == "/orders/none" {
			rw.WriteHeader(http.StatusNotFound)
			return
		}
		rw.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(rw, "first\n\u0085\u200esecond\n") // the server removes the control and the invisible character
	}))
	t.Cleanup(upstream.Close)
	minted, err := apikey.Mint(rand.Reader, "ck")
	w.Must(err)
	w.Put(v1alpha1.KindAPIAuthApp, "agents", frontendtest.Deployment, "agents", document.APIAuthApp{Slug: "agents", Active: true, Permissions: []string{"*"}})
	w.Put(v1alpha1.KindAPIKey, "agent", frontendtest.Deployment, "", document.APIKey{App: "agents", Permissions: []string{"ai_agents:call"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}}})
	w.Put(v1alpha1.KindAITool, "find-order", frontendtest.Deployment, "", document.AITool{
		Name: "Find an order", Type: "api", Active: true, Method: "GET", Endpoint: upstream.URL + "/orders/{number}", TimeoutSeconds: 5,
		URLParamsSchema: []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}, {Name: "fields", FieldType: "ARRAY", ItemsType: "STRING"}},
	})
	w.Put(v1alpha1.KindAITool, "change-order", frontendtest.Deployment, "", document.AITool{
		Name: "Change an order", Type: "api", Active: true, Method: "PATCH", Endpoint: upstream.URL + "/orders", TimeoutSeconds: 5,
		RequestBodySchema: []schemafield.Field{
			{Name: "copies", FieldType: "INTEGER"}, {Name: "note", FieldType: "STRING"}, {Name: "gift", FieldType: "BOOLEAN"},
			{Name: "lines", FieldType: "ARRAY", ItemsType: "INTEGER"}, {Name: "address", FieldType: "OBJECT"},
		},
	})
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", document.AIAgent{Name: "Support", Active: true, Tools: []string{"find-order", "change-order"}})
	w.env = map[string]string{envFrontendServer: w.Server.URL, envAPIKey: minted.Plain()}
	w.Eventually("the agent is served", func() bool {
		out, _, code := run(t, w.env, "tools", "list", "support", "--host", "localhost")
		return code == 0 && strings.Contains(out, "2 tools")
	})
	return w
}

func TestToolsOfAnAgentAreListed(t *testing.T) {
	w := newAgentWorld(t)
	out, problems, code := run(t, w.env, "tools", "list", "support", "--host", "localhost")
	want := "NAME           ARGUMENTS                                EFFECT                  TITLE\n" +
		"find-order     number [fields]                          reads                   Find an order\n" +
		"change-order   [address] [copies] [gift] [lines] [note] overwrites or deletes   Change an order\n" +
		"2 tools. Arguments in brackets are optional.\n"
	if strings.Join(strings.Fields(out), " ") != strings.Join(strings.Fields(want), " ") || code != 0 {
		t.Errorf("%d %s%s", code, out, problems)
	}
	out, problems, code = run(t, w.env, "tools", "list", "support", "--host", "localhost", "-o", "json")
	var list struct {
		Tools []struct {
			Name        string
			InputSchema struct{ Required []string }
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil || code != 0 || len(list.Tools) != 2 || list.Tools[0].InputSchema.Required[0] != "number" {
		t.Errorf("%d %s%s", code, out, problems)
	}
}

func TestToolOfAnAgentIsCalled(t *testing.T) {
	w := newAgentWorld(t)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"find-order", "number=10 07"}, "GET /orders/10%2007 "},
		{[]string{"find-order", `{"number":"1007","fields":["a"]}`}, "GET /orders/1007?fields=a "},
		{[]string{"find-order", "number=1=2", "fields=a", "fields=b"}, "GET /orders/1=2?fields=a&fields=b "},
		{[]string{"find-order", "number=7", `fields=["a","b"]`}, "GET /orders/7?fields=a&fields=b "},
		{[]string{"change-order", "copies=9007199254740991", "note=true", "gift=true", "lines=1", "lines=2", `address={"city":"Ulm"}`},
			`PATCH /orders {"address":{"city":"Ulm"},"copies":9007199254740991,"gift":true,"lines":[1,2],"note":"true"}`},
		{[]string{"change-order"}, "PATCH /orders {}"},
	} {
		out, problems, code := run(t, w.env, append([]string{"tools", "call", "support", "--host", "localhost"}, tc.args...)...)
		w.mu.Lock()
		last := w.last
		w.mu.Unlock()
		if code != 0 || last != tc.want || out != "first\nsecond\n" {
			t.Errorf("%v: %d %q %s, and the request was %s", tc.args, code, out, problems, last)
		}
	}
	out, _, code := run(t, w.env, "tools", "call", "support", "find-order", "number=7", "--host", "localhost", "-o", "json")
	if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, `"type": "text"`) || terminal.CleanJSON([]byte(out)) != out {
		t.Errorf("%d %q", code, out)
	}
}

func TestCallOfAToolFails(t *testing.T) {
	w := newAgentWorld(t)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"an error of the tool":          {[]string{"find-order", "number=none"}, exitFault, "The tool answered 404 Not Found."},
		"no argument where one is due":  {[]string{"find-order"}, exitFault, "missing property 'number'"},
		"an unknown tool":               {[]string{"drop-order"}, exitFault, "Unknown tool: drop-order"},
		"an unknown tool with argument": {[]string{"drop-order", "a=b"}, exitFault, "there is no tool drop-order"},
		"an unknown argument":           {[]string{"find-order", "id=7"}, exitUsage, "it has number [fields]"},
		"a word":                        {[]string{"find-order", "7"}, exitUsage, "is no argument"},
		"broken JSON":                   {[]string{"find-order", `{"number"`}, exitUsage, "one JSON object"},
		"two forms":                     {[]string{"find-order", `{"number":"7"}`, "number=7"}, exitUsage, "one JSON object"},
		"a value of another type":       {[]string{"change-order", "copies=many"}, exitUsage, "of the type integer"},
		"a value given twice":           {[]string{"find-order", "number=7", "number=8"}, exitUsage, "given twice"},
		"a name with a line break":      {[]string{"find\norder"}, exitUsage, "no name of a tool"},
	} {
		out, problems, code := run(t, w.env, append([]string{"tools", "call", "support", "--host", "localhost"}, tc.args...)...)
		if code != tc.code || !strings.Contains(out+problems, tc.want) {
			t.Errorf("%s: %d %s%s", name, code, out, problems)
		}
	}
	for name, tc := range map[string]struct {
		env  map[string]string
		args []string
		code int
		want string
	}{
		"another agent":  {w.env, []string{"other", "--host", "localhost"}, exitFault, "there is no such agent"},
		"another host":   {w.env, []string{"support"}, exitFault, "there is no such agent"},
		"an unknown key": {map[string]string{envFrontendServer: w.Server.URL, envAPIKey: "ck_hunter2"}, []string{"support", "--host", "localhost"}, exitNoAccess, "does not accept the credential"},
		"no cluster":     {map[string]string{envAPIKey: "ck_hunter2"}, []string{"support", "--kubeconfig", "/nonexistent"}, exitNoAccess, "kubeconfig"},
	} {
		_, problems, code := run(t, tc.env, append([]string{"tools", "list"}, tc.args...)...)
		if code != tc.code || !strings.Contains(problems, tc.want) || strings.Contains(problems, "hunter2") {
			t.Errorf("%s: %d %s", name, code, problems)
		}
	}
}
