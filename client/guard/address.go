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

// Behind returns how to find the client's address behind proxies: the rightmost hop of X-Forwarded-For that is none of
// them. From anybody else the header is ignored, for a client can write it.
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
				break // what a trusted proxy did not write as an address is no reason to believe who wrote before it
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
