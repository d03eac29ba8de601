package agents_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`
	listening  = `{"jsonrpc":"2.0","id":"s-1","method":"subscriptions/listen","params":{"notifications":{"toolsListChanged":true,"promptsListChanged":true},` + modernMeta + `}}`

	acknowledgedEvent = `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s-1"},"notifications":{"toolsListChanged":true}}}`
	changedEvent      = `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"s-1"}}}`
)

// listener is an open stream of a client.
type listener struct {
	t      *testing.T
	events chan string // closed at the end of the stream
	quiet  atomic.Int64
	stop   context.CancelFunc
}

// listen opens a stream at a server's URL, and returns nil with the status if it is refused.
func listen(t *testing.T, url, agent, key, body string) (*listener, *http.Response) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", url+"/mcp/"+agent, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Host = "localhost"
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Authorization": "Bearer " + key, "Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
	} {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		_ = resp.Body.Close()
		stop()
		return nil, resp
	}
	l := &listener{t: t, events: make(chan string, 1000), stop: stop}
	t.Cleanup(stop)
	go func() {
		defer close(l.events)
		defer func() { _ = resp.Body.Close() }()
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if data, found := strings.CutPrefix(lines.Text(), "data: "); found {
				l.events <- data
			} else if strings.HasPrefix(lines.Text(), ":") {
				l.quiet.Add(1)
			}
		}
	}()
	return l, resp
}

func (w *world) listen(key string) *listener {
	w.T.Helper()
	l, resp := listen(w.T.(*testing.T), w.Server.URL, "support", key, listening)
	if l == nil {
		w.T.Fatalf("no stream: %d", resp.StatusCode)
	}
	l.expect(acknowledgedEvent)
	return l
}

// next waits for an event, and returns "" at the end of the stream.
func (l *listener) next() string {
	l.t.Helper()
	select {
	case event := <-l.events:
		return event
	case <-time.After(10 * time.Second):
		l.t.Fatal("no event")
		return ""
	}
}

func (l *listener) expect(want string) {
	l.t.Helper()
	if event := l.next(); event != want {
		l.t.Fatalf("the event is %s, want %s", event, want)
	}
}

// ends expects that the stream ends with the result of its request.
func (l *listener) ends() {
	l.t.Helper()
	var result struct {
		ID     string
		Result struct {
			ResultType string
			Meta       map[string]any `json:"_meta"`
		}
	}
	last := l.next()
	if err := json.Unmarshal([]byte(last), &result); err != nil || result.ID != "s-1" || result.Result.ResultType != "complete" || result.Result.Meta["io.modelcontextprotocol/subscriptionId"] != "s-1" {
		l.t.Fatalf("the last event is %s", last)
	}
	l.expect("")
}

// silent expects no event during two checks of the stream.
func (l *listener) silent() {
	l.t.Helper()
	select {
	case event := <-l.events:
		l.t.Fatalf("an event without a change: %q", event)
	case <-time.After(2 * time.Second):
	}
}

// A notification that was sent late would arrive after this time.
const inTime = time.Second

func (l *listener) changedInTime(since time.Time) {
	l.t.Helper()
	l.expect(changedEvent)
	if took := time.Since(since); took > inTime {
		l.t.Errorf("the client heard of the change after %s", took)
	}
}

func TestListenersHearOfChangesOfTheirList(t *testing.T) {
	w := newWorld(t)
	w.declareTool("other", document.AITool{Name: "Other", Method: "GET", Endpoint: w.up.URL + "/other"})
	restricted := document.AITool{Name: "Restricted", Method: "GET", Endpoint: w.up.URL + "/restricted", Permissions: []string{"orders:secret"}}
	w.declareTool("restricted", restricted)
	w.declareAgent("support", "find-order", "cancel-order", "restricted")
	l := w.listen(w.key)

	began := time.Now()
	w.declareTool("find-order", document.AITool{Name: "Find an order", Description: "Another text.", Method: "GET", Endpoint: w.up.URL + "/orders"})
	l.changedInTime(began)
	began = time.Now()
	w.Withdraw(v1alpha1.KindAITool, "acme", "cancel-order")
	l.changedInTime(began)

	// Neither a tool of no agent, nor one that this caller may not see, nor what lists do not show is a change.
	w.declareTool("other", document.AITool{Name: "Another", Method: "GET", Endpoint: w.up.URL + "/other"})
	restricted.Description = "Another text."
	w.declareTool("restricted", restricted)
	w.declareTool("find-order", document.AITool{Name: "Find an order", Description: "Another text.", Method: "GET", Endpoint: w.up.URL + "/elsewhere"})
	l.silent()

	began = time.Now()
	restricted.Permissions = nil
	w.declareTool("restricted", restricted)
	l.changedInTime(began)
	w.Withdraw(v1alpha1.KindAPIKey, "acme", "caller")
	l.ends()
}

