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

func TestDecisionEndsThoughTheRedisClientDoesNot(t *testing.T) {
	t.Parallel()
	redis := newServer(t)
	client := &stuckClient{redis.client(), make(chan struct{})}
	defer client.Close()
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
	each := local.SchemeOf("ns/app", 1, []scheme.Rule{{Unit: "second", Duration: 1, MaxRequests: 1 << 30}}) // too short for leases
	var out engine.Result
	decide := func() bool {
		counters.Decide(t.Context(), &engine.Request{Scheme: each, Key: 1, Path: "/"}, &out)
		return out.Allowed
	}
	outcome := func(name string) int { return int(testutil.ToFloat64(counters.calls.WithLabelValues(name))) }
	for i := range callsAtOnce + 2 {
		if !decide() {
			t.Fatalf("decision %d: refused", i)
		}
	}
	// A call keeps its slot until the client returns.
	if failed, busy := outcome("failed"), outcome("busy"); failed != callsAtOnce || busy != 2 {
		t.Errorf("%d calls failed and %d were not made, want %d and 2", failed, busy, callsAtOnce)
	}
	close(client.release)
	eventually(t, "Redis is asked again", func() bool { return decide() && outcome("granted") > 0 })
}
