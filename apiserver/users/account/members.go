package account

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/store/people"
)

// keepOwner returns ErrOwnerLeaves if a membership is that of the last owner. It locks the organization, so that of two
// owners who leave concurrently one remains.
func keepOwner(u *Unit, m people.Member) error {
	if !m.Owner {
		return nil
	}
	if _, _, err := u.Organizations().LockOrganization(m.Organization.ID); err != nil {
		return err
	}
	owners, err := u.Organizations().OwnersOf(m.Organization.ID)
	if err == nil && owners < 2 {
		err = ErrOwnerLeaves
	}
	return err
}

// MemberChange is a change of a membership. Nil fields stay as they are.
type MemberChange struct {
	// Role 0 removes the role.
	Role  *int64
	Owner *bool
}

// ChangeMember changes a member's role and ownership.
//   - The actor must hold all permissions of the old and the new role.
//   - Only owners change ownership, and only owners change an owner's membership.
//   - The last owner remains an owner.
//
// Errors: ErrMembershipUnknown, ErrInvalidRole, ErrOwnersOnly, ErrOwnerLeaves, a LimitError or a PermissionError.
func ChangeMember(u *Unit, by people.Member, membership int64, change MemberChange) (people.Member, error) {
	m, err := managed(u, by, membership)
	if err != nil {
		return m, err
	}
	before := m
	if m.Owner && !by.Owner {
		return m, ErrOwnersOnly
	}
	if change.Role != nil && *change.Role != m.Role {
		if *change.Role != 0 && !u.HasRole(v1alpha1.RoleLevelOrganization, *change.Role) {
			return m, ErrInvalidRole
		}
		for _, role := range []int64{m.Role, *change.Role} {
			if err := mayGrant(u, by, role); err != nil {
				return m, err
			}
		}
		m.Role = *change.Role
	}
	if change.Owner != nil && *change.Owner == m.Owner {
		change.Owner = nil
	}
	if change.Owner != nil {
		if !by.Owner {
			return m, ErrOwnersOnly
		}
		if err := keepOwner(u, m); err != nil {
			return m, err
		}
		if *change.Owner {
			if err := mayOwnAnother(u, m.User); err != nil {
				return m, err
			}
		}
		m.Owner = *change.Owner
	}
	if err := u.Organizations().UpdateMember(m); err != nil {
		return m, err
	}
	if m.Role != before.Role || m.Owner != before.Owner {
		u.Log(events.OfMember(events.MembershipUpdated, m))
	}
	if change.Owner != nil {
		if err := notifyOwnership(u, by, m); err != nil {
			return m, err
		}
	}
	return m, u.Audit("organization.member_changed", object("membership", m.ID))
}

// notifyOwnership mails a member whose ownership changed. It also mails the user in whose name the change was made,
// unless that is the member.
func notifyOwnership(u *Unit, by, m people.Member) error {
	organization := messages.Quoted(m.Organization.Name, "an organization")
	what := "no longer an owner of the organization " + organization + "."
	if m.Owner {
		what = "an owner of the organization " + organization + " now."
	}
	if err := u.Notify(m.User, "You are "+what); err != nil || by.User == m.User {
		return err
	}
	return notifyOf(u, by, m, " is "+what)
}

// notifyOf mails a user about a change of another member that was made in the user's name.
func notifyOf(u *Unit, by, m people.Member, what string) error {
	user, _, err := u.Users().User(m.User)
	if err != nil {
		return err
	}
	return u.Notify(by.User, messages.Quoted(user.Email, "A member")+what)
}

