package account

import (
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/store/people"
)

// deprovision ends what a user that a directory deactivated can do in the organization:
//  1. A managed account, one whose primary address is in a domain of the organization, is disabled, and all its
//     sign-ins end. Of another account, the sign-ins in the organization and by the directory's connection end.
//  2. The membership is suspended. API keys that belong to it are refused until it is restored.
//  3. The grants in the organization end with their tokens.
//
// ErrOwnerLeaves: the user is the last owner.
func deprovision(u *Unit, d Directory, user int64) error {
	account, found, err := u.Users().User(user)
	if err != nil || !found {
		return err
	}
	managed, err := HoldsDomain(u, d.Of, account.Email)
	if err != nil {
		return err
	}
	if account, err = endSignIns(u, d, user, managed); err != nil {
		return err
	}
	if err := suspend(u, d, user); err != nil {
		return err
	}
	if err := endGrantsIn(u, d.Of.ID, user); err != nil || !managed || account.Disabled {
		return err
	}
	state, err := u.Directories().DirectoryAccount(user)
	if err != nil {
		return err
	}
	account.Disabled, account.UpdatedAt, state.DisabledBy = true, u.Now, d.ID
	if err := FirstOf(u.Users().UpdateUser(account), u.Directories().PutDirectoryAccount(state)); err != nil {
		return err
	}
	u.Log(events.OfUser(events.UserDisabled, user))
	return u.Audit("user.disabled", object("user", user))
}

// endSignIns ends all sign-ins of a managed account, or those of another account in the organization and by the
// directory's connection. It locks the user, and returns the account.
func endSignIns(u *Unit, d Directory, user int64, managed bool) (people.User, error) {
	if managed {
		account, _, err := u.SignOutEverywhere(user, events.ByDirectory)
		return account, err
	}
	used := DirectoryConnection(u.Tenant, d)
	end := func() error {
		signIns, err := u.Sessions().SignInsOf(user)
		for _, g := range signIns {
			by := used != 0 && g.Upstream.Connection == used
			if err != nil || !by && g.Organization != d.Of.ID && g.Upstream.ConfinedTo != d.Of.ID {
				continue
			}
			err = EndSignIn(u, g, u.Actor, events.ByDirectory)
		}
		return err
	}
	if err := end(); err != nil { // sessions are locked before users
		return people.User{}, err
	}
	account, found, err := u.Users().LockUser(user)
	if err != nil || !found {
		return account, FirstOf(err, ErrUserUnknown)
	}
	return account, end()
}

// suspend suspends the membership of a user. It does nothing if the user is no member.
func suspend(u *Unit, d Directory, user int64) error {
	m, found, err := u.Organizations().Member(d.Of.ID, user)
	if err != nil || !found {
		return err
	}
	if err := keepOwner(u, m); err != nil {
		return err
	}
	if _, err := u.Directories().SuspendMember(d.Of.ID, user, d.ID, u.Now); err != nil {
		return err
	}
	u.Log(events.OfMember(events.MembershipDeleted, m))
	return u.Audit("scim.user.suspended", object("user", user))
}

// endGrantsIn ends a user's grants in an organization, with their tokens.
func endGrantsIn(u *Unit, organization, user int64) error {
	grants, err := u.OAuth().GrantsOf(user)
	if err != nil {
		return err
	}
	for _, g := range grants {
		if g.Organization != organization {
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

// EraseProvisioned deletes the account of a deactivated user that the directory deletes, if the directory erases: the
// account that the directory created, if that is managed and in no other organization.
func EraseProvisioned(u *Unit, d Directory, row people.SCIMUser) error {
	if !d.Erases || row.User == 0 {
		return nil
	}
	state, err := u.Directories().DirectoryAccount(row.User)
	if err != nil || state.CreatedBy != d.ID {
		return err
	}
	account, found, err := u.Users().LockUser(row.User)
	if err != nil || !found {
		return err
	}
	if managed, err := HoldsDomain(u, d.Of, account.Email); err != nil || !managed {
		return err
	}
	if elsewhere, err := isElsewhere(u, d.Of.ID, row.User); err != nil || elsewhere {
		return err
	}
	if err := EraseUser(u, row.User); err != nil {
		return err
	}
	return u.Audit("user.deleted", object("user", row.User))
}

// KeepDisabled records that a backend decided whether an account is disabled: a directory that disabled it before no
// longer enables it.
func KeepDisabled(u *Unit, user int64) error {
	if !u.HasDirectories() {
		return nil
	}
	state, err := u.Directories().DirectoryAccount(user)
	if err != nil || state.DisabledBy == 0 {
		return err
	}
	state.DisabledBy = 0
	return u.Directories().PutDirectoryAccount(state)
}

// isElsewhere reports whether a user has a membership, suspended or not, besides a suspended one of an organization.
func isElsewhere(u *Unit, organization, user int64) (bool, error) {
	members, err := u.Organizations().MembershipsOf(user)
	if err != nil || len(members) > 0 {
		return true, err
	}
	suspended, err := u.Directories().CountSuspended(user)
	if err != nil {
		return true, err
	}
	_, here, err := u.Directories().SuspendedMember(organization, user)
	return suspended > 1 || suspended == 1 && !here, err
}

// lastOwnerMails is how many mails a day the last owner of an organization gets about refused deactivations.
const lastOwnerMails = 1

// NotifyLastOwner mails the last owner of the directory's organization that the directory tried to deactivate them. It
// runs in a transaction of its own, after the refused one.
func NotifyLastOwner(u *Unit, d Directory, user int64) error {
	n, err := u.Limits().Count("last-owner", object("organization", d.Of.ID), u.Now, u.Now.Add(24*time.Hour))
	if err != nil || n.Count > lastOwnerMails {
		return err
	}
	return u.Notify(user, "A directory tried to deactivate you, but you are the last owner of the organization "+
		messages.Quoted(d.Of.Name, "an organization")+". Make another member an owner first.")
}
