package tracing

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// W3C's names of trace context.
const (
	headerParent = "traceparent"
	headerState  = "tracestate"
)

// format reads and writes W3C trace context.
var format propagation.TraceContext

// Incoming returns the start options of a request's span, from the trace context in its header. A trusted sender's
// trace is continued. For other senders, a new trace starts with a link to theirs, without their state. Otherwise
// unknown clients could choose which requests are sampled, and in which trace.
func Incoming(ctx context.Context, header propagation.TextMapCarrier, trusted bool) (context.Context, []trace.SpanStartOption) {
	said := format.Extract(ctx, header)
	remote := trace.SpanContextFromContext(said)
	switch {
	case !remote.IsValid():
		return ctx, nil
	case trusted:
		return said, nil
	}
	return ctx, []trace.SpanStartOption{trace.WithLinks(trace.Link{SpanContext: remote.WithTraceState(trace.TraceState{})})}
}

// Header reads the trace context of an HTTP request, or of the metadata of a gRPC call. More than one traceparent
// counts as none.
type Header http.Header

// Get implements propagation.TextMapCarrier.
func (h Header) Get(name string) string {
	canonical := http.CanonicalHeaderKey(name)
	for _, key := range [...]string{canonical, name} { // metadata of gRPC is in lower case
		values := h[key]
		switch {
		case len(values) == 0:
		case name == headerState || len(values) == 1:
			return joined(values)
		}
	}
	return ""
}

func joined(values []string) string {
	text := values[0]
	for _, more := range values[1:] {
		text += "," + more
	}
	return text
}

// Set implements propagation.TextMapCarrier.
func (h Header) Set(name, value string) { http.Header(h).Set(name, value) }

// Keys implements propagation.TextMapCarrier.
func (h Header) Keys() []string { return []string{headerParent, headerState} }

// Parent is the traceparent of the span in ctx, "" where there is none.
func Parent(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	header := propagation.MapCarrier{}
	format.Inject(ctx, header)
	return header[headerParent]
}

// LinkTo returns the link to the span that a traceparent of Cardea names, and no link if the traceparent is invalid.
func LinkTo(parent string) []trace.SpanStartOption {
	_, options := Incoming(context.Background(), propagation.MapCarrier{headerParent: parent}, false)
	return options
}

// Outgoing writes the span of an outgoing request's context into its traceparent. It does not send the tracestate,
// which is only for Cardea and its collectors: the called servers belong to tenants.
func Outgoing(r *http.Request) {
	if parent := Parent(r.Context()); parent != "" {
		r.Header.Set(headerParent, parent)
	}
}
