package reservation

import (
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/ids"
)

func TestKeys(t *testing.T) {
	for _, tc := range []struct{ key, want, words string }{
		{ID("RateLimitScheme", 7), "id/RateLimitScheme/7", "id 7"},
		{Slug("RateLimitScheme", "ns/acme", "free"), "slug/RateLimitScheme/ns/acme/free", "slug free"},
		{Host("app.example.com"), "host/app.example.com", "host app.example.com"},
		{Domain("ns/acme", "globex.example"), "domain/ns/acme/globex.example", "domain globex.example"},
		{APIKey("abcdefghijkl"), "api-key/abcdefghijkl", "API key abcdefghijkl"},
		{SCIMToken("abcdefghijkl"), "scim-token/abcdefghijkl", "SCIM token abcdefghijkl"},
		{AdoptedSecret("ns", "brought", "api-key"), "secret/ns/brought/api-key", "Secret ns/brought/api-key"},
		{"other/x", "other/x", "other/x"},
	} {
		if tc.key != tc.want {
			t.Errorf("key %q, want %q: keys are stored, so their form is frozen", tc.key, tc.want)
		}
		if got := Describe(tc.key); got != tc.words {
			t.Errorf("Describe(%q) = %q, want %q", tc.key, got, tc.words)
		}
	}
}

func TestTheSameNameElsewhereIsAnotherKey(t *testing.T) {
	distinct := []string{
		Slug("RateLimitScheme", "ns/a", "x"), Slug("RateLimitScheme", "ns/b", "x"), Slug("RateLimitScheme", "other/a", "x"), Slug("APIAuthApp", "ns/a", "x"),
		ID("RateLimitScheme", 1), ID("APIAuthApp", 1), Domain("ns/a", "x"), Domain("ns/b", "x"), Host("x"), AdoptedSecret("ns", "a", "b"), AdoptedSecret("ns", "a", "c"),
	}
	seen := map[string]bool{}
	for _, key := range distinct {
		if seen[key] {
			t.Errorf("%q twice", key)
		}
		seen[key] = true
	}
}

// The bounds of names are those of Kubernetes and of the CRDs; status.claims and the store take 512 bytes.
func TestTheLongestKeysFit(t *testing.T) {
	long := func(n int) string { return strings.Repeat("a", n) }
	for _, key := range []string{
		ID("IdentityDeployment", 1<<63-1), Slug("IdentityDeployment", long(63)+"/"+long(63), long(63)), Host(long(253)),
		Domain(long(63)+"/"+long(63), long(253)),
		AdoptedSecret(long(63), long(253), long(128)),
	} {
		if len(key) > 512 {
			t.Errorf("%.30s... has %d bytes", key, len(key))
		}
	}
}

func TestInnate(t *testing.T) {
	const kind = "IdentityDeployment"
	for key, want := range map[string]bool{
		ID(kind, ids.Derive(kind, "bank", "prod")):                           true,
		ID(kind, ids.Derive(kind, "bank", "other")):                          false,
		ID("RateLimitScheme", ids.Derive("RateLimitScheme", "bank", "prod")): false,
		JWT("", OwnAudience("bank", "prod")):                                 true,
		JWT("https://issuer.example", OwnAudience("bank", "prod")):           true,
		JWT("", OwnAudience("bank", "prod2")):                                false,
		JWT("", "bank"):                                                      false,
		Host("bank.example"):                                                 false,
	} {
		if got := Innate(key, kind, "bank", "prod"); got != want {
			t.Errorf("Innate(%q) = %v", key, got)
		}
	}
	if Innate(JWT("", OwnAudience("bank", "prod")), "OAuthApp", "bank", "prod") {
		t.Error("an audience belongs to a deployment alone")
	}
}
