package claims

import (
	"strings"
	"testing"
)

func TestClaims(t *testing.T) {
	for _, tc := range []struct{ claim, want, words string }{
		{ID("RateLimitScheme", 7), "id/RateLimitScheme/7", "id 7"},
		{Slug("RateLimitScheme", "ns/acme", "free"), "slug/RateLimitScheme/ns/acme/free", "slug free"},
		{Host("app.example.com"), "host/app.example.com", "host app.example.com"},
		{APIKey("abcdefghijkl"), "api-key/abcdefghijkl", "API key abcdefghijkl"},
		{AdoptedSecret("ns", "brought", "api-key"), "secret/ns/brought/api-key", "Secret ns/brought/api-key"},
		{"other/x", "other/x", "other/x"},
	} {
		if tc.claim != tc.want {
			t.Errorf("claim %q, want %q: claims are stored, so their form is frozen", tc.claim, tc.want)
		}
		if got := Describe(tc.claim); got != tc.words {
			t.Errorf("Describe(%q) = %q, want %q", tc.claim, got, tc.words)
		}
	}
}

func TestTheSameNameElsewhereIsAnotherClaim(t *testing.T) {
	distinct := []string{
		Slug("RateLimitScheme", "ns/a", "x"), Slug("RateLimitScheme", "ns/b", "x"), Slug("RateLimitScheme", "other/a", "x"), Slug("APIAuthApp", "ns/a", "x"),
		ID("RateLimitScheme", 1), ID("APIAuthApp", 1), AdoptedSecret("ns", "a", "b"), AdoptedSecret("ns", "a", "c"),
	}
	seen := map[string]bool{}
	for _, claim := range distinct {
		if seen[claim] {
			t.Errorf("%q twice", claim)
		}
		seen[claim] = true
	}
}

// The bounds of names are those of Kubernetes and of the CRDs; status.claims and the store take 512 bytes.
func TestTheLongestClaimsFit(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, claim := range []string{
		ID("IdentityDeployment", 1<<63-1), Slug("IdentityDeployment", long(63)+"/"+long(63), long(63)), Host(long(253)),
		AdoptedSecret(long(63), long(253), long(128)),
	} {
		if len(claim) > 512 {
			t.Errorf("%.30s... has %d bytes", claim, len(claim))
		}
	}
}
