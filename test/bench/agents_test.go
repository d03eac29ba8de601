package bench

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

const (
	agentCallers = 8
	agentTools   = 20
	agentRounds  = 7
	agentRound   = 1500 * time.Millisecond
	// deadCallers call a tool that never answers.
	deadCallers = 64
	// idleAgents have agentTools tools each.
	idleAgents = 1000
)

// agentsWorld is the end-user listener over HTTP in this process, with an agent, a key, and the API that the agent's
// tools call.
type agentsWorld struct {
	*peopleWorld
	server, upstream *httptest.Server
	// reached counts the requests that the API got.
	reached atomic.Int64
	key     string
}

// TestBenchAgents compares requests of agents' clients with bare ones over the same connections: lists with a handler
// that writes the same bytes, calls with a reverse proxy to the same API. The load, the server, the API and the proxy
// share this process.
func TestBenchAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		t.Run(engine, func(t *testing.T) {
			w := newAgentsWorld(t, engine)
			w.compareLists(t, engine)
			w.compareReads(t, engine)
			w.compareWrites(t, engine)
			w.compareWithDeadTool(t, engine)
		})
	}
	t.Run("memory", measureIdleAgents)
	row("load average then", "-", "%s", loadAverage())
}

func newAgentsWorld(t *testing.T, engine string) *agentsWorld {
	t.Helper()
	w := &agentsWorld{peopleWorld: newEmptyWorld(t, engine)}
	w.upstream = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.reached.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, `{"number":"1007","state":"open","total":42}`)
	}))
	t.Cleanup(w.upstream.Close)
	w.server = httptest.NewServer(w.handler)
	t.Cleanup(w.server.Close)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { report(t, silent.Close()) })
	w.declare(t, "http://"+silent.Addr().String())
	return w
}

// declare puts an agent with its tools and a key into the store, and waits until they are served.
func (w *agentsWorld) declare(t *testing.T, silent string) {
	t.Helper()
	minted, err := apikey.Mint(rand.Reader, "ck")
	check(t, err)
	w.key = minted.Plain()
	ctx, f := t.Context(), w.filler
	check(t, f.put(ctx, v1alpha1.KindAPIAuthApp, "backend", "backend", 10, document.APIAuthApp{Slug: "backend", Active: true, Permissions: []string{"*"}}))
	check(t, f.put(ctx, v1alpha1.KindAPIKey, "key", "", 11, document.APIKey{App: "backend", Permissions: []string{"*"}, Verifiers: []document.Verifier{{ID: minted.ID(), Digest: minted.Digest()}}}))
	agent := document.AIAgent{Name: "Support", Active: true}
	add := func(name string, tool document.AITool) {
		tool.Name, tool.Type, tool.Active = name, "api", true
		check(t, f.put(ctx, v1alpha1.KindAITool, name, "", int64(2_000_000+len(agent.Tools)), tool))
		agent.Tools = append(agent.Tools, name)
	}
	number := []schemafield.Field{{Name: "number", FieldType: "STRING", Required: true}}
	add("find-order", document.AITool{Method: "GET", Endpoint: w.upstream.URL + "/orders/{number}", URLParamsSchema: number, TimeoutSeconds: 10})
	add("change-order", document.AITool{Method: "POST", Endpoint: w.upstream.URL + "/orders", RequestBodySchema: number, TimeoutSeconds: 10})
	add("dead", document.AITool{Method: "GET", Endpoint: silent + "/", TimeoutSeconds: 2})
	for len(agent.Tools) < agentTools {
		add(toolName(len(agent.Tools)), document.AITool{Description: "Books a visit of a technician.", Method: "POST", Endpoint: w.upstream.URL + "/visits", RequestBodySchema: number, TimeoutSeconds: 10})
	}
	check(t, f.put(ctx, v1alpha1.KindAIAgent, "support", "", 3_000_000, agent))
	await(t, time.Minute, 10*time.Millisecond, func() bool {
		return strings.Count(string(w.body(t, "tools/list", "{}")), `"inputSchema"`) == agentTools
	})
}

// body returns the response to a request, "" for a refused one.
func (w *agentsWorld) body(t *testing.T, method, params string) []byte {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://"+benchHost+"/mcp/support", strings.NewReader(rpc(method, params)))
	r.Header.Set("Authorization", "Bearer "+w.key)
	r.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	w.handler.ServeHTTP(recorder, r)
	if recorder.Code != http.StatusOK {
		return nil
	}
	return recorder.Body.Bytes()
}

