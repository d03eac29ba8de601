package enduser_test

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// dump returns all users' rows of the store as text, blobs also in hexadecimal, to search for secrets.
func (w *world) dump() string {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	var out strings.Builder
	for _, table := range []string{
		"users", "emails", "phones", "credentials", "sessions", "session_tokens", "signins", "attempts", "challenges", "failures", "counters", "sends", "known_clients", "outbox",
		"organizations", "workspaces", "organization_memberships", "workspace_memberships", "invitations", "events", "audit",
	} {
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
