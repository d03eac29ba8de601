package apiserver

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/apiserver/servertest"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// nothing is a ResponseWriter that only keeps its header.
type nothing struct{ header http.Header }

func (n *nothing) Header() http.Header         { return n.header }
func (n *nothing) Write(b []byte) (int, error) { return len(b), nil }
func (n *nothing) WriteHeader(int)             {}

// With tracing off, a request allocates nothing for it. The comparison with tracing on shows that this test can fail.
func TestDisabledTracingAllocatesNothingPerRequest(t *testing.T) {
	allocated := func(tracer *tracing.Tracer) float64 {
		metrics := httpapi.NewMetrics(prometheus.NewRegistry(), "backend", tracer)
		metrics.Expect("GET /things/{id}")
		g := &guard{clock: time.Now, tracer: tracer, next: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			r.Pattern = "GET /things/{id}"
			metrics.Observe(r, http.StatusOK, 0)
		})}
		w, r := &nothing{http.Header{}}, httptest.NewRequest(http.MethodGet, "/things/7", nil)
		r.Header.Set("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		return testing.AllocsPerRun(100, func() { g.ServeHTTP(w, r) })
	}
	if n := allocated(nil); n != 0 {
		t.Errorf("%v allocations", n)
	}
	_, tracer := servertest.Collect(t)
	if allocated(tracer) == 0 {
		t.Error("no allocations with tracing either, so the comparison proves nothing")
	}
}
