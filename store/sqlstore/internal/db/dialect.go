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

// Dialect is what differs between the engines. All else is one SQL text with "?" for parameters.
type Dialect struct {
	// Numbered: parameters are written $1, $2.
	Numbered bool
	// forUpdate follows the SELECT that locks the store row; empty where a write transaction is alone anyway.
	forUpdate string
	// SkipLocked follows the SELECT of a queue that passes over rows others hold; empty where nobody else can.
	SkipLocked string
	// advisoryLock takes the key of a name and holds it until the transaction ends; empty where a write transaction is alone anyway.
	advisoryLock string
	// Publish follows the UPDATE of the store row that ends a change and tells other processes of it on commit.
	Publish string
	// PublishKeys tells other processes on commit that the feed of API keys changed; empty where there can be none.
	PublishKeys string
	// among makes of a query that ends with a column the one for the rows where that is one of a list, made by listOf, of BIGINT or TEXT. It
	// reports whether the list is the first parameter, else it is the last. lock is forUpdate, or empty.
	among func(query, kind, lock string) (text string, listFirst bool)
	// OneOf follows a column that is to be one of a list, a parameter made by listOf.
	OneOf  string
	ListOf func(list any) (any, error)
	// insertMany writes the statement, but for its values, that inserts rows from lists, and rowsFrom the parameter or parameters for them.
	insertMany func(into string, columns []column) string
	rowsFrom   func(columns []column) ([]any, error)
	// JSONList is the aggregate function that makes a JSON list.
	JSONList string
	// TableExists takes a table name and returns a row if there is such a table.
	TableExists string
	// readTx begins a transaction whose statements all see one snapshot, writeTx one that sees what the lock
	// awaited.
	readTx, WriteTx *sql.TxOptions
	// KeyShare follows a SELECT of users, as u, that must not be deleted before the transaction ends; empty where it is alone anyway.
	KeyShare string
	// SealTx begins a transaction that writes, and whose statements all see one snapshot.
	RollUpTx *sql.TxOptions
	// byKeys makes the statements of a transaction go along keys, whatever the engine believes of the size of the tables; empty where it does
	// anyway.
	byKeys string
	// NewPart makes the part of past_events for a month, by its name and the microseconds it begins and ends at; empty where there are
	// no parts.
	NewPart string
	// MaxParameters is how many a statement may have.
	MaxParameters int
	// Variable prepares the arguments of a statement whose text depends on their number.
	Variable func(args []any) []any
	// GivesWay reports that a step of a migration was undone because others use its tables.
	GivesWay func(err error) bool
	// retryable reports that the engine undid the transaction and asks for it again.
	retryable func(err error) bool
	// duplicate reports that a row breaks a UNIQUE index or PRIMARY KEY.
	duplicate func(err error) bool
	// trace is Options.Trace, and tracer Options.Tracer.
	trace  func(query string, args []any)
	tracer *tracing.Tracer
	// name is the engine's in spans.
	name string
	// Migrations is the folder of what this engine alone migrates.
	Migrations string
	// Goose is the dialect's name there, and locker its lock for migrations, nil where the engine is alone.
	Goose  goose.Dialect
	Locker func() (lock.SessionLocker, error)
}

// rebind writes the parameters of a statement as the engine wants them. No statement has "?" in a literal.
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

// boundNamed remembers what bindNamed made of a text, by whether parameters are written $1: there are some dozens of texts.
var boundNamed [2]sync.Map

// bindNamed writes a statement's parameters with their numbers: those written "?" from 1 on in their order, and ":deployment",
// wherever it stands, as the one behind them.
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

// traced tells the trace, if there is one, of a statement.
func (d Dialect) traced(query string, args []any) {
	if d.trace != nil {
		d.trace(d.rebind(query), args)
	}
}

// RowsOf returns rows of parameters as VALUES and INSERT want them: "(?,?),(?,?)".
func RowsOf(rows, columns int) string {
	row := "(" + strings.Repeat("?,", columns-1) + "?)"
	return strings.Repeat(row+",", rows-1) + row
}
