package account

import (
	"errors"
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/apiserver/snapshot"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// waitingAtOnce is how many users that wait for an address are read together, whatever directories they are of.
	waitingAtOnce = 10
	// tiesAtOnce bounds the directories' users that one proof of an address ties to the account.
	tiesAtOnce = 100
)

// tieWaiting ties the users of directories that wait for an address to the account that just proved it, and makes the
// user a member of the directories' organizations. The user is locked. Only a proof of the mailbox counts: a person may
// have left a mailbox that they once proved.
func tieWaiting(u *Unit, user int64, address string) error {
	if !u.HasDirectories() {
		return nil
	}
	email := people.FoldEmail(address)
	rows, err := u.SCIM().WaitingSCIMUsers(email, waitingAtOnce)
	if err == nil && len(rows) == waitingAtOnce {
		rows, err = waitingInReach(u, user, email)
	}
	ties := 0
	for _, row := range rows {
		if err != nil || ties == tiesAtOnce {
			return err
		}
		var tied bool
		if tied, err = tie(u, user, row); tied {
			ties++
		}
	}
	return err
}

// waitingInReach returns one user that waits for an address of each directory that could tie it, those of the user's
// organizations first. A directory can have any number of users of an address, which must not keep the user of another
// directory from being tied. One is enough: all users of a directory are tied, or keep waiting, for the same reasons.
func waitingInReach(u *Unit, user int64, email string) ([]people.SCIMUser, error) {
	memberships, err := u.Organizations().MembershipsOf(user)
	if err != nil {
		return nil, err
	}
	organizations, err := holdersOf(u, connection.DomainOf(email))
	if err != nil {
		return nil, err
	}
	joined := map[string]bool{}
	for _, m := range memberships {
		organizations, joined[m.Organization.Slug] = append(organizations, m.Organization.ID), true
	}
	slices.Sort(organizations)
	own, err := u.Directories().RuntimeDirectoriesOf(slices.Compact(organizations))
	if err != nil {
		return nil, err
	}
	var others []int64
	u.snapshot.List(v1alpha1.KindDirectory, u.Key(), func(e *snapshot.Entry) bool {
		switch d := directoryOf(e); {
		case !d.Active:
		case joined[d.Organization]:
			own = append(own, d.ID)
		default:
			others = append(others, d.ID)
		}
		return true
	})
	rows, err := u.SCIM().FirstWaitingSCIMUsers(own, email)
	if err != nil {
		return nil, err
	}
	more, err := u.SCIM().FirstWaitingSCIMUsers(others, email)
	return append(rows, more...), err
}

// holdersOf returns the organizations that have a domain. A declared domain displaces a proven one.
func holdersOf(u *Unit, domain string) (organizations []int64, err error) {
	if domain == "" {
		return nil, nil
	}
	named := u.snapshot.ConnectionsNaming(u.Key(), domain)
	if len(named) == 0 {
		row, found, err := u.Domains().EffectiveDomain(domain)
		if found {
			organizations = append(organizations, row.Organization)
		}
		return organizations, err
	}
	for _, e := range named {
		o, found, err := u.Organizations().OrganizationBySlug(declaredConnection(e).Organization)
		if err != nil {
			return nil, err
		}
		if found {
			organizations = append(organizations, o.ID)
		}
	}
	return organizations, nil
}

// tie ties one waiting user of a directory. The user keeps waiting if the user is inactive, the directory cannot be
// used, or another directory of the organization gives a user of its own the account in this transaction.
func tie(u *Unit, user int64, row people.SCIMUser) (tied bool, err error) {
	d, err := FindDirectory(u, row.Directory)
	switch {
	case errors.Is(err, ErrDirectoryUnknown), errors.Is(err, ErrDirectoryInactive), errors.Is(err, ErrOrganizationsDisabled), errors.Is(err, ErrNoOrganization):
		return false, nil
	case err != nil || !row.Active || d.Of.ID == u.provisions:
		return false, err
	}
	if d.Runtime {
		if reaches, err := reachesUser(u, d, user, row); err != nil || !reaches {
			return false, err
		}
	}
	err = requireFree(u, d.Of, user)
	if errors.Is(err, ErrProvisionedElsewhere) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if tied, err = u.SCIM().TieSCIMUser(d.ID, row.ID, user); err != nil || !tied {
		return false, err
	}
	before := u.Actor
	defer func() { u.Actor = before }()
	u.Actor = d.Actor()
	if err := include(u, d, user); err != nil {
		if errors.Is(err, ErrSuspended) || errors.Is(err, ErrNoOrganization) {
			return true, nil
		}
		return true, err
	}
	if _, err := ApplyRoles(u, d, []int64{row.ID}); err != nil {
		return true, err
	}
	return true, u.Audit("scim.user.tied", object("user", user))
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
