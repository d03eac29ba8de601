package agents

import (
	"errors"
	"net/http"
	"testing"
)

// FuzzReadRequest checks that every body gets a request with a revision, or a JSON-RPC error with a status.
func FuzzReadRequest(f *testing.F) {
	f.Add(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`, "2026-07-28", "tools/call", "=?base64?YQ==?=")
	f.Add(`[]`, "", "", "")
	f.Add(` `, "2025-06-18", "", "")
	f.Fuzz(func(t *testing.T, body, revision, method, name string) {
		r, err := readRequest([]byte(body), http.Header{headerRevision: {revision}, headerMethod: {method}, headerName: {name}})
		var wrong *fault
		switch {
		case err == nil && (r.revision == "" || r.Method == ""):
			t.Fatalf("%q: %+v", body, r)
		case err != nil && (!errors.As(err, &wrong) || wrong.Status < 400 || wrong.Code == 0 || wrong.Message == ""):
			t.Fatalf("%q: %v", body, err)
		}
	})
}
