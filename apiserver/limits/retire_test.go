package limits

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// retiring is a world whose clock the test moves.
func retiring(t *testing.T) (*world, *engine.Instant) {
	now := &engine.Instant{Steady: 1e15, Wall: 1e15}
	w := &world{t: t}
	w.Limiter = New(engine.NewEngine(1<<20), func() engine.Instant { return *now }, nil, func() *snapshot.Snapshot { return w.now })
	return w, now
}

// Until its longest window is over, a deleted scheme that is declared again continues with its counters.
func TestADeletedSchemeIsDroppedWhenItsLongestWindowIsOver(t *testing.T) {
	t.Parallel()
	w, now := retiring(t)
	registry := prometheus.NewRegistry()
	registry.MustRegister(w)
	held := func(want float64) {
		t.Helper()
		if problem := testutil.GatherAndCompare(registry, expected("cardea_ratelimit_deleted_schemes",
			"Deleted rate-limit schemes that are kept because their counters have not expired.", want), "cardea_ratelimit_deleted_schemes"); problem != nil {
			t.Error(problem)
		}
	}
	free, other := state(t, 1, "free", 4, 5), state(t, 2, "other", 9, 5)
	w.now = free
	w.limit(free)
	before := w.schemes[4].scheme
	w.now = other
	w.limit(other)
	now.Steady += 3600e6 - 1
	held(1)
	w.now = free
	if w.limit(free); w.schemes[4].scheme != before {
		t.Error("a scheme that is declared again within its window is another")
	}
	w.now = other
	held(1)
	now.Steady += 2 * 3600e6
	held(0)
	if len(w.schemes) != 1 {
		t.Errorf("%d schemes are held, want the declared one", len(w.schemes))
	}
}

// Schemes that are declared, used and deleted one after another stay within the memory bound of deleted schemes.
func TestDeletedSchemesAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	w, _ := retiring(t)
	var rules []scheme.Rule
	for i := range 64 {
		rule := scheme.Rule{Unit: "day", Duration: 30, MaxRequests: 5}
		for j := range 8 {
			rule.Endpoints = append(rule.Endpoints, fmt.Sprintf("/v1/%d/%d/things", i, j))
		}
		rules = append(rules, rule)
	}
	for round := range int64(100) {
		s := stateOf(t, round+1, declared{name: fmt.Sprint("s", round), slug: "free", id: 10 + round, rules: rules})
		w.now = s
		w.limit(s)
		var sum int64
		for _, known := range w.schemes {
			sum += known.bytes
		}
		if sum > deletedBytes {
			t.Fatalf("after %d schemes %d bytes of deleted ones are held", round+1, sum)
		}
	}
	if len(w.schemes) < 2 || len(w.schemes) > 60 {
		t.Errorf("%d schemes are held", len(w.schemes))
	}
	if w.schemes[10+99] == nil || w.schemes[10+98] == nil || w.schemes[10] != nil {
		t.Error("other schemes than the oldest were dropped")
	}
}

// The schemes that were used first keep their series; the others are counted.
func TestSeriesOfADeploymentAreBounded(t *testing.T) {
	t.Parallel()
	w, _ := retiring(t)
	var all []declared
	for i := range int64(20) {
		of := declared{name: fmt.Sprint("s", i), slug: fmt.Sprint("s", i), id: 10 + i}
		for limit := range int64(64) {
			of.rules = append(of.rules, scheme.Rule{Unit: "hour", Duration: 1 + limit, MaxRequests: 1 + limit})
		}
		all = append(all, of)
	}
	w.now = stateOf(t, 1, all...)
	w.Decided(w.now, "ns/acme")
	registry := prometheus.NewRegistry()
	registry.MustRegister(w)
	if n, err := testutil.GatherAndCount(registry, "cardea_ratelimit_rule_decisions_total"); err != nil || n != 2*rulesReported {
		t.Errorf("%d series, %v, want %d", n, err, 2*rulesReported)
	}
	if problem := testutil.GatherAndCompare(registry, expected("cardea_ratelimit_unreported_schemes",
		"Rate-limit schemes in use without series of their rules, because their deployment has too many rules.", 16), "cardea_ratelimit_unreported_schemes"); problem != nil {
		t.Error(problem)
	}
}

// expected returns a gauge in the exposition format.
func expected(name, help string, value float64) *strings.Reader {
	return strings.NewReader(fmt.Sprintf("# HELP %s %s\n# TYPE %s gauge\n%s %v\n", name, help, name, name, value))
}
