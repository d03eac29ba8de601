package credential

import (
	"context"
	"strings"
	"testing"
	"time"
)

// FuzzToken checks that any credential is refused with a 401, unless it is a signed token.
func FuzzToken(f *testing.F) {
	keys := newKeys(f)
	s := testSnapshot(f, keys)
	clock := func() time.Time { return now }
	valid := map[string]bool{}
	for _, token := range []string{keys.token(), keys.token(header("alg", "ES256"), header("kid", "ec")), keys.token(header("alg", "EdDSA"), header("kid", "ed"))} {
		valid[token] = true
		f.Add(token)
	}
	parts := strings.Split(keys.token(), ".")
	for _, seed := range []string{"", "..", "a.b.c", parts[0] + "." + parts[1] + ".", keys.token(header("alg", "none")), keys.token(header("crit", []string{"x"})), parts[0] + "=." + parts[1] + "." + parts[2]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, clock), clock)
		for range 2 { // verified, and cached
			p, err := tokens.Authenticate(context.Background(), s, token)
			if (err == nil) != (p != nil) || err != nil && statusOf(err) != 401 {
				t.Fatalf("%v, %v", p, err)
			}
			if err == nil && !valid[token] {
				t.Errorf("accepts %q", token)
			}
		}
	})
}
