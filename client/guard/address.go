package guard

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// peer is the address that a request's connection comes from.
func peer(r *http.Request) netip.Addr {
	if of, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		return of.Addr().Unmap().WithZone("")
	}
	return netip.Addr{}
}

// Behind returns a function that finds the client's address behind trusted proxies: the rightmost address of
// X-Forwarded-For that is not a proxy's. If the connection does not come from a proxy, the header is ignored, because a
// client can send any.
func Behind(proxies ...netip.Prefix) func(*http.Request) netip.Addr {
	trusted := func(address netip.Addr) bool {
		return slices.ContainsFunc(proxies, func(of netip.Prefix) bool { return of.Contains(address) })
	}
	return func(r *http.Request) netip.Addr {
		client := peer(r)
		hops := strings.Split(strings.Join(r.Header["X-Forwarded-For"], ","), ",")
		for i := len(hops) - 1; i >= 0 && trusted(client); i-- {
			hop, err := parseHop(strings.TrimSpace(hops[i]))
			if err != nil {
				break // a trusted proxy adds an address, so this hop and those before it may be forged
			}
			client = hop
		}
		return client
	}
}

// parseHop reads an address with or without a port, as proxies write both.
func parseHop(text string) (netip.Addr, error) {
	if of, err := netip.ParseAddrPort(text); err == nil {
		return of.Addr().Unmap().WithZone(""), nil
	}
	address, err := netip.ParseAddr(strings.Trim(text, "[]"))
	return address.Unmap().WithZone(""), err
}
