package sequencer

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/store/people"
)

// register makes and registers the metrics.
func (w *Worker) register() {
	w.numbered = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_events_total", Help: "Events that this server numbered, by deployment and type.",
	}, []string{"deployment", "type"})
	w.Registry.MustRegister(w.numbered, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cardea_event_sequence_lag_seconds", Help: "Age of the oldest event that has no number yet, 0 if all have one.",
	}, w.lag))
}

// count counts events that got numbers. The types are those of the catalogue, so a deployment has few series.
func (w *Worker) count(deployment string, numbered []people.NumberedEvent) {
	for i := range numbered {
		w.numbered.WithLabelValues(deployment, numbered[i].Type).Inc()
	}
}

// observeOldest takes over which events have no number.
func (w *Worker) observeOldest(waiting []people.Unnumbered) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.oldest = time.Time{}
	for _, of := range waiting {
		if w.oldest.IsZero() || of.Oldest.Before(w.oldest) {
			w.oldest = of.Oldest
		}
	}
}

// lag returns the age in seconds of the oldest event without a number. It grows during a pass that hangs, and while
// passes fail.
func (w *Worker) lag() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.oldest.IsZero() {
		return 0
	}
	return max(0, w.Clock().Sub(w.oldest).Seconds())
}
