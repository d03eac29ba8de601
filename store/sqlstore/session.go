package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/trace"

	"github.com/cardea-iam/cardea/store"
)

// querier is what a pool and a transaction have in common.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// session runs statements of one dialect on a pool or in a transaction. Its errors wrap store.ErrUnavailable.
type session struct {
	dialect dialect
	on      querier
}

// exec runs a statement and returns how many rows it changed.
func (s session) exec(ctx context.Context, query string, args ...any) (_ int64, err error) {
	if s.alone() {
		var span trace.Span
		ctx, span = s.dialect.span(ctx, writing)
		defer func() { endSpan(span, err) }()
	}
	result, err := s.on.ExecContext(ctx, s.dialect.rebind(query), args...)
	if err != nil {
		return 0, unavailable(ctx, err)
	}
	changed, err := result.RowsAffected()
	return changed, unavailable(ctx, err)
}

// query runs a statement and calls scan on each row.
func (s session) query(ctx context.Context, scan func(row *sql.Rows) error, query string, args ...any) (err error) {
	if s.alone() {
		var span trace.Span
		ctx, span = s.dialect.span(ctx, reading)
		defer func() { endSpan(span, err) }()
	}
	rows, err := s.on.QueryContext(ctx, s.dialect.rebind(query), args...)
	if err != nil {
		return unavailable(ctx, err)
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			return unavailable(ctx, errors.Join(err, rows.Close()))
		}
	}
	return unavailable(ctx, errors.Join(rows.Err(), rows.Close()))
}

// row runs a statement that returns at most one row, and reports whether there was one.
func (s session) row(ctx context.Context, dest []any, query string, args ...any) (found bool, err error) {
	err = s.query(ctx, func(row *sql.Rows) error {
		found = true
		return row.Scan(dest...)
	}, query, args...)
	return found && err == nil, err
}

// inChunks calls do for parts of the items that fit into one statement, given how many parameters an item takes.
func inChunks[T any](on session, items []T, parameters int, do func(part []T) error) error {
	for part := range slices.Chunk(items, on.dialect.maxParameters/parameters) {
		if err := do(part); err != nil {
			return err
		}
	}
	return nil
}

// unavailable marks an error of the engine. The end of the caller's context is kept visible to errors.Is, which not
// every driver does.
func unavailable(ctx context.Context, err error) error {
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

// byKeys makes the statements of a transaction go along keys.
func (s session) byKeys(ctx context.Context) error {
	if s.dialect.byKeys == "" {
		return nil
	}
	_, err := s.exec(ctx, s.dialect.byKeys)
	return err
}
