package relyingparty

import (
	"slices"
	"strings"
	"testing"
)

func TestRelyingPartyIsTheDeclaredOneOrTheFirstHost(t *testing.T) {
	for _, tc := range []struct {
		declared string
		hosts    []string
		want     string
	}{
		{"", nil, ""},
		{"", []string{"login.acme.example", "acme.example"}, "login.acme.example"},
		{"acme.example", []string{"login.acme.example"}, "acme.example"},
		{"acme.example", nil, "acme.example"},
		{"", []string{"10.0.0.1", "acme.example"}, "acme.example"},
		{"", []string{"10.0.0.1"}, ""},
	} {
		if got := ID(tc.declared, tc.hosts); got != tc.want {
			t.Errorf("ID(%q, %v) = %q, want %q", tc.declared, tc.hosts, got, tc.want)
		}
	}
}

func TestPublicSuffixesAndAddressesAreNoRelyingParties(t *testing.T) {
	for id, fault := range map[string]string{
		"acme.example": "", "login.acme.co.uk": "", "acme.github.io": "", "localhost": "", "app.localhost": "",
		"com": "public suffix", "co.uk": "public suffix", "github.io": "public suffix", "intranet": "public suffix",
		"10.0.0.1": "no domain name", "0.0.1": "no domain name", "7": "no domain name",
	} {
		err := Validate(id)
		if fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("Validate(%q) = %v, want %q", id, err, fault)
		}
	}
}

func TestOriginsAreTheHostsAndTheAllowedOnesOnce(t *testing.T) {
	got := Origins([]string{"acme.example", "app.acme.example"}, []string{"https://app.acme.example", "https://shop.example:8443"}, nil)
	if want := []string{"https://acme.example", "https://app.acme.example", "https://shop.example:8443"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	got = Origins([]string{"localhost"}, nil, func(host string) string { return "http://" + host + ":8081" })
	if want := []string{"http://localhost:8081"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Origins(nil, nil, nil); len(got) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestOriginsWithinARelyingParty(t *testing.T) {
	for _, tc := range []struct {
		id, origin string
		want       bool
	}{
		{"acme.example", "https://acme.example", true},
		{"acme.example", "https://acme.example:8443", true},
		{"acme.example", "https://login.acme.example", true},
		{"acme.example", "https://notacme.example", false},
		{"login.acme.example", "https://acme.example", false},
		{"localhost", "http://localhost:3000", true},
		// Browsers compare only whole names with an id that is a public suffix.
		{"localhost", "http://app.localhost", false},
		{"intranet", "https://intranet", true},
		{"intranet", "https://app.intranet", false},
		{"0.0.1", "https://10.0.0.1", false},
		{"acme.example", "null", false},
		{"acme.example", "https://%", false},
	} {
		if got := Contains(tc.id, tc.origin); got != tc.want {
			t.Errorf("Contains(%q, %q) = %t", tc.id, tc.origin, got)
		}
	}
}

func TestRelatedOriginsNeedARegistrableDomain(t *testing.T) {
	related, unusable := Related("acme.example", []string{
		"https://acme.example", "https://app.acme.example", "https://acme.co.uk", "http://localhost:3000", "https://intranet", "https://10.0.0.1", "https://github.io",
	})
	if want := []string{"https://acme.co.uk"}; !slices.Equal(related, want) {
		t.Errorf("related: %v, want %v", related, want)
	}
	if want := []string{"http://localhost:3000", "https://intranet", "https://10.0.0.1", "https://github.io"}; !slices.Equal(unusable, want) {
		t.Errorf("unusable: %v, want %v", unusable, want)
	}
}

func TestLabelsAreCountedOnceForAllSuffixes(t *testing.T) {
	got := Labels([]string{"https://acme.example", "https://login.acme.co.uk", "https://acme.de:8443", "https://shop.example", "http://localhost"})
	if want := []string{"acme", "shop"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestListIsTheJSONOfTheStandard(t *testing.T) {
	if got, want := string(List([]string{"https://acme.example", "https://shop.example"})), `{"origins":["https://acme.example","https://shop.example"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := string(List(nil)), `{"origins":[]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
