package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// buckets are the bounds of the histogram of response times, in seconds. There are few, because each adds a series to
// every route. An alert depends on the bound of 1 s.
var buckets = []float64{.0005, .0025, .01, .05, .25, 1, 5}

// unknownRoute is the label of requests without an expected route.
const unknownRoute = "none"

// Metrics are the metrics of a listener.
type Metrics struct {
	durations *prometheus.HistogramVec
	requests  *prometheus.CounterVec
	// routes are the series of the expected patterns; unknown is that of all other requests.
	routes  map[string]*measured
	unknown *measured
	// traced reports whether Observe also updates the span in the request's context. Without tracing, Observe saves the
	// search for a span.
	traced bool
}

// measured are the series of one route. They are created at its first request, because most routes are never used.
type measured struct {
	route     string
	once      sync.Once
	durations prometheus.Observer
	// succeeded counts requests with status 200, without a lookup for each of them.
	succeeded prometheus.Counter
}

// NewMetrics registers the metrics of a listener. With a tracer, Observe also sets the route and status of the
// requests' spans.
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

// Expect prepares a route pattern. The pattern must be a constant of the program, because each has its own series. All
// routes are expected before the first request.
func (m *Metrics) Expect(pattern string) { m.routes[pattern] = &measured{route: pattern} }

// Observe records one request under its route pattern, or as "none" if the pattern was not expected, so that a client
// cannot create series with paths.
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
