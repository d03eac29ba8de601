package servertest

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/trace"

	"github.com/cardea-iam/cardea/internal/testing/collector"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// Collect returns a collector and a tracer. The collector has each span as soon as the span ends. options change how
// spans are made.
func Collect(t testing.TB, options ...trace.TracerProviderOption) (*collector.Collector, *tracing.Tracer) {
	t.Helper()
	c, err := collector.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	exporter, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(c.HTTP()+collector.Path))
	if err != nil {
		t.Fatal(err)
	}
	provider := trace.NewTracerProvider(append(options, trace.WithSyncer(exporter))...)
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	return c, tracing.New(provider)
}
