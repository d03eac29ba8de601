package db

import "testing"

func TestRebind(t *testing.T) {
	t.Parallel()
	const query = "SELECT a FROM b WHERE c = ? AND d IN (?,?)"
	if got := sqliteDialect.rebind(query); got != query {
		t.Errorf("got %s", got)
	}
	if got := postgresDialect.rebind(query); got != "SELECT a FROM b WHERE c = $1 AND d IN ($2,$3)" {
		t.Errorf("got %s", got)
	}
	if got := RowsOf(2, 3); got != "(?,?,?),(?,?,?)" {
		t.Errorf("got %s", got)
	}
}
