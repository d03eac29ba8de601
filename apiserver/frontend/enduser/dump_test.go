package enduser_test

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// dump returns all users' rows of the store as text, blobs also in hexadecimal, to search for secrets.
func (w *world) dump() string {
	return w.dumpOf(
		"users", "emails", "phones", "credentials", "sessions", "session_tokens", "signins", "attempts", "challenges", "failures", "counters", "sends", "known_clients", "outbox",
		"organizations", "workspaces", "organization_memberships", "workspace_memberships", "invitations", "events", "audit",
	)
}

// dumpAll is dump for every table of the store.
func (w *world) dumpAll() string {
	w.T.Helper()
	list := "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name"
	if strings.HasPrefix(w.URL, "postgres") {
		list = "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
	}
	db := w.Open()
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(w.T.Context(), list)
	w.Must(err)
	defer func() { _ = rows.Close() }()
	var tables []string
	for rows.Next() {
		var table string
		w.Must(rows.Scan(&table))
		tables = append(tables, table)
	}
	w.Must(rows.Err())
	for _, table := range []string{"recovery_codes", "temporary_codes", "totp_authenticators", "passkeys", "audit", "outbox"} {
		if !slices.Contains(tables, table) {
			w.T.Fatalf("the store has the tables %v, without %s", tables, table)
		}
	}
	return w.dumpOf(tables...)
}

func (w *world) dumpOf(tables ...string) string {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	var out strings.Builder
	for _, table := range tables {
		rows, err := db.QueryContext(w.T.Context(), "SELECT * FROM "+table)
		w.Must(err)
		columns, err := rows.Columns()
		w.Must(err)
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			w.Must(rows.Scan(values...))
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
		w.Must(rows.Err())
		w.Must(rows.Close())
	}
	return out.String()
}
