package callrecord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/agents/toolcall"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// gate is a store that a test can make unavailable for one deployment or, as "*", for all.
type gate struct {
	Store
	mu      sync.Mutex
	away    string
	changes int
}

func (g *gate) set(away string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.away = away
}

func (g *gate) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if err := g.pass(deployment); err != nil {
		return err
	}
	return g.Store.Change(ctx, deployment, do)
}

func (g *gate) Single(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if err := g.pass(deployment); err != nil {
		return err
	}
	return g.Store.Single(ctx, deployment, do)
}

// pass counts a change, and fails while the store is unavailable.
func (g *gate) pass(deployment string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.changes++
	if g.away == "*" || g.away == deployment {
		return fmt.Errorf("%w: interrupted by a test", store.ErrUnavailable)
	}
	return nil
}

type world struct {
	*servertest.World
	*Recorder
	gate     *gate
	registry *prometheus.Registry
	// gone are the ids of tools that are not served.
	gone map[int64]bool
}

func newWorld(t *testing.T, url string, keyring func(*servertest.World) *seal.Keyring) *world {
	t.Helper()
	w := &world{World: servertest.New(t, url, nil), registry: prometheus.NewRegistry(), gone: map[int64]bool{}}
	w.gate = &gate{Store: w.World.Store}
	w.Recorder = New(Options{
		Store: w.gate, Keyring: keyring(w.World), Served: func(_ string, _, tool int64) bool { return !w.gone[tool] }, Log: logr.Discard(), Registry: w.registry,
	})
	return w
}

func withKeyring(w *servertest.World) *seal.Keyring { return w.Keyring }

func findOrder(deployment string) Tool {
	return Tool{Deployment: deployment, Agent: 1, AgentName: "support", ID: 2, Name: "find-order", ReadOnly: true}
}

func succeeded() toolcall.Result {
	return toolcall.Result{Content: []toolcall.Block{{Type: "text", Text: "open"}}, Status: 200, BytesIn: 4}
}

// run runs a call that succeeds, a millisecond after the one before, and returns its id.
func (w *world) run(of Tool) int64 {
	w.T.Helper()
	w.Clock.Advance(time.Millisecond)
	c, err := w.Begin(w.Clock.Now(), of, people.ToolCaller{Kind: people.CallerKey, ID: "key"}, "2026-07-28")
	w.Must(err)
	c.Arguments(json.RawMessage(`{"number":"1"}`))
	_, err = c.Run(w.T.Context(), succeeded)
	w.Must(err)
	return c.ID()
}

// stored returns the stored records of a deployment.
func (w *world) stored(deployment string) (calls []people.ToolCall) {
	w.T.Helper()
	w.Must(w.World.Store.View(w.T.Context(), deployment, func(tx people.Tx) (err error) {
		calls, err = tx.Records().ListToolCalls(people.ToolCallFilter{OldestFirst: true}, 100_000)
		return err
	}))
	return calls
}

func TestCallGetsANewIDIfItsOwnIsTaken(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url, withKeyring)
		of := findOrder("acme/shop")
		of.ReadOnly = false
		first, second := w.run(of), int64(0)
		c, err := w.Begin(w.Clock.Now(), of, people.ToolCaller{Kind: people.CallerKey, ID: "key"}, "2026-07-28")
		w.Must(err)
		c.record.ID = first
		_, err = c.Run(t.Context(), func() toolcall.Result { second = c.ID(); return succeeded() })
		w.Must(err)
		calls := w.stored("acme/shop")
		if second == first || c.ID() != second || len(calls) != 2 {
			t.Fatalf("the call ran as %d after %d, and there are %d records", second, first, len(calls))
		}
		for _, one := range calls {
			if one.ID != first && one.ID != second || one.Outcome != people.CallSucceeded {
				t.Errorf("%+v", one)
			}
		}
	})
}

// While the store is unavailable, records wait in a bounded memory. A deployment beyond its share loses its own oldest
// ones, and only those are counted as dropped.
func TestWaitingRecordsAreBoundedByDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	w.gate.set("*")
	w.run(findOrder("acme/quiet"))
	const loud = deploymentBytes/recordBytes + 1000
	var last int64
	for range loud {
		last = w.run(findOrder("acme/loud"))
	}
	if err := w.Flush(t.Context()); !errors.Is(err, store.ErrUnavailable) {
		t.Fatalf("the write failed with %v", err)
	}
	const held = deploymentBytes / recordBytes
	if w.Waiting() != held+1 || w.Dropped() != loud-held {
		t.Errorf("%d records wait and %d were dropped, want %d and %d", w.Waiting(), w.Dropped(), held+1, loud-held)
	}
	w.gate.set("")
	w.Must(w.Flush(t.Context()))
	calls := w.stored("acme/loud")
	if len(w.stored("acme/quiet")) != 1 || len(calls) != held || calls[held-1].ID != last || w.Waiting() != 0 {
		t.Errorf("%d records of the quiet deployment, %d of the loud one, %d wait", len(w.stored("acme/quiet")), len(calls), w.Waiting())
	}
	w.expectDropped(loud-held, 0, 0)
}

