package shared

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/rueidis"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// stuckClient ignores the deadlines of its callers until release is closed.
type stuckClient struct {
	rueidis.Client
	release chan struct{}
}

func (c *stuckClient) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	<-c.release
	return c.Client.Do(ctx, cmd)
}

// stuck returns counters on a Redis whose client is stuck, with a scheme of one rule, and a function that decides one
// request and reports whether it is allowed.
func stuck(t *testing.T, rule scheme.Rule) (counters *Counters, client *stuckClient, decide func() bool) {
	t.Helper()
	redis := newServer(t)
	client = &stuckClient{redis.client(), make(chan struct{})}
	t.Cleanup(client.Close)
	local := engine.NewEngine(engine.DefaultMaxBytes)
	counters, err := New(Options{
		URL: redis.url(), Engine: local, Clock: engine.NewClock(time.Now).Now, Replicas: 1, Log: logr.Discard(), Registry: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var connected rueidis.Client = client
	counters.client.Store(&connected)
	counters.away.Store(false)
	of := local.SchemeOf("ns/app", 1, []scheme.Rule{rule})
	return counters, client, func() bool {
		var out engine.Result
		counters.Decide(t.Context(), &engine.Request{Scheme: of, Key: 1, Path: "/"}, &out)
		return out.Allowed
	}
}

func (c *Counters) outcome(name string) int {
	return int(testutil.ToFloat64(c.calls.WithLabelValues(name)))
}

func TestDecisionEndsThoughTheRedisClientDoesNot(t *testing.T) {
	t.Parallel()
	counters, client, decide := stuck(t, scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 1 << 30}) // too short for leases
	for i := range callsAtOnce + 2 {
		if !decide() {
			t.Fatalf("decision %d: refused", i)
		}
	}
	// A call keeps its slot until the client returns.
	if failed, busy := counters.outcome("failed"), counters.outcome("busy"); failed != callsAtOnce || busy != 2 {
		t.Errorf("%d calls failed and %d were not made, want %d and 2", failed, busy, callsAtOnce)
	}
	close(client.release)
	eventually(t, "Redis is asked again", func() bool { return decide() && counters.outcome("granted") > 0 })
}

func TestCounterWhoseCallDoesNotEndTakesOneSlot(t *testing.T) {
	t.Parallel()
	counters, client, decide := stuck(t, scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 1 << 30})
	for i := range 6 {
		if !decide() {
			t.Fatalf("decision %d: refused", i)
		}
	}
	if failed, late, busy := counters.outcome("failed"), counters.outcome("late"), counters.outcome("busy"); failed != 1 || late != 5 || busy != 0 {
		t.Errorf("%d calls failed, %d requests waited too long for a call, %d calls were not made; want 1, 5 and 0", failed, late, busy)
	}
	close(client.release)
	eventually(t, "Redis is asked again", func() bool { return decide() && counters.outcome("granted") > 0 })
}