func rpc(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

func callOf(tool, arguments string) string {
	return fmt.Sprintf(`{"name":%q,"arguments":%s}`, tool, arguments)
}

// asking returns requests to an address over a connection for each caller.
func (w *agentsWorld) asking(t *testing.T, address, path, body string, callers int) func(ctx context.Context, caller int) error {
	t.Helper()
	return askHTTP(t, address, fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, benchHost, w.key, len(body), body), callers)
}

func (w *agentsWorld) calling(t *testing.T, tool, arguments string, callers int) func(ctx context.Context, caller int) error {
	t.Helper()
	return w.asking(t, w.server.URL, "/mcp/support", rpc("tools/call", callOf(tool, arguments)), callers)
}

// contender is one side of a comparison.
type contender struct {
	name  string
	ask   func(ctx context.Context, caller int) error
	rates []float64
}

// alternating measures the throughput of both sides in rounds that alternate, and returns the median of the ratio of
// the first to the second.
func alternating(t *testing.T, of, to *contender) float64 {
	t.Helper()
	var ratios []float64
	for round := range agentRounds + 1 {
		sides := []*contender{of, to}
		if round%2 == 1 {
			sides = []*contender{to, of}
		}
		for _, side := range sides {
			took := pace(t, agentCallers, agentRound, 0, side.ask)
			side.rates = append(side.rates, float64(len(took))/agentRound.Seconds())
		}
		if round == 0 {
			of.rates, to.rates = nil, nil // warm-up
			continue
		}
		ratios = append(ratios, of.rates[len(of.rates)-1]/to.rates[len(to.rates)-1])
	}
	return median(ratios)
}

func (w *agentsWorld) compareLists(t *testing.T, engine string) {
	answer := w.body(t, "tools/list", "{}")
	bare := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		header := rw.Header()
		header.Set("Content-Type", "application/json")
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("X-Request-Id", "0123456789abcdef0123456789abcdef")
		_, _ = rw.Write(answer)
	}))
	defer bare.Close()
	ours := &contender{name: "tools/list", ask: w.asking(t, w.server.URL, "/mcp/support", rpc("tools/list", "{}"), agentCallers)}
	theirs := &contender{name: "bare", ask: w.asking(t, bare.URL, "/mcp/support", rpc("tools/list", "{}"), agentCallers)}
	ratio := alternating(t, ours, theirs)
	row(fmt.Sprintf("%s: tools/list of 20 tools to a handler that writes the same %d bytes", engine, len(answer)), ">= 0.5", "%.2f (%.0f a second)", ratio, median(ours.rates))
}

// proxy returns a reverse proxy to the API, which keeps as many connections as Cardea does. before and after run in
// each of its requests.
func (w *agentsWorld) proxy(t *testing.T, before, after func(ctx context.Context) error) *httptest.Server {
	t.Helper()
	target, err := url.Parse(w.upstream.URL)
	check(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if err := before(r.Context()); err != nil {
			http.Error(rw, err.Error(), http.StatusInternalServerError)
			return
		}
		proxy.ServeHTTP(rw, r)
		if err := after(r.Context()); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func nothing(context.Context) error { return nil }

// counted fails the test if the API did not get a request for each of those that do sent.
func (w *agentsWorld) counted(t *testing.T, what string, sides []*contender, do func()) {
	t.Helper()
	var sent atomic.Int64
	for _, side := range sides {
		ask := side.ask
		side.ask = func(ctx context.Context, caller int) error {
			sent.Add(1)
			return ask(ctx, caller)
		}
	}
	before := w.reached.Load()
	do()
	if reached := w.reached.Load() - before; reached != sent.Load() {
		t.Errorf("%s: %d requests reached the API, of %d", what, reached, sent.Load())
	}
}

func (w *agentsWorld) compareReads(t *testing.T, engine string) {
	ours := &contender{ask: w.calling(t, "find-order", `{"number":"1007"}`, agentCallers)}
	theirs := &contender{ask: w.asking(t, w.proxy(t, nothing, nothing).URL, "/orders/1007", rpc("tools/call", callOf("find-order", `{"number":"1007"}`)), agentCallers)}
	w.counted(t, "calls that read", []*contender{ours, theirs}, func() {
		ratio := alternating(t, ours, theirs)
		row(engine+": tools/call of a tool that reads to httputil.ReverseProxy to the same API", ">= 0.5", "%.2f (%.0f a second)", ratio, median(ours.rates))
		var slowest [2][]float64
		for range agentRounds {
			for i, side := range []*contender{ours, theirs} {
				took := pace(t, agentCallers, agentRound, median(side.rates)/2, side.ask)
				slowest[i] = append(slowest[i], quantile(took, 0.99).Seconds())
			}
		}
		of := func(i int) time.Duration { return time.Duration(median(slowest[i]) * float64(time.Second)) }
		row("... p99 at half of the most, to that of the proxy", "<= 2", "%.2f (%s, %s)", of(0).Seconds()/of(1).Seconds(), ms(of(0)), ms(of(1)))
	})
}

// compareWrites compares calls that may change something, whose records are committed before and after the request,
// with a proxy that commits a row before the request and changes it after.
func (w *agentsWorld) compareWrites(t *testing.T, engine string) {
	_, err := w.write.ExecContext(t.Context(), "CREATE TABLE bench_calls (id BIGINT PRIMARY KEY, tool TEXT NOT NULL, outcome TEXT NOT NULL)")
	check(t, err)
	insert, update := "INSERT INTO bench_calls (id, tool, outcome) VALUES (?, 'change-order', 'started')", "UPDATE bench_calls SET outcome = 'succeeded' WHERE id = ?"
	if w.numbered {
		insert, update = strings.Replace(insert, "?", "$1", 1), strings.Replace(update, "?", "$1", 1)
	}
	type rowKey struct{}
	var rows atomic.Int64
	commit := func(statement string) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, err := w.write.ExecContext(context.WithoutCancel(ctx), statement, *ctx.Value(rowKey{}).(*int64))
			return err
		}
	}
	inner := w.proxy(t, commit(insert), commit(update)).Config.Handler
	bare := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		id := rows.Add(1)
		inner.ServeHTTP(rw, r.WithContext(context.WithValue(r.Context(), rowKey{}, &id)))
	}))
	defer bare.Close()
	ours := &contender{ask: w.calling(t, "change-order", `{"number":"1007"}`, agentCallers)}
	theirs := &contender{ask: w.asking(t, bare.URL, "/orders", `{"number":"1007"}`, agentCallers)}
	if w.numbered { // PostgreSQL plans by statistics, which autovacuum makes within minutes
		pace(t, agentCallers, agentRound, 0, ours.ask)
		pace(t, agentCallers, agentRound, 0, theirs.ask)
		_, err := w.write.ExecContext(t.Context(), "ANALYZE")
		check(t, err)
	}
	w.counted(t, "calls that write", []*contender{ours, theirs}, func() {
		ratio := alternating(t, ours, theirs)
		row(engine+": tools/call of a tool that writes to that proxy with two bare commits of a row", ">= 0.7", "%.2f (%.0f a second)", ratio, median(ours.rates))
	})
}

