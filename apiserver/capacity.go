package apiserver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/shares"
)

// reportShares registers the counters of the shares in docs/capacity.md that a deployment, a network or an address can
// exhaust, and the gauge of open streams to clients of agents.
func reportShares(registry prometheus.Registerer, streams func() int, exhausted map[string]func() uint64) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_agent_streams", Help: "Open streams of notifications to clients of agents.",
	}, func() float64 { return float64(streams()) }))
	for share, count := range exhausted {
		shares.ReportExhausted(registry, share, count)
	}
}
