// Package egress guards the connections that the server opens to addresses which tenants name: token issuers, carriers,
// webhooks, mail servers. None reaches what only the server can reach, unless the operator of the service allows it.
package egress

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"code.dny.dev/ssrf" // IANA's special-purpose registries, generated
)

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 64 << 10

// fabric are public addresses by the registries that clouds use inside.
var fabric = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's WireServer
	netip.MustParsePrefix("34.118.224.0/20"),  // the Services of GKE clusters that name no range
}

// RefusedError says that a name or an address leads to where connections are not allowed.
type RefusedError struct {
	// IP is the address after name resolution.
	IP netip.Addr
	// Denied reports that the operator of the service denies it.
	Denied bool
}

func (e *RefusedError) Error() string {
	if e.Denied {
		return fmt.Sprintf("%s is denied by --egress-denied-cidrs", e.IP)
	}
	return fmt.Sprintf("%s is not a public address: name its range in --egress-allowed-cidrs to connect to it", e.IP)
}

// Policy decides where connections are allowed: to public addresses, and to those of allowed ranges; never to those
// of denied ones.
type Policy struct {
	denied []netip.Prefix
	guard  *ssrf.Guardian
}

// NewPolicy returns a Policy with ranges that are allowed although they are private, and ranges that are denied although they are
// public, or allowed.
func NewPolicy(allowed, denied []netip.Prefix) *Policy {
	var v4, v6 []netip.Prefix
	for _, prefix := range allowed {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	return &Policy{denied: denied, guard: ssrf.New(
		ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...), ssrf.WithDeniedV4Prefixes(fabric...),
	)}
}

// Dialer returns a dialer that connects where the policy allows, else fails with RefusedError. within bounds a dial.
func (p *Policy) Dialer(within time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: within,
		// Asked with the address that is being connected to, so a name that resolves differently the second time gains nothing.
		Control: func(_, address string, _ syscall.RawConn) error { return p.permit(address) },
	}
}

// Transport returns an HTTP transport over Dialer. within bounds the dial and the TLS handshake, each.
func (p *Policy) Transport(within time.Duration) *http.Transport {
	return &http.Transport{
		// No proxy of the environment: the address that is checked must be the one that is reached.
		DialContext: p.Dialer(within).DialContext, TLSHandshakeTimeout: within, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: 90 * time.Second,
	}
}

func (p *Policy) permit(address string) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	// A zone would keep any prefix from containing the address.
	ip := target.Addr().Unmap().WithZone("")
	if slices.ContainsFunc(p.denied, func(prefix netip.Prefix) bool { return prefix.Contains(ip) }) {
		return &RefusedError{IP: ip, Denied: true}
	}
	if p.guard.SafeAddr(ip) != nil {
		return &RefusedError{IP: ip}
	}
	return nil
}
