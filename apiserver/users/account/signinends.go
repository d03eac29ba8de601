package account

import (
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// This file ends sign-ins. A user has at most session.MaxPerUser of them, so that what one transaction records is
// bounded.

// EndSignIn ends a sign-in with its session's last one, and logs the event for an actor.
func EndSignIn(u *Unit, g people.SignIn, actor string, why events.Reason) error {
	LogAs(u, actor, events.OfEnd(g, why))
	return u.Sessions().LeaveSession(g)
}

// LogEnds logs the events of sign-ins that ended.
func LogEnds(u *Unit, ended []people.SignIn, actor string, why events.Reason) {
	for _, g := range ended {
		LogAs(u, actor, events.OfEnd(g, why))
	}
}

// SignOutEverywhere ends a user's sign-ins in every session, locks the user, and returns how many sign-ins it ended. A
// concurrent sign-in either commits first and is ended too, or sees the result of this transaction. ErrUserUnknown: the
// user does not exist.
func (u *Unit) SignOutEverywhere(id int64, why events.Reason) (people.User, int64, error) {
	before, err := u.Sessions().EndSessionsOf(id) // sessions are locked before users
	if err != nil {
		return people.User{}, 0, err
	}
	user, found, err := u.Users().LockUser(id)
	if err != nil {
		return user, 0, err
	}
	if !found {
		return user, 0, ErrUserUnknown
	}
	meanwhile, err := u.Sessions().EndSessionsOf(id)
	LogEnds(u, before, u.Actor, why)
	LogEnds(u, meanwhile, u.Actor, why)
	return user, int64(len(before) + len(meanwhile)), err
}

// SignOutOthers ends a user's sign-ins in all sessions except the unit's, locks the user, and returns how many sign-ins
// it ended. A concurrent sign-in either commits first and is ended too, or sees the result of this transaction.
// ErrUserUnknown: the user does not exist.
func (u *Unit) SignOutOthers(id int64, why events.Reason) (people.User, int64, error) {
	before, err := leaveOthers(u, id, u.Actor, "session.signed_out", why) // sessions are locked before users
	if err != nil {
		return people.User{}, 0, err
	}
	user, found, err := u.Users().LockUser(id)
	if err != nil || !found {
		return user, 0, FirstOf(err, ErrUserUnknown)
	}
	meanwhile, err := leaveOthers(u, id, u.Actor, "session.signed_out", why)
	return user, before + meanwhile, err
}

// leaveOthers ends a user's sign-ins except that of the unit's session, audits each, and returns how many it ended.
func leaveOthers(u *Unit, user int64, actor, action string, why events.Reason) (ended int64, err error) {
	signIns, err := u.Sessions().SignInsOf(user)
	if err != nil {
		return 0, err
	}
	for _, g := range signIns {
		if g.Session == u.Session {
			continue
		}
		if err := EndSignIn(u, g, actor, why); err != nil {
			return ended, err
		}
		if err := u.AuditAs(actor, action, object("signin", g.ID), g.Session); err != nil {
			return ended, err
		}
		ended++
	}
	return ended, nil
}

// EraseUser deletes a user with everything that belongs to it, and ends the sign-ins that are left. The caller audits
// it.
func EraseUser(u *Unit, id int64) error {
	ended, err := u.Sessions().EndSessionsOf(id)
	if err != nil {
		return err
	}
	LogEnds(u, ended, u.Actor, events.Deleted)
	if err := u.Users().DeleteUser(id); err != nil {
		return err
	}
	u.Log(events.OfUser(events.UserDeleted, id))
	return nil
}
