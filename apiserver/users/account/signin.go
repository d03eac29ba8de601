package account

import (
	"cmp"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// NewSession records and returns a session without a sign-in. The caller gives it a token.
func (u *Unit) NewSession(policy session.Policy, attempting bool) (*people.Session, error) {
	id, err := u.NewID()
	if err != nil {
		return nil, err
	}
	s := &people.Session{
		ID: id, Anonymous: true, Attempting: attempting, Address: u.Client.Network, UserAgent: clip(u.Client.UserAgent),
		CreatedAt: u.Now, UsedAt: u.Now, ExpiresAt: u.Now.Add(policy.Lifetime),
	}
	if attempting {
		s.ExpiresAt = u.Now.Add(session.AnonymousLifetime)
	}
	return s, u.Sessions().InsertSession(*s)
}

// NewSignIn is a sign-in of a proven account.
type NewSignIn struct {
	User   int64
	Method string
	// Event is the method that analytics counts, "" for Method.
	Event string
	// Proofs are what the user has shown.
	Proofs assurance.Proofs
	// Prepare, if not nil, runs after the user was locked. It returns how the sign-in came from a connection, and the
	// organization that becomes active; 0: the last active one.
	Prepare func(user people.User) (upstream people.Upstream, organization int64, err error)
}

// SignIn adds a proven account to a session and makes it the active one. The session is no longer anonymous, and an
// earlier sign-in of the account in it is replaced. The oldest sign-ins above the bounds of the session and of the
// user are evicted. The caller gives the session a new token. ErrUserUnknown, ErrUserDisabled: nothing changes.
func (u *Unit) SignIn(s *people.Session, policy session.Policy, from NewSignIn) error {
	// This lock serializes sign-ins of one user: concurrent ones would not see each other and could exceed the bound.
	if err := u.Limits().Lock(object("sign-in", from.User)); err != nil {
		return err
	}
	recorded, err := u.signInIsRecorded(from.User)
	if err != nil {
		return err
	}
	// Lock other sessions before the user, as everywhere.
	if err := u.evictSessions(s, from.User, recorded); err != nil {
		return err
	}
	user, found, err := u.Users().LockUser(from.User)
	if err != nil {
		return err
	}
	if !found {
		return ErrUserUnknown
	}
	if user.Disabled {
		return ErrUserDisabled
	}
	if err := u.addSignIn(s, policy, user, from, recorded); err != nil {
		return err
	}
	if err := u.rememberClient(user.ID); err != nil {
		return err
	}
	if !recorded {
		return nil
	}
	if err := u.recordEvent(people.EventSignIn, user.ID, cmp.Or(from.Event, from.Method)); err != nil {
		return err
	}
	return u.AuditAs(object("user", user.ID), "session.signed_in", object("session", s.ID), s.ID)
}

// signInsRecorded is how many sign-ins of a user are recorded per day. Above it, one per hour is recorded; the sign-
// ins still succeed.
const signInsRecorded = 200

// signInIsRecorded reports whether a sign-in writes events and audit rows.
func (u *Unit) signInIsRecorded(user int64) (bool, error) {
	today, err := u.Limits().Count("sign-ins", object("user", user), u.Now, u.Now.Add(24*time.Hour))
	if err != nil || today.Count <= signInsRecorded {
		return true, err
	}
	hour, err := u.Limits().Count("sign-ins:beyond", object("user", user), u.Now, u.Now.Add(time.Hour))
	return hour.Count == 1, err
}

// evictSessions ends the oldest sign-ins of a user above the bound of sessions.
func (u *Unit) evictSessions(s *people.Session, user int64, audited bool) error {
	signIns, err := u.Sessions().SignInsOf(user)
	if err != nil {
		return err
	}
	for _, oldest := range session.Evicted(signIns, session.MaxPerUser) {
		if oldest.Session == s.ID {
			continue
		}
		if err := u.Sessions().LeaveSession(oldest); err != nil {
			return err
		}
		if !audited {
			continue
		}
		LogAs(u, system, events.OfEnd(oldest, events.Evicted))
		if err := u.AuditAs("system", "session.evicted", object("signin", oldest.ID), oldest.Session); err != nil {
			return err
		}
	}
	return nil
}

// DropEnded removes the sign-ins that have ended before their session from a locked live session, and from the store.
func DropEnded(u *Unit, s *people.Session) error {
	for _, g := range session.DropEnded(s, u.Now) {
		if err := EndSignIn(u, g, system, events.Expired); err != nil {
			return err
		}
	}
	return nil
}

// addSignIn adds a sign-in to a session. recorded says whether its events are.
func (u *Unit) addSignIn(s *people.Session, policy session.Policy, user people.User, from NewSignIn, recorded bool) error {
	id, err := u.NewID()
	if err != nil {
		return err
	}
	g := people.SignIn{
		ID: id, Session: s.ID, User: user.ID, Method: from.Method, CreatedAt: u.Now, Proofs: from.Proofs, TwoStep: user.TwoStep, UserCreatedAt: user.CreatedAt,
	}
	if from.Prepare != nil {
		var organization int64
		if g.Upstream, organization, err = from.Prepare(user); err != nil {
			return err
		}
		user.Organization = cmp.Or(organization, user.Organization)
	}
	// Lock the member before writing sign-ins, as the removal of a member does.
	if g.Organization, g.Workspace, err = u.lastActive(user); err != nil {
		return err
	}
	kept, err := u.evictOldest(s, policy, user.ID, recorded)
	if err != nil {
		return err
	}
	if err := u.Sessions().InsertSignIn(g); err != nil {
		return err
	}
	if recorded {
		LogAs(u, object("user", user.ID), events.OfSignIn(events.SessionCreated, g))
	}
	if s.Anonymous {
		s.Anonymous, s.ExpiresAt = false, u.Now.Add(policy.Lifetime)
	}
	pending, err := u.Attempts().AttemptsOf(s.ID, u.Now)
	if err != nil {
		return err
	}
	s.SignIns, s.ActiveSignIn, s.UsedAt, s.Attempting = append(kept, g), g.ID, u.Now, len(pending) > 0
	return u.Sessions().UpdateSession(*s)
}

// evictOldest removes an account's earlier sign-in from a session, and the oldest others above its bound. It returns
// the remaining ones.
func (u *Unit) evictOldest(s *people.Session, policy session.Policy, user int64, recorded bool) ([]people.SignIn, error) {
	var kept []people.SignIn
	for _, other := range s.SignIns {
		if other.User != user {
			kept = append(kept, other)
			continue
		}
		if err := u.Sessions().DeleteSignIn(other.ID); err != nil {
			return nil, err
		}
		if recorded {
			LogAs(u, object("user", user), events.OfEnd(other, events.Replaced))
		}
	}
	for _, oldest := range session.Evicted(kept, policy.MaxSignIns) {
		if err := u.Sessions().DeleteSignIn(oldest.ID); err != nil {
			return nil, err
		}
		LogAs(u, system, events.OfEnd(oldest, events.Evicted))
		if err := u.AuditAs("system", "session.evicted", object("signin", oldest.ID), s.ID); err != nil {
			return nil, err
		}
		kept = kept[1:]
	}
	return kept, nil
}

// lastActive returns the organization and workspace in which a user was last active, if the user is still a member.
func (u *Unit) lastActive(user people.User) (organization, workspace int64, err error) {
	if user.Organization == 0 {
		return 0, 0, nil
	}
	member, found, err := u.Organizations().Member(user.Organization, user.ID)
	if err != nil || !found {
		return 0, 0, err
	}
	memberships, err := u.Organizations().WorkspaceMembershipsOf(user.ID, member.Organization.ID)
	if err != nil {
		return 0, 0, err
	}
	w, _ := session.Workspace(member, memberships)
	return member.Organization.ID, w.ID, nil
}
