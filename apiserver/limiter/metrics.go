package limiter

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/ratelimit"
)

var (
	decisionsOfRule = prometheus.NewDesc("cardea_ratelimit_rule_decisions_total",
		"What the rules of a scheme decided, over all keys: allowed, or denied by this rule.", []string{"deployment", "scheme", "rule", "outcome"}, nil)
	counterBlocks = prometheus.NewDesc("cardea_ratelimit_counters", "Subjects that have counters in memory.", nil, nil)
	counterBytes  = prometheus.NewDesc("cardea_ratelimit_counter_bytes", "Memory of the counters.", nil, nil)
	evicted       = prometheus.NewDesc("cardea_ratelimit_evicted_total",
		"Counters that gave way for want of memory though they still counted something: raise --limiter-memory.", nil, nil)
	shared = prometheus.NewDesc("cardea_ratelimit_shared_address_total",
		"Decisions over a client address that shared one counter with others for want of memory.", nil, nil)
)

// Describe implements prometheus.Collector.
func (l *Limiter) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{decisionsOfRule, counterBlocks, counterBytes, evicted, shared} {
		to <- desc
	}
}

// Collect implements prometheus.Collector. Rules that read alike are one series: no label names a key, an address or a path. Of a
// scheme that is gone nothing is told: another may have its slug.
func (l *Limiter) Collect(to chan<- prometheus.Metric) {
	stats := l.engine.Stats()
	to <- prometheus.MustNewConstMetric(counterBlocks, prometheus.GaugeValue, float64(stats.Blocks))
	to <- prometheus.MustNewConstMetric(counterBytes, prometheus.GaugeValue, float64(stats.Bytes))
	to <- prometheus.MustNewConstMetric(evicted, prometheus.CounterValue, float64(stats.Evicted))
	to <- prometheus.MustNewConstMetric(shared, prometheus.CounterValue, float64(stats.Shared))
	l.mu.RLock()
	defer l.mu.RUnlock()
	now := l.current()
	for id, known := range l.schemes {
		if entry, found := now.BySlug(known.entry.Kind, known.entry.Deployment, known.entry.Key); !found || entry.ID != id {
			continue
		}
		for text, total := range totals(known.scheme) {
			labels := []string{known.entry.Deployment, known.entry.Key, text}
			to <- prometheus.MustNewConstMetric(decisionsOfRule, prometheus.CounterValue, total[0], append(labels, "allowed")...)
			to <- prometheus.MustNewConstMetric(decisionsOfRule, prometheus.CounterValue, total[1], append(labels, "denied")...)
		}
	}
}

// totals adds up what the rules of each text allowed and denied.
func totals(s *ratelimit.Scheme) map[string][2]float64 {
	all := map[string][2]float64{}
	rules := s.Rules()
	for i := range rules {
		allowed, denied := rules[i].Decisions.Total()
		sum := all[rules[i].Text]
		all[rules[i].Text] = [2]float64{sum[0] + float64(allowed), sum[1] + float64(denied)}
	}
	return all
}
