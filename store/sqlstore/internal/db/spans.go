package db

import (
	"context"
	"database/sql"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
)

// transaction is the purpose of a transaction, for its span.
type transaction string

const (
	reading transaction = "read"
	writing transaction = "write"
)

// span starts the span of a transaction. The span has the engine and the transaction's purpose as attributes, and
// neither statements nor parameters. Each attempt of a transaction that the engine undoes has its own span.
func (d Dialect) span(ctx context.Context, kind transaction) (context.Context, trace.Span) {
	if !d.tracer.On() {
		return d.tracer.Child(ctx, "") // no span, and no cost for attributes
	}
	return d.tracer.Child(ctx, "store "+string(kind), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(tracing.Engine.String(d.name), tracing.Transaction.String(string(kind))))
}

// endSpan ends a transaction's span. The span failed if the store failed; a refusal by the store or its caller is a
// result.
func endSpan(span trace.Span, err error) {
	if !errors.Is(err, store.ErrUnavailable) {
		err = nil
	}
	tracing.Fail(span, err)
}

// alone reports whether each statement runs in its own transaction and gets its own span.
func (s Session) alone() bool {
	if !s.Dialect.tracer.On() {
		return false
	}
	_, pool := s.on.(*sql.DB)
	return pool
}
