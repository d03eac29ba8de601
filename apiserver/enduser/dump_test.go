package enduser_test

import (
	"database/sql"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// dump is every row of people in the store as text, blobs also in hexadecimal: where secrets must not be.
func (w *world) dump() string {
	w.t.Helper()
	var db *sql.DB
	if path, isSQLite := strings.CutPrefix(w.url, "sqlite://"); isSQLite {
		var err error
		db, err = sql.Open("sqlite", "file:"+path+"?_pragma=query_only(1)&_pragma=busy_timeout(10000)")
		w.must(err)
	} else {
		config, err := pgx.ParseConfig(w.url)
		w.must(err)
		db = stdlib.OpenDB(*config)
	}
	defer func() { _ = db.Close() }()
	var out strings.Builder
	for _, table := range []string{
		"users", "emails", "phones", "credentials", "sessions", "session_tokens", "signins", "attempts", "challenges", "failures", "outbox",
		"organizations", "workspaces", "organization_memberships", "workspace_memberships", "invitations", "events", "audit",
	} {
		rows, err := db.QueryContext(w.t.Context(), "SELECT * FROM "+table)
		w.must(err)
		columns, err := rows.Columns()
		w.must(err)
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			w.must(rows.Scan(values...))
			fmt.Fprintf(&out, "%s:", table)
			for _, value := range values {
				if blob, isBlob := (*value.(*any)).([]byte); isBlob {
					fmt.Fprintf(&out, " %s %s", hex.EncodeToString(blob), blob)
					continue
				}
				fmt.Fprintf(&out, " %v", *value.(*any))
			}
			out.WriteByte('\n')
		}
		w.must(rows.Err())
		w.must(rows.Close())
	}
	return out.String()
}
