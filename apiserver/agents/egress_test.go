package agents_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/backend"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/store/people"
)

// serveWith replaces the server by one with the given private ranges for tools, and a client of the Kubernetes API.
func (w *world) serveWith(kubernetes backend.Kubernetes, allowed ...netip.Prefix) {
	w.T.Helper()
	server, err := apiserver.New(apiserver.Options{
		Feed: w.Store, People: w.Store, Kubernetes: kubernetes, Keyring: w.Keyring, Clock: w.Clock.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		EgressAllowed: allowed,
	})
	w.Must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() { _ = server.Follow(ctx) })
	w.Server, w.Backend = httptest.NewServer(server.Frontend()), server.Backend()
	w.T.Cleanup(func() {
		w.Server.Close()
		cancel()
		following.Wait()
	})
	w.Eventually("the server is ready", server.Ready)
}

// A call to an internal address sends nothing. Its answer is that of a call to a server that does not exist.
func TestToolsReachNoInternalAddress(t *testing.T) {
	w := newWorld(t)
	port := w.up.URL[strings.LastIndexByte(w.up.URL, ':'):]
	var tools []string
	for name, endpoint := range map[string]string{
		"metadata": "http://169.254.169.254/latest/meta-data/", "metadata-tls": "https://169.254.169.254/", "metadata-v6": "http://[fd00:ec2::254]/", "azure": "https://168.63.129.16/",
		"loopback": "http://127.0.0.1" + port, "loopback-name": "http://localhost" + port, "loopback-v6": "http://[::1]" + port, "every-address": "http://0.0.0.0" + port,
		"mapped": "http://[::ffff:127.0.0.1]" + port, "mapped-hex": "https://[::ffff:7f00:1]" + port, "nat64": "https://[64:ff9b::a9fe:a9fe]/", "sixtofour": "https://[2002:a9fe:a9fe::1]/",
		"private": "https://10.0.0.1/", "public-without-tls": "http://192.88.99.1/", "closed": "https://0.0.0.0:1/",
	} {
		w.declareTool(name, document.AITool{Name: name, Method: "POST", Endpoint: endpoint})
		tools = append(tools, name)
	}
	w.declareAgent("support", tools...)
	w.serveWith(nil)
	w.Eventually("the tools are listed", func() bool { return len(names(w.post("support", w.key, listing))) == len(tools) })
	answers := map[string][]string{}
	for _, name := range tools {
		text, code := w.call(name, `{}`)
		answers[code+": "+text] = append(answers[code+": "+text], name)
		status, answer, raw := w.direct(w.key, "support", name, `{}`)
		if failed, _ := answer["error"].(map[string]any); status != 200 || failed["code"] != "unreachable" || failed["message"] != text {
			t.Errorf("%s without MCP: %d %s", name, status, raw)
		}
	}
	if len(answers) != 1 || !strings.HasPrefix(fmt.Sprint(answers), "map[unreachable: ") {
		t.Errorf("the answers differ: %v", answers)
	}
	if _, count := w.up.last(); count != 0 {
		t.Errorf("%d requests reached an internal server", count)
	}
	for _, one := range w.recorded(2 * len(tools)) {
		if one.Outcome != people.CallFailed || one.Code != "unreachable" || one.Status != 0 {
			t.Errorf("the record of %s is %+v", one.ToolName, one)
		}
	}
}

func TestRedirectsOfToolsAreNotFollowed(t *testing.T) {
	w := newWorld(t)
	var reached atomic.Int64
	internal := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	t.Cleanup(internal.Close)
	for _, status := range []int{301, 302, 303, 307, 308} {
		w.answering(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Location", internal.URL+"/secret-path")
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, "see "+internal.URL)
		})
		for _, tool := range []string{"find-order", "cancel-order"} {
			_, before := w.up.last()
			text, code := w.call(tool, `{"number":"1"}`)
			if _, after := w.up.last(); code != "redirected" || strings.Contains(text, internal.URL) || after != before+1 {
				t.Errorf("%s, %d: %s %s, %d requests", tool, status, code, text, after-before)
			}
		}
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// A tool whose stored endpoint has credentials or a placeholder in its authority is neither listed nor called.
func TestToolsWithAnUnsafeAuthorityAreUnknown(t *testing.T) {
	w := newWorld(t)
	authority := strings.TrimPrefix(w.up.URL, "http://")
	tools := []string{"find-order"}
	for i, endpoint := range []string{
		"http://user:secret@" + authority + "/", "http://user@" + authority + "/", "http://@" + authority + "/", "http://{number}@" + authority + "/",
		"http://{number}/", "http://{number}.example/", "http://127.0.0.1:{number}/", "http://" + authority + "{number}/", "http://{number}" + authority + "/",
		"{number}://" + authority + "/", "{number}", "http:/" + authority + "/", "//" + authority + "/", "http://", "http://" + authority + "\\@evil.example/",
		"http://" + authority + "#@evil.example/", "ftp://" + authority + "/", "file:///etc/passwd", "http://" + authority + "/{host}", "http://" + authority + "/?q={host}",
	} {
		name := fmt.Sprint("unsafe-", i)
		w.declareTool(name, document.AITool{
			Name: endpoint, Method: "GET", Endpoint: endpoint, URLParamsSchema: []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}},
		})
		tools = append(tools, name)
	}
	w.declareAgent("support", tools...)
	if list := names(w.post("support", w.key, listing)); len(list) != 1 {
		t.Errorf("the list is %v", list)
	}
	for _, tool := range tools[1:] {
		if a := w.post("support", w.key, callBody(tool, `{"number":"`+authority+`"}`)); a.status != 200 || !strings.Contains(a.raw, "Unknown tool: "+tool) {
			t.Errorf("%s: %d %s", tool, a.status, a.raw)
		}
		if status, _, raw := w.direct(w.key, "support", tool, `{"arguments":{"number":"`+authority+`"}}`); status != 404 {
			t.Errorf("%s without MCP: %d %s", tool, status, raw)
		}
	}
	if _, count := w.up.last(); count != 0 {
		t.Errorf("%d requests were sent", count)
	}
}
