package account

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// ScopeOffline is the scope of tokens that outlive the sign-in.
const ScopeOffline = "offline_access"

// Fresh reports whether whoever is signed in proved it within the deployment's bound: a copy of an old cookie makes nothing that outlives the
// session.
func Fresh(u *Unit, g *people.SignIn) bool {
	return g != nil && u.Now.Sub(g.ProvenAt()) < u.Settings.EffectiveSession().ReauthenticateWithin()
}

// Suspect returns since when access of a user may have been given by whoever copied a session: since the last proof in the session that was
// proven longest ago. Without a session it is now.
func Suspect(u *Unit, user int64) (time.Time, error) {
	since := u.Now
	signIns, err := u.Sessions().SignInsOf(user)
	for _, g := range signIns {
		if g.ProvenAt().Before(since) {
			since = g.ProvenAt()
		}
	}
	return since, err
}

// EndAccess ends what acts for a user without a session: all their API keys, and what apps were granted for offline use since a time. The user
// is locked.
func EndAccess(u *Unit, user int64, since time.Time) error {
	if err := revokeKeysOf(u, user, u.Actor, "password_reset"); err != nil {
		return err
	}
	if _, err := u.OAuth().EndOfflineFamilies(user, since); err != nil {
		return err
	}
	grants, err := u.OAuth().GrantsOf(user)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.CreatedAt.Before(since) || !slices.Contains(g.Scopes, ScopeOffline) {
			continue
		}
		if _, err := u.OAuth().DeleteGrant(g.ID); err != nil {
			return err
		}
		if err := u.Audit("oauth.grant_revoked", object("oauth_grant", g.ID)); err != nil {
			return err
		}
	}
	return nil
}
