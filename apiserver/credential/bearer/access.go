package bearer

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/shares"
)

const (
	// TypeAccessToken is the type of access tokens that are JWTs (RFC 9068 2.1).
	TypeAccessToken = "at+jwt"
	// sealedAccessToken is the kind of object for which opaque access tokens are sealed. The issuer is the object's id.
	sealedAccessToken = "oauth-access-token"
)

// AccessClaims are the claims of an access token (RFC 9068 2.2).
type AccessClaims struct {
	jwt.Claims
	ClientID    string   `json:"client_id"`
	Scope       string   `json:"scope,omitempty"`
	Permissions []string `json:"permissions,omitempty"`
	// AuthTime is when the user was authenticated, and Authorization the id of the token family. A client's own token has
	// neither.
	AuthTime      *jwt.NumericDate `json:"auth_time,omitempty"`
	Authorization string           `json:"authorization_id,omitempty"`
	// ACR and AMR are what the user had proven at AuthTime (RFC 9068 2.2.1). A client's own token, and tokens of earlier
	// versions, have neither.
	ACR string   `json:"acr,omitempty"`
	AMR []string `json:"amr,omitempty"`
}

// SealAccess returns an opaque access token, which only servers with the root key can read. It begins with the issuer
// in plain text, so that the server knows whose token it opens.
func SealAccess(keyring *seal.Keyring, claims AccessClaims) (string, error) {
	text, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString([]byte(claims.Issuer)) + "." + keyring.Seal(sealedAccessToken, claims.Issuer, text), nil
}

const (
	// verifiedBytes bounds the memory of verified access tokens, and verifiedMost their number for one deployment.
	verifiedBytes = 16 << 20
	verifiedMost  = 10_000
	// verifiedOverhead is the memory of a token besides the texts of its claims, in bytes.
	verifiedOverhead = 512
)

// AccessTokens reads access tokens of OAuth apps. It caches which signatures it verified, by the digests of the tokens:
// a client sends the same token with each call, and verifying it takes longer than everything else. Whether the token
// is still valid is checked each time.
type AccessTokens struct {
	keyring  *seal.Keyring
	verified *shares.Cache[[sha256.Size]byte, verified]
}

// verified is the claims of a token, and the id of the key that signed it.
type verified struct {
	claims AccessClaims
	keyID  string
}

// NewAccessTokens returns a reader of access tokens, which opens opaque tokens with the keyring.
func NewAccessTokens(keyring *seal.Keyring) *AccessTokens {
	bounds := shares.Bounds{Bytes: verifiedBytes, DeploymentCount: verifiedMost}
	return &AccessTokens{keyring: keyring, verified: shares.NewCache[[sha256.Size]byte, verified](bounds)}
}

// Evicted returns how many verified tokens were evicted from the cache.
func (t *AccessTokens) Evicted() uint64 { return t.verified.Evicted() }

// Read verifies an access token that an OAuth app issued and that has not expired, and returns its claims. Callers
// share the claims and must not change them. ok is false for every other text. Read does not check whether the user
// still grants the token's access: package consent does.
func (t *AccessTokens) Read(app *snapshot.Entry, raw string, now time.Time) (claims AccessClaims, ok bool) {
	claims, ok = t.Issued(app, raw, now)
	return claims, ok && now.Before(claims.Expiry.Time())
}

// Issued is Read without the check of the token's expiry, which the claims of an issued token always have.
func (t *AccessTokens) Issued(app *snapshot.Entry, raw string, now time.Time) (claims AccessClaims, ok bool) {
	content := snapshot.ContentOf[document.OAuthApp](app)
	if !IsJWT(raw) {
		claims, ok = t.open(raw)
		return claims, ok && issuedBy(&claims, content.Issuer)
	}
	digest := sha256.Sum256([]byte(raw))
	known, found := t.verified.Get(digest, now)
	if !found || !validID(content.SigningKeys, known.keyID, now) {
		known = verified{} // the cached value is shared
		if known.keyID, ok = VerifySigned(raw, TypeAccessToken, content.SigningKeys, now, &known.claims); !ok {
			return AccessClaims{}, false
		}
		t.verified.Put(app.Deployment, digest, known, int64(verifiedOverhead+2*len(raw)), now)
	}
	return known.claims, issuedBy(&known.claims, content.Issuer)
}

// open opens an opaque access token.
func (t *AccessTokens) open(raw string) (claims AccessClaims, ok bool) {
	issuer, err := opaqueIssuer(raw)
	if err != nil {
		return claims, false
	}
	_, sealed, _ := strings.Cut(raw, ".")
	text, err := t.keyring.Open(sealedAccessToken, issuer, sealed)
	return claims, err == nil && json.Unmarshal(text, &claims) == nil
}

// issuedBy reports whether verified claims are of an issuer and have their times.
func issuedBy(claims *AccessClaims, issuer string) bool {
	return claims.Issuer == issuer && claims.Expiry != nil && claims.IssuedAt != nil
}
