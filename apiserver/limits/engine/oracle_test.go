package engine

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/cardea-iam/cardea/internal/scheme"
)

// The oracle keeps the exact time of every admitted request, by rule identity and subject, and knows neither cells nor
// blocks.
type oracle struct {
	logs map[counterOf][]Instant
}

type counterOf struct {
	scheme          uint64
	unit            string
	duration        int64
	mode, endpoints string
	of, address     uint64
}

func counterFor(id uint64, rule scheme.Rule, r *Request) counterOf {
	of, address := modes[rule.Mode].subject(r)
	return counterOf{scheme: id, unit: rule.Unit, duration: rule.Duration, mode: rule.Mode, endpoints: fmt.Sprint(rule.Endpoints), of: of, address: address}
}

// within counts the admitted requests that are younger than the window plus slack, or in the calendar period of now.
func (o *oracle) within(of counterOf, now Instant, slack int64) int64 {
	n := int64(0)
	for _, at := range o.logs[of] {
		switch of.unit {
		case "calendar_day", "calendar_month":
			if samePeriod(of.unit, at.Wall, now.Wall) {
				n++
			}
		default:
			if at.Steady > now.Steady-unitLength[of.unit]*of.duration-slack {
				n++
			}
		}
	}
	return n
}

func samePeriod(unit string, a, b int64) bool {
	x, y := time.UnixMicro(a).UTC(), time.UnixMicro(b).UTC()
	return x.Year() == y.Year() && x.Month() == y.Month() && (unit == "calendar_month" || x.Day() == y.Day())
}

// lateness is how much later than the exact log a rule may return quota, in microseconds.
func lateness(of counterOf, peak int64) int64 {
	length := unitLength[of.unit] * of.duration
	switch {
	case length == 0:
		return 0
	case peak <= ringMost:
		return 2 * (1 + length>>31) // two ticks
	}
	return 2 * (length/63 + 1)
}

func ruleGenerator() *rapid.Generator[scheme.Rule] {
	return rapid.Custom(func(t *rapid.T) scheme.Rule {
		unit := rapid.SampledFrom(scheme.Units()).Draw(t, "unit")
		duration := int64(1)
		switch unit {
		case "millisecond":
			duration = rapid.SampledFrom([]int64{1, 7, 63, 64, 500, 60000}).Draw(t, "duration")
		case "second", "minute":
			duration = rapid.SampledFrom([]int64{1, 2, 10, 90}).Draw(t, "duration")
		case "hour", "day":
			duration = rapid.SampledFrom([]int64{1, 30}).Draw(t, "duration")
		}
		priority := rapid.Int64Range(-1, 2).Draw(t, "priority")
		return scheme.Rule{
			Unit: unit, Duration: duration, Mode: rapid.SampledFrom(scheme.Modes()).Draw(t, "mode"), Priority: &priority,
			MaxRequests: rapid.SampledFrom([]int64{1, 2, 3, 5, 31, 32, 33, 40}).Draw(t, "max"),
			Endpoints:   []string{rapid.SampledFrom([]string{"*", "/v1/*", "POST /v1/*", "/v1/a"}).Draw(t, "endpoint")},
		}
	})
}

func matches(rule scheme.Rule, method, path string) bool {
	switch rule.Endpoints[0] {
	case "*":
		return true
	case "/v1/*":
		return len(path) >= 4 && path[:4] == "/v1/"
	case "POST /v1/*":
		return method == "POST" && len(path) >= 4 && path[:4] == "/v1/"
	}
	return path == rule.Endpoints[0]
}

// driver runs the engine together with the oracle.
type driver struct {
	t      *rapid.T
	engine *Engine
	oracle oracle
	now    Instant
	rules  [2][]scheme.Rule
	// peaks are the largest limits that each rule had, by scheme and identity.
	peaks   map[string]int64
	schemes [2]*Scheme
	out     Result
}

func newDriver(t *rapid.T) *driver {
	d := &driver{t: t, engine: NewEngine(DefaultMaxBytes), oracle: oracle{logs: map[counterOf][]Instant{}}, peaks: map[string]int64{}}
	start := time.Date(2028, 2, 28, 23, 59, 0, 0, time.UTC).UnixMicro() // a leap year's February
	d.now = Instant{Steady: start, Wall: start + rapid.Int64Range(-1e6, 1e6).Draw(t, "offset")}
	for i := range d.schemes {
		d.rules[i] = distinct(rapid.SliceOfN(ruleGenerator(), 1, 5).Draw(t, "rules"))
		d.schemes[i] = d.engine.Scheme(uint64(i+1), d.rules[i])
		d.note(i)
	}
	return d
}

