package callrecord

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// pairsMost bounds how many pairs of agent and tool of a deployment have series of their own. Those that were called
	// first have precedence.
	pairsMost = 256
	// others is the agent and the tool of the series that counts all other calls. No resource has such a name.
	others = "_other"
)

var callsTotal = prometheus.NewDesc("cardea_tool_calls_total",
	"Calls of agents' tools by their outcome, or by the decision on a call that was refused.", []string{"deployment", "agent", "tool", "outcome"}, nil)

// register makes and registers the metrics.
func (r *Recorder) register() {
	r.seconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "cardea_tool_call_seconds", Help: "Time of calls of agents' tools that ran, from the request to the result.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 600},
	})
	r.inFlight = prometheus.NewGauge(prometheus.GaugeOpts{Name: "cardea_tool_calls_in_flight", Help: "Calls of agents' tools that are running."})
	r.Registry.MustRegister(r.counters, r.seconds, r.inFlight, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_tool_call_records_waiting", Help: "Records of calls that wait to be written.",
	}, func() float64 { return float64(r.Waiting()) }))
	for reason, count := range map[string]func() uint64{
		"full": func() uint64 { return r.evicted(r.calls) }, "refused": func() uint64 { return r.evicted(r.refused) + r.notRecorded.Load() }, "duplicate": r.duplicates.Load,
	} {
		r.Registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "cardea_tool_call_records_dropped_total", ConstLabels: prometheus.Labels{"reason": reason},
			Help: "Records of calls that were not stored: of calls that ran (full) or were refused (refused) for lack of room, or because a call of another server in the same millisecond has the id (duplicate).",
		}, func() float64 { return float64(count()) }))
	}
}

// count counts a call by its outcome, or by the decision on a refused call.
func (r *Recorder) count(of *Tool, outcome string) { r.counters.add(of, outcome) }

// counters count calls, with a bounded number of series for each deployment.
type counters struct {
	served func(deployment string, agent, tool int64) bool
	mu     sync.Mutex
	of     map[string]*deploymentCounters
}

// deploymentCounters are the counters of a deployment.
type deploymentCounters struct {
	pairs map[pair]*pairCounters
	rest  map[string]float64 // by outcome
}

// pair names a tool of an agent.
type pair struct{ agent, tool string }

// pairCounters counts the calls of a pair by outcome. The ids are those of the newest call.
type pairCounters struct {
	agent, tool int64
	calls       map[string]float64
}

func newCounters(served func(deployment string, agent, tool int64) bool) *counters {
	return &counters{served: served, of: map[string]*deploymentCounters{}}
}

func (c *counters) add(of *Tool, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d := c.of[of.Deployment]
	if d == nil {
		c.prune()
		d = &deploymentCounters{pairs: map[pair]*pairCounters{}, rest: map[string]float64{}}
		c.of[of.Deployment] = d
	}
	p := pair{of.AgentName, of.Name}
	known := d.pairs[p]
	if known == nil && len(d.pairs) >= pairsMost {
		d.rest[outcome]++
		return
	}
	if known == nil {
		known = &pairCounters{calls: map[string]float64{}}
		d.pairs[p] = known
	}
	known.agent, known.tool = of.Agent, of.ID
	known.calls[outcome]++
}

// prune ends the series of deleted agents and tools, and of deployments without any.
func (c *counters) prune() {
	for name, d := range c.of {
		for p, known := range d.pairs {
			if !c.served(name, known.agent, known.tool) {
				delete(d.pairs, p)
			}
		}
		if len(d.pairs) == 0 {
			delete(c.of, name)
		}
	}
}

// Describe implements prometheus.Collector.
func (c *counters) Describe(to chan<- *prometheus.Desc) { to <- callsTotal }

// Collect implements prometheus.Collector.
func (c *counters) Collect(to chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.prune()
	for name, d := range c.of {
		for p, known := range d.pairs {
			for outcome, n := range known.calls {
				to <- prometheus.MustNewConstMetric(callsTotal, prometheus.CounterValue, n, name, p.agent, p.tool, outcome)
			}
		}
		for outcome, n := range d.rest {
			to <- prometheus.MustNewConstMetric(callsTotal, prometheus.CounterValue, n, name, others, others, outcome)
		}
	}
}
