package route

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// Metrics are what a listener measures.
type Metrics struct {
	requests *prometheus.HistogramVec
	// succeeded is the series of each route's status 200, which is not looked up for every request.
	succeeded map[string]prometheus.Observer
	// traced tells that the span in a request's context is to be told as well: looking for one costs.
	traced bool
}

// NewMetrics registers the metrics of a listener. With a tracer the spans of requests get their route and status where these are noted.
func NewMetrics(registry prometheus.Registerer, listener string, tracer *tracing.Tracer) *Metrics {
	m := &Metrics{traced: tracer.On(), succeeded: map[string]prometheus.Observer{}, requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:        "cardea_http_request_duration_seconds",
		Help:        "Time to answer a request, by listener, route pattern and status.",
		ConstLabels: prometheus.Labels{"listener": listener},
		Buckets:     []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
	}, []string{"route", "status"})}
	registry.MustRegister(m.requests)
	return m
}

// Expect prepares the series of a route pattern. All routes are expected before the first request.
func (m *Metrics) Expect(pattern string) {
	m.succeeded[pattern] = m.requests.WithLabelValues(pattern, strconv.Itoa(http.StatusOK))
}

// Observe notes one request under its route pattern: the path itself would make a series of each slug.
func (m *Metrics) Observe(r *http.Request, status int, took time.Duration) {
	if m.traced {
		nameSpan(r, status)
	}
	if series, found := m.succeeded[r.Pattern]; found && status == http.StatusOK {
		series.Observe(took.Seconds())
		return
	}
	route := r.Pattern
	if route == "" {
		route = "none"
	}
	m.requests.WithLabelValues(route, strconv.Itoa(status)).Observe(took.Seconds())
}
