package webhooks

import (
	"net"
	"net/http"

	"github.com/cardea-iam/cardea/apiserver/outbound/egress"
)

// ResolveWith lets the dispatcher look names up with a resolver. It is called before Run.
func (d *Dispatcher) ResolveWith(resolver *net.Resolver) {
	for transport, policy := range map[http.RoundTripper]*egress.Policy{d.client.secure: d.Egress, d.client.plain: d.Egress.Private()} {
		dialer := policy.Dialer(dialWithin)
		dialer.Resolver = resolver
		transport.(*http.Transport).DialContext = dialer.DialContext
	}
}
