package upstream

import "github.com/prometheus/client_golang/prometheus"

// The kinds of requests besides those of documents.
const kindToken, kindUserinfo = "token", "userinfo"

// metrics counts requests to providers.
type metrics struct{ fetches *prometheus.CounterVec }

// newMetrics registers the metrics. held returns the memory of cached documents.
func newMetrics(registry prometheus.Registerer, held func() int64) *metrics {
	m := &metrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_upstream_fetches_total",
		Help: "Requests to identity providers by kind (discovery, jwks, saml, token, userinfo) and outcome (fetched, unreachable, refused by the egress policy, invalid, throttled).",
	}, []string{"kind", "outcome"})}
	registry.MustRegister(m.fetches, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_upstream_documents_held_bytes", Help: "Estimated memory of the cached documents of identity providers.",
	}, func() float64 { return float64(held()) }))
	return m
}

// count counts a request by its error.
func (m *metrics) count(kind string, err error) { m.fetches.WithLabelValues(kind, outcome(err)).Inc() }
