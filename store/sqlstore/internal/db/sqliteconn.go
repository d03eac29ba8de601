package db

import (
	"context"
	"database/sql/driver"
	"errors"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// cachedStatements is how many prepared statements a connection to SQLite keeps. One takes about 7 KB.
	cachedStatements = 256
	// cachedText is the length in bytes of the longest statement that is kept.
	cachedText = 8 << 10
)

// sqliteDriverConn is what the driver's connections implement.
type sqliteDriverConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// sqliteDriverStmt is what the driver's prepared statements implement.
type sqliteDriverStmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// sqliteConn is a connection that keeps the statements that it prepared last: SQLite takes as long to parse and plan
// most statements as to run them. database/sql uses a connection from one goroutine at a time.
type sqliteConn struct {
	sqliteDriverConn
	kept *lru.Cache[string, *keptStatement]
}

// keptStatement is a prepared statement. used reports that rows of it are read.
type keptStatement struct {
	prepared sqliteDriverStmt
	used     bool
	// dropped reports that the connection does not keep it any more: the end of its use closes it.
	dropped bool
}

func newSQLiteConn(conn driver.Conn) (driver.Conn, error) {
	whole, complete := conn.(sqliteDriverConn)
	if !complete {
		return nil, errors.Join(errors.New("the SQLite driver's connections lack methods"), conn.Close())
	}
	kept, err := lru.NewWithEvict(cachedStatements, func(_ string, s *keptStatement) {
		if s.dropped = true; !s.used {
			_ = s.prepared.Close() // it repeats the error of the last use
		}
	})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &sqliteConn{whole, kept}, nil
}

// statement returns a prepared statement, nil if the text is not kept, or if rows of it are being read. The texts of
// statements with many parameters differ by their number.
func (c *sqliteConn) statement(ctx context.Context, query string, parameters int) (*keptStatement, error) {
	if len(query) > cachedText || parameters > maxPrepared {
		return nil, nil
	}
	if s, found := c.kept.Get(query); found {
		if s.used {
			return nil, nil
		}
		return s, nil
	}
	prepared, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	whole, complete := prepared.(sqliteDriverStmt)
	if !complete {
		return nil, errors.Join(errors.New("the SQLite driver's statements lack methods"), prepared.Close())
	}
	s := &keptStatement{prepared: whole}
	c.kept.Add(query, s)
	return s, nil
}

// ExecContext implements driver.ExecerContext.
func (c *sqliteConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	s, err := c.statement(ctx, query, len(args))
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteDriverConn.ExecContext(ctx, query, args)
	}
	result, err := s.prepared.ExecContext(ctx, args)
	if err != nil {
		c.kept.Remove(query)
	}
	return result, err
}

// QueryContext implements driver.QueryerContext.
func (c *sqliteConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	s, err := c.statement(ctx, query, len(args))
	if err != nil {
		return nil, err
	}
	if s == nil {
		return c.sqliteDriverConn.QueryContext(ctx, query, args)
	}
	rows, err := s.prepared.QueryContext(ctx, args)
	if err != nil {
		c.kept.Remove(query)
		return nil, err
	}
	s.used = true
	return &keptRows{Rows: rows, of: s}, nil
}

// Close implements driver.Conn.
func (c *sqliteConn) Close() error {
	c.kept.Purge()
	return c.sqliteDriverConn.Close()
}

// keptRows are rows of a kept statement.
type keptRows struct {
	driver.Rows
	of     *keptStatement
	closed bool
}

// Close implements driver.Rows.
func (r *keptRows) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	err := r.Rows.Close()
	if r.of.used = false; r.of.dropped {
		err = errors.Join(err, r.of.prepared.Close())
	}
	return err
}
