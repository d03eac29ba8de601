package decision

import (
	"context"
	"net/http"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/metadata"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// decideTraced is decide within a span. Method, path, credential and address are the client's data, so the span does
// not have them as attributes.
func (a *API) decideTraced(ctx context.Context, q *question, v *decision) error {
	ctx, span := a.Tracer.Child(ctx, "decision", trace.WithAttributes(tracing.Credential.String(q.credentialKind())))
	defer span.End()
	err := a.evaluate(ctx, q, v)
	span.SetAttributes(tracing.Outcome.String(outcome(v, err)))
	if err != nil {
		if apierror.Of(err).Status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, "")
		}
		return err
	}
	span.SetAttributes(tracing.Deployment.String(v.subject.principal.Deployment.Deployment))
	return nil
}

// credentialKind returns the kind of a question's credential.
func (q *question) credentialKind() string {
	if q.credential == "" {
		return "none"
	}
	return q.kind.String()
}

// outcome returns the result of a decision as one word.
func outcome(v *decision, err error) string {
	if err == nil {
		if v.allowed {
			return "allowed"
		}
		return string(v.reason)
	}
	switch status := apierror.Of(err).Status; {
	case status >= http.StatusInternalServerError:
		return "unavailable"
	case status == http.StatusUnauthorized, status == http.StatusTooManyRequests:
		return "unauthenticated"
	}
	return "malformed"
}

// methodEnvoy is the gRPC method of decisions for Envoy, as spans name it.
const methodEnvoy = "envoy.service.auth.v3.Authorization/Check"

// traceEnvoy begins the span of Envoy's call. If Envoy is a trusted proxy, the span continues Envoy's trace.
func (e *extAuthz) traceEnvoy(ctx context.Context) (context.Context, trace.Span) {
	sent, _ := metadata.FromIncomingContext(ctx)
	ctx, options := tracing.Incoming(ctx, tracing.Header(sent), e.api.Authenticator.Proxies.Trust(peerAddress(ctx)))
	return e.api.Tracer.Begin(ctx, methodEnvoy, append(options, trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(tracing.RPC, tracing.Listener.String("envoy")))...)
}
