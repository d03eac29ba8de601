package credential

import (
	"net/netip"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/limits/engine"
	"github.com/cardea-iam/cardea/internal/scheme"
)

const (
	attemptsPerMinute     = 100
	peerAttemptsPerMinute = 3000
	secretsPerMinute      = 20
	// attemptsMemory and secretsMemory bound the memory of failed attempts, in bytes.
	attemptsMemory = 16 << 20
	secretsMemory  = 8 << 20
)

// failures counts failed attempts per minute, of addresses or of pairs of a name and an address.
type failures struct {
	engine *engine.Engine
	scheme *engine.Scheme
	clock  *engine.Clock
}

func newFailures(counters *engine.Engine, owner string, id uint64, mode string, most int64) failures {
	rules := []scheme.Rule{{Unit: "minute", Duration: 1, MaxRequests: most, Mode: mode}}
	return failures{engine: counters, scheme: counters.SchemeOf(owner, id, rules), clock: engine.NewClock(nil)}
}

func (f *failures) add(address netip.Addr, name string) {
	var out engine.Result
	f.engine.Decide(f.clock.Now(), f.request(address, name), &out)
}

func (f *failures) tooMany(address netip.Addr, name string) bool {
	var out engine.Result
	f.engine.Peek(f.clock.Now(), f.request(address, name), &out)
	return !out.Allowed
}

func (f *failures) request(address netip.Addr, name string) *engine.Request {
	return &engine.Request{Method: "GET", Path: "/", Scheme: f.scheme, Key: xxhash.Sum64String(name), Address: engine.AddressOf(address)}
}

// Attempts throttles failed attempts to authenticate, over all listeners:
//   - a client, which is an IPv4 address or an IPv6 /64, may have 100 per minute;
//   - a peer that names its clients itself may have 3,000 per minute in all.
//
// Above that, keys that need a lookup and tokens that are not accepted get 429. Keys that need no lookup and accepted
// tokens pass, so that one client behind a proxy cannot lock out another. A nil Attempts does not throttle.
type Attempts struct{ clients, peers failures }

// NewAttempts returns a throttle without failed attempts.
func NewAttempts() *Attempts {
	counters := engine.NewEngine(attemptsMemory)
	return &Attempts{
		clients: newFailures(counters, "clients", 1, "per_ip", attemptsPerMinute),
		peers:   newFailures(counters, "peers", 2, "per_ip", peerAttemptsPerMinute),
	}
}

// Failed counts a refused credential for its client and for the peer, which may be the client.
func (a *Attempts) Failed(client, peer netip.Addr) {
	if a == nil {
		return
	}
	a.clients.add(client, "")
	if peer != client {
		a.peers.add(peer, "")
	}
}

// TooMany reports whether a client, or its peer, had too many failed attempts.
func (a *Attempts) TooMany(client, peer netip.Addr) bool {
	if a == nil {
		return false
	}
	return a.clients.tooMany(client, "") || peer != client && a.peers.tooMany(peer, "")
}

// TooManyAttempts returns the refusal after too many failed attempts.
func TooManyAttempts() *apierror.Error {
	refused := apierror.New(429, "too many unknown credentials came from this address: try again in a minute")
	refused.RetryAfter = time.Minute
	return refused
}

// SecretAttempts throttles wrong secrets of OAuth clients: 20 per minute for each pair of a client and an address,
// which is an IPv4 address or an IPv6 /64. Other addresses of the client and other clients of the address are not
// affected.
type SecretAttempts struct{ secrets failures }

// NewSecretAttempts returns a throttle without failed attempts.
func NewSecretAttempts() *SecretAttempts {
	return &SecretAttempts{newFailures(engine.NewEngine(secretsMemory), "", 1, "per_key_and_ip", secretsPerMinute)}
}

// Failed counts a wrong secret of a client.
func (a *SecretAttempts) Failed(address netip.Addr, client string) { a.secrets.add(address, client) }

// TooMany reports whether too many wrong secrets of a client came from an address.
func (a *SecretAttempts) TooMany(address netip.Addr, client string) bool {
	return a.secrets.tooMany(address, client)
}
