package webhooks

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
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
	// counted are the deployments that have counts.
	counted map[string]bool
}

type troubled struct {
	people.WebhookRef
	name string
}

func newMetrics(registry prometheus.Registerer, clock func() time.Time) *metrics {
	m := &metrics{
		clock: clock, counted: map[string]bool{},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cardea_webhook_requests_total", Help: "Requests to webhook endpoints by deployment and outcome: delivered, retried later, or failed for good.",
		}, []string{"deployment", "outcome"}),
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
func (m *metrics) ended(deployment, outcome string, lasted time.Duration) {
	m.mu.Lock()
	m.counted[deployment] = true
	m.mu.Unlock()
	m.requests.WithLabelValues(deployment, outcome).Inc()
	m.seconds.Observe(lasted.Seconds())
}

// compared keeps the endpoints in trouble of a comparison, and forgets the counts of deployments that are not declared.
func (m *metrics) compared(all []troubled, current *snapshot.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.troubled = all
	for deployment := range m.counted {
		if _, found := current.Deployment(deployment); !found {
			m.requests.DeletePartialMatch(prometheus.Labels{"deployment": deployment})
			delete(m.counted, deployment)
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
