package apiserver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/shares"
)

// reportShares registers the counters of the shares in docs/capacity.md that a deployment, a network or an address can
// exhaust.
func reportShares(registry prometheus.Registerer, exhausted map[string]func() uint64) {
	for share, count := range exhausted {
		shares.ReportExhausted(registry, share, count)
	}
}

// reportStreams registers the gauge of open streams to clients of agents.
func reportStreams(registry prometheus.Registerer, open func() int) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_agent_streams", Help: "Open streams of notifications to clients of agents.",
	}, func() float64 { return float64(open()) }))
}
