package account

import (
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// ScopeOffline is the OAuth scope of tokens that outlive the sign-in.
const ScopeOffline = "offline_access"

// Fresh reports whether the user of a sign-in proved recently, within the deployment's reauthentication bound, what a
// sensitive operation needs. It keeps a copied old cookie from creating anything that outlives the session.
func Fresh(u *Unit, g *people.SignIn) (bool, error) {
	if g == nil {
		return false, nil
	}
	methods, _, err := freshMethods(u, g, false)
	return recently(u, g, methods, u.Settings.EffectiveSession().ReauthenticateWithin()), err
}

// RequireFresh returns an AssuranceError with ErrNotFresh unless Fresh. With adding, the operation adds a factor or
// passkey, which needs more than a password: the thief of a password must not add a phone.
func RequireFresh(u *Unit, g *people.SignIn, adding bool) error {
	return requireFresh(u, g, adding, u.Settings.EffectiveSession().ReauthenticateWithin())
}

// RequireFreshWithin is RequireFresh with a bound other than the deployment's.
func RequireFreshWithin(u *Unit, g *people.SignIn, bound time.Duration) error {
	return requireFresh(u, g, false, bound)
}

func requireFresh(u *Unit, g *people.SignIn, adding bool, bound time.Duration) error {
	methods, factors, err := freshMethods(u, g, adding)
	if err != nil || recently(u, g, methods, bound) {
		return err
	}
	strategies, _, err := within(u, g, methods, factors)
	if err != nil {
		return err
	}
	return &AssuranceError{Reason: ErrNotFresh, Strategies: strategies}
}

// Reauthentication returns the strategies by which the user of a sign-in can prove anew what sensitive operations
// need, the best one first, with the account's factors. Where a higher level is required than the account's factors
// can reach without the password or an emailed code, these are among them.
func Reauthentication(u *Unit, g *people.SignIn) ([]string, Factors, error) {
	methods, factors, err := freshMethods(u, g, false)
	if err != nil {
		return nil, Factors{}, err
	}
	strategies, f, err := within(u, g, methods, factors)
	if err != nil || methods == nil {
		return strategies, f, err
	}
	if missing := new(AssuranceError); errors.As(u.CheckHeld(g), &missing) {
		for _, strategy := range missing.Strategies {
			if !slices.Contains(strategies, strategy) {
				strategies = append(strategies, strategy)
			}
		}
	}
	return strategies, f, nil
}

// within returns the strategies of an account that are among some methods, nil for any.
func within(u *Unit, g *people.SignIn, methods []assurance.Method, read *Factors) ([]string, Factors, error) {
	if read == nil {
		f, err := u.FactorsOf(g.User)
		if err != nil {
			return nil, f, err
		}
		read = &f
	}
	strategies, err := u.StrategiesOf(g.User, *read)
	return slices.DeleteFunc(strategies, func(strategy string) bool {
		return methods != nil && !slices.Contains(methods, assurance.Method(strategy))
	}), *read, err
}

func recently(u *Unit, g *people.SignIn, methods []assurance.Method, bound time.Duration) bool {
	at := g.Proven().Newest(methods...)
	return !at.IsZero() && u.Now.Sub(at) < bound
}

// The methods that sensitive operations need.
var (
	passkeyOrRecovery = []assurance.Method{assurance.PasskeyUV, assurance.Passkey, assurance.RecoveryCode}
	anyFactor         = append([]assurance.Method{assurance.TOTP, assurance.SMS}, passkeyOrRecovery...)
	emailOrPasskey    = []assurance.Method{assurance.EmailOTP, assurance.PasskeyUV, assurance.Passkey}
)

// freshMethods returns the methods of which one must have been proven recently, nil for any, and the account's factors
// if they were read.
//   - An account with a usable factor is guarded if it or its deployment requires two factors: it needs a factor.
//     Where it must also reach the level of passkeys and has one, it needs a passkey or a recovery code, so that a
//     phished code adds no passkey of a thief.
//   - For others any proof is enough. To add a factor, they need an emailed code or a passkey, if the deployment sends
//     mail. So they do for every operation if two-step is on and no factor is usable, such as while the deployment
//     disables their kind: a stolen password must not turn two-step off.
func freshMethods(u *Unit, g *people.SignIn, adding bool) ([]assurance.Method, *Factors, error) {
	required := u.RequiredBelow(g, u.Now).Level
	if required >= assurance.TwoFactors {
		factors, err := u.FactorsOf(g.User)
		if err != nil {
			return nil, nil, err
		}
		if factors.Any() {
			if len(factors.Passkeys) == 0 {
				return anyFactor, &factors, nil
			}
			highest, err := highestRequired(u, g)
			if err == nil && highest >= assurance.PhishingResistant {
				return passkeyOrRecovery, &factors, nil
			}
			return anyFactor, &factors, err
		}
	}
	if (adding || g.TwoStep) && u.Settings.Email != nil {
		return emailOrPasskey, nil, nil
	}
	return nil, nil, nil
}

// highestRequired returns the highest level that is required of a user anywhere: by the account, the deployment, or
// any of the user's organizations and roles.
func highestRequired(u *Unit, g *people.SignIn) (assurance.Level, error) {
	highest := u.RequiredBelow(g, u.Now).Level
	if !u.B2B.Enabled || highest >= assurance.PhishingResistant {
		return highest, nil
	}
	members, err := u.Organizations().MembershipsOf(g.User)
	if err != nil {
		return highest, err
	}
	workspaces, err := u.Organizations().WorkspaceMembershipsOf(g.User, 0)
	for _, m := range members {
		highest = max(highest, u.RequiredAmong(g, m, workspaces, u.Now).Level)
	}
	return highest, err
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

// EndAccess ends the access that acts for a user without a session: all API keys, and the offline OAuth access that
// was granted at or after since. The user is locked.
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
		u.Log(events.OfGrant(events.OAuthGrantRevoked, g))
		if err := u.Audit("oauth.grant_revoked", object("oauth_grant", g.ID)); err != nil {
			return err
		}
	}
	return nil
}
