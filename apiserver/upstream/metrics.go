package upstream

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/connection/saml"
)

// The kinds of requests besides those of documents.
const kindToken, kindUserinfo = "token", "userinfo"

// metrics counts requests to providers, and has the expiry of certificates.
type metrics struct {
	fetches *prometheus.CounterVec
	expiry  *prometheus.GaugeVec

	mu sync.Mutex
	// known are the slugs of the connections in expiry, by deployment.
	known map[string]map[string]bool
}

// newMetrics registers the metrics. held returns the memory of cached documents.
func newMetrics(registry prometheus.Registerer, held func() int64) *metrics {
	m := &metrics{known: map[string]map[string]bool{}, fetches: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_upstream_fetches_total",
		Help: "Requests to identity providers by kind (discovery, jwks, saml, token, userinfo) and outcome (fetched, unreachable, refused by the egress policy, invalid, throttled).",
	}, []string{"kind", "outcome"}), expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "cardea_connection_certificate_expiry_timestamp_seconds",
		Help: "When the first certificate of the provider of a declared connection of type SAML expires, in seconds since 1970.",
	}, []string{"deployment", "connection"})}
	registry.MustRegister(m.fetches, m.expiry, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_upstream_documents_held_bytes", Help: "Estimated memory of the cached documents of identity providers.",
	}, func() float64 { return float64(held()) }))
	return m
}

// maxExpiries is how many connections of a deployment have the expiry of their certificates in the metrics.
const maxExpiries = 100

// expires records the metadata of a declared connection.
func (m *metrics) expires(c Connection, metadata *saml.Metadata) {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := m.known[c.Deployment]
	if of == nil {
		of = map[string]bool{}
		m.known[c.Deployment] = of
	}
	if !of[c.Slug] && len(of) >= maxExpiries {
		return
	}
	of[c.Slug] = true
	m.expiry.WithLabelValues(c.Deployment, c.Slug).Set(float64(metadata.CertificateExpiry().Unix()))
}

// forget removes what is recorded of a declared connection.
func (m *metrics) forget(c Connection) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if delete(m.known[c.Deployment], c.Slug); len(m.known[c.Deployment]) == 0 {
		delete(m.known, c.Deployment)
	}
	m.expiry.DeleteLabelValues(c.Deployment, c.Slug)
}

// count counts a request by its error.
func (m *metrics) count(kind string, err error) { m.fetches.WithLabelValues(kind, outcome(err)).Inc() }
