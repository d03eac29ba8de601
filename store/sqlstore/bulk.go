package sqlstore

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// bulkRows is how many rows one statement inserts: a bound on the memory that it takes.
const bulkRows = 10_000

// column is what a column of many rows holds: numbers or texts.
type column struct {
	name    string
	numbers []int64
	texts   []string
}

// field makes a column of rows.
type field[T any] func(rows []T) column

func numbers[T any](name string, of func(*T) int64) field[T] {
	return func(rows []T) column {
		c := column{name: name, numbers: make([]int64, len(rows))}
		for i := range rows {
			c.numbers[i] = of(&rows[i])
		}
		return c
	}
}

func texts[T any](name string, of func(*T) string) field[T] {
	return func(rows []T) column {
		c := column{name: name, texts: make([]string, len(rows))}
		for i := range rows {
			c.texts[i] = of(&rows[i])
		}
		return c
	}
}

// insertMany inserts rows of the deployment by statements whose text does not depend on how many there are.
func insertMany[T any](tx *peopleTx, table string, rows []T, fields ...field[T]) error {
	for part := range slices.Chunk(rows, bulkRows) {
		columns := make([]column, len(fields))
		names := make([]string, len(fields))
		for i, field := range fields {
			columns[i] = field(part)
			names[i] = columns[i].name
		}
		args, err := tx.dialect.rowsFrom(columns)
		if err != nil {
			return err
		}
		if err := tx.exec(tx.dialect.insertMany(table+" (deployment, "+strings.Join(names, ", ")+")", columns), args...); err != nil {
			return err
		}
	}
	return nil
}

// listsOf are the parameters of insertFromLists: a list a column.
func listsOf(columns []column) ([]any, error) {
	args := make([]any, len(columns))
	for i, c := range columns {
		if args[i] = any(c.texts); c.numbers != nil {
			args[i] = c.numbers
		}
	}
	return args, nil
}

func insertFromLists(into string, columns []column) string {
	lists := make([]string, len(columns))
	for i, c := range columns {
		if lists[i] = "?::TEXT[]"; c.numbers != nil {
			lists[i] = "?::BIGINT[]"
		}
	}
	return "INSERT INTO " + into + " SELECT :deployment, * FROM unnest(" + strings.Join(lists, ", ") + ")"
}

// insertFromJSON needs no way back to the beginning of the statement: a row that is refused loses the transaction.
func insertFromJSON(into string, columns []column) string {
	members := make([]string, len(columns))
	for i := range columns {
		members[i] = "value ->> " + strconv.Itoa(i)
	}
	return "INSERT OR FAIL INTO " + into + " SELECT :deployment, " + strings.Join(members, ", ") + " FROM json_each(?)"
}

// jsonRows is the parameter of insertFromJSON: a list of rows, each a list.
func jsonRows(columns []column) ([]any, error) {
	rows := len(columns[0].texts) + len(columns[0].numbers)
	out := make([]byte, 0, rows*len(columns)*16)
	var err error
	for row := range rows {
		for i, c := range columns {
			switch {
			case i > 0:
				out = append(out, ',')
			case row > 0:
				out = append(out, ",["...)
			default:
				out = append(out, "[["...)
			}
			if c.numbers != nil {
				out = strconv.AppendInt(out, c.numbers[row], 10)
			} else if out, err = jsontext.AppendQuote(out, c.texts[row]); err != nil {
				return nil, err
			}
		}
		out = append(out, ']')
	}
	return []any{string(append(out, ']'))}, nil
}

// jsonOf is a list as SQLite's oneOf takes it.
func jsonOf(list any) (any, error) {
	raw, err := json.Marshal(list)
	return string(raw), err
}