func (w *world) expectDropped(full, refused, duplicate int) {
	w.T.Helper()
	w.Must(testutil.GatherAndCompare(w.registry, strings.NewReader(fmt.Sprintf(`
# HELP cardea_tool_call_records_dropped_total Records of calls that were not stored: of calls that ran (full) or were refused (refused) for lack of room, or because a call of another server in the same millisecond has the id (duplicate).
# TYPE cardea_tool_call_records_dropped_total counter
cardea_tool_call_records_dropped_total{reason="full"} %d
cardea_tool_call_records_dropped_total{reason="refused"} %d
cardea_tool_call_records_dropped_total{reason="duplicate"} %d
`, full, refused, duplicate)), "cardea_tool_call_records_dropped_total"))
}

// A caller whose calls are refused without end writes a bounded number of rows, and displaces no record of a call that
// ran.
func TestRecordsOfRefusedCallsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	w.run(findOrder("acme/main"))
	for range 1000 {
		w.Clock.Advance(time.Millisecond)
		c, err := w.Begin(w.Clock.Now(), findOrder("acme/main"), people.ToolCaller{Kind: people.CallerKey, ID: "key"}, "")
		w.Must(err)
		c.Refuse(people.CallRateLimited, "rate_limited")
	}
	w.Must(w.Flush(t.Context()))
	if n := len(w.stored("acme/main")); n != 1+refusedCount {
		t.Errorf("%d records are stored, want %d", n, 1+refusedCount)
	}
	w.expectDropped(0, 1000-refusedCount, 0)
	w.Must(testutil.GatherAndCompare(w.registry, strings.NewReader(`
# HELP cardea_tool_calls_total Calls of agents' tools by their outcome, or by the decision on a call that was refused.
# TYPE cardea_tool_calls_total counter
cardea_tool_calls_total{agent="support",deployment="acme/main",outcome="rate_limited",tool="find-order"} 1000
cardea_tool_calls_total{agent="support",deployment="acme/main",outcome="succeeded",tool="find-order"} 1
`), "cardea_tool_calls_total"))
}

// A deployment whose rows cannot be written does not hold up those of others.
func TestOneDeploymentsFailureHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	w.gate.set("acme/broken")
	for n := range 5 {
		w.run(findOrder("acme/broken"))
		w.run(findOrder(fmt.Sprint("acme/fine-", n)))
	}
	if err := w.Flush(t.Context()); err == nil {
		t.Error("no failure was reported")
	}
	for n := range 5 {
		if calls := w.stored(fmt.Sprint("acme/fine-", n)); len(calls) != 1 {
			t.Errorf("%d records of the deployment %d", len(calls), n)
		}
	}
	if w.Waiting() != 5 {
		t.Errorf("%d records wait", w.Waiting())
	}
}

// Without a store, a pass ends after a few failures, and nothing is lost.
func TestPassEndsSoonWhileTheStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	w.gate.set("*")
	for n := range 50 {
		w.run(findOrder(fmt.Sprint("acme/", n)))
	}
	if err := w.Flush(t.Context()); err == nil || w.gate.changes != failuresMost || w.Waiting() != 50 {
		t.Errorf("%v after %d tries, %d records wait", err, w.gate.changes, w.Waiting())
	}
}

// Records that a failed write stored anyway are not stored twice, and a record whose id is taken counts as dropped.
func TestRecordsAreStoredOnce(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url, withKeyring)
		w.run(findOrder("acme/main"))
		lost := w.take()
		for _, one := range lost["acme/main"] {
			w.Must(w.write(t.Context(), "acme/main", []*waiting{one}))
			w.add(one) // as if the outcome of the commit were unknown
		}
		w.Must(w.Flush(t.Context()))
		if calls := w.stored("acme/main"); len(calls) != 1 {
			t.Errorf("%d records", len(calls))
		}
		w.expectDropped(0, 0, 0)
		w.add(&waiting{deployment: "acme/main", call: w.stored("acme/main")[0]})
		w.Must(w.Flush(t.Context()))
		w.expectDropped(0, 0, 1)
	})
}

// A call whose id another call has gets another id before it is sent.
func TestStartedCallHasAnIDOfItsOwn(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorld(t, url, withKeyring)
		of := findOrder("acme/main")
		of.ReadOnly = false
		first := w.run(of)
		c, err := w.Begin(w.Clock.Now(), of, people.ToolCaller{}, "")
		w.Must(err)
		c.record.ID = first
		var sent int64
		_, err = c.Run(t.Context(), func() toolcall.Result { sent = c.ID(); return succeeded() })
		w.Must(err)
		if calls := w.stored("acme/main"); sent == first || len(calls) != 2 || calls[0].Outcome != people.CallSucceeded || calls[1].Outcome != people.CallSucceeded {
			t.Errorf("sent as %d after %d, stored %+v", sent, first, calls)
		}
	})
}

func TestCallThatPanicsIsRecordedAsFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	of := findOrder("acme/main")
	of.ReadOnly = false
	c, err := w.Begin(w.Clock.Now(), of, people.ToolCaller{}, "")
	w.Must(err)
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_, _ = c.Run(t.Context(), func() toolcall.Result { panic("a fault") })
	}()
	if calls := w.stored("acme/main"); len(calls) != 1 || calls[0].Outcome != people.CallFailed || calls[0].Code != CodeInternal {
		t.Errorf("stored %+v", calls)
	}
	if n := testutil.ToFloat64(w.inFlight); n != 0 {
		t.Errorf("%v calls are in flight", n)
	}
}

// Bodies are stored only sealed, only of tools that keep them, and open only as those of their call.
func TestKeptBodiesAreSealed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	for keep, want := range map[string][2]bool{"": {}, document.RecordArguments: {true, false}, document.RecordAll: {true, true}} {
		for _, readOnly := range []bool{true, false} {
			of := findOrder("acme/main")
			of.Keep, of.ReadOnly = keep, readOnly
			id := w.run(of)
			w.Must(w.Flush(t.Context()))
			var c people.ToolCall
			w.Must(w.World.Store.View(t.Context(), "acme/main", func(tx people.Tx) (err error) { c, _, err = tx.Records().ToolCall(id); return err }))
			if (c.Arguments != "") != want[0] || (c.Result != "") != want[1] || strings.Contains(c.Arguments+c.Result, "number") {
				t.Errorf("keep %q: arguments %q, result %q", keep, c.Arguments, c.Result)
			}
			for _, body := range []struct{ kind, sealed, plain string }{
				{people.SealedCallArguments, c.Arguments, `{"number":"1"}`}, {people.SealedCallResult, c.Result, `[{"type":"text","text":"open"}]`},
			} {
				if body.sealed == "" {
					continue
				}
				if plain, err := w.World.Keyring.Open(body.kind, c.SealedFor("acme/main"), body.sealed); err != nil || string(plain) != body.plain {
					t.Errorf("opened %q, %v", plain, err)
				}
				if _, err := w.World.Keyring.Open(body.kind, c.SealedFor("acme/other"), body.sealed); err == nil {
					t.Error("the body opens as that of another deployment")
				}
			}
		}
	}
}

// Equal arguments of a deployment have one digest, whatever their spelling. Without the root key there is none.
func TestDigestOfArguments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	digest := func(r *Recorder, deployment, arguments string) string {
		c, err := r.Begin(w.Clock.Now(), findOrder(deployment), people.ToolCaller{}, "")
		w.Must(err)
		canonical, err := Canonical(json.RawMessage(arguments))
		if err != nil {
			t.Fatal(err)
		}
		c.Arguments(canonical)
		return c.record.Digest
	}
	one := digest(w.Recorder, "acme/main", `{"a":1,"b":"x"}`)
	if len(one) != 64 || one != digest(w.Recorder, "acme/main", ` { "b" : "\u0078", "a" : 1.0 } `) {
		t.Errorf("the digest is %q", one)
	}
	if one == digest(w.Recorder, "acme/main", `{"a":2,"b":"x"}`) || one == digest(w.Recorder, "acme/other", `{"a":1,"b":"x"}`) {
		t.Error("other arguments, or those of another deployment, have the same digest")
	}
	keyless := newWorld(t, "", func(*servertest.World) *seal.Keyring { return &seal.Keyring{} })
	of := findOrder("acme/main")
	of.Keep = document.RecordAll
	keyless.run(of)
	keyless.Must(keyless.Flush(t.Context()))
	if c := keyless.stored("acme/main")[0]; c.Digest != "" || c.Arguments != "" {
		t.Errorf("without a root key: %+v", c)
	}
}

// The number of series of a deployment is bounded, and those of deleted tools end.
func TestSeriesOfCallsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "", withKeyring)
	w.gate.set("*")
	for n := range int64(pairsMost + 10) {
		of := findOrder("acme/main")
		of.ID, of.Name = n, fmt.Sprint("tool-", n)
		w.run(of)
	}
	w.run(findOrder("acme/other"))
	if n := testutil.CollectAndCount(w.counters); n != pairsMost+2 {
		t.Errorf("%d series, want %d", n, pairsMost+2)
	}
	if got := w.counters.of["acme/main"].rest[people.CallSucceeded]; got != 10 {
		t.Errorf("the rest has %v calls", got)
	}
	for n := range int64(pairsMost + 10) {
		w.gone[n] = n != 5
	}
	w.gone[2] = true
	if n := testutil.CollectAndCount(w.counters); n != 2 || w.counters.of["acme/other"] != nil {
		t.Errorf("%d series after the tools are deleted", n)
	}
}
