package ids

import (
	"testing"

	"pgregory.net/rapid"
)

func TestDeriveIsFrozen(t *testing.T) {
	// These values are promised to every install; a change here breaks clients' stored ids.
	for _, tc := range []struct {
		kind, namespace, name string
		want                  int64
	}{
		{"IdentityDeployment", "acme", "acme", 88666954214395979},
		{"RateLimitScheme", "acme", "acme.free", 5353061665805746469},
	} {
		if got := Derive(tc.kind, tc.namespace, tc.name); got != tc.want {
			t.Errorf("Derive(%q, %q, %q) = %d, want %d", tc.kind, tc.namespace, tc.name, got, tc.want)
		}
	}
}

func TestDeriveIsAPositiveIDThatRoundTrips(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := Derive(rapid.String().Draw(t, "kind"), rapid.String().Draw(t, "namespace"), rapid.String().Draw(t, "name"))
		got, err := Parse(Format(id))
		if err != nil || got != id {
			t.Fatalf("Parse(Format(%d)) = %d, %v", id, got, err)
		}
	})
}

func TestParse(t *testing.T) {
	for in, want := range map[string]int64{
		"1": 1, "42": 42, "9223372036854775807": 9223372036854775807,
		"": 0, "0": 0, "-1": 0, "+1": 0, "01": 0, "1.0": 0, "1e3": 0, " 1": 0, "1 ": 0, "abc": 0, "9223372036854775808": 0, "٣": 0,
	} {
		got, err := Parse(in)
		if got != want || (err == nil) != (want != 0) {
			t.Errorf("Parse(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
}
