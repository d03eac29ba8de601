package tracing

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// Transport returns a round tripper that creates a span for each request within a span, named after the method and the
// peer, and sends its trace context. Without a tracer it returns base.
func (t *Tracer) Transport(base http.RoundTripper, whom string) http.RoundTripper {
	if t == nil {
		return base
	}
	return &transport{tracer: t, base: base, whom: whom}
}

type transport struct {
	tracer *Tracer
	base   http.RoundTripper
	whom   string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	method := Method(r.Method)
	ctx, span := t.tracer.Child(r.Context(), method.Value.AsString()+" "+t.whom, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(method))
	defer span.End()
	if Parent(ctx) == "" {
		return t.base.RoundTrip(r)
	}
	r = r.Clone(ctx) // a RoundTripper leaves the request as it is
	Outgoing(r)
	answer, err := t.base.RoundTrip(r)
	if err != nil {
		span.SetStatus(codes.Error, "")
		return answer, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", answer.StatusCode))
	if answer.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, "")
	}
	return answer, nil
}

// WrappedRoundTripper lets client-go reach the transport below, whose connections it closes when credentials change.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.base }
