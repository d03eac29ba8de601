package account

import (
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestIDsOfARequestDiffer(t *testing.T) {
	t.Parallel()
	r := &Request{Now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), Random: strings.NewReader("aaa" + "aaa" + "bbb" + "aaa" + "bbb" + "ccc")}
	made := map[int64]bool{}
	for range 3 {
		id, err := r.NewID()
		if err != nil || made[id] {
			t.Fatalf("%d again, or %v", id, err)
		}
		made[id] = true
	}
	if id, err := r.NewID(); err == nil {
		t.Errorf("without random bytes: %d", id)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                "",
		"curl/8.0":                        "curl/8.0",
		"a\x00b\xffc":                     "abc",
		strings.Repeat("x", 600):          strings.Repeat("x", 512),
		strings.Repeat("x", 511) + "é":    strings.Repeat("x", 511),
		strings.Repeat("\x00", 600) + "x": "x",
	} {
		if got := clip(in); got != want {
			t.Errorf("Clip(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestNewClientNetworks(t *testing.T) {
	t.Parallel()
	for address, want := range map[string][2]string{
		"192.0.2.77":         {"192.0.2.77", "192.0.2.0/24"},
		"2001:db8:1:2:3::4":  {"2001:db8:1:2::/64", "2001:db8:1::/48"},
		"2001:db8:1:ffff::4": {"2001:db8:1:ffff::/64", "2001:db8:1::/48"},
	} {
		c := NewClient(netip.MustParseAddr(address), "")
		if c.Address != address || c.Network != want[0] || c.WideNetwork != want[1] {
			t.Errorf("%s: %+v", address, c)
		}
	}
	// All clients with unknown addresses share one network name. An empty name would match the send filters of every
	// client.
	if c := NewClient(netip.Addr{}, "agent"); c.Address != "" || c.Network == "" || c.WideNetwork == "" || c.UserAgent != "agent" {
		t.Errorf("an unknown address: %+v", c)
	}
}
