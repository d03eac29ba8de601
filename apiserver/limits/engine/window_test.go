package engine

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/scheme"
)

// empty returns the state of a window that counts nothing.
func empty(w *window) state { return state{new([headWords]uint64), make([]uint64, w.bodyWords())} }

// TestMonths: monthOf agrees with package time, over more than four centuries.
func TestMonths(t *testing.T) {
	for day := int64(0); day < 150_000; day++ {
		want := time.UnixMicro(day * dayLength).UTC()
		if year, month := monthOf(day); year != int64(want.Year()) || month != int64(want.Month()-1) {
			t.Fatalf("day %d: %d-%d, want %v", day, year, month+1, want)
		}
	}
	w := window{kind: calendarMonth}
	for month := int64(1970 * 12); month < 2400*12; month++ {
		if end := w.end(month); w.period(end) != month+1 || w.period(end-1) != month {
			t.Fatalf("month %d ends at %v", month, time.UnixMicro(end).UTC())
		}
	}
}

// TestCellsDoNotExpireEarly: at every offset within a cell and after any pause, a request younger than the window still
// counts.
func TestCellsDoNotExpireEarly(t *testing.T) {
	for _, length := range []int64{1000, 7000, 63_000_000, 3600e6} {
		for _, most := range []int64{1000, 100_000} {
			w := rolling(length, most)
			random := rand.New(rand.NewPCG(7, uint64(length)))
			for range 2000 {
				s := empty(&w)
				start := random.Int64N(1e15)
				w.used(s, Instant{Steady: start})
				w.charge(s, Instant{Steady: start}, 1)
				pause := []int64{length - 1, length - w.cell, random.Int64N(length), 0}[random.IntN(4)]
				if got := w.used(s, Instant{Steady: start + max(0, pause)}); got != 1 {
					t.Fatalf("window %d: a request %d old is forgotten", length, pause)
				}
				wait := w.wait(s, Instant{Steady: start + max(0, pause)}, 1)
				if total := max(0, pause) + wait; total < length || total > length+2*w.cell {
					t.Fatalf("window %d: comes back after %d", length, total)
				}
				if got := w.used(s, Instant{Steady: start + max(0, pause) + wait}); got != 0 {
					t.Fatalf("window %d: not empty after the returned wait", length)
				}
			}
		}
	}
}

// TestLongRings: rings of windows beyond 1<<31 microseconds, and rings that live longer than their ticks count.
func TestLongRings(t *testing.T) {
	w := rolling(30*dayLength, 3)
	s := empty(&w)
	for now, admitted := int64(1e12), []int64(nil); len(admitted) < 400; now += dayLength/3 + 1 {
		if w.used(s, Instant{Steady: now}) < 3 {
			w.charge(s, Instant{Steady: now}, 1)
			admitted = append(admitted, now)
			if n := len(admitted); n > 3 && now-admitted[n-4] < 30*dayLength {
				t.Fatalf("four within %d µs", now-admitted[n-4])
			} else if n > 3 && now-admitted[n-4] > 30*dayLength+dayLength/2 {
				t.Fatalf("the fourth came only after %d µs", now-admitted[n-4])
			}
		}
	}
}

// TestLimitLoweredAndRaised: requests that were counted before a limit was lowered still count when it is raised again.
func TestLimitLoweredAndRaised(t *testing.T) {
	for _, limit := range []int64{30, 1000, 70000} {
		e := NewEngine(DefaultMaxBytes)
		rules := func(most int64) []scheme.Rule {
			return []scheme.Rule{{Unit: "hour", Duration: 1, MaxRequests: most}}
		}
		s := e.Scheme(1, rules(limit))
		r, out := &Request{Method: "GET", Path: "/", Key: 1, Scheme: s}, &Result{}
		now := Instant{Steady: 1e12, Wall: 1e12}
		for range limit - 1 {
			e.Decide(now, r, out)
		}
		for _, lower := range []int64{1, limit / 2} {
			s.Replace(rules(lower))
			if e.Decide(now, r, out); out.Allowed {
				t.Fatalf("limit %d lowered to %d: allowed", limit, lower)
			}
		}
		e.Scheme(1, rules(limit)) // declared again, with its first limit
		if e.Decide(now, r, out); !out.Allowed {
			t.Fatalf("limit %d: the last one is refused", limit)
		}
		if e.Decide(now, r, out); out.Allowed {
			t.Fatalf("limit %d: one too many", limit)
		}
	}
}

// TestSharedIdentity: rules of one identity share a counter, and the smallest limit binds.
func TestSharedIdentity(t *testing.T) {
	e := NewEngine(DefaultMaxBytes)
	s := e.Scheme(1, []scheme.Rule{
		{Unit: "hour", Duration: 1, MaxRequests: 5, Endpoints: []string{"/a", "/b"}},
		{Unit: "hour", Duration: 1, MaxRequests: 2, Endpoints: []string{"/b", "/a", "/b"}},
	})
	r, out := &Request{Method: "GET", Key: 1, Scheme: s}, &Result{}
	for i, path := range []string{"/a", "/b", "/a"} {
		r.Path = path
		if e.Decide(Instant{Steady: 1e12}, r, out); out.Allowed != (i < 2) || len(out.Rules) != 1 || out.Rules[0].Rule.Text != "2/1h" {
			t.Fatalf("request %d: %+v", i, out)
		}
	}
}

// TestCellsCountAsAListOfThemWould compares windows of cells with a plain list of the requests, at moments that go on
// by any steps, and now and then back.
func TestCellsCountAsAListOfThemWould(t *testing.T) {
	for _, most := range []int64{1000, 100_000} {
		random := rand.New(rand.NewPCG(3, uint64(most)))
		for range 300 {
			w := rolling(63_000, most)
			s, counts, current, now := empty(&w), map[int64]int64{}, int64(0), int64(1e12)+random.Int64N(1e6)
			for range 400 {
				now += []int64{0, 1, random.Int64N(2 * w.cell), random.Int64N(70 * w.cell), -random.Int64N(3 * w.cell)}[random.IntN(5)]
				at := Instant{Steady: now}
				current = max(current, now/w.cell)
				maps.DeleteFunc(counts, func(index, _ int64) bool { return index <= current-cellCount })
				var total int64
				for _, n := range counts {
					total += n
				}
				if got := w.used(s, at); got != total {
					t.Fatalf("%d requests are in the window, want %d", got, total)
				}
				limit := 1 + random.Int64N(most)
				if got, want := w.wait(s, at, limit), waitOf(counts, &w, current, now, total, limit); got != want {
					t.Fatalf("%d of %d: quota returns after %d, want %d", total, limit, got, want)
				}
				n := min(random.Int64N(3)*random.Int64N(most/10), most-total)
				w.charge(s, at, n)
				counts[current] += n
			}
		}
	}
}

// waitOf returns how long it takes until fewer than limit of the requests are in the window.
func waitOf(counts map[int64]int64, w *window, current, now, used, limit int64) int64 {
	if used < limit {
		return 0
	}
	for index := current - cellCount + 1; ; index++ {
		if used -= counts[index]; used < limit || index == current {
			return (index+cellCount)*w.cell - now
		}
	}
}