// RemoveMember ends a membership. The actor must hold all permissions of the member's role. Only owners remove owners,
// and never the last.
func RemoveMember(u *Unit, by people.Member, membership int64) (people.Member, error) {
	m, err := managed(u, by, membership)
	if err != nil {
		return m, err
	}
	if err := mayGrant(u, by, m.Role); err != nil {
		return m, err
	}
	if m.Owner && !by.Owner {
		return m, ErrOwnersOnly
	}
	if err := keepOwner(u, m); err != nil {
		return m, err
	}
	if _, err := u.Organizations().DeleteMember(m.Organization.ID, m.User); err != nil {
		return m, err
	}
	if by.User != m.User {
		organization := messages.Quoted(m.Organization.Name, "an organization")
		if err := u.Notify(m.User, "You were removed from the organization "+organization+"."); err != nil {
			return m, err
		}
		if m.Owner {
			if err := notifyOf(u, by, m, ", an owner, was removed from the organization "+organization+"."); err != nil {
				return m, err
			}
		}
	}
	u.Log(events.OfMember(events.MembershipDeleted, m))
	return m, u.Audit("organization.member_removed", object("membership", m.ID))
}

// managed returns a membership of an organization by its id, if the actor manages the organization.
func managed(u *Unit, by people.Member, membership int64) (people.Member, error) {
	if err := u.RequirePermission(by, PermissionManage); err != nil {
		return people.Member{}, err
	}
	m, found, err := u.Organizations().MemberByID(by.Organization.ID, membership)
	if err == nil && !found {
		err = ErrMembershipUnknown
	}
	return m, err
}

// RemoveOrganization deletes an organization with its content, and notifies its other members by mail.
func RemoveOrganization(u *Unit, by people.Member) error {
	if !by.Owner {
		return ErrOwnersOnly
	}
	// A concurrent transaction that adds to the organization commits first, or no longer finds it.
	if _, found, err := u.Organizations().LockOrganization(by.Organization.ID); err != nil || !found {
		return FirstOf(err, ErrNotMember)
	}
	if u.Settings.Email != nil && !u.Keyring.Empty() {
		if err := notifyMembers(u, by); err != nil {
			return err
		}
	}
	if err := u.Organizations().DeleteOrganization(by.Organization.ID); err != nil {
		return err
	}
	u.Log(events.OfOrganization(events.OrganizationDeleted, by.Organization.ID))
	return u.Audit("organization.deleted", object("organization", by.Organization.ID))
}

// membersAtOnce is how many members one query reads.
const membersAtOnce = 200

func notifyMembers(u *Unit, by people.Member) error {
	mail := messages.OrganizationDeletedMail(u.AppName(), by.Organization.Name)
	for after := int64(0); ; {
		members, err := u.Organizations().MembersOf(by.Organization.ID, after, membersAtOnce)
		if err != nil {
			return err
		}
		for _, m := range members {
			if m.User == by.User || m.Account.Email == "" {
				continue
			}
			if err := u.Post(people.Message{Channel: people.ChannelMail, Recipient: m.Account.Email, ExpiresAt: u.Now.Add(changeNoticeLifetime)}, mail); err != nil {
				return err
			}
		}
		if len(members) < membersAtOnce {
			return nil
		}
		after = members[len(members)-1].ID
	}
}

// ResendInvitation replaces an open invitation with a new one to the same email, within the same limits.
func ResendInvitation(u *Unit, by people.Member, id int64) (people.Invitation, error) {
	former, err := RevokeInvitationOf(u, by, id)
	if err != nil {
		return former, err
	}
	return Invite(u, by, former.Email, former.Role)
}

// Inviter returns the account of the user who sent an invitation, as members see each other.
func Inviter(u *Unit, i people.Invitation) (people.Account, error) {
	user, _, err := u.Users().User(i.InvitedBy)
	return people.Account{ID: user.ID, FirstName: user.FirstName, LastName: user.LastName, Email: user.Email}, err
}

// LookUpInvitation returns an open invitation by its token, with its organization. ErrInvalidInvitation: there is no
// such invitation.
func LookUpInvitation(u *Unit, token string) (people.Invitation, people.Organization, error) {
	i, err := openByToken(u, token)
	if err != nil {
		return i, people.Organization{}, err
	}
	o, found, err := u.Organizations().Organization(i.Organization)
	if err == nil && !found {
		err = ErrInvalidInvitation
	}
	return i, o, err
}
