package authorization

import (
	"crypto/sha256"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/cardea-iam/cardea/internal/seal"
)

// maxVerified bounds how many tokens are remembered; each takes less than a kilobyte.
const maxVerified = 10_000

// AccessTokens reads access tokens. It remembers which signatures it verified, by the digests of the tokens: the same token comes with each
// call of its client, and to verify it takes longer than all else. What is true of a token is not remembered, but judged each time.
type AccessTokens struct {
	keyring  *seal.Keyring
	verified *lru.Cache[[sha256.Size]byte, verified]
}

// verified is what a token says, and the key that it was signed by.
type verified struct {
	claims AccessClaims
	key    string
}

// NewAccessTokens returns one whose opaque tokens a keyring opens.
func NewAccessTokens(keyring *seal.Keyring) *AccessTokens {
	cache, err := lru.New[[sha256.Size]byte, verified](maxVerified)
	if err != nil {
		panic(err) // the size is a constant above 0
	}
	return &AccessTokens{keyring: keyring, verified: cache}
}

// Read reads an access token that an app gave and whose time is not over. The claims are shared: nobody changes them.
func (t *AccessTokens) Read(a *App, raw string, now time.Time) (claims AccessClaims, ok bool) {
	if issuer, opaque := OpaqueIssuer(raw); opaque {
		claims, ok = openAccessToken(t.keyring, issuer, raw)
		return claims, ok && a.gave(claims, now)
	}
	digest := sha256.Sum256([]byte(raw))
	known, found := t.verified.Get(digest)
	if !found || !a.publishes(known.key, now) {
		if known.claims, known.key, ok = a.verifyAccessToken(raw, now); !ok {
			return claims, false
		}
		t.verified.Add(digest, known)
	}
	return known.claims, a.gave(known.claims, now)
}

// publishes tells whether what a key signed is good.
func (a *App) publishes(key string, now time.Time) bool {
	for _, one := range a.Content.SigningKeys {
		if one.ID == key {
			return one.ExpiresAt == nil || now.Before(*one.ExpiresAt)
		}
	}
	return false
}

// gave tells whether claims that were proven are the app's, and their time is not over.
func (a *App) gave(claims AccessClaims, now time.Time) bool {
	return claims.Issuer == a.Content.Issuer && claims.Expiry != nil && claims.IssuedAt != nil && now.Before(claims.Expiry.Time())
}
