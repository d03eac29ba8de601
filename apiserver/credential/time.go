package credential

import (
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/internal/document"
)

// skew is how far an issuer's clock may differ from ours.
const skew = 60 * time.Second

// lastDate is the end of the year 9999: what claims to be later is no date.
const lastDate = 253402300799

// leeway is how long after its exp a token is accepted. Cardea's own tokens have none: they live a minute, and what they say
// about a session must not outlive it by another.
func leeway(issuer *snapshot.Issuer) time.Duration {
	if issuer.OwnSessions {
		return 0
	}
	return skew
}

// timely reports whether a token is alive, and does not claim to live longer than its issuer's tokens may.
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

// maxLifetime returns the longest time from a token's issue to its end, if there is a bound.
func maxLifetime(issuer *snapshot.Issuer) (time.Duration, bool) {
	switch {
	case issuer.MaxLifetimeSeconds > 0:
		return time.Duration(issuer.MaxLifetimeSeconds) * time.Second, true
	case issuer.Kubernetes:
		return 0, false
	}
	return document.DefaultMaxLifetimeSeconds * time.Second, true
}
