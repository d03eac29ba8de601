package engine

import (
	"context"
	"errors"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/trace"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// reconcileTraced runs a reconcile in a new trace. The trace has no link to the write that caused the reconcile,
// because there may be many such writes.
func (r *reconciler) reconcileTraced(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	plain := log.FromContext(ctx)
	ctx, span := r.tracer.Begin(ctx, "reconcile "+r.kind.name(), trace.WithNewRoot(), trace.WithAttributes(
		tracing.Kind.String(r.kind.name()), tracing.Namespace.String(req.Namespace), tracing.Name.String(req.Name)))
	result, err := r.reconcile(withLogger(ctx, plain), req, plain)
	tracing.Fail(span, err)
	return result, err
}

// traced runs a step within a span of its own. A wait for the user or for another resource is no failure.
func (r *reconciler) traced(ctx context.Context, s *state, step string, run func(context.Context) error) error {
	if !r.tracer.On() {
		return run(ctx)
	}
	ctx, span := r.tracer.Child(ctx, step)
	err := run(withLogger(ctx, s.plain))
	tracing.Fail(span, failure(err))
	return err
}

// failure returns err unless the user can fix it or it is a wait.
func failure(err error) error {
	var terminal *TerminalError
	var waiting *WaitingError
	if errors.As(err, &terminal) || errors.As(err, &waiting) {
		return nil
	}
	return err
}

// withLogger returns ctx with a logger that adds the ids of ctx's span to plain, and not those of the enclosing span.
func withLogger(ctx context.Context, plain logr.Logger) context.Context {
	return log.IntoContext(ctx, tracing.Logger(ctx, plain))
}
