package isolation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/test/traffic"
)

const (
	// maxResident is the most resident memory a server may have, in MiB: the memory limit in the manifests.
	maxResident = 512
	// maxRatio is the target for the ratio of the p99 of the others' requests during an attack to that without one.
	maxRatio = 2
)

// outcome is the effect of an attack on the others.
type outcome struct {
	name, note string
	sent       int64
	// requests counts the others' requests; faults describes those that failed.
	requests int
	faults   []string
	// slower is the largest ratio, over kinds of requests, of the p99 during the attack to that without one; kind is
	// that kind. Kinds with fewer than 100 requests have no ratio.
	slower   float64
	kind     string
	resident int
	rows     int64
}

// compare compares the others' requests during an attack with the p99 without one.
func (o *outcome) compare(samples []traffic.Sample, calm map[string]time.Duration) {
	o.requests = len(samples)
	for _, s := range samples {
		if s.Fault != nil {
			o.faults = append(o.faults, s.Kind+": "+s.Fault.Error())
		}
	}
	for kind, p99 := range traffic.Slowest(samples) {
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
	for _, o := range outcomes {
		if o.note != "" {
			fmt.Fprintf(&text, "\n%s: %s.\n", o.name, o.note)
		}
	}
	return text.String()
}
