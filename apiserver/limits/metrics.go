package limits

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
)

var (
	decisionsOfRule = prometheus.NewDesc("cardea_ratelimit_rule_decisions_total",
		"What the rules of a scheme decided, over all keys: allowed, or denied by this rule.", []string{"deployment", "scheme", "rule", "outcome"}, nil)
	counterBlocks = prometheus.NewDesc("cardea_ratelimit_counters", "Subjects that have counters in memory.", nil, nil)
	counterBytes  = prometheus.NewDesc("cardea_ratelimit_counter_bytes", "Memory of the counters.", nil, nil)
	evicted       = prometheus.NewDesc("cardea_ratelimit_evicted_total",
		"Counters that were evicted for lack of memory while they still counted something: raise --limiter-memory.", nil, nil)
	unreported = prometheus.NewDesc("cardea_ratelimit_unreported_schemes",
		"Rate-limit schemes in use without series of their rules, because their deployment has too many rules.", nil, nil)
	deletedHeld = prometheus.NewDesc("cardea_ratelimit_deleted_schemes",
		"Deleted rate-limit schemes that are kept because their counters have not expired.", nil, nil)
	shared = prometheus.NewDesc("cardea_ratelimit_shared_address_total",
		"Decisions about a client address that shared one counter with other addresses for lack of memory.", nil, nil)
)

// Exhausted returns the number of evicted counters plus the number of decisions that shared a counter. Both happen if a
// deployment has used up its share of the memory.
func (l *Limiter) Exhausted() uint64 {
	stats := l.engine.Stats()
	return stats.Evicted + stats.Shared
}

// Describe implements prometheus.Collector.
func (l *Limiter) Describe(to chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{decisionsOfRule, counterBlocks, counterBytes, evicted, shared, unreported, deletedHeld} {
		to <- desc
	}
}

// Collect implements prometheus.Collector. Rules with equal text are one series: no label contains a key, an address
// or a path. A scheme that was deleted has no series, because another may get its slug.
func (l *Limiter) Collect(to chan<- prometheus.Metric) {
	stats := l.engine.Stats()
	to <- prometheus.MustNewConstMetric(counterBlocks, prometheus.GaugeValue, float64(stats.Blocks))
	to <- prometheus.MustNewConstMetric(counterBytes, prometheus.GaugeValue, float64(stats.Bytes))
	to <- prometheus.MustNewConstMetric(evicted, prometheus.CounterValue, float64(stats.Evicted))
	to <- prometheus.MustNewConstMetric(shared, prometheus.CounterValue, float64(stats.Shared))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.retire()
	declared := make([]*active, 0, len(l.schemes))
	for _, known := range l.schemes {
		if !known.deleted {
			declared = append(declared, known)
		}
	}
	to <- prometheus.MustNewConstMetric(deletedHeld, prometheus.GaugeValue, float64(len(l.schemes)-len(declared)))
	slices.SortFunc(declared, func(a, b *active) int { return cmp.Compare(a.order, b.order) })
	rules, omitted, now := map[string]int{}, 0, l.current()
	for _, known := range declared {
		if entry, found := now.BySlug(v1alpha1.KindRateLimitScheme, known.deployment, known.slug); !found || uint64(entry.ID) != known.scheme.ID {
			continue
		}
		of := totals(known.scheme)
		if rules[known.deployment]+len(of) > rulesReported {
			omitted++
			continue
		}
		rules[known.deployment] += len(of)
		for text, total := range of {
			labels := []string{known.deployment, known.slug, text}
			to <- prometheus.MustNewConstMetric(decisionsOfRule, prometheus.CounterValue, total[0], append(labels, "allowed")...)
			to <- prometheus.MustNewConstMetric(decisionsOfRule, prometheus.CounterValue, total[1], append(labels, "denied")...)
		}
	}
	to <- prometheus.MustNewConstMetric(unreported, prometheus.GaugeValue, float64(omitted))
}

// rulesReported bounds how many rules of a deployment have their own series. The schemes that were used first have
// precedence.
const rulesReported = 256

// totals adds up the allowed and denied requests of the rules, by text.
func totals(s *engine.Scheme) map[string][2]float64 {
	all := map[string][2]float64{}
	rules := s.Rules()
	for i := range rules {
		allowed, denied := rules[i].Decisions.Total()
		sum := all[rules[i].Text]
		all[rules[i].Text] = [2]float64{sum[0] + float64(allowed), sum[1] + float64(denied)}
	}
	return all
}
