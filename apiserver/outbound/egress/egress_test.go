package egress

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestPermit(t *testing.T) {
	for address, want := range map[string]bool{
		"1.1.1.1:443": true, "[2606:4700::1111]:443": true, "[::ffff:1.1.1.1]:443": true,
		"10.0.0.1:443": false, "172.16.0.1:443": false, "192.168.1.1:443": false,
		"127.0.0.1:443": false, "[::1]:443": false, "169.254.169.254:443": false, "[fe80::1]:443": false, "[fe80::1%eth0]:443": false, "[fd00::1]:443": false,
		"100.64.0.1:443": false, "0.0.0.0:443": false, "0.1.2.3:443": false, "224.0.0.1:443": false, "[::ffff:10.0.0.1]:443": false, "[64:ff9b::a00:1]:443": false,
		"255.255.255.255:443": false, "198.18.0.1:443": false, "[::]:443": false, "[::a00:1]:443": false, "[2001:0:a00:1::]:443": false, "[2002:a00:1::]:443": false,
		"nonsense": false, "localhost:443": false,
	} {
		if got := NewPolicy(nil, nil).permit(address) == nil; got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
	for address, allowed := range map[string]string{"10.0.0.1:443": "10.0.0.0/8", "[::ffff:10.0.0.1]:443": "10.0.0.0/8", "[fe80::1%eth0]:443": "fe80::/10"} {
		if err := NewPolicy([]netip.Prefix{netip.MustParsePrefix(allowed)}, nil).permit(address); err != nil {
			t.Errorf("%s within %s: %v", address, allowed, err)
		}
	}
}

// Requests without TLS do not leave the operator's own network.
func TestPrivatePolicyPermitsAllowedRangesAlone(t *testing.T) {
	t.Parallel()
	private := NewPolicy([]netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}).Private()
	for address, want := range map[string]bool{"10.0.0.1:80": true, "[::ffff:10.0.0.1]:80": true, "10.1.0.1:80": false, "1.1.1.1:80": false, "127.0.0.1:80": false} {
		if got := private.permit(address) == nil; got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// The policy checks the address to which a name resolves when the client connects.
func TestNamesAreCheckedByTheirAddress(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	url := strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
	get := func(allowed ...netip.Prefix) error {
		client := &http.Client{Transport: NewPolicy(allowed, nil).Transport(5 * time.Second)}
		defer client.CloseIdleConnections()
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Do(request)
		if err == nil {
			err = answer.Body.Close()
		}
		return err
	}
	var refused *RefusedError
	if err := get(); !errors.As(err, &refused) || !refused.IP.IsLoopback() || !strings.Contains(err.Error(), "--egress-allowed-cidrs") {
		t.Errorf("not allowed: %v", err)
	}
	if err := get(netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

func TestInternalCloudAddressesAreDenied(t *testing.T) {
	for _, address := range []string{"168.63.129.16:80", "34.118.224.1:443", "34.118.239.255:443", "[5f00::1]:443", "[::ffff:168.63.129.16]:80"} {
		if NewPolicy(nil, nil).permit(address) == nil {
			t.Errorf("%s is permitted", address)
		}
	}
	prefixes := func(text string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(text)} }
	var refused *RefusedError
	if err := NewPolicy(nil, prefixes("1.1.1.0/24")).permit("1.1.1.1:443"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "--egress-denied-cidrs") {
		t.Errorf("a denied public address: %v", err)
	}
	if NewPolicy(prefixes("10.0.0.0/8"), prefixes("10.1.0.0/16")).permit("10.1.2.3:443") == nil {
		t.Error("a denied range within an allowed one is permitted")
	}
	if err := NewPolicy(prefixes("168.63.129.16/32"), nil).permit("168.63.129.16:80"); err != nil {
		t.Errorf("an allowed address that is denied by default: %v", err)
	}
}
