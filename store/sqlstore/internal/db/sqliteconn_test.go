package db

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	sqlitedriver "modernc.org/sqlite"
)

const namesAfter = `SELECT name FROM things WHERE id > ? ORDER BY id`

// thingsIn returns a transaction on the only connection of a pool, whose database has a table with two rows, and a
// function that calls another with the connection.
func thingsIn(t *testing.T) (tx *sql.Tx, inside func(func(*sqliteConn))) {
	t.Helper()
	pool := OpenPool(filepath.Join(t.TempDir(), "kept.db"), 1, Options{Clock: time.Now})
	t.Cleanup(func() { _ = pool.Close() })
	conn, err := pool.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tx, err = conn.BeginTx(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	run(t, tx, `CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT NOT NULL)`)
	run(t, tx, `INSERT INTO things VALUES (1, 'a'), (2, 'b')`)
	return tx, func(do func(*sqliteConn)) {
		t.Helper()
		if err := conn.Raw(func(c any) error { do(c.(*sqliteConn)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

func run(t *testing.T, tx *sql.Tx, statement string, args ...any) {
	t.Helper()
	if _, err := tx.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// read returns the first column of the rows that are left.
func read(t *testing.T, rows *sql.Rows, err error) (all []string) {
	t.Helper()
	for err == nil && rows.Next() {
		var name string
		err = rows.Scan(&name)
		all = append(all, name)
	}
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func names(t *testing.T, tx *sql.Tx, after int) []string {
	t.Helper()
	rows, err := tx.QueryContext(t.Context(), namesAfter, after)
	return read(t, rows, err)
}

func TestSQLiteConnectionKeepsStatements(t *testing.T) {
	t.Parallel()
	tx, inside := thingsIn(t)
	var first, second *keptStatement
	got := names(t, tx, 0)
	inside(func(c *sqliteConn) { first, _ = c.kept.Peek(namesAfter) })
	got = append(got, names(t, tx, 1)...)
	inside(func(c *sqliteConn) { second, _ = c.kept.Peek(namesAfter) })
	if fmt.Sprint(got) != "[a b b]" || first == nil || first != second || first.used {
		t.Errorf("read %v with %p and then %p, in use afterward: %v", got, first, second, first != nil && first.used)
	}
}

func TestSQLiteStatementRunsWhileItsRowsAreRead(t *testing.T) {
	t.Parallel()
	tx, _ := thingsIn(t)
	outer, err := tx.QueryContext(t.Context(), namesAfter, 0)
	if err != nil || !outer.Next() {
		t.Fatal(err)
	}
	if inner := names(t, tx, 1); fmt.Sprint(inner) != "[b]" {
		t.Errorf("the rows read meanwhile are %v", inner)
	}
	if rest := read(t, outer, nil); fmt.Sprint(rest) != "[b]" {
		t.Errorf("the rows left are %v", rest)
	}
	if again := names(t, tx, 0); fmt.Sprint(again) != "[a b]" {
		t.Errorf("read again: %v", again)
	}
}

func TestSQLiteRowsOutliveTheirStatement(t *testing.T) {
	t.Parallel()
	tx, inside := thingsIn(t)
	rows, err := tx.QueryContext(t.Context(), namesAfter, 0)
	if err != nil {
		t.Fatal(err)
	}
	inside(func(c *sqliteConn) { c.kept.Purge() })
	if got := read(t, rows, nil); fmt.Sprint(got) != "[a b]" {
		t.Errorf("the rows are %v", got)
	}
}

func TestSQLiteStatementFollowsTheSchema(t *testing.T) {
	t.Parallel()
	tx, _ := thingsIn(t)
	const all = `SELECT * FROM things`
	columns := func() int {
		rows, err := tx.QueryContext(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		names, err := rows.Columns()
		if err != nil || rows.Close() != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	before := columns()
	run(t, tx, `ALTER TABLE things ADD COLUMN color TEXT NOT NULL DEFAULT ''`)
	if after := columns(); before != 2 || after != 3 {
		t.Errorf("%d columns, after one was added %d", before, after)
	}
	names(t, tx, 0)
	run(t, tx, `DROP TABLE things`)
	if _, err := tx.QueryContext(t.Context(), namesAfter, 0); err == nil {
		t.Error("a table was read that was dropped")
	}
}

func TestSQLiteStatementIsPreparedAgainAfterAnError(t *testing.T) {
	t.Parallel()
	tx, inside := thingsIn(t)
	const insert = `INSERT INTO things VALUES (?, ?)`
	run(t, tx, insert, 3, "c")
	if _, err := tx.ExecContext(t.Context(), insert, 3, "c"); !sqliteDialect.duplicate(err) {
		t.Fatalf("a duplicate row: %v", err)
	}
	inside(func(c *sqliteConn) {
		if c.kept.Contains(insert) {
			t.Error("the statement is kept after an error")
		}
	})
	run(t, tx, insert, 4, "d")
	if got := names(t, tx, 2); fmt.Sprint(got) != "[c d]" {
		t.Errorf("the rows are %v", got)
	}
}

func TestSQLiteConnectionBoundsItsStatements(t *testing.T) {
	t.Parallel()
	tx, inside := thingsIn(t)
	used := func() (bytes int) {
		inside(func(c *sqliteConn) {
			var err error
			if bytes, _, err = c.sqliteDriverConn.(sqlitedriver.DBStatus).Status(sqlitedriver.DBStatusStmtUsed, false); err != nil {
				t.Fatal(err)
			}
		})
		return bytes
	}
	fill := func(first int) {
		for i := range 2 * cachedStatements {
			rows, err := tx.QueryContext(t.Context(), fmt.Sprintf(`SELECT name FROM things WHERE id = %d`, first+i))
			read(t, rows, err)
		}
	}
	fill(0)
	before := used()
	fill(2 * cachedStatements)
	if after := used(); before == 0 || after > before+before/10 {
		t.Errorf("statements take %d bytes, and then %d", before, after)
	}
	inside(func(c *sqliteConn) {
		if c.kept.Len() != cachedStatements {
			t.Errorf("%d statements are kept", c.kept.Len())
		}
	})
}

// The texts of statements with many parameters differ by their number: they would displace the others.
func TestSQLiteConnectionKeepsNoStatementOfManyParameters(t *testing.T) {
	t.Parallel()
	tx, inside := thingsIn(t)
	for _, tt := range []struct {
		parameters int
		kept       bool
	}{{maxPrepared, true}, {maxPrepared + 1, false}} {
		args := make([]any, tt.parameters)
		for i := range args {
			args[i] = i
		}
		query := `SELECT name FROM things WHERE id IN (?` + strings.Repeat(",?", tt.parameters-1) + `) ORDER BY id`
		rows, err := tx.QueryContext(t.Context(), query, args...)
		if got := read(t, rows, err); fmt.Sprint(got) != "[a b]" {
			t.Errorf("%d parameters: %v", tt.parameters, got)
		}
		inside(func(c *sqliteConn) {
			if c.kept.Contains(query) != tt.kept {
				t.Errorf("%d parameters: kept is %t", tt.parameters, !tt.kept)
			}
		})
	}
}
