package db

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// bulkRows is how many rows one statement inserts. It bounds the memory of a statement.
const bulkRows = 10_000

// column is the values of a column in many rows: numbers or texts.
type column struct {
	name    string
	numbers []int64
	texts   []string
	// same reports whether all rows have one value, which is then sent once.
	same bool
	// optional reports whether "" is stored as NULL.
	optional bool
}

// markSame marks the columns in which all rows have one value, except the first: its list gives the number of rows.
func markSame(columns []column) {
	for i := range columns[1:] {
		c := &columns[i+1]
		c.same = isOne(c.numbers) && isOne(c.texts)
	}
}

func isOne[T comparable](values []T) bool {
	for _, value := range values {
		if value != values[0] {
			return false
		}
	}
	return true
}

// rows returns the number of values.
func (c column) rows() int { return max(len(c.numbers), len(c.texts)) }

// one returns the value of a column whose rows all have one value.
func (c column) one() any {
	if c.numbers != nil {
		return c.numbers[0]
	}
	return c.texts[0]
}

// stored returns the expression that stores the value of an expression.
func (c column) stored(value string) string {
	if c.optional {
		return "NULLIF(" + value + ", '')"
	}
	return value
}

// sql returns the column's SQL type.
func (c column) sql() string {
	if c.numbers != nil {
		return "BIGINT"
	}
	return "TEXT"
}

// Field builds a column from rows.
type Field[T any] func(rows []T) column

// Numbers is a BIGINT column.
func Numbers[T any](name string, of func(*T) int64) Field[T] {
	return func(rows []T) column {
		c := column{name: name, numbers: make([]int64, len(rows))}
		for i := range rows {
			c.numbers[i] = of(&rows[i])
		}
		return c
	}
}

// Texts is a TEXT column.
func Texts[T any](name string, of func(*T) string) Field[T] {
	return func(rows []T) column {
		c := column{name: name, texts: make([]string, len(rows))}
		for i := range rows {
			c.texts[i] = of(&rows[i])
		}
		return c
	}
}

// OptionalTexts is a TEXT column in which "" is stored as NULL.
func OptionalTexts[T any](name string, of func(*T) string) Field[T] {
	texts := Texts(name, of)
	return func(rows []T) column {
		c := texts(rows)
		c.optional = true
		return c
	}
}

// InsertMany inserts rows of the deployment. The text of its statements depends on the columns in which all rows have
// one value, and on whether there are several rows, but not on their number.
func InsertMany[T any](tx *Tx, table string, rows []T, fields ...Field[T]) error {
	_, err := insertAll(tx, table, markSame, "", rows, fields)
	return err
}

// InsertNew inserts rows of the deployment, but leaves out rows that violate a UNIQUE index or PRIMARY KEY. It returns
// how many rows it inserted. Its statements have one of two texts, for one row and for more, so it suits rows of many
// columns.
func InsertNew[T any](tx *Tx, table string, rows []T, fields ...Field[T]) (int64, error) {
	return insertAll(tx, table, func([]column) {}, " ON CONFLICT DO NOTHING", rows, fields)
}

// insertAll inserts rows. prepare may mark columns, and end is the end of the statement.
func insertAll[T any](tx *Tx, table string, prepare func([]column), end string, rows []T, fields []Field[T]) (inserted int64, err error) {
	for part := range slices.Chunk(rows, bulkRows) {
		columns := make([]column, len(fields))
		names := make([]string, len(fields))
		for i, field := range fields {
			columns[i] = field(part)
			names[i] = columns[i].name
		}
		prepare(columns)
		args, err := tx.Dialect.rowsFrom(columns)
		if err != nil {
			return inserted, err
		}
		n, err := tx.Affected(tx.Dialect.insertMany(table+" (deployment, "+strings.Join(names, ", ")+")", columns)+end, args...)
		if err != nil {
			return inserted, err
		}
		inserted += n
	}
	return inserted, nil
}

// UpdateEach updates rows of the deployment, each with values of its own. set and where refer to the values as members
// of l, and to the table as t; where identifies one row for each value. It returns how many rows it updated. Its
// statements have one of two texts, for one row and for more.
func UpdateEach[T any](tx *Tx, table, set, where string, rows []T, fields ...Field[T]) (updated int64, err error) {
	for part := range slices.Chunk(rows, tx.Dialect.updatedRows) {
		columns := make([]column, len(fields))
		for i, field := range fields {
			columns[i] = field(part)
		}
		source, args := tx.Dialect.listed(columns)
		n, err := tx.Affected("UPDATE "+table+" AS t SET "+set+" FROM "+source+" AS l WHERE t.deployment = :deployment AND "+where, args...)
		if err != nil {
			return updated, err
		}
		updated += n
	}
	return updated, nil
}

// rowsOfLists returns PostgreSQL's source of rows from lists, and its parameters. One row is made of values, for which
// PostgreSQL needs no function and knows the number of rows.
func rowsOfLists(columns []column) (source string, args []any) {
	if columns[0].rows() == 1 {
		return rowOf(columns, func(c column) string { return "?::" + c.sql() + " AS " + c.name })
	}
	var lists, names []string
	for _, c := range columns {
		lists, names = append(lists, "?::"+c.sql()+"[]"), append(names, c.name)
		if c.numbers != nil {
			args = append(args, c.numbers)
		} else {
			args = append(args, c.texts)
		}
	}
	return "(SELECT * FROM unnest(" + strings.Join(lists, ", ") + ") AS r (" + strings.Join(names, ", ") + "))", args
}

