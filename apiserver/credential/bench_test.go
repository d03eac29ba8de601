package credential

import (
	"context"
	"testing"
	"time"
)

// BenchmarkToken measures a cached token, and a token without the cache.
func BenchmarkToken(b *testing.B) {
	keys := newKeys(b)
	s := testSnapshot(b, keys)
	clock := func() time.Time { return now }
	for name, forget := range map[string]bool{"remembered": false, "verified": true} {
		b.Run(name, func(b *testing.B) {
			tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, clock), clock)
			token := keys.token(header("alg", "ES256"), header("kid", "ec"))
			b.ReportAllocs()
			for b.Loop() {
				if forget {
					tokens.verified.tokens.Clear()
				}
				if _, err := tokens.Authenticate(context.Background(), s, token); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
