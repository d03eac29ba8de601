package credential

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A token may have 256 permissions and no more, from a claim with a list of words and from an expression.
func TestTokenWithTooManyPermissionsIsRefused(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	s := testSnapshot(t, keys)
	clock := func() time.Time { return now }
	tokens := NewTokens(nil, NewReviews(&reviewer{}, nil, clock), clock)
	words := func(n int) (all []string) {
		for i := range n {
			all = append(all, fmt.Sprintf("p%d", i))
		}
		return all
	}
	narrow := func(n int) string {
		return keys.token(claim("iss", "https://narrow.example"), header("alg", "ES256"), header("kid", "ec"), claim("groups", words(n)))
	}
	for name, tc := range map[string]struct {
		token string
		want  int
	}{
		"256 words": {keys.token(claim("scope", strings.Join(words(256), " "))), 200}, "257 words": {keys.token(claim("scope", strings.Join(words(257), " "))), 401},
		"256 of an expression": {narrow(256), 200}, "257 of an expression": {narrow(257), 401},
	} {
		if _, err := tokens.Authenticate(context.Background(), s, tc.token); statusOf(err) != tc.want {
			t.Errorf("%s: %v, want %d", name, err, tc.want)
		}
	}
}

// Many large tokens of a deployment stay within the bounds of the cache, and another deployment's token remains cached.
func TestTokensOfOneDeploymentEvictNoOthers(t *testing.T) {
	t.Parallel()
	keys := newKeys(t)
	s := testSnapshot(t, keys)
	m := newMemory()
	put := func(name, audience string, audiences int) digest {
		token := presented{issuer: "https://idp.example", audiences: []string{audience}}
		for i := range audiences {
			token.audiences = append(token.audiences, fmt.Sprintf("a%d", i))
		}
		issuer := candidatesOf(s, presented{issuer: "https://idp.example", audiences: []string{audience}}, now)[0]
		key := sha256.Sum256([]byte(name))
		m.put(key, token, issuer, newTokenPrincipal(issuer, "sub", []string{"*"}), now.Add(time.Hour))
		return key
	}
	other := put("other", "cardea:ns:other", 0)
	for i := range 2 * verifiedMost {
		put(fmt.Sprint(i), "cardea:ns:acme", 3000)
		if tokens, bytes := m.size(); tokens > verifiedMost+1 || bytes > verifiedBytes {
			t.Fatalf("%d tokens of %d bytes are remembered", tokens, bytes)
		}
	}
	if _, known := m.get(other, s, now); !known {
		t.Error("another deployment's token was pushed out")
	}
	for i := range 2 * verifiedMost {
		put(fmt.Sprint("small", i), "cardea:ns:acme", 0)
	}
	if tokens, _ := m.size(); tokens != verifiedMost+1 {
		t.Errorf("%d tokens are remembered, want %d of one deployment and one of the other", tokens, verifiedMost)
	}
}
