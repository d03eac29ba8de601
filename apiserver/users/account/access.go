package account

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// ScopeOffline is the OAuth scope of tokens that outlive the sign-in.
const ScopeOffline = "offline_access"

// Fresh reports whether the sign-in was last proven within the deployment's reauthentication bound. It keeps a copied
// old cookie from creating anything that outlives the session.
func Fresh(u *Unit, g *people.SignIn) bool {
	return g != nil && u.Now.Sub(g.ProvenAt()) < u.Settings.EffectiveSession().ReauthenticateWithin()
}

// Suspect returns the time since which a session thief may have granted access to a user's account: the oldest last
// proof among the user's sessions. Without a session it is now.
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

// EndAccess ends the access that acts for a user without a session: all API keys, and the offline OAuth access that was
// granted at or after since. The user is locked.
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
