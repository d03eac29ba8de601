package decision

import "github.com/prometheus/client_golang/prometheus"

// outcomes counts decisions.
type outcomes struct{ allowed, denied, insufficient, limited, unauthenticated, unavailable prometheus.Counter }

func newOutcomes(registry prometheus.Registerer) *outcomes {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_decisions_total", Help: "Decisions by outcome: allowed, permission_denied, insufficient_user_authentication, rate_limited, unauthenticated, unavailable.",
	}, []string{"outcome"})
	registry.MustRegister(counter)
	return &outcomes{
		allowed: counter.WithLabelValues("allowed"), denied: counter.WithLabelValues("permission_denied"),
		limited: counter.WithLabelValues("rate_limited"), unauthenticated: counter.WithLabelValues("unauthenticated"),
		insufficient: counter.WithLabelValues(string(insufficientProof)),
		unavailable:  counter.WithLabelValues("unavailable"),
	}
}
