package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"sync/atomic"
)

// errInjected is the error of an injected fault.
var errInjected = errors.New("injected fault")

// faults fails the nth call to a database after it is armed.
type faults struct {
	// left counts down to the call that fails. At zero or below, no call fails.
	left atomic.Int64
	// err is the error of that call. If after is set, the call takes effect before it fails, as with a lost connection.
	err   error
	after bool
	// commits limits the count to commits. transactions starts the count with the next transaction.
	commits      bool
	transactions bool
	begun, fired atomic.Bool
}

// arm makes the nth call from now on fail.
func (f *faults) arm(nth int64, err error) {
	f.err, f.after, f.commits, f.transactions = err, false, false, false
	f.fired.Store(false)
	f.left.Store(nth)
}

// armTransaction makes the nth call of the next transaction or later fail; call 1 is the one that begins the
// transaction.
func (f *faults) armTransaction(nth int64, err error) {
	f.arm(nth, err)
	f.begun.Store(false)
	f.transactions = true
}

// armCommit makes the next commit fail, before it takes effect or after.
func (f *faults) armCommit(err error, after bool) {
	f.err, f.after, f.commits, f.transactions = err, after, true, false
	f.fired.Store(false)
	f.left.Store(1)
}

// pass runs a call. For the call that must fail, it returns the error instead of running the call, or after it.
func (f *faults) pass(commit bool, call func() error) error {
	if (f.commits && !commit) || (f.transactions && !f.begun.Load()) || f.left.Add(-1) != 0 {
		return call()
	}
	f.fired.Store(true)
	if f.after {
		if err := call(); err != nil {
			return err
		}
	}
	return f.err
}

// faultConnector wraps a driver's connector and applies faults to its connections.
type faultConnector struct {
	driver.Connector
	faults *faults
}

func (c faultConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &faultConn{conn, c.faults}, nil
}

// fullConn has the interfaces that the connections of both drivers implement.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ExecerContext
	driver.QueryerContext
}

type faultConn struct {
	driver.Conn
	faults *faults
}

func (c *faultConn) full() fullConn { return c.Conn.(fullConn) }

func (c *faultConn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	var tx driver.Tx
	c.faults.begun.Store(true)
	err := c.faults.pass(false, func() (err error) {
		tx, err = c.full().BeginTx(ctx, opts)
		return err
	})
	return faultTx{tx, c.faults}, err
}

func (c *faultConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (result driver.Result, err error) {
	err = c.faults.pass(false, func() (err error) {
		result, err = c.full().ExecContext(ctx, query, args)
		return err
	})
	return result, err
}

func (c *faultConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (rows driver.Rows, err error) {
	err = c.faults.pass(false, func() (err error) {
		rows, err = c.full().QueryContext(ctx, query, args)
		return err
	})
	return rows, err
}

// CheckNamedValue calls the driver's method, which may accept more types than database/sql.
func (c *faultConn) CheckNamedValue(value *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

// ResetSession calls the driver's method.
func (c *faultConn) ResetSession(ctx context.Context) error {
	if resetter, ok := c.Conn.(driver.SessionResetter); ok {
		return resetter.ResetSession(ctx)
	}
	return nil
}

type faultTx struct {
	driver.Tx
	faults *faults
}

func (tx faultTx) Commit() error {
	failed := true
	err := tx.faults.pass(true, func() error {
		failed = false
		return tx.Tx.Commit()
	})
	if err != nil && failed {
		return errors.Join(err, tx.Tx.Rollback())
	}
	return err
}
