package credential

import (
	"net/netip"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/internal/scheme"
)

// Attempts throttles failed attempts to authenticate, over all listeners:
//   - a client, an IPv4 address or an IPv6 /64, has 100 a minute;
//   - a peer that asks for clients of its own choice has 3,000 a minute in all.
//
// Beyond that look-ups of keys are refused, and tokens that are not accepted. Keys that need no look-up and accepted tokens pass, so that
// one client behind a proxy locks out no other. A nil Attempts throttles nothing.
type Attempts struct {
	engine         *engine.Engine
	clients, peers *engine.Scheme
	clock          engine.Clock
}

const (
	attemptsPerMinute     = 100
	peerAttemptsPerMinute = 3000
	// attemptsMemory bounds what is remembered of clients and peers, in bytes.
	attemptsMemory = 16 << 20
)

// NewAttempts returns a throttle that counts nothing yet.
func NewAttempts() *Attempts {
	counters := engine.NewEngine(attemptsMemory)
	of := func(owner string, id uint64, most int64) *engine.Scheme {
		return counters.SchemeOf(owner, id, []scheme.Rule{{Unit: "minute", Duration: 1, MaxRequests: most, Mode: "per_ip"}})
	}
	return &Attempts{
		engine: counters, clients: of("clients", 1, attemptsPerMinute), peers: of("peers", 2, peerAttemptsPerMinute), clock: engine.NewClock(time.Now),
	}
}

// Failed counts a credential that was not accepted, for its client and for the peer that asked, which may be the client.
func (a *Attempts) Failed(client, peer netip.Addr) {
	if a == nil {
		return
	}
	var out engine.Result
	a.engine.Decide(a.clock.Now(), a.request(a.clients, client), &out)
	if peer != client {
		a.engine.Decide(a.clock.Now(), a.request(a.peers, peer), &out)
	}
}

// TooMany reports whether a client, or the peer that asks for it, had too many failed attempts.
func (a *Attempts) TooMany(client, peer netip.Addr) bool {
	if a == nil {
		return false
	}
	var out engine.Result
	a.engine.Peek(a.clock.Now(), a.request(a.clients, client), &out)
	if out.Allowed && peer != client {
		a.engine.Peek(a.clock.Now(), a.request(a.peers, peer), &out)
	}
	return !out.Allowed
}

func (a *Attempts) request(of *engine.Scheme, address netip.Addr) *engine.Request {
	return &engine.Request{Method: "GET", Path: "/", Scheme: of, Address: engine.AddressOf(address)}
}

// TooManyAttempts is the refusal of a credential after too many failed attempts.
func TooManyAttempts() *apierror.Error {
	refused := apierror.New(429, "too many unknown credentials came from this address: try again in a minute")
	refused.RetryAfter = time.Minute
	return refused
}
