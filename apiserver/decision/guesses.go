package decision

import (
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/ratelimit"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// guesses bounds how often one client may present bad credentials: 100 a minute, an IPv4 address or an IPv6 /64. Beyond it
// look-ups of keys are refused, and tokens that are not good; keys that need no look-up and good tokens pass, so that nobody behind one
// proxy is locked out by a guesser there.
type guesses struct {
	engine *ratelimit.Engine
	scheme *ratelimit.Scheme
	clock  ratelimit.Clock
}

const (
	guessesPerMinute = 100
	// guessesMemory bounds what is remembered of clients, in bytes.
	guessesMemory = 16 << 20
)

func newGuesses() *guesses {
	engine := ratelimit.NewEngine(guessesMemory)
	rule := scheme.Rule{Unit: "minute", Duration: 1, MaxRequests: guessesPerMinute, Mode: "per_ip"}
	return &guesses{engine: engine, scheme: engine.Scheme(1, []scheme.Rule{rule}), clock: ratelimit.NewClock(time.Now)}
}

// count notes a bad credential.
func (g *guesses) count(client netip.Addr) {
	var out ratelimit.Result
	g.engine.Decide(g.clock.Now(), g.request(client), &out)
}

// tooMany tells whether the client presented too many.
func (g *guesses) tooMany(client netip.Addr) bool {
	var out ratelimit.Result
	g.engine.Peek(g.clock.Now(), g.request(client), &out)
	return !out.Allowed
}

func (g *guesses) request(client netip.Addr) *ratelimit.Request {
	return &ratelimit.Request{Method: "GET", Path: "/", Scheme: g.scheme, Address: ratelimit.AddressOf(client)}
}

func tooManyGuesses() *apierror.Error {
	refused := apierror.New(429, "too many unknown credentials came from this address: try again in a minute")
	refused.RetryAfter = time.Minute
	return refused
}

// outcomes counts decisions.
type outcomes struct{ allowed, denied, limited, unauthenticated, unavailable prometheus.Counter }

func newOutcomes(registry prometheus.Registerer) *outcomes {
	counter := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cardea_decisions_total", Help: "Decisions by outcome: allowed, permission_denied, rate_limited, unauthenticated, unavailable.",
	}, []string{"outcome"})
	registry.MustRegister(counter)
	return &outcomes{
		allowed: counter.WithLabelValues("allowed"), denied: counter.WithLabelValues("permission_denied"),
		limited: counter.WithLabelValues("rate_limited"), unauthenticated: counter.WithLabelValues("unauthenticated"),
		unavailable: counter.WithLabelValues("unavailable"),
	}
}
