// Package credential authenticates requests: the client's address and the credential's principal.
package credential

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

// Proxies are the address ranges whose X-Forwarded-For is trusted. An empty list trusts no proxy.
type Proxies []netip.Prefix

// ParseProxies reads ranges in CIDR notation.
func ParseProxies(ranges []string) (Proxies, error) {
	var proxies Proxies
	for _, text := range ranges {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%q is not an address range in CIDR notation, such as 10.0.0.0/8", text)
		}
		proxies = append(proxies, prefix.Masked())
	}
	return proxies, nil
}

func (p Proxies) trusts(address netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(address) {
			return true
		}
	}
	return false
}

// TrustPeer reports whether the X-Forwarded-For of a request's peer is trusted.
func (p Proxies) TrustPeer(r *http.Request) bool {
	if len(p) == 0 {
		return false
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && p.Trust(peer.Addr())
}

// Trust reports whether the X-Forwarded-For of a peer is trusted.
func (p Proxies) Trust(peer netip.Addr) bool { return p.trusts(peer.Unmap().WithZone("")) }

// Peer returns the address of a request's peer, the zero Addr if it is unknown.
func Peer(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return peer.Addr().Unmap().WithZone("")
}

// ClientAddress returns the client's address, the zero Addr if the peer's is unknown. Without a trusted peer, it is the
// peer's address. Otherwise it is the rightmost hop of X-Forwarded-For that is not a trusted proxy, or the leftmost hop
// if all are trusted. The client may have written everything to the left of that hop.
func (p Proxies) ClientAddress(r *http.Request) netip.Addr {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return p.ClientBehind(peer.Addr(), r.Header.Values("X-Forwarded-For"))
}

// ClientBehind is ClientAddress for a peer and its lines of X-Forwarded-For.
func (p Proxies) ClientBehind(peer netip.Addr, forwarded []string) netip.Addr {
	address := peer.Unmap().WithZone("")
	if len(p) == 0 || !p.trusts(address) {
		return address
	}
	hops := strings.Split(strings.Join(forwarded, ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		hop, err := parseHop(hops[i])
		if err != nil {
			return address // malformed hop: use the last address that a trusted proxy reported
		}
		address = hop
		if !p.trusts(hop) {
			break
		}
	}
	return address
}

// parseHop reads an address with or without a port, as proxies write both.
func parseHop(text string) (netip.Addr, error) {
	text = strings.TrimSpace(text)
	if withPort, err := netip.ParseAddrPort(text); err == nil {
		return withPort.Addr().Unmap().WithZone(""), nil
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return address.Unmap().WithZone(""), err
}
