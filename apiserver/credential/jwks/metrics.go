package jwks

import "github.com/prometheus/client_golang/prometheus"

// Metrics collects the metrics of a server's caches. The key is the value of the label "keys": "declared" or
// "registered".
type Metrics map[string]*Cache

var (
	heldBytes = prometheus.NewDesc("cardea_key_sets_held_bytes",
		"Estimated memory of the cached key sets, of declared issuers and clients, and of clients that registered themselves.", []string{"keys"}, nil)
	maxBytes = prometheus.NewDesc("cardea_key_sets_max_bytes", "Bound of cardea_key_sets_held_bytes.", []string{"keys"}, nil)
	fetches  = prometheus.NewDesc("cardea_key_set_fetches_total",
		"Fetches of key sets by outcome: fetched, failed, or refused before they began because the network or the deployment asked for too many.",
		[]string{"keys", "outcome"}, nil)
)

// Exhausted returns how many key sets were evicted and how many fetches were refused, because a deployment or a network
// used up its share.
func (c *Cache) Exhausted() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sets.Evicted() + c.refused
}

// Describe implements prometheus.Collector.
func (Metrics) Describe(to chan<- *prometheus.Desc) { to <- heldBytes; to <- maxBytes; to <- fetches }

// Collect implements prometheus.Collector. Collecting also drops the sets that were not used for an hour.
func (m Metrics) Collect(to chan<- prometheus.Metric) {
	for name, c := range m {
		c.mu.Lock()
		c.sweep(c.clock())
		_, bytes := c.sets.Size()
		outcomes := map[string]uint64{"fetched": c.fetched, "failed": c.failed, "refused": c.refused}
		c.mu.Unlock()
		to <- prometheus.MustNewConstMetric(heldBytes, prometheus.GaugeValue, float64(bytes), name)
		to <- prometheus.MustNewConstMetric(maxBytes, prometheus.GaugeValue, float64(c.limits.TotalBytes), name)
		for outcome, count := range outcomes {
			to <- prometheus.MustNewConstMetric(fetches, prometheus.CounterValue, float64(count), name, outcome)
		}
	}
}
