package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// buckets bound the response times, in seconds. Each is a series of every route, so there are few. An alert compares
// with 1.
var buckets = []float64{.0005, .0025, .01, .05, .25, 1, 5}

// unknownRoute is the label of requests without an expected route.
const unknownRoute = "none"

// Metrics are the metrics of a listener.
type Metrics struct {
	durations *prometheus.HistogramVec
	requests  *prometheus.CounterVec
	// routes are the expected patterns; unknown is that of all other requests.
	routes  map[string]*measured
	unknown *measured
	// traced reports whether the span in a request's context is also updated, because the search for one costs time.
	traced bool
}

// measured are the series of one route. They are created at its first request, because most routes are never used.
type measured struct {
	route     string
	once      sync.Once
	durations prometheus.Observer
	// status 200 without a lookup for every request
	succeeded prometheus.Counter
}

// NewMetrics registers the metrics of a listener. With a tracer, the spans of requests get their route and status here.
func NewMetrics(registry prometheus.Registerer, listener string, tracer *tracing.Tracer) *Metrics {
	labels := prometheus.Labels{"listener": listener}
	m := &Metrics{
		traced: tracer.On(), routes: map[string]*measured{}, unknown: &measured{route: unknownRoute},
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "cardea_http_request_duration_seconds", Help: "Time to answer a request, by listener and route pattern.", ConstLabels: labels, Buckets: buckets,
		}, []string{"route"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cardea_http_requests_total", Help: "Requests by listener, route pattern and status.", ConstLabels: labels,
		}, []string{"route", "status"}),
	}
	registry.MustRegister(m.durations, m.requests)
	return m
}

// Expect prepares a route pattern, which must be the program's own: each has series. All routes are expected before the
// first request.
func (m *Metrics) Expect(pattern string) { m.routes[pattern] = &measured{route: pattern} }

// Observe records one request under its route pattern, or as "none" if the pattern was not expected, so that no path
// makes series.
func (m *Metrics) Observe(r *http.Request, status int, took time.Duration) {
	if m.traced {
		nameSpan(r, status)
	}
	series, found := m.routes[r.Pattern]
	if !found {
		series = m.unknown
	}
	series.once.Do(func() {
		series.durations = m.durations.WithLabelValues(series.route)
		series.succeeded = m.requests.WithLabelValues(series.route, strconv.Itoa(http.StatusOK))
	})
	series.durations.Observe(took.Seconds())
	if status == http.StatusOK {
		series.succeeded.Inc()
		return
	}
	m.requests.WithLabelValues(series.route, strconv.Itoa(status)).Inc()
}
