package management

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// discarding is a ResponseWriter that keeps nothing.
type discarding struct {
	header http.Header
	status int
}

func (d *discarding) Header() http.Header         { return d.header }
func (d *discarding) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarding) WriteHeader(status int)      { d.status = status }

// BenchmarkGetRateLimitScheme is what Cardea adds to net/http on the most frequent path.
func BenchmarkGetRateLimitScheme(b *testing.B) {
	handler := serve(b, failing{})
	request := httptest.NewRequest(http.MethodGet, "/api-auth/rate-limit-schemes/free", nil)
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
