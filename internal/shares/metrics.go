package shares

import "github.com/prometheus/client_golang/prometheus"

const (
	exhaustedName = "cardea_share_exhausted_total"
	exhaustedHelp = "How often a deployment, a network or an address reached its share, so that one of its own entries was dropped or one of its own requests was refused."
)

// ReportExhausted registers the counter of a share, as docs/capacity.md names it.
func ReportExhausted(registry prometheus.Registerer, share string, count func() uint64) {
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: exhaustedName, Help: exhaustedHelp, ConstLabels: prometheus.Labels{"share": share},
	}, func() float64 { return float64(count()) }))
}
