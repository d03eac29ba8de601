package oauth

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/credential/jwks"
)

var (
	preparedBytes = prometheus.NewDesc("cardea_registered_clients_held_bytes",
		"Estimated memory of the clients that registered themselves and are cached in prepared form.", nil, nil)
	preparedMax = prometheus.NewDesc("cardea_registered_clients_max_bytes", "Bound of cardea_registered_clients_held_bytes.", nil, nil)
)

// Describe implements prometheus.Collector.
func (s *Server) Describe(to chan<- *prometheus.Desc) {
	to <- preparedBytes
	to <- preparedMax
	jwks.Metrics{}.Describe(to)
}

// KeySetsExhausted returns jwks.Cache.Exhausted for the key sets of clients that registered themselves.
func (s *Server) KeySetsExhausted() uint64 { return s.registeredKeys.Exhausted() }

// MetadataExhausted returns the number of refused fetches of clients' metadata and of evicted failures, because a
// deployment or a network used up its share.
func (s *Server) MetadataExhausted() uint64 { return s.documents.Exhausted() }

// Collect implements prometheus.Collector with the metrics of the caches of clients.
func (s *Server) Collect(to chan<- prometheus.Metric) {
	held, most := s.Snapshots.Current().PreparedClientBytes()
	to <- prometheus.MustNewConstMetric(preparedBytes, prometheus.GaugeValue, float64(held))
	to <- prometheus.MustNewConstMetric(preparedMax, prometheus.GaugeValue, float64(most))
	jwks.Metrics{"declared": s.Keys, "registered": s.registeredKeys}.Collect(to)
}
