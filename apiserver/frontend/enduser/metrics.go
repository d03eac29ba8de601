package enduser

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// Metrics are the metrics of the end-user listener.
type Metrics struct {
	*httpapi.Metrics
	compared, verified, exhausted          *prometheus.CounterVec
	factors, ceremonies, refusals, changes *prometheus.CounterVec
	sso, ssoFailures                       *prometheus.CounterVec
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
	m.factors = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_second_factors_total", Help: "Codes of second factors that were compared, by method and result (right, wrong, used), and codes refused at a limit without a comparison (locked).",
	}, []string{"method", "result"})
	m.ceremonies = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_passkey_ceremonies_total", Help: "Answers of passkeys that were verified, by ceremony and result (ok, challenge, origin, rp, user, signature, counter).",
	}, []string{"ceremony", "result"})
	m.refusals = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_assurance_refusals_total", Help: "Requests refused because the sign-in had proven too little, by the source of the requirement and the required level.",
	}, []string{"by", "required"})
	m.changes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_factor_changes_total", Help: "Factors that users added, and that users and backends removed.",
	}, []string{"factor", "change"})
	m.sso = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_sso_total", Help: "Responses of identity providers, by deployment, type of the connection and outcome (signed_in, created, linked, reauthenticated, pending, refused, unavailable).",
	}, []string{"deployment", "type", "outcome"})
	m.ssoFailures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_sso_failures_total", Help: "Refused responses of identity providers, by deployment, type of the connection and reason.",
	}, []string{"deployment", "type", "reason"})
	registry.MustRegister(m.sso, m.ssoFailures, m.compared, m.verified, m.exhausted, m.factors, m.ceremonies, m.refusals, m.changes)
	return m
}

// Factor counts a comparison of a second factor's code.
func (m *Metrics) Factor(method, result string) { m.factors.WithLabelValues(method, result).Inc() }

// Ceremony counts a verification of a passkey's answer.
func (m *Metrics) Ceremony(ceremony, result string) {
	m.ceremonies.WithLabelValues(ceremony, result).Inc()
}

// AssuranceRefused counts a request that was refused because the sign-in had proven too little.
func (m *Metrics) AssuranceRefused(by, required string) {
	m.refusals.WithLabelValues(by, required).Inc()
}

// Changed counts an addition or removal of a factor.
func (m *Metrics) Changed(factor, change string) { m.changes.WithLabelValues(factor, change).Inc() }

// Removed counts removals of factors by the tenant's help desk.
func (m *Metrics) Removed(factor string, n int) {
	m.changes.WithLabelValues(factor, "removed").Add(float64(n))
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

// SSO counts a response of a connection's identity provider.
func (m *Metrics) SSO(deployment, kind, outcome string) {
	m.sso.WithLabelValues(deployment, kind, outcome).Inc()
}

// SSOFailed counts a refused response. The reasons are fixed words and error codes.
func (m *Metrics) SSOFailed(deployment, kind, reason string) {
	m.ssoFailures.WithLabelValues(deployment, kind, reason).Inc()
}
