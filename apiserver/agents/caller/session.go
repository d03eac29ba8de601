package caller

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// bySession accepts a session token that was issued for the agent, if its session, its user and its memberships still
// exist.
func (r *Resolver) bySession(ctx context.Context, s *snapshot.Snapshot, agent *snapshot.Entry, url, raw string) (*Caller, error) {
	token, err := r.Authenticator.Tokens.SessionTokenFor(ctx, s, raw, url)
	if err != nil {
		return nil, err
	}
	user, wrong := ids.Parse(token.Principal.Subject)
	if token.Principal.Deployment.Deployment != agent.Deployment || wrong != nil {
		return nil, apierror.InvalidToken()
	}
	c := &Caller{
		Principal: token.Principal, Kind: KindSession, ID: token.Session, User: user, Organization: idOf(token.Organization), Workspace: idOf(token.Workspace),
		ExpiresAt: token.ExpiresAt,
	}
	lasts := false
	request := &account.Request{
		Tenant: account.NewTenant(s, token.Principal.Deployment), Store: r.People, Now: r.Clock().UTC().Truncate(time.Microsecond), Actor: "anonymous",
	}
	err = request.View(ctx, func(u *account.Unit) (err error) {
		lasts, err = sessionLasts(u, c)
		return err
	})
	switch {
	case errors.Is(err, store.ErrUnavailable):
		return nil, apierror.Unavailable(err, "the store is unavailable: try again")
	case err != nil:
		return nil, err
	case !lasts:
		refused := apierror.InvalidToken()
		refused.Cause = errEnded
		return nil, refused
	}
	return c, nil
}

// sessionLasts reports whether the user of a session token is enabled, still signed in to the token's session, and
// still a member of the token's organization and workspace. A token with a verified signature can outlive these.
func sessionLasts(u *account.Unit, c *Caller) (bool, error) {
	user, found, err := u.Users().User(c.User)
	if err != nil || !found || user.Disabled {
		return false, err
	}
	sessions, err := u.Sessions().SessionsOf(c.User)
	if err != nil {
		return false, err
	}
	of, policy := idOf(c.ID), session.PolicyOf(u.Settings)
	live := slices.ContainsFunc(sessions, func(one people.Session) bool {
		return one.ID == of && session.Evaluate(one, policy, u.Now) == session.Live
	})
	if !live {
		return false, nil
	}
	place, err := consent.PlaceOf(u, c.User, c.Organization, c.Workspace)
	organization, workspace := place.IDs()
	return organization == c.Organization && workspace == c.Workspace, err
}

// errEnded is the cause of a 401 for a token of a session that ended before the token.
var errEnded = errors.New("the session of the token has ended")

// idOf returns the id that a text names, 0 for "".
func idOf(text string) int64 {
	id, err := ids.Parse(text)
	if err != nil {
		return 0
	}
	return id
}