func TestListenersHearOfChangesOfTheirRights(t *testing.T) {
	w := newPeopleWorld(t, nil)
	w.declareTool("cancel-order", document.AITool{Name: "Cancel", Method: "POST", Endpoint: w.up.URL + "/cancellations", Permissions: []string{"orders:write"}})
	token := w.token("orders:read")
	w.Eventually("the user sees what the user may grant", func() bool { return len(names(w.post("support", token, listing))) == 2 })
	l := w.listen(token)
	l.silent()

	began := time.Now()
	w.Put(v1alpha1.KindMembershipRole, "clerk", frontendtest.Deployment, "", document.MembershipRole{Level: "Organization", Name: "clerk"})
	l.changedInTime(began)
	began = time.Now()
	w.Put(v1alpha1.KindMembershipRole, "clerk", frontendtest.Deployment, "", document.MembershipRole{Level: "Organization", Name: "clerk", Permissions: []string{"orders:write"}})
	l.changedInTime(began)

	began = time.Now()
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { _, err := tx.Organizations().DeleteMember(50, 7); return err }))
	if event := l.next(); event != changedEvent && !strings.Contains(event, `"resultType":"complete"`) {
		t.Errorf("the user left the organization: %s", event)
	}
	if took := time.Since(began); took > 2*inTime {
		t.Errorf("the client heard of it after %s", took)
	}
}

func TestStreamsEndWithTheRightToThem(t *testing.T) {
	w := newPeopleWorld(t, nil)
	agent := document.AIAgent{Name: "Support", Active: true, Tools: []string{"find-order"}, URL: agentURL, OAuthApp: "portal"}
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", agent)
	w.Eventually("the agent has one tool", func() bool { return len(names(w.post("support", w.key, listing))) == 1 })

	revoked := w.listen(w.token("orders:read"))
	w.Must(w.Store.Change(t.Context(), frontendtest.Deployment, func(tx people.Tx) error { _, err := tx.OAuth().EndTokenFamily(40); return err }))
	revoked.ends()

	lacking := w.declareKey("lacking", frontendtest.Deployment, "ai_agents:call", "orders:read")
	w.Eventually("the key is known", func() bool { return w.post("support", lacking, listing).status == 200 })
	l := w.listen(lacking)
	agent.Permissions = []string{"orders:write"}
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", agent)
	l.ends()
	if refused, resp := listen(t, w.Server.URL, "support", lacking, listening); refused != nil || resp.StatusCode != http.StatusForbidden {
		t.Errorf("a stream of a caller without the permission: %d", resp.StatusCode)
	}

	agent.Permissions = nil
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", agent)
	l = w.listen(lacking)
	agent.Active = false
	w.Put(v1alpha1.KindAIAgent, "support", frontendtest.Deployment, "", agent)
	l.ends()
}

func TestStreamsEndWithTheirTime(t *testing.T) {
	w := newPeopleWorld(t, nil)
	byKey, byToken := w.listen(w.key), w.listen(w.token("orders:read"))
	w.Clock.Advance(11 * time.Minute) // the token ends after 10
	byToken.ends()
	byKey.silent()
	w.Clock.Advance(50 * time.Minute)
	byKey.ends()
}

func TestStreamsOfACallerAreBounded(t *testing.T) {
	w := newWorld(t)
	other := w.declareKey("other", frontendtest.Deployment, "ai_agents:call")
	w.Eventually("the other key is known", func() bool { return w.post("support", other, listing).status == 200 })
	var open []*listener
	for range 16 {
		open = append(open, w.listen(w.key))
	}
	refused, resp := listen(t, w.Server.URL, "support", w.key, listening)
	if refused != nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" {
		t.Errorf("the 17th stream: %d %v", resp.StatusCode, resp.Header)
	}
	if a := w.post("support", w.key, listing); a.status != http.StatusOK {
		t.Errorf("a request beside the streams: %d", a.status)
	}
	w.listen(other)
	open[0].stop()
	w.Eventually("the closed stream is given back", func() bool {
		again, _ := listen(t, w.Server.URL, "support", w.key, listening)
		return again != nil
	})
}

