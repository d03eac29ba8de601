package httpapi

import (
	"net/http"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// Traced begins the span of a request to a listener, and returns the request within it. The span's name is the method
// until Observe knows the route. trusted reports whether the client's trace continues. The caller ends the span.
func Traced(tracer *tracing.Tracer, r *http.Request, listener string, trusted bool) (*http.Request, trace.Span) {
	method := tracing.Method(r.Method)
	ctx, options := tracing.Incoming(r.Context(), tracing.Header(r.Header), trusted)
	ctx, span := tracer.Begin(ctx, spanName(method, ""),
		append(options, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(method, tracing.Listener.String(listener)))...)
	return r.WithContext(ctx), span
}

// nameSpan sets the name of a request's span, and its status.
func nameSpan(r *http.Request, status int) {
	span := trace.SpanFromContext(r.Context())
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.Int("http.response.status_code", status))
	if r.Pattern != "" { // "METHOD /path" or "/path"
		path := r.Pattern[strings.IndexByte(r.Pattern, '/'):]
		span.SetName(spanName(tracing.Method(r.Method), path))
		span.SetAttributes(attribute.String("http.route", path))
	}
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
}

// spanName returns OpenTelemetry's name of a request: its method, or HTTP for an unknown one, and its route.
func spanName(method attribute.KeyValue, path string) string {
	name := method.Value.AsString()
	if name == "_OTHER" {
		name = "HTTP"
	}
	if path == "" {
		return name
	}
	return name + " " + path
}
