package provisioning

import (
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count the requests of directories.
type Metrics struct{ requests *prometheus.CounterVec }

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{requests: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_scim_requests_total", Help: "Requests of directories with a valid token, by deployment, resource, method and status.",
	}, []string{"deployment", "resource", "method", "status"})}
	registry.MustRegister(m.requests)
	return m
}

// observe counts a request by the pattern of its route.
func (m *Metrics) observe(deployment, pattern, method string, status int) {
	resource := "none"
	if _, path, found := strings.Cut(pattern, prefix+"{directory}/"); found {
		resource, _, _ = strings.Cut(path, "/")
	} else {
		method = "none" // a client must not create series with methods
	}
	m.requests.WithLabelValues(deployment, resource, method, strconv.Itoa(status)).Inc()
}
