// Package egress guards the connections that the server opens to addresses which tenants name: token issuers, carriers,
// webhooks, mail servers. None reaches what only the server can reach, unless the operator of the service allows it.
package egress

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// maxHeader bounds the header of an answer, in bytes.
const maxHeader = 64 << 10

// RefusedError says that a name or an address leads to where connections are not allowed.
type RefusedError struct {
	// IP is the address after name resolution.
	IP netip.Addr
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("%s is not a public address: name its range in --egress-allowed-cidrs to connect to it", e.IP)
}

// Dialer returns a dialer that connects to public addresses and to those of allowed, else fails with RefusedError. within
// bounds a dial.
func Dialer(allowed []netip.Prefix, within time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout: within,
		// Asked with the address that is being connected to, so a name that resolves differently the second time gains nothing.
		Control: func(_, address string, _ syscall.RawConn) error { return permit(address, allowed) },
	}
}

// Transport returns an HTTP transport over Dialer. within bounds the dial and the TLS handshake, each.
func Transport(allowed []netip.Prefix, within time.Duration) *http.Transport {
	return &http.Transport{
		// No proxy of the environment: the address that is checked must be the one that is reached.
		DialContext: Dialer(allowed, within).DialContext, TLSHandshakeTimeout: within, ForceAttemptHTTP2: true,
		MaxResponseHeaderBytes: maxHeader, IdleConnTimeout: 90 * time.Second,
	}
}

func permit(address string, allowed []netip.Prefix) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	// A zone would keep any prefix from containing the address.
	ip := target.Addr().Unmap().WithZone("")
	for _, prefix := range allowed {
		if prefix.Contains(ip) {
			return nil
		}
	}
	if !ip.IsGlobalUnicast() || ip.IsPrivate() || reserved(ip) {
		return &RefusedError{IP: ip}
	}
	return nil
}

// reserved tells ranges that are no private ones by their standard, and no public ones either, or that carry an IPv4
// address in an IPv6 one (IANA's special-purpose registries).
func reserved(ip netip.Addr) bool {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20", "fec0::/10",
	} {
		if netip.MustParsePrefix(text).Contains(ip) {
			return true
		}
	}
	return false
}