// rowOfValues returns SQLite's source of one row, and its parameters. With a list of rows, SQLite would read every row
// of the deployment, and look each up in the list.
func rowOfValues(columns []column) (source string, args []any) {
	return rowOf(columns, func(c column) string { return "? AS " + c.name })
}

func rowOf(columns []column, member func(column) string) (source string, args []any) {
	members := make([]string, len(columns))
	for i, c := range columns {
		members[i], args = member(c), append(args, c.one())
	}
	return "(SELECT " + strings.Join(members, ", ") + ")", args
}

// insertRow returns the statement that inserts one row. value is the expression of a column's parameter.
func insertRow(insert, into string, columns []column, value func(column) string) string {
	members := make([]string, len(columns))
	for i, c := range columns {
		members[i] = c.stored(value(c))
	}
	return insert + " INTO " + into + " VALUES (:deployment, " + strings.Join(members, ", ") + ")"
}

// valuesOf returns the parameters of insertRow.
func valuesOf(columns []column) []any {
	args := make([]any, len(columns), len(columns)+1) // the deployment follows
	for i, c := range columns {
		args[i] = c.one()
	}
	return args
}

// listsOf returns the parameters of insertFromLists: the columns with one value, then a list for each of the others.
func listsOf(columns []column) ([]any, error) {
	if columns[0].rows() == 1 {
		return valuesOf(columns), nil
	}
	var ones, lists []any
	for _, c := range columns {
		switch {
		case c.same:
			ones = append(ones, c.one())
		case c.numbers != nil:
			lists = append(lists, c.numbers)
		default:
			lists = append(lists, c.texts)
		}
	}
	return append(ones, lists...), nil
}

func insertFromLists(into string, columns []column) string {
	if columns[0].rows() == 1 {
		return insertRow("INSERT", into, columns, func(c column) string { return "?::" + c.sql() })
	}
	var members, lists, names []string
	for _, c := range columns {
		if c.same {
			members = append(members, c.stored("?::"+c.sql()))
			continue
		}
		members = append(members, c.stored("l."+c.name))
		names = append(names, c.name)
		lists = append(lists, "?::"+c.sql()+"[]")
	}
	return "INSERT INTO " + into + " SELECT :deployment, " + strings.Join(members, ", ") + " FROM unnest(" + strings.Join(lists, ", ") + ") AS l (" + strings.Join(names, ", ") + ")"
}

// insertFromJSON returns SQLite's statement for insertMany. With OR FAIL it needs no savepoint: a refused row loses the
// transaction anyway.
func insertFromJSON(into string, columns []column) string {
	if columns[0].rows() == 1 {
		return insertRow("INSERT OR FAIL", into, columns, func(column) string { return "?" })
	}
	var members []string
	place := 0
	for _, c := range columns {
		if c.same {
			members = append(members, c.stored("?"))
			continue
		}
		members = append(members, c.stored("value ->> "+strconv.Itoa(place)))
		place++
	}
	// Without WHERE, the grammar would take an ON CONFLICT for the condition of a join.
	return "INSERT OR FAIL INTO " + into + " SELECT :deployment, " + strings.Join(members, ", ") + " FROM json_each(?) WHERE true"
}

// jsonRows returns the parameters of insertFromJSON: the columns with one value, then a list of rows, each a list of
// the other columns.
func jsonRows(columns []column) ([]any, error) {
	if columns[0].rows() == 1 {
		for _, c := range columns {
			if c.texts != nil && !utf8.ValidString(c.texts[0]) { // PostgreSQL refuses it too
				return nil, fmt.Errorf("the column %s: the text is not UTF-8", c.name)
			}
		}
		return valuesOf(columns), nil
	}
	var args []any
	var lists []column
	for _, c := range columns {
		if c.same {
			args = append(args, c.one())
		} else {
			lists = append(lists, c)
		}
	}
	rows := len(columns[0].texts) + len(columns[0].numbers)
	out := append(make([]byte, 0, rows*len(lists)*16), '[')
	var err error
	for row := range rows {
		if row > 0 {
			out = append(out, ',')
		}
		out = append(out, '[')
		for i, c := range lists {
			if i > 0 {
				out = append(out, ',')
			}
			if c.numbers != nil {
				out = strconv.AppendInt(out, c.numbers[row], 10)
			} else if out, err = jsontext.AppendQuote(out, c.texts[row]); err != nil {
				return nil, err
			}
		}
		out = append(out, ']')
	}
	return append(args, string(append(out, ']'))), nil
}

// jsonOf returns a list in the form of SQLite's OneOf.
func jsonOf(list any) (any, error) {
	raw, err := json.Marshal(list)
	return string(raw), err
}

func amongJSON(query, _, _ string) (string, bool) {
	return query + " IN (SELECT value FROM json_each(?))", false
}

// amongLists looks up each value by the index. For "= ANY" the planner chooses a filter over all rows while a table is
// being filled and has no statistics. OFFSET 0 keeps the planner from turning the lookups into a join.
func amongLists(query, kind, lock string) (string, bool) {
	return "SELECT r.* FROM unnest(?::" + kind + "[]) AS k (v), LATERAL (" + query + " = k.v OFFSET 0" + lock + ") AS r", true
}
