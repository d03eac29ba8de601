package agents_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver"
	"github.com/cardea-iam/cardea/apiserver/agents/callrecord"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

func TestMain(m *testing.M) {
	if servertest.IsKillable() {
		fmt.Fprintln(os.Stderr, servertest.ServeUntilKilled(serveUntilKilled))
		os.Exit(1)
	}
	os.Exit(pgtest.Main(m))
}

// serveUntilKilled is the server of a process that kills itself. Its background work has ended.
func serveUntilKilled(p servertest.KilledProcess) (http.Handler, error) {
	server, err := apiserver.New(apiserver.Options{
		Feed: p.Store, People: p.Store, Keyring: p.Keyring, Clock: p.Clock, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
		EgressAllowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- server.Follow(ctx) }()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !server.Ready() {
		<-tick.C
	}
	cancel()
	if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.Frontend().ServeHTTP(deadlines{w}, r) }), nil
}

// deadlines is a writer that accepts deadlines, as that of a connection does.
type deadlines struct{ http.ResponseWriter }

func (deadlines) SetReadDeadline(time.Time) error  { return nil }
func (deadlines) SetWriteDeadline(time.Time) error { return nil }

// askKillable sends a call of a tool to the process. killAt is the statement before which the process kills itself, 0
// for none.
func (w *world) askKillable(k *servertest.Killable, tool string, killAt int) error {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), "POST", k.URL+"/mcp/support", strings.NewReader(callBody(tool, `{"number":"1"}`)))
	w.Must(err)
	r.Host = "localhost"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+w.key)
	if killAt > 0 {
		r.Header.Set(servertest.KillAtHeader, strconv.Itoa(killAt))
	}
	resp, err := http.DefaultClient.Do(r)
	if err == nil {
		_ = resp.Body.Close()
	}
	return err
}

// upkeepAfterKill lets the upkeep of another server run long after the process was killed. It returns the records
// before and after.
func (w *world) upkeepAfterKill() (before, after []people.ToolCall) {
	w.T.Helper()
	w.Clock.Advance(time.Second)
	st := w.OpenStore()
	before = w.records(st)
	w.abandon(st, w.Clock.Now().Add(-callrecord.AbandonedAfter)) // too early
	if unchanged := w.records(st); fmt.Sprint(unchanged) != fmt.Sprint(before) {
		w.T.Errorf("the upkeep changed young records: %v", unchanged)
	}
	w.abandon(st, w.Clock.Now())
	after = w.records(st)
	w.Must(st.Close())
	return before, after
}

func (w *world) abandon(st store.Store, startedBefore time.Time) {
	w.T.Helper()
	_, err := st.AbandonToolCalls(w.T.Context(), startedBefore, 10)
	w.Must(err)
}

// The server is killed before each statement of a call, while the tool works, and before the response. Either the call
// was not sent and has no record, or it was sent once and its record says that its outcome is unknown or what it was.
func TestUnsafeCallIsSentOnceWhenServerIsKilled(t *testing.T) {
	servertest.OnEngines(t, func(t *testing.T, url string) {
		w := newWorldOver(t, url)
		k := w.Killable()
		seen := map[string]bool{}
		for n, answered := 1, false; !answered; n++ {
			_, sentBefore := w.up.last()
			k.Start()
			if w.askKillable(k, "cancel-order", n) == nil {
				t.Fatalf("the process, to be killed before statement %d, answered", n)
			}
			answered = k.Killed()
			w.expectHonest(n, sentBefore, answered, seen)
		}
		k.Start()
		stopped := make(chan struct{})
		w.answering(func(http.ResponseWriter, *http.Request) {
			defer close(stopped)
			k.Stop()
		})
		_, sentBefore := w.up.last()
		if w.askKillable(k, "cancel-order", 0) == nil {
			t.Fatal("the process, to be killed while the tool works, answered")
		}
		<-stopped
		w.expectHonest(0, sentBefore, false, seen)
		for _, state := range []string{"not sent", people.CallUnknown, people.CallSucceeded} {
			if !seen[state] {
				t.Errorf("no kill left a call that is %s: %v", state, seen)
			}
		}
	})
}

// expectHonest compares the newest record with what was sent, and notes its state in seen.
func (w *world) expectHonest(n, sentBefore int, answered bool, seen map[string]bool) {
	w.T.Helper()
	_, sent := w.up.last()
	before, after := w.upkeepAfterKill()
	sent -= sentBefore
	state := "not sent"
	if recorded := len(after) - w.known; recorded == 1 {
		state = after[len(after)-1].Outcome
		if was := before[len(before)-1].Outcome; was != people.CallStarted && was != state {
			w.T.Errorf("killed before statement %d: the upkeep changed %s to %s", n, was, state)
		}
	}
	w.known = len(after)
	seen[state] = true
	if want := map[string]int{"not sent": 0, people.CallUnknown: 1, people.CallSucceeded: 1}; sent != want[state] || answered != (state == people.CallSucceeded) {
		w.T.Errorf("killed before statement %d: the call is %s, %d requests were sent, answered %t", n, state, sent, answered)
	}
	if _, again := w.up.last(); again != sentBefore+sent {
		w.T.Errorf("killed before statement %d: the call was sent again", n)
	}
}
