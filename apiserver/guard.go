package apiserver

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/credential"
	"github.com/cardea-iam/cardea/apiserver/httpapi"
	"github.com/cardea-iam/cardea/internal/tracing"
)

// warnEvery is the shortest time between two warnings of one listener about the same problem.
const warnEvery = time.Hour

// guard handles every request of a listener, whatever its API:
//   - it sets headers against caches and type sniffing, unless the API sets others;
//   - it warns if clients' addresses are lost, because all limits then count all clients as one;
//   - it makes the request's span if tracing is on.
type guard struct {
	next      http.Handler
	listener  string
	tracer    *tracing.Tracer
	proxies   credential.Proxies
	clock     func() time.Time
	log       logr.Logger
	untrusted prometheus.Counter
	warned    atomic.Int64 // Unix nanoseconds of the last warning, 0 before the first
}

// newUntrusted registers the count of forwarded requests whose peer is not trusted.
func newUntrusted(registry prometheus.Registerer) *prometheus.CounterVec {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_untrusted_forwarded_requests_total",
		Help: "Requests with X-Forwarded-For from a peer that is not in --trusted-proxies: they count as the peer's own.",
	}, []string{"listener"})
	registry.MustRegister(counter)
	return counter
}

var (
	noStore = []string{"no-store"}
	noSniff = []string{"nosniff"}
)

// ServeHTTP implements http.Handler.
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header["Cache-Control"], header["X-Content-Type-Options"] = noStore, noSniff
	if _, forwarded := r.Header["X-Forwarded-For"]; forwarded && !g.proxies.TrustPeer(r) {
		g.warn(r)
	}
	if g.tracer.On() {
		g.serveTraced(w, r)
		return
	}
	g.next.ServeHTTP(w, r)
}

// serveTraced continues the trace of a trusted proxy for the request.
func (g *guard) serveTraced(w http.ResponseWriter, r *http.Request) {
	traced, span := httpapi.Traced(g.tracer, r, g.listener, g.proxies.TrustPeer(r))
	defer span.End()
	g.next.ServeHTTP(w, traced)
}

func (g *guard) warn(r *http.Request) {
	g.untrusted.Inc()
	now, last := g.clock().UnixNano(), g.warned.Load()
	if last != 0 && now-last < int64(warnEvery) || !g.warned.CompareAndSwap(last, now) {
		return
	}
	g.log.Info("X-Forwarded-For arrives from a peer that is not trusted, so all clients behind it count as one: name the ingress' addresses in --trusted-proxies", "peer", r.RemoteAddr)
}
