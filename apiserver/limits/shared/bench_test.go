package shared

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// BenchmarkLeased measures how often three replicas call Redis per decision, at half the rate that a limit of 60,000
// per minute allows, and how long decisions take.
func BenchmarkLeased(b *testing.B) {
	redis := newServer(b)
	all := replicas(b, redis.url(), 3, scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 60_000})
	shared(b, all)
	var out engine.Result
	decisions, denied := 0, 0
	pace := time.NewTicker(2 * time.Millisecond) // 500 a second
	defer pace.Stop()
	for b.Loop() {
		<-pace.C
		r := all[decisions%3]
		r.Decide(b.Context(), r.request(1), &out)
		decisions++
		if !out.Allowed {
			denied++
		}
	}
	calls := 0.0
	for _, r := range all {
		for _, outcome := range []string{"granted", "denied", "failed"} {
			calls += testutil.ToFloat64(r.calls.WithLabelValues(outcome))
		}
	}
	b.ReportMetric(calls/float64(decisions), "calls/decision")
	b.ReportMetric(float64(denied)/float64(decisions), "denied/decision")
}

// BenchmarkDecide measures a decision by a lease, and a decision that calls Redis because the window of its rule is too
// short for leases.
func BenchmarkDecide(b *testing.B) {
	redis := newServer(b)
	for name, rule := range map[string]scheme.Rule{
		"leased":              {Unit: "hour", Duration: 1, MaxRequests: 1 << 30},
		"asked for each time": {Unit: "second", Duration: 1, MaxRequests: 1 << 30},
	} {
		b.Run(name, func(b *testing.B) {
			all := replicas(b, redis.url(), 1, rule)
			shared(b, all)
			var out engine.Result
			request := all[0].request(uint64(len(name)))
			for b.Loop() {
				if all[0].Decide(b.Context(), request, &out); !out.Allowed {
					b.Fatal("refused")
				}
			}
		})
	}
}
