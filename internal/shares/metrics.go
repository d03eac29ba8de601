package shares

import "github.com/prometheus/client_golang/prometheus"

const (
	exhaustedName = "cardea_share_exhausted_total"
	exhaustedHelp = "How often a deployment, a network or an address was at its share: an entry of its own was dropped, or a request of its own refused."
)

// ReportExhausted registers the counter of a share, as docs/capacity.md names it.
func ReportExhausted(registry prometheus.Registerer, share string, count func() uint64) {
	registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: exhaustedName, Help: exhaustedHelp, ConstLabels: prometheus.Labels{"share": share},
	}, func() float64 { return float64(count()) }))
}
