package webhooks

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// The outcomes of requests in metrics.
const (
	outcomeDelivered = "delivered"
	outcomeRetried   = "retried"
	outcomeFailed    = "failed"
)

var (
	failingSeconds = prometheus.NewDesc("cardea_webhook_failing_seconds",
		"How long no request to a webhook endpoint has succeeded, for endpoints that fail.", []string{"deployment", "endpoint"}, nil)
	disabledEndpoint = prometheus.NewDesc("cardea_webhook_disabled", "1 for a webhook endpoint that is disabled.", []string{"deployment", "endpoint"}, nil)
)

// metrics are those of a dispatcher.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  prometheus.Histogram
	clock    func() time.Time

	mu sync.Mutex
	// troubled are the declared endpoints that failed or were disabled at the last comparison, with their names.
	troubled []troubled
	// counted are the endpoints that have counts.
	counted map[counted]bool
}

// counted is an endpoint that has counts, by its deployment and its name. The name of one that is not declared is "".
type counted struct{ deployment, endpoint string }

type troubled struct {
	people.WebhookRef
	name string
}

func newMetrics(registry prometheus.Registerer, clock func() time.Time) *metrics {
	m := &metrics{
		clock: clock, counted: map[counted]bool{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cardea_webhook_requests_total", Help: "Requests to webhook endpoints by outcome: delivered, retried later, or failed for good.",
		}, []string{"deployment", "endpoint", "outcome"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "cardea_webhook_request_seconds", Help: "Duration of requests to webhook endpoints.", Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30},
		}),
	}
	if registry != nil {
		registry.MustRegister(m.requests, m.seconds, m)
	}
	return m
}

// ended counts a request.
func (m *metrics) ended(to counted, outcome string, lasted time.Duration) {
	m.mu.Lock()
	m.counted[to] = true
	m.mu.Unlock()
	m.requests.WithLabelValues(to.deployment, to.endpoint, outcome).Inc()
	m.seconds.Observe(lasted.Seconds())
}

// compared keeps the endpoints in trouble of a comparison, and forgets the counts of endpoints that are not declared.
func (m *metrics) compared(all []troubled, current *snapshot.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.troubled = all
	for one := range m.counted {
		namespace, _, _ := strings.Cut(one.deployment, "/")
		e, found := current.Get(store.Identity{Kind: v1alpha1.KindWebhookEndpoint, Namespace: namespace, Name: one.endpoint})
		if !found || e.Deployment != one.deployment {
			m.requests.DeletePartialMatch(prometheus.Labels{"deployment": one.deployment, "endpoint": one.endpoint})
			delete(m.counted, one)
		}
	}
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(to chan<- *prometheus.Desc) { to <- failingSeconds; to <- disabledEndpoint }

// Collect implements prometheus.Collector.
func (m *metrics) Collect(to chan<- prometheus.Metric) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	for _, one := range m.troubled {
		if one.Disabled {
			to <- prometheus.MustNewConstMetric(disabledEndpoint, prometheus.GaugeValue, 1, one.Deployment, one.name)
		} else {
			to <- prometheus.MustNewConstMetric(failingSeconds, prometheus.GaugeValue, now.Sub(one.FailingSince).Seconds(), one.Deployment, one.name)
		}
	}
}
