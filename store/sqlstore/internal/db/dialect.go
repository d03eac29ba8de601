package db

import (
	"database/sql"
	"strconv"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/cardea-iam/cardea/internal/tracing"
)

// Dialect holds the differences between the engines. All other SQL has one text for both, with "?" for parameters.
type Dialect struct {
	// Numbered: parameters are written $1, $2.
	Numbered bool
	// forUpdate follows the SELECT that locks the store row; empty if write transactions are exclusive anyway.
	forUpdate string
	// SkipLocked follows the SELECT of a queue that skips rows locked by others; empty if write transactions are
	// exclusive.
	SkipLocked string
	// advisoryLock takes the key of a name and locks it until the transaction ends; empty if write transactions are
	// exclusive anyway.
	advisoryLock string
	// Publish follows the UPDATE of the store row that ends a change, and notifies other processes on commit.
	Publish string
	// PublishKeys notifies other processes on commit that the feed of API keys changed; empty if no other process can
	// open the database.
	PublishKeys string
	// PublishEvents notifies other processes on commit that events got numbers; empty if no other process can open the
	// database.
	PublishEvents string
	// among takes a query that ends with a column, and returns the query for rows where that column is in a list made
	// by ListOf. kind is the list's type, BIGINT or TEXT. lock is forUpdate, or empty. among also reports whether the
	// list is the first parameter; otherwise it is the last.
	among func(query, kind, lock string) (text string, listFirst bool)
	// OneOf follows a column that must be in a list. The list is a parameter made by ListOf.
	OneOf  string
	ListOf func(list any) (any, error)
	// insertMany returns the statement, without its values, that inserts rows from lists. rowsFrom returns the parameters
	// for them.
	insertMany func(into string, columns []column) string
	// listed returns a source that has the values of columns as rows, and its parameters. updatedRows is how many rows one
	// statement can update by their keys.
	listed      func(columns []column) (source string, args []any)
	updatedRows int
	rowsFrom    func(columns []column) ([]any, error)
	// EventOrder is the column of event_log_new by which its rows are in the order in which they were inserted.
	EventOrder string
	// JSONList is the aggregate function that makes a JSON list.
	JSONList string
	// TableExists takes a table name and returns a row if there is such a table.
	TableExists string
	// readTx begins a transaction whose statements all see one snapshot. WriteTx begins a transaction that sees the
	// commits for which its lock waited.
	readTx, WriteTx *sql.TxOptions
	// KeyShare follows a SELECT of rows, aliased u, that must not be deleted before the transaction ends; empty if write
	// transactions are exclusive.
	KeyShare string
	// RollUpTx begins a transaction that writes, and whose statements all see one snapshot.
	RollUpTx *sql.TxOptions
	// byKeys makes the statements of a transaction use indexes, whatever the engine's statistics say about the tables;
	// empty if the engine always uses indexes.
	byKeys string
	// NewPart creates the partition of past_events for a month, from its name and the microseconds of its begin and end;
	// empty if there are no partitions.
	NewPart string
	// MaxParameters is the largest number of parameters of a statement.
	MaxParameters int
	// Variable prepares the arguments of a statement whose text depends on their number.
	Variable func(args []any) []any
	// Planned prepares the arguments of a statement that the engine must plan for its values each time.
	Planned func(args ...any) []any
	// GivesWay reports whether a step of a migration was undone because other transactions use its tables.
	GivesWay func(err error) bool
	// retryable reports whether the engine undid the transaction and it can be run again.
	retryable func(err error) bool
	// duplicate reports whether a row violates a UNIQUE index or PRIMARY KEY.
	duplicate func(err error) bool
	// trace is Options.Trace, and tracer Options.Tracer.
	trace  func(query string, args []any)
	tracer *tracing.Tracer
	// name is the engine's name in spans.
	name string
	// Migrations is the folder of the migrations that only this engine runs.
	Migrations string
	// Goose is the dialect's name in goose. Locker makes the lock for migrations; nil if no other process can open the
	// database.
	Goose  goose.Dialect
	Locker func() (lock.SessionLocker, error)
}

// rebind rewrites the parameters of a statement for the engine. No statement has "?" in a literal.
func (d Dialect) rebind(query string) string {
	if !d.Numbered {
		return query
	}
	var b strings.Builder
	b.Grow(len(query) + 32)
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(n))
		query = after
	}
}

// boundNamed caches the results of bindNamed, by text and by whether parameters are written $1. There are some dozens
// of texts.
var boundNamed [2]sync.Map

// bindNamed numbers the parameters of a statement: "?" from 1 in their order, and each ":deployment" as the number
// after them.
func (d Dialect) bindNamed(query string) string {
	known, sign := &boundNamed[0], byte('?')
	if d.Numbered {
		known, sign = &boundNamed[1], '$'
	}
	if bound, found := known.Load(query); found {
		return bound.(string)
	}
	var b strings.Builder
	n := 0
	for rest := query; ; {
		before, after, found := strings.Cut(rest, "?")
		b.WriteString(before)
		if !found {
			break
		}
		n++
		b.WriteByte(sign)
		b.WriteString(strconv.Itoa(n))
		rest = after
	}
	bound := strings.ReplaceAll(b.String(), ":deployment", string(sign)+strconv.Itoa(n+1))
	known.Store(query, bound)
	return bound
}

// traced passes a statement to the trace, if there is one.
func (d Dialect) traced(query string, args []any) {
	if d.trace != nil {
		d.trace(d.rebind(query), args)
	}
}

// RowsOf returns rows of parameters in the form of VALUES and INSERT: "(?,?),(?,?)".
func RowsOf(rows, columns int) string {
	row := "(" + strings.Repeat("?,", columns-1) + "?)"
	return strings.Repeat(row+",", rows-1) + row
}