// compareWithDeadTool compares calls during those of a tool that never answers with calls without them.
func (w *agentsWorld) compareWithDeadTool(t *testing.T, engine string) {
	read := w.calling(t, "find-order", `{"number":"1007"}`, agentCallers)
	dead := w.calling(t, "dead", `{}`, deadCallers)
	rate := func() float64 { return float64(len(pace(t, agentCallers, agentRound, 0, read))) / agentRound.Seconds() }
	rate() // warm-up
	var ratios []float64
	for range agentRounds {
		alone := rate()
		ctx, stop := context.WithCancel(t.Context())
		var callers sync.WaitGroup
		for caller := range deadCallers {
			callers.Go(func() {
				for ctx.Err() == nil {
					if err := dead(ctx, caller); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		ratios = append(ratios, rate()/alone)
		stop()
		callers.Wait()
	}
	row(fmt.Sprintf("%s: tools/call during %d callers of a tool that never answers, to without them", engine, deadCallers), ">= 0.9", "%.2f", median(ratios))
}

// measureIdleAgents measures the heap of agents that no client uses, and of those whose tools were listed.
func measureIdleAgents(t *testing.T) {
	w := &agentsWorld{peopleWorld: newEmptyWorld(t, "SQLite")}
	before := heapInUse()
	each(t, idleAgents, func(ctx context.Context, i int) error {
		agent := document.AIAgent{Name: fmt.Sprintf("Agent %05d", i), Description: "Plans the visits of the technicians.", Active: true}
		for n := range agentTools {
			tool := i*agentTools + n
			if err := w.filler.tool(ctx, tool); err != nil {
				return err
			}
			agent.Tools = append(agent.Tools, toolName(tool))
		}
		return w.filler.put(ctx, v1alpha1.KindAIAgent, fmt.Sprintf("agent-%05d", i), "", int64(3_000_000+i), agent)
	})
	_, position, err := w.store.Load(t.Context())
	check(t, err)
	await(t, time.Minute, 10*time.Millisecond, func() bool { return w.position() == position })
	row(fmt.Sprintf("heap of %d idle agents with %d tools each", idleAgents, agentTools), "<= 64 MiB", "%.0f MiB", float64(heapInUse()-before)/(1<<20))
}

// heapInUse returns the bytes of live objects.
func heapInUse() int64 {
	for range 3 {
		runtime.GC() // what finalizers and pools keep is free after the second
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	return int64(memory.HeapAlloc)
}
