package webhooks

import (
	"net"
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// HoldAtMost bounds the events that a deployment's deliveries hold, in bytes. It is called before Run.
func (d *Dispatcher) HoldAtMost(n int) { d.held.ofDeployment = n }

// Held returns how many bytes of events all deliveries hold.
func (d *Dispatcher) Held() int {
	d.held.mu.Lock()
	defer d.held.mu.Unlock()
	return d.held.total
}

// ResolveWith lets the dispatcher look names up with a resolver. It is called before Run.
func (d *Dispatcher) ResolveWith(resolver *net.Resolver) {
	for transport, policy := range map[http.RoundTripper]*egress.Policy{d.client.secure: d.Egress, d.client.plain: d.Egress.Private()} {
		dialer := policy.Dialer(dialWithin)
		dialer.Resolver = resolver
		transport.(*http.Transport).DialContext = dialer.DialContext
	}
}
