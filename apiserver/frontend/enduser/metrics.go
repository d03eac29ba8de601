package enduser

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// Metrics are the metrics of the end-user listener.
type Metrics struct {
	*httpapi.Metrics
	compared, verified, exhausted *prometheus.CounterVec
}

// NewMetrics registers the metrics.
func NewMetrics(registry prometheus.Registerer, tracer *tracing.Tracer) *Metrics {
	m := &Metrics{
		Metrics: httpapi.NewMetrics(registry, "end-user", tracer),
		compared: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cardea_codes_compared_total", Help: "Codes that were compared, by purpose and result (right, wrong).",
		}, []string{"purpose", "result"}),
		verified: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cardea_phones_verified_total", Help: "Phone numbers that were verified, by deployment and country. Compare with cardea_messages_total to see how many texts lead to a verification.",
		}, []string{"deployment", "region"}),
		exhausted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "cardea_sms_budget_refusals_total", Help: "Texts refused because the daily budget of a deployment, or of a country in it, was used up. Alert on any.",
		}, []string{"deployment", "region"}),
	}
	registry.MustRegister(m.compared, m.verified, m.exhausted)
	return m
}

// Compared counts a comparison of an entered code.
func (m *Metrics) Compared(purpose, result string) { m.compared.WithLabelValues(purpose, result).Inc() }

// Verified counts a verified phone number.
func (m *Metrics) Verified(deployment, region string) {
	m.verified.WithLabelValues(deployment, region).Inc()
}

// BudgetExhausted counts a text message that was refused because the daily budget was used up.
func (m *Metrics) BudgetExhausted(deployment, region string) {
	m.exhausted.WithLabelValues(deployment, region).Inc()
}
