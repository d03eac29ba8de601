package account

import (
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// PasswordChange is a new password of a user.
type PasswordChange struct {
	User int64
	// Encoded is the password's hash.
	Encoded string
	// Event is UserPasswordChanged or UserPasswordReset, and Action the action in audit records.
	Event  events.Type
	Action string
	// Sentence describes the change to the user.
	Sentence string
	// Ended is how many sign-ins of the user ended with the change.
	Ended int64
}

// SetPassword stores the hash of a user's new password. The user is locked. Pending codes of the account end, and with
// them every reset. The user is notified by mail.
func (u *Unit) SetPassword(c PasswordChange) error {
	if err := u.Users().PutCredential(c.User, people.CredentialPassword, c.Encoded, u.Now); err != nil {
		return err
	}
	if err := u.endCodes(c.User); err != nil {
		return err
	}
	u.Log(events.OfPassword(c.Event, c.User, c.Ended))
	if err := u.Audit(c.Action, object("user", c.User)); err != nil {
		return err
	}
	return u.Notify(c.User, c.Sentence)
}

// endCodes ends everything on an account that waits for a code: attempts, and proofs of its addresses and numbers.
func (u *Unit) endCodes(user int64) error {
	if err := u.Attempts().EndAttemptsOf(user); err != nil {
		return err
	}
	emails, err := u.Users().EmailsOf(user)
	if err != nil {
		return err
	}
	for _, e := range emails {
		if err := u.Challenges().VoidChallenges(people.PurposeVerifyEmail, e.ID); err != nil {
			return err
		}
	}
	phones, err := u.Phones().PhonesOf(user)
	if err != nil {
		return err
	}
	for _, p := range phones {
		if err := u.Challenges().VoidChallenges(people.PurposePhone, p.ID); err != nil {
			return err
		}
	}
	return nil
}

// RemovePassword removes a user's password. It reports whether there was one.
func (u *Unit) RemovePassword(user int64) (bool, error) {
	removed, err := u.Users().DeleteCredential(user, people.CredentialPassword)
	if err != nil || !removed {
		return false, err
	}
	if err := u.endCodes(user); err != nil {
		return false, err
	}
	u.Log(events.OfPassword(events.UserPasswordRemoved, user, 0))
	if err := u.Audit("user.password_removed", object("user", user)); err != nil {
		return false, err
	}
	return true, u.Notify(user, "The password of your account was removed.")
}

// LockAccount locks a user. If signOutOthers is set, it first ends the user's other sessions, as SignOutOthers does.
func (u *Unit) LockAccount(id int64, signOutOthers bool) (user people.User, ended int64, err error) {
	if signOutOthers {
		return u.SignOutOthers(id, events.PasswordChanged)
	}
	user, found, err := u.Users().LockUser(id)
	if err == nil && !found {
		err = ErrUserUnknown
	}
	return user, 0, err
}

// DeleteAccount deletes a user with their own data, and the organizations that have no other member. ErrOnlyOwner: the
// user is the only owner of an organization with other members, suspended ones included. ErrManagedAccount: a directory
// manages the account. Recorded analytics events remain.
func (u *Unit) DeleteAccount(id int64) error {
	if err := requireUnmanaged(u, id); err != nil {
		return err
	}
	if _, _, err := u.SignOutOthers(id, events.Deleted); err != nil {
		return err
	}
	members, err := u.Organizations().MembershipsOf(id)
	if err != nil {
		return err
	}
	for _, m := range members {
		m, found, err := u.Organizations().Member(m.Organization.ID, id) // locked: the user may have become an owner meanwhile
		if err != nil {
			return err
		}
		if !found || !m.Owner {
			continue
		}
		if err := u.leaveOwned(m); err != nil {
			return err
		}
	}
	if err := u.Notify(id, "Your account was deleted, with all data that belonged to it."); err != nil {
		return err
	}
	if err := EraseUser(u, id); err != nil {
		return err
	}
	return u.Audit("user.deleted", object("user", id))
}

// leaveOwned prepares the end of an owner's membership: it deletes the organization if it has no other member.
// ErrOnlyOwner: other members would have no owner.
func (u *Unit) leaveOwned(m people.Member) error {
	if _, _, err := u.Organizations().LockOrganization(m.Organization.ID); err != nil {
		return err
	}
	some, err := u.Organizations().MembersOf(m.Organization.ID, 0, 2)
	if err != nil {
		return err
	}
	suspended, err := u.Directories().AnySuspended(m.Organization.ID)
	if err != nil {
		return err
	}
	if len(some) < 2 && !suspended {
		if err := u.Organizations().DeleteOrganization(m.Organization.ID); err != nil {
			return err
		}
		u.Log(events.OfOrganization(events.OrganizationDeleted, m.Organization.ID))
		return u.Audit("organization.deleted", object("organization", m.Organization.ID))
	}
	owners, err := u.Organizations().OwnersOf(m.Organization.ID)
	if err == nil && owners < 2 {
		err = ErrOnlyOwner
	}
	return err
}