// distinct keeps one rule of each identity; TestSharedIdentity has several.
func distinct(rules []scheme.Rule) []scheme.Rule {
	var out []scheme.Rule
	for _, rule := range rules {
		if !slices.ContainsFunc(out, func(o scheme.Rule) bool { return identity(o) == identity(rule) }) {
			out = append(out, rule)
		}
	}
	return out
}

func (d *driver) note(i int) {
	for _, rule := range d.rules[i] {
		key := fmt.Sprint(i, identity(rule))
		d.peaks[key] = max(d.peaks[key], rule.MaxRequests)
	}
}

type applied struct {
	counter counterOf
	limit   int64
	peak    int64
}

func (d *driver) applying(r *Request) []applied {
	var all []applied
	for i, rules := range d.rules {
		for _, rule := range rules {
			ofApp := rule.Mode == "per_app" || rule.Mode == "per_app_and_ip"
			if matches(rule, r.Method, r.Path) && (i == 0 || ofApp) {
				all = append(all, applied{counterFor(uint64(i+1), rule, r), rule.MaxRequests, d.peaks[fmt.Sprint(i, identity(rule))]})
			}
		}
	}
	return all
}

// decide lets the engine and the oracle decide, and compares the results.
func (d *driver) decide(r *Request) {
	r.Scheme, r.AppScheme = d.schemes[0], d.schemes[1]
	d.engine.Decide(d.now, r, &d.out)
	rules := d.applying(r)
	if len(d.out.Rules) != len(rules) {
		d.t.Fatalf("%s %s: %d rules reported, %d match", r.Method, r.Path, len(d.out.Rules), len(rules))
	}
	full, surelyFull := false, false
	for _, rule := range rules {
		full = full || d.oracle.within(rule.counter, d.now, lateness(rule.counter, rule.peak)) >= rule.limit
		surelyFull = surelyFull || d.oracle.within(rule.counter, d.now, 0) >= rule.limit
	}
	switch {
	case d.out.Allowed && surelyFull:
		d.t.Fatalf("over-admission of %+v at %v", rules, d.now)
	case !d.out.Allowed && !full:
		d.t.Fatalf("refused though no rule is full, or a refusal was counted: %+v at %v", rules, d.now)
	case d.out.Allowed:
		for _, rule := range rules {
			d.oracle.logs[rule.counter] = append(d.oracle.logs[rule.counter], d.now)
		}
	case d.out.RetryAfter <= 0 || d.out.Blocked < 0 || d.out.Rules[d.out.Blocked].Remaining != 0:
		d.t.Fatalf("a refusal without its reason: %+v", d.out)
	}
}

func (d *driver) draw() *Request {
	address := rapid.SampledFrom([]string{"192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"}).Draw(d.t, "address")
	return &Request{
		Method: rapid.SampledFrom([]string{"GET", "POST"}).Draw(d.t, "method"),
		Path:   rapid.SampledFrom([]string{"/", "/v1/a", "/v1/b"}).Draw(d.t, "path"),
		Key:    rapid.Uint64Range(1, 2).Draw(d.t, "key"), App: 9, Address: AddressOf(netip.MustParseAddr(address)),
	}
}

func (d *driver) pass(by int64) { d.now.Steady += by; d.now.Wall += by }

// TestOracle: over-admission is 0, a denied request consumes nothing, quota returns late by lateness at most, and
// Retry-After is never early. This holds for all rules, arrivals, changes of rules and forward jumps of the wall clock.
func TestOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDriver(t)
		t.Repeat(map[string]func(*rapid.T){
			"burst": func(t *rapid.T) {
				r := d.draw()
				for range rapid.IntRange(1, 50).Draw(t, "requests") {
					d.decide(r)
				}
			},
			"one": func(*rapid.T) { d.decide(d.draw()) },
			"time": func(t *rapid.T) {
				d.pass(rapid.SampledFrom([]int64{1, 999, 1000, 15873, 100e3, 1e6, 10e6, 61e6, 3600e6, dayLength, 31 * dayLength}).Draw(t, "time"))
			},
			"retry when told": func(t *rapid.T) {
				r := d.draw()
				if d.decide(r); d.out.Allowed {
					return
				}
				d.pass(d.out.RetryAfter)
				if d.decide(r); !d.out.Allowed {
					t.Fatalf("Retry-After was early: again %d µs for %+v", d.out.RetryAfter, d.out.Rules[d.out.Blocked])
				}
			},
			"a limit changes": func(t *rapid.T) {
				i := rapid.IntRange(0, 1).Draw(t, "scheme")
				d.rules[i] = slices.Clone(d.rules[i])
				at := rapid.IntRange(0, len(d.rules[i])-1).Draw(t, "rule")
				d.rules[i][at].MaxRequests = rapid.SampledFrom([]int64{1, 4, 32, 50, 70000}).Draw(t, "max")
				slices.Reverse(d.rules[i])
				d.schemes[i].Replace(d.rules[i])
				d.note(i)
			},
			"a rule comes": func(t *rapid.T) {
				rule := ruleGenerator().Draw(t, "rule")
				// A new endpoint makes a new identity, for which nothing is counted yet.
				rule.Endpoints = append(rule.Endpoints, fmt.Sprintf("/new/%d", len(d.peaks)))
				d.rules[0] = append(slices.Clone(d.rules[0]), rule)
				if len(d.rules[0]) > 8 {
					d.rules[0] = d.rules[0][1:]
				}
				d.schemes[0].Replace(d.rules[0])
				d.note(0)
			},
			"the wall clock jumps ahead": func(t *rapid.T) { d.now.Wall += rapid.Int64Range(1, 3600e6).Draw(t, "by") },
		})
	})
}

