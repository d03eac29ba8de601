// Package soak runs an install under the mixed traffic of two tenants for a long time, and reports what grows.
package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// series are the values of a measure at equal intervals.
type series []float64

// measure is a measure of an install, with how much it may grow.
type measure struct {
	// name is the measure's name with its unit.
	name string
	// ratio is how many times the level at the beginning the level at the end may be, and slack is how much more than
	// that it may be, in the unit.
	ratio, slack float64
}

// levels are the measures that must stay level. Slack is what one more batch, connection or collection cycle takes.
var levels = []measure{
	{"server memory, MiB", 1.1, 16}, {"server heap, MiB", 1.1, 16}, {"server goroutines", 1.1, 20}, {"server open files", 1.1, 20},
	{"operator memory, MiB", 1.1, 16}, {"operator goroutines", 1.1, 20},
	{"PostgreSQL connections", 1.1, 5}, {"Redis clients", 1.1, 5}, {"Redis memory, MiB", 1.1, 8},
	{"rows for 1,000 requests", 1.1, 50},
}

// slowestRatio and slowestSlack are how much the p99 of a kind of requests may grow, the slack in milliseconds: other
// work on the machine is in it.
const slowestRatio, slowestSlack = 1.5, 20

// ends returns the levels at the beginning and at the end of a series: the medians of its first and last third.
func (s series) ends() (begin, end float64) {
	third := max(1, len(s)/3)
	return median(s[:third]), median(s[len(s)-third:])
}

func median(values series) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// slope returns how much a series grows in an interval, by least squares.
func (s series) slope() float64 {
	n := float64(len(s))
	mid, mean := (n-1)/2, 0.0
	for _, value := range s {
		mean += value / n
	}
	up, down := 0.0, 0.0
	for i, value := range s {
		up += (float64(i) - mid) * (value - mean)
		down += (float64(i) - mid) * (float64(i) - mid)
	}
	if down == 0 {
		return 0
	}
	return up / down
}

// grows reports whether a series grows more than a measure may.
func (m measure) grows(s series) bool {
	begin, end := s.ends()
	return end > begin*m.ratio+m.slack
}

// minutes are the measurements of a run by the names of their measures, one value for each interval.
type minutes map[string]series

// drift returns a sentence for each measure that grows. slow are the p99 of kinds of requests, in milliseconds.
func drift(measured, slow minutes) (faults []string) {
	expect := func(m measure, s series) {
		if begin, end := s.ends(); m.grows(s) {
			faults = append(faults, fmt.Sprintf("%s grows: %.1f at the beginning, %.1f at the end", m.name, begin, end))
		}
	}
	for _, m := range levels {
		if len(measured[m.name]) == 0 {
			faults = append(faults, m.name+" was not measured")
			continue
		}
		expect(m, measured[m.name])
	}
	for _, kind := range slices.Sorted(maps.Keys(slow)) {
		expect(measure{"p99 of " + kind + ", ms", slowestRatio, slowestSlack}, slow[kind])
	}
	return faults
}

// table returns the report in Markdown: a line for each measure, with its values by interval and its slope.
func table(interval time.Duration, measured, slow minutes) string {
	var text strings.Builder
	fmt.Fprintf(&text, "| measure | begin | end | growth in an hour | every %s |\n|---|---|---|---|---|\n", interval)
	line := func(name string, s series) {
		begin, end := s.ends()
		values := make([]string, len(s))
		for i, value := range s {
			values[i] = short(value)
		}
		fmt.Fprintf(&text, "| %s | %s | %s | %s | %s |\n", name, short(begin), short(end), short(s.slope()*float64(time.Hour)/float64(interval)), strings.Join(values, " "))
	}
	for _, name := range slices.Sorted(maps.Keys(measured)) {
		line(name, measured[name])
	}
	for _, kind := range slices.Sorted(maps.Keys(slow)) {
		line("p99 of "+kind+", ms", slow[kind])
	}
	return text.String()
}

func short(value float64) string {
	if value > -100 && value < 100 {
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.0f", value)
}