func TestRequestsForStreamsAreChecked(t *testing.T) {
	w := newWorld(t)
	const head = `{"jsonrpc":"2.0","id":"s-1","method":"subscriptions/listen","params":{`
	modern := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen"}
	for name, tc := range map[string]struct {
		body   string
		header []string
		status int
		want   string
	}{
		"no filter":           {head + modernMeta + `}}`, modern, 200, `-32602`},
		"filter of no object": {head + `"notifications":7,` + modernMeta + `}}`, modern, 400, `-32602`},
		"long id":             {strings.Replace(head, "s-1", strings.Repeat("s", 300), 1) + `"notifications":{},` + modernMeta + `}}`, modern, 400, `-32600`},
		"former revision":     {head + `"notifications":{"toolsListChanged":true}}}`, []string{"Mcp-Protocol-Version", "2025-11-25"}, 200, `-32601`},
		"notification":        {strings.Replace(head, `"id":"s-1",`, "", 1) + `"notifications":{},` + modernMeta + `}}`, modern, 202, ``},
		"nothing that is served": {
			head + `"notifications":{"resourceSubscriptions":["file:///a"]},` + modernMeta + `}}`, modern, 200, `{"_meta":{"io.modelcontextprotocol/subscriptionId":"s-1"},"notifications":{}}`,
		},
		"capability":                      {`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`, []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "server/discover"}, 200, `"capabilities":{"tools":{"listChanged":true}}`},
		"capability of a former revision": {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`, nil, 200, `"capabilities":{"tools":{}}`},
	} {
		if a := w.post("support", w.key, tc.body, tc.header...); a.status != tc.status || !strings.Contains(a.raw, tc.want) {
			t.Errorf("%s: %d %s", name, a.status, a.raw)
		}
	}
}

func TestGoClientHearsOfChangedTools(t *testing.T) {
	w := newWorld(t)
	heard := make(chan struct{}, 10)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- struct{}{} },
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint: w.Server.URL + "/mcp/support", HTTPClient: &http.Client{Transport: bearer{w.key, http.DefaultTransport}}, DisableStandaloneSSE: true,
	}, &mcp.ClientSessionOptions{ProtocolVersion: "2026-07-28"})
	w.Must(err)
	defer func() { _ = session.Close() }()
	w.Eventually("the client listens", func() bool { return w.gauge("cardea_agent_streams") == 1 })
	w.declareTool("find-order", document.AITool{Name: "Find an order", Description: "Another text.", Method: "GET", Endpoint: w.up.URL + "/orders"})
	select {
	case <-heard:
	case <-time.After(10 * time.Second):
		t.Fatal("the client heard nothing")
	}
	list, err := session.ListTools(t.Context(), nil)
	w.Must(err)
	if i := slices.IndexFunc(list.Tools, func(one *mcp.Tool) bool { return one.Name == "find-order" }); i < 0 || list.Tools[i].Description != "Another text." {
		t.Errorf("the list is %+v", list.Tools)
	}
}

// gauge returns the value of a metric without labels.
func (w *world) gauge(name string) float64 {
	w.T.Helper()
	families, err := w.Registry.Gather()
	w.Must(err)
	for _, family := range families {
		if family.GetName() == name {
			return family.GetMetric()[0].GetGauge().GetValue()
		}
	}
	w.T.Fatalf("there is no metric %s", name)
	return 0
}

// The listener of a real server has deadlines for requests, which streams outlast.
func TestStreamsOutlastTheDeadlinesOfRequestsAndEndWithTheServer(t *testing.T) {
	w := newWorld(t)
	var addresses []string
	var taken []int
	for range 3 {
		port, err := controlplane.FreePort(taken...)
		w.Must(err)
		taken = append(taken, port)
		addresses = append(addresses, fmt.Sprintf("127.0.0.1:%d", port))
	}
	server, err := apiserver.New(apiserver.Options{
		Feed: w.Store, People: w.Store, Keyring: w.Keyring, Clock: w.Clock.Now, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		BackendAddress: addresses[0], FrontendAddress: addresses[1], DecisionAddress: addresses[2], EgressAllowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	w.Must(err)
	ctx, end := context.WithCancel(t.Context())
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	url := "http://" + addresses[1]
	w.Eventually("the server serves", func() bool {
		resp, err := http.Get(url + "/.well-known/jwks.json")
		return err == nil && resp.Body.Close() == nil && server.Ready()
	})
	l, _ := listen(t, url, "support", w.key, listening)
	l.expect(acknowledgedEvent)
	if !testing.Short() {
		for deadline := time.Now().Add(time.Minute); l.quiet.Load() < 3 && time.Now().Before(deadline); {
			select {
			case event := <-l.events:
				t.Fatalf("the stream has %q", event)
			case <-time.After(100 * time.Millisecond):
			}
		}
		if l.quiet.Load() < 3 {
			t.Error("the stream has no comments")
		}
		w.declareTool("find-order", document.AITool{Name: "Find an order", Description: "Another text.", Method: "GET", Endpoint: w.up.URL + "/orders"})
		l.expect(changedEvent)
	}
	end()
	began := time.Now()
	l.ends()
	w.Must(<-ended)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the server waited %s for its streams", took)
	}
}
