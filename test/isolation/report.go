package isolation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	// maxResident is the most memory a server may hold, in MiB: the limit that the manifests give it.
	maxResident = 512
	// maxRatio is the target for how many times as long as without the attack the slowest hundredth of the others'
	// requests take.
	maxRatio = 2
	// fewest is how many requests of a kind a quantile needs.
	fewest = 100
)

// outcome is what an attack did to the others.
type outcome struct {
	name string
	sent int64
	// requests of the others, and the faults among them.
	requests int
	faults   []string
	// slower is the largest ratio of a kind's p99 to that without an attack; kind is which. Kinds with fewer than 100
	// requests have none.
	slower   float64
	kind     string
	resident int
	rows     int64
}

// quantiles returns each kind's 99th percentile, of kinds with enough requests.
func quantiles(samples []sample) map[string]time.Duration {
	took := map[string][]time.Duration{}
	for _, s := range samples {
		if s.fault == nil {
			took[s.kind] = append(took[s.kind], s.took)
		}
	}
	found := map[string]time.Duration{}
	for kind, times := range took {
		if len(times) >= fewest {
			slices.Sort(times)
			found[kind] = times[len(times)*99/100]
		}
	}
	return found
}

// compare compares the others' requests during an attack with those without one.
func (o *outcome) compare(samples []sample, calm map[string]time.Duration) {
	o.requests = len(samples)
	for _, s := range samples {
		if s.fault != nil {
			o.faults = append(o.faults, s.kind+": "+s.fault.Error())
		}
	}
	for kind, p99 := range quantiles(samples) {
		if before := calm[kind]; before > 0 && p99.Seconds()/before.Seconds() > o.slower {
			o.slower, o.kind = p99.Seconds()/before.Seconds(), kind
		}
	}
}

// table returns the report in Markdown.
func table(outcomes []outcome, calm map[string]time.Duration) string {
	var text strings.Builder
	text.WriteString("p99 without an attack:")
	for _, kind := range slices.Sorted(maps.Keys(calm)) {
		fmt.Fprintf(&text, " %s %s,", kind, calm[kind].Round(time.Millisecond))
	}
	text.WriteString("\n\n| attack | its requests | others' requests | refused or failed | p99, times that without | memory of a server | rows of the attacker |\n|---|---|---|---|---|---|---|\n")
	for _, o := range outcomes {
		slower := "-"
		if o.kind != "" {
			slower = fmt.Sprintf("%.1f (%s)", o.slower, o.kind)
			if o.slower > maxRatio {
				slower += ", above the target"
			}
		}
		fmt.Fprintf(&text, "| %s | %d | %d | %d | %s | %d MiB | %d |\n", o.name, o.sent, o.requests, len(o.faults), slower, o.resident, o.rows)
	}
	return text.String()
}
