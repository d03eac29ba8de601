package account

import (
	"errors"

	"github.com/cardea-iam/cardea/store/people"
)

// waitingAtOnce bounds the directories' users that one proof of an address ties to the account.
const waitingAtOnce = 10

// tieWaiting ties the users of directories that wait for an address to the account that just proved it, and makes the
// user a member of the directories' organizations. The user is locked. Only a proof of the mailbox counts: a person may
// have left a mailbox that they once proved.
func tieWaiting(u *Unit, user int64, address string) error {
	if !u.HasDirectories() {
		return nil
	}
	rows, err := u.SCIM().WaitingSCIMUsers(people.FoldEmail(address), waitingAtOnce)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := tie(u, user, row); err != nil {
			return err
		}
	}
	return nil
}

// tie ties one waiting user of a directory. The user keeps waiting if the user is inactive, the directory cannot be
// used, or another directory of the organization gives a user of its own the account in this transaction.
func tie(u *Unit, user int64, row people.SCIMUser) error {
	d, err := FindDirectory(u, row.Directory)
	switch {
	case errors.Is(err, ErrDirectoryUnknown), errors.Is(err, ErrDirectoryInactive), errors.Is(err, ErrOrganizationsDisabled), errors.Is(err, ErrNoOrganization):
		return nil
	case err != nil || !row.Active || d.Of.ID == u.provisions:
		return err
	}
	if d.Runtime {
		if reaches, err := reachesUser(u, d, user, row); err != nil || !reaches {
			return err
		}
	}
	err = requireFree(u, d.Of, user)
	if errors.Is(err, ErrProvisionedElsewhere) {
		return nil
	}
	if err != nil {
		return err
	}
	if tied, err := u.SCIM().TieSCIMUser(d.ID, row.ID, user); err != nil || !tied {
		return err
	}
	before := u.Actor
	defer func() { u.Actor = before }()
	u.Actor = d.Actor()
	if err := include(u, d, user); err != nil {
		if errors.Is(err, ErrSuspended) || errors.Is(err, ErrNoOrganization) {
			return nil
		}
		return err
	}
	if _, err := ApplyRoles(u, d, []int64{row.ID}); err != nil {
		return err
	}
	return u.Audit("scim.user.tied", object("user", user))
}

// reachesUser reports whether a directory that an organization set up may have a user's account: the address is in a
// domain of the organization, or the user is a member. An organization must not make any user a member.
func reachesUser(u *Unit, d Directory, user int64, row people.SCIMUser) (bool, error) {
	if inside, err := HoldsDomain(u, d.Of, row.Email); err != nil || inside {
		return inside, err
	}
	_, member, err := u.Organizations().Member(d.Of.ID, user)
	return member, err
}

// Actor returns the directory as the actor of audit records.
func (d Directory) Actor() string { return "directory:" + d.Slug }
