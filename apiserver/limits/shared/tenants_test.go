package shared

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// A scheme of which one request charges many counters would cost Redis too much time and memory. Each replica has its
// part of the limits instead.
func TestSchemeWithManyCountersPerRequestIsNotShared(t *testing.T) {
	t.Parallel()
	redis := newServer(t)
	var rules []scheme.Rule
	for n := range countersMost + 1 {
		rules = append(rules, scheme.Rule{Unit: "hour", Duration: int64(n + 1), MaxRequests: int64(10 + n)})
	}
	all := replicas(t, redis.url(), 2, rules...)
	shared(t, all)
	// The app's scheme is still shared, because it has few rules.
	const ofApp = 100
	for _, r := range all {
		narrow := r.engine.Scheme(8, []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: ofApp, Mode: "per_app"}})
		request := r.request(1)
		request.AppScheme = narrow
		admitted := 0
		var out engine.Result
		for range 20 {
			if r.Decide(t.Context(), request, &out); out.Allowed {
				admitted++
			}
			if len(out.Rules) != len(rules)+1 {
				t.Fatalf("%d rules are reported, want %d", len(out.Rules), len(rules)+1)
			}
		}
		if admitted != 5 {
			t.Errorf("a replica admitted %d, want its half of 10", admitted)
		}
		if out.Allowed || out.Rules[0].Remaining != 0 || out.RetryAfter <= 0 {
			t.Errorf("the refusal has %d remaining and %d to wait", out.Rules[0].Remaining, out.RetryAfter)
		}
	}
	counters := 0
	for _, key := range redis.keys() {
		if !strings.Contains(key, "nodes") {
			counters++
		}
	}
	if counters == 0 || counters > 3 { // the app's counter, and the mark of each replica
		t.Errorf("Redis holds %d keys of counters, want those of the app's scheme alone", counters)
	}
}

func TestFailuresOfOneDeploymentAreNoOutage(t *testing.T) {
	t.Parallel()
	var f failures
	for range 10 * failuresMost {
		if f.add("ns/a") {
			t.Fatal("failures of one deployment began an outage")
		}
	}
	if !f.add("ns/b") {
		t.Error("failures of two deployments began no outage")
	}
	f.reset()
	for n, of := range []string{"ns/b", "ns/b", ""} {
		if enough := f.add(of); enough != (n == 2) {
			t.Errorf("failure %d, the last of them a heartbeat: an outage began: %t", n+1, enough)
		}
	}
}

// Calls beyond a deployment's slots are not made. Its decisions are then by this replica's part of the limits, and the
// counters of other deployments are still shared.
func TestConcurrentCallsPerDeploymentAreBounded(t *testing.T) {
	t.Parallel()
	redis := newServer(t)
	r := replicas(t, redis.url(), 1, scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 5})
	shared(t, r)
	rules := []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: 5}}
	busy, other := r[0].engine.SchemeOf("ns/busy", 1, rules), r[0].engine.SchemeOf("ns/other", 2, rules)
	for range callsAtOnce {
		done, err := r[0].slots.Begin(t.Context(), egress.Asker{Deployment: "ns/busy"})
		if err != nil {
			t.Fatal(err)
		}
		defer done()
	}
	var running sync.WaitGroup
	for key := range uint64(8) {
		running.Go(func() {
			var out engine.Result
			for range 8 {
				r[0].Decide(t.Context(), &engine.Request{Method: "GET", Path: "/", Key: key, App: 1, Scheme: busy}, &out)
			}
			if out.Allowed {
				t.Error("beyond the limit, and allowed")
			}
		})
	}
	running.Wait()
	if r[0].Busy() == 0 || r[0].Degraded() {
		t.Errorf("%d calls were not made; degraded: %t", r[0].Busy(), r[0].Degraded())
	}
	before := len(redis.keys())
	var out engine.Result
	r[0].Decide(t.Context(), &engine.Request{Method: "GET", Path: "/", Key: 1, App: 1, Scheme: other}, &out)
	if !out.Allowed || len(redis.keys()) == before {
		t.Error("another deployment's counters are not shared meanwhile")
	}
	if r[0].failed(errors.Join(errBusy), "ns/busy"); r[0].failures.count != 0 {
		t.Error("a call that was not made counts as a failure of Redis")
	}
}
