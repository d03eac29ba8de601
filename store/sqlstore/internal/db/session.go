package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/store"
)

// querier is the common part of a pool and a transaction.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Session runs statements of one dialect on a pool or in a transaction. Its errors wrap store.ErrUnavailable.
type Session struct {
	Dialect Dialect
	on      querier
}

// Exec runs a statement and returns how many rows it changed.
func (s Session) Exec(ctx context.Context, query string, args ...any) (_ int64, err error) {
	if s.alone() {
		var span trace.Span
		ctx, span = s.Dialect.span(ctx, writing)
		defer func() { endSpan(span, err) }()
	}
	result, err := s.on.ExecContext(ctx, s.Dialect.rebind(query), args...)
	if err != nil {
		return 0, Unavailable(ctx, err)
	}
	changed, err := result.RowsAffected()
	return changed, Unavailable(ctx, err)
}

// Query runs a statement and calls scan on each row.
func (s Session) Query(ctx context.Context, scan func(row *sql.Rows) error, query string, args ...any) (err error) {
	if s.alone() {
		var span trace.Span
		ctx, span = s.Dialect.span(ctx, reading)
		defer func() { endSpan(span, err) }()
	}
	rows, err := s.on.QueryContext(ctx, s.Dialect.rebind(query), args...)
	if err != nil {
		return Unavailable(ctx, err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return Unavailable(ctx, errors.Join(err, rows.Close()))
		}
	}
	return Unavailable(ctx, errors.Join(rows.Err(), rows.Close()))
}

// Row runs a statement that returns at most one row, and reports whether there was one.
func (s Session) Row(ctx context.Context, dest []any, query string, args ...any) (found bool, err error) {
	err = s.Query(ctx, func(row *sql.Rows) error {
		found = true
		return row.Scan(dest...)
	}, query, args...)
	return found && err == nil, err
}

// InChunks calls do for parts of the items that fit into one statement, given how many parameters an item takes.
func InChunks[T any](on Session, items []T, parameters int, do func(part []T) error) error {
	for part := range slices.Chunk(items, on.Dialect.MaxParameters/parameters) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}

// Unavailable marks an error of the engine. It keeps the end of the caller's context visible to errors.Is, which not
// every driver does.
func Unavailable(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, store.ErrUnavailable) {
		return err
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, ended, err)
	}
	if pooled(err) {
		return fmt.Errorf("%w: %w: %w", store.ErrUnavailable, store.ErrPooled, err)
	}
	return fmt.Errorf("%w: %w", store.ErrUnavailable, err)
}

// ByKeys makes the statements of a transaction use indexes.
func (s Session) ByKeys(ctx context.Context) error {
	if s.Dialect.byKeys == "" {
		return nil
	}
	_, err := s.Exec(ctx, s.Dialect.byKeys)
	return err
}
