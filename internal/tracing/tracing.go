// Package tracing creates the spans of operator and server. A nil Tracer creates none: performance-critical callers
// check On before they collect attributes. This package and the callers that start spans decide their contents. Names
// are constants and route patterns. Attributes have a few known values, or are names of Kubernetes objects. A span
// never has a path, a query, a header, a body, an address or the text of an error.
package tracing

import (
	"context"
	"net/http"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// scope is the instrumentation scope of the spans.
const scope = "github.com/cardea-iam/cardea"

// The attributes of spans. Those that begin with "cardea." are Cardea's own; the others are OpenTelemetry's.
const (
	// Listener is which of the server's listeners took a request.
	Listener = attribute.Key("cardea.listener")
	// Deployment is the "namespace/name" of an IdentityDeployment.
	Deployment = attribute.Key("cardea.deployment")
	// Outcome is how a decision ended.
	Outcome = attribute.Key("cardea.decision.outcome")
	// Credential is the kind of credential that a decision was asked about.
	Credential = attribute.Key("cardea.decision.credential")
	// Transaction is read or write.
	Transaction = attribute.Key("cardea.store.transaction")
	// Engine is the database behind the store, as OpenTelemetry names it.
	Engine = attribute.Key("db.system.name")
	// Kind, Namespace and Name are the resource that is reconciled.
	Kind      = attribute.Key("cardea.resource.kind")
	Namespace = attribute.Key("k8s.namespace.name")
	Name      = attribute.Key("cardea.resource.name")
	// Channel, State and Tries are attributes of a message in the outbox.
	Channel = attribute.Key("cardea.message.channel")
	State   = attribute.Key("cardea.message.state")
	Tries   = attribute.Key("cardea.message.tries")
)

// RPC is the attribute of spans of gRPC calls.
var RPC = attribute.String("rpc.system.name", "grpc")

// Tracer makes spans; a nil one makes none.
type Tracer struct{ tracer trace.Tracer }

// New returns a Tracer over a provider.
func New(provider trace.TracerProvider) *Tracer { return &Tracer{provider.Tracer(scope)} }

// On reports whether there may be spans.
func (t *Tracer) On() bool { return t != nil }

// Begin begins a span that may be the root of a trace, such as that of a request or of a reconcile. It is a child of
// the span in ctx, if there is one. The caller ends it.
func (t *Tracer) Begin(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if t == nil {
		return ctx, none
	}
	return t.tracer.Start(ctx, name, options...)
}

// Child begins a child of the span in ctx if that span is recorded. Otherwise it returns a span that records nothing,
// so that periodic work, such as polling the feed, creates no traces. The caller ends the span.
func (t *Tracer) Child(ctx context.Context, name string, options ...trace.SpanStartOption) (context.Context, trace.Span) {
	if t == nil || !trace.SpanFromContext(ctx).IsRecording() {
		return ctx, none
	}
	return t.tracer.Start(ctx, name, options...)
}

// none is a span that records nothing.
var none = trace.SpanFromContext(context.Background())

// Fail ends a span, and marks it as failed if err is not nil. It does not record the text of the error, which may
// contain data that a span must not have.
func Fail(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// Logger returns a logger whose lines carry the ids of the span in ctx, if there is one.
func Logger(ctx context.Context, log logr.Logger) logr.Logger {
	in := trace.SpanContextFromContext(ctx)
	if !in.IsValid() {
		return log
	}
	return log.WithValues("trace_id", in.TraceID().String(), "span_id", in.SpanID().String())
}

// methods are the HTTP methods that a span may contain. Any other method is text that the client chose.
var methods = map[string]bool{
	http.MethodGet: true, http.MethodHead: true, http.MethodPost: true, http.MethodPut: true, http.MethodPatch: true, http.MethodDelete: true,
	http.MethodConnect: true, http.MethodOptions: true, http.MethodTrace: true,
}

// Method is an HTTP method as spans name it: _OTHER for an unknown method.
func Method(method string) attribute.KeyValue {
	if !methods[method] {
		method = "_OTHER"
	}
	return attribute.String("http.request.method", method)
}
