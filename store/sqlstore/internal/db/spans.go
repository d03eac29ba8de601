package db

import (
	"context"
	"database/sql"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/internal/tracing"
	"github.com/cardea-iam/cardea/store"
)

// transaction is what a transaction is for, as its span says.
type transaction string

const (
	reading transaction = "read"
	writing transaction = "write"
)

// span begins the span of a transaction: with its engine, and neither statements nor parameters. Each attempt of a transaction that the
// engine undoes has its own.
func (d Dialect) span(ctx context.Context, kind transaction) (context.Context, trace.Span) {
	if !d.tracer.On() {
		return d.tracer.Child(ctx, "") // none, and no attributes for it
	}
	return d.tracer.Child(ctx, "store "+string(kind), trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(tracing.Engine.String(d.name), tracing.Transaction.String(string(kind))))
}

// endSpan ends a transaction's span. Failed is what the store could not do; what it or its caller declined is an answer.
func endSpan(span trace.Span, err error) {
	if !errors.Is(err, store.ErrUnavailable) {
		err = nil
	}
	tracing.Fail(span, err)
}

// alone reports that a statement is a transaction of its own, of which a span tells.
func (s Session) alone() bool {
	if !s.Dialect.tracer.On() {
		return false
	}
	_, pool := s.on.(*sql.DB)
	return pool
}
