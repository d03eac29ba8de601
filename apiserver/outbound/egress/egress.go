// Package egress guards the connections that the server opens to addresses named by tenants: token issuers, message
// providers, webhooks, mail servers. It refuses addresses that only the server can reach, unless the operator of the
// service allows them.
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

// fabric are addresses that IANA's registries classify as public, but that are internal in clouds.
var fabric = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"), // Azure's WireServer
	netip.MustParsePrefix("34.118.224.0/20"),  // Services of GKE clusters that configure no range
}

// RefusedError means that a name or an address leads to an address that the policy does not allow.
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

// Policy decides which addresses the server may connect to: public addresses and allowed ranges, but never denied
// ranges.
type Policy struct {
	denied  []netip.Prefix
	allowed []netip.Prefix
	guard   *ssrf.Guardian
	// private refuses public addresses.
	private bool
}

// NewPolicy returns a Policy with private ranges that are allowed, and ranges that are denied even if they are public
// or allowed.
func NewPolicy(allowed, denied []netip.Prefix) *Policy {
	var v4, v6 []netip.Prefix
	for _, prefix := range allowed {
		if prefix.Addr().Is4() {
			v4 = append(v4, prefix)
		} else {
			v6 = append(v6, prefix)
		}
	}
	return &Policy{denied: denied, allowed: allowed, guard: ssrf.New(
		ssrf.WithAnyPort(), ssrf.WithAllowedV4Prefixes(v4...), ssrf.WithAllowedV6Prefixes(v6...), ssrf.WithDeniedV4Prefixes(fabric...),
	)}
}

// Private returns the policy that permits only the allowed ranges: for requests without TLS, which must not leave the
// operator's own network.
func (p *Policy) Private() *Policy {
	private := *p
	private.private = true
	return &private
}

// Dialer returns a dialer that only connects where the policy allows; otherwise it fails with RefusedError. within
// bounds a dial.
func (p *Policy) Dialer(within time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: within,
		// Called with the address of the connection, so a name that resolves differently the second time is checked again.
		Control: func(_, address string, _ syscall.RawConn) error { return p.permit(address) },
	}
}

// Transport returns an HTTP transport over Dialer. within bounds the dial and the TLS handshake, each.
func (p *Policy) Transport(within time.Duration) *http.Transport {
	return &http.Transport{
		// Proxy is not set: through a proxy, the checked address would not be the destination of the request.
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
	within := func(prefix netip.Prefix) bool { return prefix.Contains(ip) }
	if p.guard.SafeAddr(ip) != nil || p.private && !slices.ContainsFunc(p.allowed, within) {
		return &RefusedError{IP: ip}
	}
	return nil
}
