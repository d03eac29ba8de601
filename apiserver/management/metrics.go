package management

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what the backend listener measures.
type Metrics struct {
	requests *prometheus.HistogramVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "cardea_http_request_duration_seconds",
		Help:    "Time to answer a request of the backend API, by route pattern and status.",
		Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}, []string{"route", "status"})}
	registry.MustRegister(m.requests)
	return m
}

// observe notes one request under its route pattern: the path itself would make a series of each slug.
func (m *Metrics) observe(r *http.Request, status int, took time.Duration) {
	route := r.Pattern
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}
