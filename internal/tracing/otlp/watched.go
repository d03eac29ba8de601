package otlp

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/sdk/trace"
)

const (
	// lineEvery is the least time between two lines in the log about an unavailable collector.
	lineEvery = time.Minute
	// longestReason bounds the part of a collector's error that a line repeats, in bytes.
	longestReason = 300
)

// watched is an exporter that only logs a collector's outage and returns no error, because requests are more important
// than their spans.
type watched struct {
	trace.SpanExporter
	address string
	secrets []string
	log     logr.Logger
	clock   func() time.Time

	mu sync.Mutex
	// said is when the last line was logged. away is true while a logged outage lasts.
	said time.Time
	away bool
	// lost is the number of spans that were dropped since the last line.
	lost int
}

func newWatched(exporter trace.SpanExporter, address string, secrets []string, log logr.Logger, clock func() time.Time) *watched {
	return &watched{SpanExporter: exporter, address: address, secrets: secrets, log: log, clock: clock}
}

// ExportSpans implements trace.SpanExporter.
func (w *watched) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := w.SpanExporter.ExportSpans(ctx, spans)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.lost += len(spans)
		w.tell(err)
		return nil
	}
	if w.away {
		w.away = false
		w.log.Info("The collector of traces accepts them again", "endpoint", w.address)
	}
	return nil
}

// failed handles an error that concerns no batch.
func (w *watched) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(err)
}

func (w *watched) tell(err error) {
	now := w.clock()
	if !w.said.IsZero() && now.Sub(w.said) < lineEvery {
		return
	}
	w.log.Info("The collector of traces does not accept spans; they are dropped", "endpoint", w.address, "spans", w.lost, "reason", w.reason(err))
	w.said, w.away, w.lost = now, true, 0
}

// reason returns the text of an error without the credentials for the collector, which the collector may repeat.
func (w *watched) reason(err error) string {
	text := err.Error()
	for _, secret := range w.secrets {
		text = strings.ReplaceAll(text, secret, "***")
	}
	if len(text) > longestReason {
		text = strings.ToValidUTF8(text[:longestReason], "") + "..."
	}
	return text
}
