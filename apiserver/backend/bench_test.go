package backend

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
)

// discarding is a ResponseWriter that keeps nothing.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarding) WriteHeader(status int)      { d.status = status }

// BenchmarkGetRateLimitScheme measures what Cardea adds to net/http on the most frequent path.
func BenchmarkGetRateLimitScheme(b *testing.B) {
	benchmarkGet(b, serve(b, failing{}), "/api-auth/rate-limit-schemes/free")
}

// BenchmarkListToolsOfAgent measures the longest response: 50 tools.
func BenchmarkListToolsOfAgent(b *testing.B) {
	created := time.Unix(1700000000, 0)
	agent := document.AIAgent{Name: "Helper", Active: true}
	var documents []store.Document
	for i := range 50 {
		name := fmt.Sprintf("tool-%02d", i)
		agent.Tools = append(agent.Tools, name)
		documents = append(documents, fixed(b, "AITool", name, "uid-"+name, int64(100+i), "", created, document.AITool{
			Name: name, Description: "Books a visit of a technician.", Type: "api", Active: true, Endpoint: "https://api.example/visits", Method: "POST", TimeoutSeconds: 30,
		}))
	}
	documents = append(documents, fixed(b, "AIAgent", "agent", "uid-agent", 13, "", created, agent))
	benchmarkGet(b, serveWith(b, failing{}, nil, documents...), "/ai/agents/13/tools")
}

// benchmarkGet requests one path repeatedly.
func benchmarkGet(b *testing.B, handler served, path string) {
	request := httptest.NewRequest(http.MethodGet, path, nil)
	request.Header.Set("Authorization", "Bearer "+handler.key)
	b.ReportAllocs()
	for b.Loop() {
		w := &discarding{header: http.Header{}, status: http.StatusOK}
		handler.ServeHTTP(w, request)
		if w.status != http.StatusOK {
			b.Fatal(w.status)
		}
	}
}
