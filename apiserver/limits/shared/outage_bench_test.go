package shared

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// BenchmarkOutage measures what the loss of Redis costs three replicas. The load is even, and half more than a limit of
// 3,000 in 5 seconds:
//   - slow/replica: decisions that took more than a millisecond, from the loss until the replica decided alone;
//     slowest-ms: the slowest of them;
//   - alone-ns: a decision of the replica alone; engine-ns: a decision of its engine at the same time;
//   - of-limit: the most that one window admitted around the outage, as a part of the limit.
func BenchmarkOutage(b *testing.B) {
	for name, away := range map[string]func(*server){
		"killed": (*server).kill, "paused": func(s *server) { s.signal(syscall.SIGSTOP) },
	} {
		b.Run(name, func(b *testing.B) {
			var slow, slowest, alone, local, ofLimit []float64
			for b.Loop() {
				o := lose(b, away)
				slow, slowest = append(slow, o.slow), append(slowest, o.slowest)
				alone, local, ofLimit = append(alone, o.alone), append(local, o.engine), append(ofLimit, o.ofLimit)
			}
			b.ReportMetric(slices.Max(slow), "slow/replica")
			b.ReportMetric(slices.Max(slowest), "slowest-ms")
			b.ReportMetric(slices.Min(alone), "alone-ns")
			b.ReportMetric(slices.Min(local), "engine-ns")
			b.ReportMetric(slices.Max(ofLimit), "of-limit")
		})
	}
}

// lost is what one outage cost.
type lost struct{ slow, slowest, alone, engine, ofLimit float64 }

func lose(b *testing.B, away func(*server)) lost {
	b.Helper()
	const limit, window = 3000, 5 * time.Second
	redis := newServer(b)
	all := replicas(b, redis.url(), 3, scheme.Rule{Unit: "second", Duration: 5, MaxRequests: limit})
	shared(b, all)
	log, late, stop := evenly(all, 3*limit/2, window)
	time.Sleep(window * 8 / 5) // half of the second window has passed
	late.watch.Store(true)
	away(redis)
	eventually(b, "every replica noticed", func() bool { return all[0].Degraded() && all[1].Degraded() && all[2].Degraded() })
	time.Sleep(window * 3 / 2)
	stop()
	o := lost{ofLimit: float64(log.most(window)) / limit, slowest: float64(late.slowest.Load()) / 1e6}
	for i := range late.slow {
		o.slow = max(o.slow, float64(late.slow[i].Load()))
	}
	var out engine.Result
	request, r := all[0].request(9), all[0]
	each := func(decide func()) float64 {
		const count = 2000
		began := time.Now()
		for range count {
			decide()
		}
		return float64(time.Since(began).Nanoseconds()) / count
	}
	o.alone = each(func() { r.Decide(context.Background(), request, &out) })
	o.engine = each(func() { r.engine.Decide(r.opts.Clock(), request, &out) })
	return o
}

// delays are the decisions that took more than a millisecond while their replica had not noticed the loss, and the
// slowest of them in nanoseconds. They count from when watch is set.
type delays struct {
	watch   atomic.Bool
	slow    []atomic.Int64
	slowest atomic.Int64
}

// evenly lets the replicas together send asked requests per window, each with four callers, until stopped.
func evenly(all []*replica, asked int, window time.Duration) (*admissions, *delays, func()) {
	const callers = 4
	log, late := &admissions{}, &delays{slow: make([]atomic.Int64, len(all))}
	stop := make(chan struct{})
	var running sync.WaitGroup
	for i, r := range all {
		for range callers {
			running.Go(func() {
				var out engine.Result
				request := r.request(1)
				pace := time.NewTicker(window / time.Duration(asked) * time.Duration(len(all)*callers))
				defer pace.Stop()
				for {
					select {
					case <-stop:
						return
					case <-pace.C:
					}
					waits := late.watch.Load() && !r.Degraded()
					before := time.Now()
					r.Decide(context.Background(), request, &out)
					after := time.Now()
					if took := after.Sub(before); waits && took > time.Millisecond {
						late.slow[i].Add(1)
						raise(&late.slowest, int64(took))
					}
					if out.Allowed {
						log.Lock()
						log.spans = append(log.spans, span{before, after, i})
						log.Unlock()
					}
				}
			})
		}
	}
	return log, late, func() { close(stop); running.Wait() }
}
