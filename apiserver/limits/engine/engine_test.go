package engine

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cardea-iam/cardea/internal/scheme"
)

func rules(of ...scheme.Rule) []scheme.Rule { return of }

// TestHotGroup: concurrent callers of one key get exactly the smallest limit, and the other rules count no more than
// that, while the scheme changes under them.
func TestHotGroup(t *testing.T) {
	for _, limit := range []int64{20, 500, 100_000} {
		e := NewEngine(DefaultMaxBytes)
		of := func(other int64) []scheme.Rule {
			return rules(
				scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: limit},
				scheme.Rule{Unit: "day", Duration: 1, MaxRequests: other, Mode: "per_app"},
				scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 3 * limit, Mode: "per_key_and_ip"},
			)
		}
		s := e.Scheme(1, of(2*limit))
		var allowed, denied atomic.Int64
		var wait sync.WaitGroup
		for range 8 {
			wait.Go(func() {
				r, out := &Request{Method: "GET", Path: "/", Key: 1, App: 2, Address: 3, Scheme: s}, &Result{}
				for range limit/4 + 10 {
					if e.Decide(Instant{Steady: 1e15, Wall: 1e15}, r, out); out.Allowed {
						allowed.Add(1)
					} else {
						denied.Add(1)
					}
				}
			})
		}
		wait.Go(func() {
			for i := range int64(50) {
				s.Replace(of(2*limit + i))
			}
		})
		wait.Wait()
		if got := allowed.Load(); got != limit {
			t.Errorf("limit %d: %d allowed", limit, got)
		}
		var out Result
		e.Peek(Instant{Steady: 1e15, Wall: 1e15}, &Request{Method: "GET", Path: "/", Key: 1, App: 2, Address: 3, Scheme: s}, &out)
		if left := out.Rules[1].Rule.Limit - out.Rules[1].Remaining; left != limit {
			t.Errorf("limit %d: the app's rule counted %d", limit, left)
		}
		if left := out.Rules[2].Rule.Limit - out.Rules[2].Remaining; left != limit {
			t.Errorf("limit %d: the calendar's rule counted %d", limit, left)
		}
		gotAllowed, gotDenied := out.Rules[0].Rule.Decisions.Total()
		if int64(gotAllowed) != limit || int64(gotDenied) != denied.Load() {
			t.Errorf("limit %d: the rule's totals are %d and %d, want %d and %d", limit, gotAllowed, gotDenied, limit, denied.Load())
		}
	}
}

// A request that was admitted elsewhere counts as allowed, even beyond the local limit.
func TestRecordedRequestsCountAsAllowed(t *testing.T) {
	e := NewEngine(DefaultMaxBytes)
	s := e.Scheme(1, rules(scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 2}))
	var out Result
	for range 5 {
		e.Record(Instant{Steady: 1e15}, &Request{Method: "GET", Path: "/", Key: 1, Scheme: s}, &out)
	}
	if allowed, denied := out.Rules[0].Rule.Decisions.Total(); allowed != 5 || denied != 0 {
		t.Errorf("%d allowed and %d denied, want 5 and 0", allowed, denied)
	}
}

// TestAppScheme: a key's own scheme replaces its app's. The rules of the app's scheme that count the whole app still
// apply.
func TestAppScheme(t *testing.T) {
	e := NewEngine(DefaultMaxBytes)
	own := e.Scheme(1, rules(scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 5}))
	apps := e.Scheme(2, rules(
		scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 1},
		scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 3, Mode: "per_app"},
	))
	var out Result
	for i := range uint64(4) {
		e.Decide(Instant{Steady: 1e15}, &Request{Method: "GET", Path: "/", Key: i % 2, App: 9, Scheme: own, AppScheme: apps}, &out)
		if out.Allowed != (i < 3) || len(out.Rules) != 2 {
			t.Fatalf("request %d: %+v", i, out.Rules)
		}
	}
	if out.Rules[out.Blocked].Rule.Text != "3/1h" || out.Rules[0].Remaining != 4 {
		t.Errorf("the app's rule denies and the key's own counts nothing: %+v", out.Rules)
	}
}

