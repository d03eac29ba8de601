package otlp

import (
	"testing"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// someSpans is one span that ended.
func someSpans(t *testing.T) []trace.ReadOnlySpan {
	t.Helper()
	return tracetest.SpanStubs{{Name: "one"}}.Snapshots()
}
