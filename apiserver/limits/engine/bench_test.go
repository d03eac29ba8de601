package engine

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/internal/scheme"
)

var benchRules = rules(
	scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 1 << 30},
	scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 1 << 30},
	scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 1 << 30},
)

// BenchmarkDecide measures a decision without reading the clock: with one key, and with many keys in random order.
func BenchmarkDecide(b *testing.B) {
	small := rules(
		scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 60000}, scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 60000},
		scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 60000},
	)
	for _, of := range []struct {
		name  string
		rules []scheme.Rule
		keys  uint64
	}{
		{"rules=1/keys=1", small[2:], 1}, {"rules=3/keys=1", small, 1},
		{"rules=1/keys=100k", small[2:], 100_000}, {"rules=3/keys=100k", small, 100_000}, {"rules=3/keys=1M", small, 1_000_000},
	} {
		b.Run(of.name, func(b *testing.B) {
			e := NewEngine(4 << 30)
			s := e.Scheme(1, of.rules)
			r, out := &Request{Method: "GET", Path: "/v1/things", Scheme: s}, &Result{}
			now := Instant{Steady: 1e15, Wall: 1e15}
			for key := range of.keys {
				r.Key = key
				e.Decide(now, r, out)
			}
			random := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			for b.Loop() {
				r.Key = random.Uint64N(of.keys)
				now.Steady += 100
				e.Decide(now, r, out)
			}
		})
	}
}

// BenchmarkFloor measures the least that a limiter of many keys must do: find a key's counter under the lock of one of
// 256 parts, and add to it. Each counter is allocated separately, and is as large as the engine's block of one rule.
func BenchmarkFloor(b *testing.B) {
	for _, of := range []struct {
		name string
		keys uint64
	}{{"keys=1", 1}, {"keys=100k", 100_000}, {"keys=1M", 1_000_000}} {
		b.Run(of.name, func(b *testing.B) {
			type part struct {
				sync.Mutex
				counters map[uint64]*[24]uint64
				_        [64]byte
			}
			parts := make([]part, shardCount)
			for key := range of.keys {
				p := &parts[mix(key, 1)%shardCount]
				if p.counters == nil {
					p.counters = map[uint64]*[24]uint64{}
				}
				p.counters[key] = &[24]uint64{}
			}
			random := rand.New(rand.NewPCG(1, 2))
			for b.Loop() {
				key := random.Uint64N(of.keys)
				p := &parts[mix(key, 1)%shardCount]
				p.Lock()
				p.counters[key][7]++
				p.Unlock()
			}
		})
	}
}

// BenchmarkDecideParallel measures callers on every processor: each with its own key, and all with the same key.
func BenchmarkDecideParallel(b *testing.B) {
	for _, of := range []struct {
		name string
		hot  bool
	}{{"distinct", false}, {"hot", true}} {
		b.Run(of.name, func(b *testing.B) {
			e := NewEngine(1 << 30)
			s := e.Scheme(1, benchRules)
			b.RunParallel(func(p *testing.PB) {
				r, out := &Request{Method: "GET", Path: "/v1/things", Scheme: s}, &Result{}
				now := Instant{Steady: 1e15, Wall: 1e15}
				if !of.hot {
					r.Key = rand.Uint64()
				}
				for p.Next() {
					now.Steady += 100
					e.Decide(now, r, out)
				}
			})
		})
	}
}

// BenchmarkMemory measures the bytes of memory per key, including everything that belongs to its counters, for a
// million keys.
func BenchmarkMemory(b *testing.B) {
	for _, of := range []struct {
		name string
		rule scheme.Rule
	}{
		{"ring=32", scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 32}},
		{"cells16", scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 60000}},
		{"cells32", scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 70000}},
		{"calendar", scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 70000}},
	} {
		b.Run(of.name, func(b *testing.B) { memory(b, rules(of.rule)) })
	}
	b.Run("three rules", func(b *testing.B) {
		memory(b, rules(
			scheme.Rule{Unit: "second", Duration: 1, MaxRequests: 100}, scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 60000},
			scheme.Rule{Unit: "calendar_day", Duration: 1, MaxRequests: 100_000},
		))
	})
}

func memory(b *testing.B, of []scheme.Rule) {
	const keys = 1_000_000
	for b.Loop() {
		before := heap()
		e := NewEngine(4 << 30)
		s := e.Scheme(1, of)
		r, out := &Request{Method: "GET", Path: "/", Scheme: s}, &Result{}
		for key := range uint64(keys) {
			r.Key = key
			e.Decide(Instant{Steady: 1e15, Wall: 1e15}, r, out)
		}
		b.ReportMetric(float64(heap()-before)/keys, "B/key")
		runtime.KeepAlive(e)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkClock measures the time to read the clock, which every decision does.
func BenchmarkClock(b *testing.B) {
	clock := NewClock(nil)
	for b.Loop() {
		clock.Now()
	}
}
