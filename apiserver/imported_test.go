package apiserver_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The regular pass leaves days with so few events for ten minutes.
func TestImportedSignInsAreRolledUpWhenTheImportEnds(t *testing.T) {
	w := newReplicas(t, 1)
	lines := `{"type":"user","external_id":"u1","created_at":"2024-02-29T12:00:00Z"}
{"type":"signin","external_id":"s1","user":"u1","signed_in_at":"2024-03-01T08:30:00Z","method":"password"}
{"type":"signin","external_id":"s2","user":"u1","signed_in_at":"2025-03-01T08:30:00Z","method":"password"}
`
	r := httptest.NewRequest("POST", "/imports/"+strings.Repeat("0", 64)+"/batches?offset=0&complete=true", strings.NewReader(lines))
	r.Header.Set("Authorization", "Bearer "+w.admin)
	r.Header.Set("Content-Type", "application/x-ndjson")
	answer := httptest.NewRecorder()
	w.servers[0].Backend().ServeHTTP(answer, r)
	if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"imported":3`) {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	w.Eventually("no event waits to be rolled up", func() bool {
		waiting, err := w.Store.Waiting(t.Context())
		w.Must(err)
		return len(waiting) == 0
	})
}
