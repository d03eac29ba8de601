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
