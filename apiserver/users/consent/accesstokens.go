package consent

import (
	"crypto/sha256"
	"time"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/shares"
)

const (
	// verifiedBytes bounds the memory of tokens whose signatures were verified, and verifiedMost their number of one deployment.
	verifiedBytes = 16 << 20
	verifiedMost  = 10_000
	// verifiedOverhead is what a token takes beside the texts of its claims, in bytes.
	verifiedOverhead = 512
)

// AccessTokens reads access tokens. It remembers which signatures it verified, by the digests of the tokens: the same token comes with each
// call of its client, and verifying it takes longer than all else. Whether a token is in force is checked each time.
type AccessTokens struct {
	keyring  *seal.Keyring
	verified *shares.Cache[[sha256.Size]byte, verified]
}

// verified is what a token says, and the key that it was signed by.
type verified struct {
	claims AccessClaims
	key    string
}

// NewAccessTokens returns one whose opaque tokens a keyring opens.
func NewAccessTokens(keyring *seal.Keyring) *AccessTokens {
	return &AccessTokens{keyring: keyring, verified: shares.NewCache[[sha256.Size]byte, verified](shares.Bounds{Bytes: verifiedBytes, DeploymentCount: verifiedMost})}
}

// Evicted returns how many verified tokens were dropped from memory for want of room.
func (t *AccessTokens) Evicted() uint64 { return t.verified.Evicted() }

// Read reads an access token that an app gave and whose time is not over. The claims are shared: nobody changes them.
func (t *AccessTokens) Read(a *App, raw string, now time.Time) (claims AccessClaims, ok bool) {
	if issuer, opaque := OpaqueIssuer(raw); opaque {
		claims, ok = openAccessToken(t.keyring, issuer, raw)
		return claims, ok && a.gave(claims, now)
	}
	digest := sha256.Sum256([]byte(raw))
	known, found := t.verified.Get(digest, now)
	if !found || !a.publishes(known.key, now) {
		if known.claims, known.key, ok = a.verifyAccessToken(raw, now); !ok {
			return claims, false
		}
		t.verified.Put(a.Entry.Deployment, digest, known, int64(verifiedOverhead+2*len(raw)), now)
	}
	return known.claims, a.gave(known.claims, now)
}

// publishes reports whether what a key signed is good.
func (a *App) publishes(key string, now time.Time) bool {
	for _, one := range a.Content.SigningKeys {
		if one.ID == key {
			return one.ExpiresAt == nil || now.Before(*one.ExpiresAt)
		}
	}
	return false
}

// gave reports whether claims that were proven are the app's, and their time is not over.
func (a *App) gave(claims AccessClaims, now time.Time) bool {
	return claims.Issuer == a.Content.Issuer && claims.Expiry != nil && claims.IssuedAt != nil && now.Before(claims.Expiry.Time())
}