// TestFloodFromManyAddresses: tens of thousands of addresses of one key stay within the memory bound, and no address is
// admitted more often than its limit.
func TestFloodFromManyAddresses(t *testing.T) {
	const most = 8 << 20
	e := NewEngine(most)
	s := e.Scheme(1, rules(
		scheme.Rule{Unit: "day", Duration: 1, MaxRequests: 2, Mode: "per_key_and_ip"},
		scheme.Rule{Unit: "day", Duration: 1, MaxRequests: 3_000_000},
	))
	r, out := &Request{Method: "GET", Path: "/", Key: 1, Scheme: s}, &Result{}
	admitted := make([]uint8, 60_000)
	for round := range 3 {
		for address := range admitted {
			r.Address = uint64(address + 1)
			if e.Decide(Instant{Steady: 1e15 + int64(round), Wall: 1e15}, r, out); out.Allowed {
				admitted[address]++
			}
		}
	}
	for address, n := range admitted {
		if n > 2 {
			t.Fatalf("address %d was admitted %d times", address, n)
		}
	}
	stats := e.Stats()
	if stats.Bytes > most || stats.Shared == 0 || stats.Evicted != 0 {
		t.Errorf("%+v, want at most %d bytes, shared counters, and no quota pushed out", stats, most)
	}
	// Two days later, decisions about other keys sweep the blocks away, a few at a time.
	r.Scheme = e.Scheme(2, rules(scheme.Rule{Unit: "millisecond", Duration: 1, MaxRequests: 1}))
	now := Instant{Steady: 1e15 + 2*dayLength, Wall: 1e15}
	for range 100 * stats.Blocks {
		now.Steady++
		r.Key = (r.Key + 1) % 10_000
		e.Decide(now, r, out)
		if now.Steady%100_000 == 0 && e.Stats().Blocks < 15_000 {
			return
		}
	}
	t.Errorf("%d blocks of %d are left a day later", e.Stats().Blocks, stats.Blocks)
}

// TestEviction: where keys alone fill the memory, the counter that was idle for longest is evicted, and the eviction
// is counted.
func TestEviction(t *testing.T) {
	const most = 16 << 20
	e := NewEngine(most)
	s := e.Scheme(1, rules(scheme.Rule{Unit: "day", Duration: 1, MaxRequests: 100}))
	r, out := &Request{Method: "GET", Path: "/", Scheme: s}, &Result{}
	for key := range uint64(120_000) {
		r.Key = key
		e.Decide(Instant{Steady: 1e15 + int64(key), Wall: 1e15}, r, out)
		// One key is used all the time, so its block is never idle.
		r.Key = 1 << 40
		e.Decide(Instant{Steady: 1e15 + int64(key), Wall: 1e15}, r, out)
	}
	if stats := e.Stats(); stats.Bytes > most || stats.Evicted == 0 {
		t.Errorf("%+v, want at most %d bytes and evictions", stats, most)
	}
	if out.Allowed {
		t.Error("the busy key lost its count")
	}
}

// TestDecisionsDoNotAllocate: a decision allocates nothing, whether it allows or denies.
func TestDecisionsDoNotAllocate(t *testing.T) {
	e := NewEngine(DefaultMaxBytes)
	s := e.Scheme(1, rules(
		scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 5, Endpoints: []string{"POST /v1/*"}},
		scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 100, Mode: "per_ip"},
		scheme.Rule{Unit: "calendar_month", Duration: 1, MaxRequests: 200, Mode: "per_app"},
	))
	r, out := &Request{Method: "POST", Path: "/v1/things", Key: 1, App: 1, Address: 1, Scheme: s}, &Result{}
	now := Instant{Steady: 1e15, Wall: 1e15}
	e.Decide(now, r, out)
	if n := testing.AllocsPerRun(2000, func() { now.Steady += 50_000; e.Decide(now, r, out) }); n != 0 {
		t.Errorf("%v allocations a decision", n)
	}
}
