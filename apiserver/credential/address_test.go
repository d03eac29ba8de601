package credential

import (
	"net/http"
	"testing"
)

func TestClientAddress(t *testing.T) {
	trusted, err := ParseProxies([]string{"10.0.0.0/8", "2001:db8::/32"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name    string
		proxies Proxies
		peer    string
		forward []string
		want    string
	}{
		{"no proxies: the header is ignored", nil, "10.0.0.1:99", []string{"1.1.1.1"}, "10.0.0.1"},
		{"untrusted peer: the header is ignored", trusted, "192.0.2.1:99", []string{"1.1.1.1"}, "192.0.2.1"},
		{"one hop", trusted, "10.0.0.1:99", []string{"1.1.1.1"}, "1.1.1.1"},
		{"spoofed left part", trusted, "10.0.0.1:99", []string{"9.9.9.9, 1.1.1.1"}, "1.1.1.1"},
		{"two trusted hops", trusted, "10.0.0.1:99", []string{"9.9.9.9, 1.1.1.1, 10.2.3.4"}, "1.1.1.1"},
		{"several headers", trusted, "10.0.0.1:99", []string{"9.9.9.9", "1.1.1.1", "10.2.3.4"}, "1.1.1.1"},
		{"all trusted", trusted, "10.0.0.1:99", []string{"10.9.9.9, 10.2.3.4"}, "10.9.9.9"},
		{"no header", trusted, "10.0.0.1:99", nil, "10.0.0.1"},
		{"garbled hop", trusted, "10.0.0.1:99", []string{"1.1.1.1, unknown"}, "10.0.0.1"},
		{"IPv6 with port", trusted, "[2001:db8::1]:99", []string{"[2001:db9::7]:1234"}, "2001:db9::7"},
		{"mapped IPv4 peer", trusted, "[::ffff:10.0.0.1]:99", []string{"1.1.1.1"}, "1.1.1.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := &http.Request{RemoteAddr: tc.peer, Header: http.Header{"X-Forwarded-For": tc.forward}}
			if got := tc.proxies.ClientAddress(r).String(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if _, err := ParseProxies([]string{"10.0.0.1"}); err == nil {
		t.Error("accepted an address without a length")
	}
}
