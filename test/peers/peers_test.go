// Package peers compares the engine with other in-process limiters for Go, each used as its documentation shows. It
// measures the time and the memory of one rule, and how far a burst exceeds the limit. It is a separate module, so that
// these limiters are not dependencies of Cardea.
package peers

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// asker reports whether a key may make a request now. It is not safe for concurrent use.
type asker func(key int) bool

// peers are the limiters by name, each with one rule: a number of requests per window.
var peers = []struct {
	name string
	of   func(tb testing.TB, limit int, window time.Duration) asker
}{
	{"cardea", cardea}, {"go-limiter", goLimiter}, {"ulule", ulule}, {"throttled", gcra}, {"httprate", rate},
}

// names are the keys of limiters that take text, created before any measurement.
var names = func() []string {
	all := make([]string, 1_000_000)
	for i := range all {
		all[i] = "key-" + strconv.Itoa(i)
	}
	return all
}()

func cardea(_ testing.TB, limit int, window time.Duration) asker {
	counters, clock := engine.NewEngine(4<<30), engine.NewClock(nil)
	of := counters.Scheme(1, []scheme.Rule{{Unit: "millisecond", Duration: window.Milliseconds(), MaxRequests: int64(limit)}})
	request, out := &engine.Request{Method: "GET", Path: "/v1/things", Scheme: of}, &engine.Result{}
	return func(key int) bool {
		request.Key = uint64(key)
		counters.Decide(clock.Now(), request, out)
		return out.Allowed
	}
}

func goLimiter(tb testing.TB, limit int, window time.Duration) asker {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(limit), Interval: window})
	must(tb, err)
	tb.Cleanup(func() { _ = store.Close(context.Background()) })
	return func(key int) bool {
		_, _, _, ok, err := store.Take(context.Background(), names[key])
		return ok && err == nil
	}
}

func ulule(_ testing.TB, limit int, window time.Duration) asker {
	l := limiter.New(memory.NewStore(), limiter.Rate{Period: window, Limit: int64(limit)})
	return func(key int) bool {
		got, err := l.Get(context.Background(), names[key])
		return err == nil && !got.Reached
	}
}

func gcra(tb testing.TB, limit int, window time.Duration) asker {
	store, err := memstore.NewCtx(0)
	must(tb, err)
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{MaxRate: throttled.PerDuration(limit, window), MaxBurst: limit - 1})
	must(tb, err)
	return func(key int) bool {
		limited, _, err := l.RateLimitCtx(context.Background(), names[key], 1)
		return err == nil && !limited
	}
}

func rate(_ testing.TB, limit int, window time.Duration) asker {
	l := httprate.NewRateLimiter(limit, window)
	r, w := httptest.NewRequest(http.MethodGet, "/v1/things", nil), discarding{}
	return func(key int) bool {
		clear(w)
		return !l.OnLimit(w, r, names[key])
	}
}

// discarding is a ResponseWriter that keeps only its header.
type discarding http.Header

func (d discarding) Header() http.Header         { return http.Header(d) }
func (d discarding) Write(b []byte) (int, error) { return len(b), nil }
func (d discarding) WriteHeader(int)             {}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// BenchmarkDecide measures one decision with its clock, for one key and for many keys in random order, all allowed.
func BenchmarkDecide(b *testing.B) {
	for _, keys := range []int{1, 100_000} {
		for _, peer := range peers {
			b.Run("keys="+strconv.Itoa(keys)+"/"+peer.name, func(b *testing.B) {
				ask := peer.of(b, 1<<30, time.Minute)
				for key := range keys {
					ask(key)
				}
				random := rand.New(rand.NewPCG(1, 2))
				b.ReportAllocs()
				for b.Loop() {
					if !ask(random.IntN(keys)) {
						b.Fatal("refused")
					}
				}
			})
		}
	}
}

// BenchmarkMemory measures the memory of a key without its name, with a million keys and 100 requests an hour.
func BenchmarkMemory(b *testing.B) {
	for _, peer := range peers {
		b.Run(peer.name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				ask := peer.of(b, 100, time.Hour)
				for key := range names {
					ask(key)
				}
				b.ReportMetric(float64(heap()-before)/float64(len(names)), "B/key")
				runtime.KeepAlive(ask)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestBurstAtAnEdge sends one request as a second begins, 200 just before it ends, 200 just after, then one each
// millisecond, with a limit of 100 a second. It logs the admitted requests and counts the most within one window.
// Cardea never exceeds the limit.
func TestBurstAtAnEdge(t *testing.T) {
	const limit, window = 100, time.Second
	for _, peer := range peers {
		t.Run(peer.name, func(t *testing.T) {
			begin := time.Now().Truncate(window).Add(2 * window)
			time.Sleep(time.Until(begin.Add(-window / 2))) // limiters with clock-aligned windows start with this one
			ask := peer.of(t, limit, window)
			var log []span
			try := func(n int) {
				for range n {
					before := time.Now()
					if ask(1) {
						log = append(log, span{before, time.Now()})
					}
				}
			}
			time.Sleep(time.Until(begin))
			try(1)
			time.Sleep(time.Until(begin.Add(window * 95 / 100)))
			try(2 * limit)
			time.Sleep(time.Until(begin.Add(window * 105 / 100)))
			try(2 * limit)
			for time.Now().Before(begin.Add(2 * window)) {
				try(1)
				time.Sleep(time.Millisecond)
			}
			over := most(log, window) - limit
			t.Logf("%d of %d too many within one window", over, limit)
			if peer.name == "cardea" && over != 0 {
				t.Errorf("over-admission of %d, want 0", over)
			}
		})
	}
}

// span is the time in which a request was admitted: between before and after.
type span struct{ before, after time.Time }

// most returns the largest number of admissions that certainly lie within one window.
func most(log []span, window time.Duration) (most int) {
	for i := range log {
		j := i
		for j < len(log) && log[j].after.Before(log[i].before.Add(window)) {
			j++
		}
		most = max(most, j-i)
	}
	return most
}
