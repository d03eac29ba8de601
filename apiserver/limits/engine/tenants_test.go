package engine

import (
	"testing"

	"github.com/cardea-iam/cardea/internal/scheme"
)

// manyRules is the scheme of a tenant whose counters take as much memory as a valid scheme can.
func manyRules(mode string) []scheme.Rule {
	var all []scheme.Rule
	for i := range int64(64) {
		all = append(all, scheme.Rule{Unit: "hour", Duration: 657 + i%64, MaxRequests: scheme.MaxRequests, Mode: mode})
	}
	return all
}

// TestAddressesDoNotEvictOtherDeployments: if a deployment uses up the memory for addresses, by malice or because it is
// busy, only its own clients share counters. Each client of another deployment keeps its own quota.
func TestAddressesDoNotEvictOtherDeployments(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		name      string
		rules     []scheme.Rule
		addresses uint64
		requests  int
	}{
		{"64 rules of 30 days", manyRules("per_ip"), 5_000, 1},
		{"a busy site", rules(
			scheme.Rule{Unit: "day", Duration: 1, MaxRequests: 10, Mode: "per_ip"}, scheme.Rule{Unit: "day", Duration: 30, MaxRequests: 200, Mode: "per_ip"},
		), 80_000, 2},
	} {
		t.Run(of.name, func(t *testing.T) {
			t.Parallel()
			const most = 32 << 20
			e := NewEngine(most)
			mine, other := e.SchemeOf("ns/mine", 1, of.rules), e.SchemeOf("ns/other", 2, rules(scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: 60, Mode: "per_ip"}))
			now, out := Instant{Steady: 1e15, Wall: 1e15}, &Result{}
			r := &Request{Method: "GET", Path: "/", Scheme: mine}
			for r.Address = 1; r.Address <= of.addresses; r.Address++ {
				for range of.requests {
					now.Steady++
					e.Decide(now, r, out)
				}
			}
			now.Steady += 29 * dayLength
			before := e.Stats().Shared
			r.Scheme = other
			for r.Address = 1; r.Address <= 20_000; r.Address++ {
				for i := range 5 {
					now.Steady += 10
					if e.Decide(now, r, out); !out.Allowed {
						t.Fatalf("request %d of the other deployment's client %d is denied", i, r.Address)
					}
				}
			}
			if stats := e.Stats(); stats.Shared != before || stats.Bytes > most {
				t.Errorf("%+v, want no shared counter more than %d, and at most %d bytes", stats, before, most)
			}
		})
	}
}

// TestKeysDoNotEvictOtherDeployments: a used-up quota stays used up, however many keys of another deployment send
// requests. Only counters of that other deployment are evicted.
func TestKeysDoNotEvictOtherDeployments(t *testing.T) {
	t.Parallel()
	const most = 32 << 20
	e := NewEngine(most)
	victim := e.SchemeOf("ns/other", 2, rules(scheme.Rule{Unit: "day", Duration: 1, MaxRequests: 10}))
	now, out := Instant{Steady: 1e15, Wall: 1e15}, &Result{}
	for key := range uint64(200) {
		r := &Request{Method: "GET", Path: "/", Scheme: victim, Key: key}
		for range 10 {
			e.Decide(now, r, out)
		}
	}
	r := &Request{Method: "GET", Path: "/", Scheme: e.SchemeOf("ns/mine", 1, manyRules(""))}
	for r.Key = 1; r.Key <= 12_000; r.Key++ {
		now.Steady++
		e.Decide(now, r, out)
	}
	for key := range uint64(200) {
		if e.Decide(now, &Request{Method: "GET", Path: "/", Scheme: victim, Key: key}, out); out.Allowed {
			t.Fatalf("the used-up quota of key %d has returned", key)
		}
	}
	if stats := e.Stats(); stats.Evicted == 0 || stats.Bytes > most {
		t.Errorf("%+v, want evictions and at most %d bytes", stats, most)
	}
}

// TestLightAddressesAreEvictedBeforeSharing: the counters of clients that used little of their quota are evicted before
// new clients share a counter.
func TestLightAddressesAreEvictedBeforeSharing(t *testing.T) {
	t.Parallel()
	e := NewEngine(8 << 20)
	s := e.SchemeOf("ns/mine", 1, rules(scheme.Rule{Unit: "day", Duration: 1, MaxRequests: 1000, Mode: "per_ip"}))
	now, out := Instant{Steady: 1e15, Wall: 1e15}, &Result{}
	r := &Request{Method: "GET", Path: "/", Scheme: s, Address: 1 << 40}
	for range 1000 { // a client that used up its quota
		e.Decide(now, r, out)
	}
	for address := range uint64(100_000) {
		r.Address = address + 1
		now.Steady++
		e.Decide(now, r, out)
	}
	if stats := e.Stats(); stats.Shared != 0 || stats.Evicted == 0 || stats.Bytes > 8<<20 {
		t.Errorf("%+v, want light counters evicted, and none shared", stats)
	}
	r.Address = 1 << 40
	if e.Decide(now, r, out); out.Allowed {
		t.Error("a used up quota is back")
	}
}

// TestForgottenSchemeStartsAgain: a decision by the old Scheme of one that was forgotten and declared again neither
// waits nor fails.
func TestForgottenSchemeStartsAgain(t *testing.T) {
	t.Parallel()
	e := NewEngine(1 << 20)
	limit := rules(scheme.Rule{Unit: "hour", Duration: 1, MaxRequests: 1})
	now, out := Instant{Steady: 1e15, Wall: 1e15}, &Result{}
	decide := func(s *Scheme) bool {
		e.Decide(now, &Request{Method: "GET", Path: "/", Scheme: s, Key: 1}, out)
		return out.Allowed
	}
	old := e.SchemeOf("ns/mine", 1, limit)
	decide(old)
	e.Forget(old)
	again := e.SchemeOf("ns/mine", 1, limit)
	if again == old {
		t.Fatal("the scheme was not forgotten")
	}
	decide(again)
	decide(old)
	if decide(old) || e.Stats().Blocks == 0 {
		t.Error("the old scheme's limit does not bind")
	}
	for range 2 { // forgetting twice, or an older one, changes nothing
		e.Forget(old)
	}
	if e.SchemeOf("ns/mine", 1, limit) != again {
		t.Error("the newer scheme was forgotten with the older")
	}
}