// TestClockGoesBackwards: a wall clock that is set back gives no quota, and the rolling windows do not notice.
func TestClockGoesBackwards(t *testing.T) {
	e := NewEngine(DefaultMaxBytes)
	s := e.Scheme(1, []scheme.Rule{{Unit: "calendar_day", Duration: 1, MaxRequests: 3}, {Unit: "second", Duration: 1, MaxRequests: 2}})
	midnight := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	r, out := &Request{Method: "GET", Path: "/", Key: 1, Scheme: s}, &Result{}
	ask := func(steady, wall int64) bool {
		e.Decide(Instant{Steady: steady, Wall: wall}, r, out)
		return out.Allowed
	}
	for i, step := range []struct {
		steady, wall int64
		want         bool
	}{
		{1e9, midnight + 1e6, true}, {1e9, midnight + 1e6, true}, {1e9, midnight + 1e6, false},
		{1e9 + 999_999, midnight - 4e6, false}, // set back by 5 s, to the day before; the second is not over
		{1e9 + 1e6, midnight - 4e6, true},      // the third of the new day, although the clock shows the day before
		{1e9 + 9e6, midnight - 1e6, false},     // no quota of the day before
		{1e9 + 9e6, midnight + 3600e6, false},
		{1e9 + 9e6, midnight + dayLength, true},
	} {
		if got := ask(step.steady, step.wall); got != step.want {
			t.Fatalf("step %d: allowed %v, want %v", i, got, step.want)
		}
	}
	if e.Decide(Instant{Steady: 1e9 + 20e6, Wall: midnight - 2e6}, r, out); !out.Allowed {
		t.Fatal("the next day has quota left")
	}
	for range 2 {
		e.Decide(Instant{Steady: 2e9, Wall: midnight - 2e6}, r, out)
	}
	if out.Allowed || out.RetryAfter != 2*dayLength+2e6 {
		t.Fatalf("retry after %d µs, want the end of the newest day seen by the clock that stands: %d", out.RetryAfter, 2*dayLength+2e6)
	}
}

// TestEvictionLosesFewCounts: at saturation and near it, rules beyond 32 requests admit at least 98 % of what an exact
// log admits, those up to 32 all of it.
func TestEvictionLosesFewCounts(t *testing.T) {
	const length = int64(60e6)
	for _, limit := range []int64{5, 32, 33, 100, 1000, 70000} {
		for _, demand := range []float64{0.9, 1.1, 1.5, 3} {
			t.Run(fmt.Sprintf("%d at %v", limit, demand), func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, uint64(limit)))
				e := NewEngine(DefaultMaxBytes)
				s := e.Scheme(1, []scheme.Rule{{Unit: "minute", Duration: 1, MaxRequests: limit}})
				r, out := &Request{Method: "GET", Path: "/", Key: 1, Scheme: s}, &Result{}
				var log []int64
				ours, exact, oldest := 0, 0, 0
				windows := int64(max(20, 4000/limit))
				if limit > cells16Most {
					windows = 3 // with so many requests, a few windows are enough
				}
				for at := 1e12; at < 1e12+float64(windows*length); at += random.ExpFloat64() * float64(length) / (float64(limit) * demand) {
					now := int64(at)
					for ; oldest < len(log) && log[oldest] <= now-length; oldest++ {
					}
					if int64(len(log)-oldest) < limit {
						log = append(log, now)
						exact++
					}
					if e.Decide(Instant{Steady: now, Wall: now}, r, out); out.Allowed {
						ours++
					}
				}
				want := 0.98
				if limit <= ringMost {
					want = 1
				}
				if got := float64(ours) / float64(exact); got < want || got > 1 {
					t.Errorf("admitted %d of the exact log's %d: %.4f, want %v to 1", ours, exact, got, want)
				}
			})
		}
	}
}
