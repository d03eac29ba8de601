package domain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
	"github.com/cardea-iam/cardea/internal/testing/dnsserver"
)

func startDNS(t *testing.T) (*dnsserver.Server, *Resolver) {
	t.Helper()
	dns, err := dnsserver.Start(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dns.Close() })
	return dns, NewResolver(dns.Address(), time.Now, prometheus.NewRegistry())
}

func TestLookUp(t *testing.T) {
	t.Parallel()
	dns, r := startDNS(t)
	r.within = 500 * time.Millisecond
	record := func(name string) string { return RecordName(name + ".example") }
	dns.Set(record("one"), "v=spf1 -all", value)
	dns.SetStrings(record("split"), value[:7], value[7:])
	dns.Set(record("long"), strings.Repeat("x", 1000))
	dns.Set("txt.provider.example", value)
	dns.Alias(record("alias"), "hop.provider.example")
	dns.Alias("hop.provider.example", "txt.provider.example")
	dns.Alias(record("dangling"), "nothing.provider.example")
	dns.Alias(record("loop"), record("loop"))
	dns.Behave(record("servfail"), dnsserver.Fails)
	dns.Behave(record("refused"), dnsserver.Refuses)
	dns.Behave(record("silent"), dnsserver.Silent)
	dns.Set("example", value)      // a search domain's
	dns.Set("none.example", value) // the domain's own records do not count
	var many []string
	for n := range 200 {
		many = append(many, fmt.Sprintf("text %d", n))
	}
	dns.Set(record("many"), append(slices.Clone(many), value)...) // an answer on TCP
	for _, tt := range []struct {
		name    string
		texts   []string
		failure Outcome
	}{
		{name: "one", texts: []string{"v=spf1 -all", value}},
		{name: "split", texts: []string{value}},
		{name: "long", texts: []string{strings.Repeat("x", 1000)}},
		{name: "alias", texts: []string{value}},
		{name: "many", texts: append(many, value)},
		{name: "none"},
		{name: "dangling"},
		{name: "loop", failure: OutcomeServerFailure},
		{name: "servfail", failure: OutcomeServerFailure},
		{name: "refused", failure: OutcomeServerFailure},
		{name: "silent", failure: OutcomeTimeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := r.LookUp(t.Context(), egress.Asker{Deployment: "acme/" + tt.name}, tt.name+".example")
			if err != nil || a.Failure != tt.failure || !slices.Equal(a.Texts, tt.texts) || a.At.IsZero() {
				t.Errorf("%+v, %v", a, err)
			}
		})
	}
}

func TestLookupsOfOneDeploymentLeaveSlotsToOthers(t *testing.T) {
	t.Parallel()
	dns, r := startDNS(t)
	r.within = 2 * time.Second
	dns.Behave(RecordName("slow.example"), dnsserver.Silent)
	dns.Set(RecordName("acme.example"), value)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var flood sync.WaitGroup
	for range 200 {
		flood.Go(func() { _, _ = r.LookUp(ctx, egress.Asker{Deployment: "mallory/mallory"}, "slow.example") })
	}
	for r.slots.Running() == 0 {
		time.Sleep(time.Millisecond) // polls a condition
	}
	a, err := r.LookUp(t.Context(), egress.Asker{Deployment: "acme/acme"}, "acme.example")
	if err != nil || !a.Has(value) {
		t.Errorf("%+v, %v", a, err)
	}
	if n := r.slots.Running(); n > lookups.DeploymentAtOnce {
		t.Errorf("%d lookups of one deployment at once", n)
	}
	cancel()
	flood.Wait()
}

func TestLookupsAMinuteAreBounded(t *testing.T) {
	t.Parallel()
	dns, err := dnsserver.Start(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = dns.Close() })
	now := time.Now()
	r := NewResolver(dns.Address(), func() time.Time { return now }, prometheus.NewRegistry())
	of := egress.Asker{Deployment: "acme/acme", Source: "192.0.2.0/24"}
	for range lookups.SourcePerMinute {
		if _, err := r.LookUp(t.Context(), of, "acme.example"); err != nil {
			t.Fatal(err)
		}
	}
	before := dns.Queries(RecordName("acme.example"))
	if _, err := r.LookUp(t.Context(), of, "acme.example"); !errors.Is(err, ErrBusy) {
		t.Errorf("the lookup above the bound: %v", err)
	}
	if after := dns.Queries(RecordName("acme.example")); after != before {
		t.Errorf("it was sent: %d queries, then %d", before, after)
	}
	of.Source = "198.51.100.0/24"
	if _, err := r.LookUp(t.Context(), of, "acme.example"); err != nil {
		t.Errorf("another network: %v", err)
	}
}
