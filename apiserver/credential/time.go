package credential

import (
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
)

// skew is the tolerated difference between an issuer's clock and the server's.
const skew = 60 * time.Second

// lastDate is the end of the year 9999. Later times are invalid.
const lastDate = 253402300799

// leeway is how long after its exp a token is accepted. Cardea's session tokens have no leeway: they are valid for a
// minute, and a leeway would let their claims outlive the session by another minute.
func leeway(issuer *snapshot.Issuer) time.Duration {
	if issuer.OwnSessions {
		return 0
	}
	return skew
}

// timely reports whether a token is valid now, and whether its lifetime is within the bound of its issuer.
func timely(issuer *snapshot.Issuer, claims *jwt.Claims, now time.Time) bool {
	for _, date := range []*jwt.NumericDate{claims.Expiry, claims.NotBefore, claims.IssuedAt} {
		if date != nil && (*date < 0 || *date > lastDate) {
			return false
		}
	}
	if claims.Expiry == nil || !now.Before(claims.Expiry.Time().Add(leeway(issuer))) {
		return false
	}
	issued := now
	if claims.IssuedAt != nil {
		issued = claims.IssuedAt.Time()
	}
	if now.Add(skew).Before(claims.NotBefore.Time()) || now.Add(skew).Before(issued) {
		return false
	}
	bound, bounded := maxLifetime(issuer)
	return !bounded || claims.Expiry.Time().Sub(issued) <= bound
}

// maxLifetime returns the longest time from a token's issue to its expiry, if there is a bound.
func maxLifetime(issuer *snapshot.Issuer) (time.Duration, bool) {
	switch {
	case issuer.MaxLifetimeSeconds > 0:
		return time.Duration(issuer.MaxLifetimeSeconds) * time.Second, true
	case issuer.Kubernetes:
		return 0, false
	}
	return document.DefaultMaxLifetimeSeconds * time.Second, true
}
