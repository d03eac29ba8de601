package account

import (
	"slices"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/messages"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// InvitationLifetime is how long an invitation can be accepted.
	InvitationLifetime = 7 * 24 * time.Hour
	// NoticeLifetime is how long delivery of a message without a code is tried.
	NoticeLifetime = time.Hour

	// The limits of invitations per day: those to one email over all organizations, and those from one inviter.
	invitationsPerEmail, invitationsPerInviter = 5, 100
	invitationWindow                           = 24 * time.Hour
)

// Invite records an invitation into a member's organization and enqueues its mail. Only that mail has the token. The
// inviter must be allowed to grant the role. Role 0 means no role.
func Invite(u *Unit, inviter people.Member, email string, role int64) (people.Invitation, error) {
	if err := u.RequirePermission(inviter, PermissionInvite); err != nil {
		return people.Invitation{}, err
	}
	if role != 0 && !u.HasRole(v1alpha1.RoleLevelOrganization, role) {
		return people.Invitation{}, ErrRoleUnknown
	}
	if err := mayGrant(u, inviter, role); err != nil {
		return people.Invitation{}, err
	}
	if err := withinInvitationLimits(u, inviter.User, email); err != nil {
		return people.Invitation{}, err
	}
	user, _, err := u.Users().User(inviter.User)
	if err != nil {
		return people.Invitation{}, err
	}
	token, hash, err := session.Mint(u.Random)
	if err != nil {
		return people.Invitation{}, err
	}
	id, err := u.NewID()
	if err != nil {
		return people.Invitation{}, err
	}
	i := people.Invitation{
		ID: id, Organization: inviter.Organization.ID, Email: email, Role: role, Hash: hash, InvitedBy: inviter.User,
		CreatedAt: u.Now, ExpiresAt: u.Now.Add(InvitationLifetime),
	}
	if err := u.Organizations().InsertInvitation(i); err != nil {
		return i, err
	}
	u.Log(events.OfInvitation(events.InvitationCreated, i))
	if err := u.Audit("organization.invited", object("invitation", id)); err != nil {
		return i, err
	}
	mail := messages.InvitationMail(u.AppName(), inviter.Organization.Name, user.Email, token, u.Base)
	return i, u.Post(people.Message{Channel: people.ChannelMail, Recipient: email, ExpiresAt: u.Now.Add(NoticeLifetime)}, mail)
}

// withinInvitationLimits checks the daily limits. The locks make concurrent invitations count each other.
func withinInvitationLimits(u *Unit, inviter int64, email string) error {
	folded := people.FoldEmail(email)
	if err := u.Limits().Lock(object("inviter", inviter)); err != nil {
		return err
	}
	if err := u.Limits().Lock("invited:" + folded); err != nil {
		return err
	}
	to, by, err := u.Organizations().InvitationsSince(folded, inviter, u.Now.Add(-invitationWindow))
	if err != nil {
		return err
	}
	if to >= invitationsPerEmail || by >= invitationsPerInviter {
		return &WaitError{Reason: ErrTooManyInvitations, Wait: time.Hour}
	}
	return nil
}

// mayGrant returns a PermissionError for a role with permissions that the inviter does not have.
func mayGrant(u *Unit, inviter people.Member, role int64) error {
	granted := u.RoleOf(v1alpha1.RoleLevelOrganization, false, role)
	if granted == nil {
		return nil
	}
	for _, permission := range granted.Permissions {
		if !u.May(inviter, permission) {
			return &PermissionError{Permission: permission, Granting: true}
		}
	}
	return nil
}

// RequireMappable returns an error unless members may get a role of organizations by the claims of a provider:
// ErrRoleUnknown, or a PermissionError for a role with permissions that the member by lacks. A nil by stands for a
// backend.
func RequireMappable(u *Unit, by *people.Member, role int64) error {
	switch {
	case u.RoleOf(v1alpha1.RoleLevelOrganization, false, role) == nil:
		return ErrRoleUnknown
	case by == nil:
		return nil
	}
	return mayGrant(u, *by, role)
}

// ListInvitations returns the invitations into a member's organization that can still be accepted.
func ListInvitations(u *Unit, member people.Member) ([]people.Invitation, error) {
	if err := u.RequirePermission(member, PermissionInvite); err != nil {
		return nil, err
	}
	open, err := u.Organizations().OpenInvitations(member.Organization.ID, u.Now)
	if err != nil {
		return nil, err
	}
	inviters := map[int64]*people.Member{} // read once each, even if an inviter has several invitations
	for _, i := range open {
		if _, read := inviters[i.InvitedBy]; read {
			continue
		}
		if inviters[i.InvitedBy], err = inviter(u, i); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(open, func(i people.Invitation) bool { return !mayStillInvite(u, inviters[i.InvitedBy], i) }), nil
}

// RevokeInvitationOf revokes an open invitation into a member's organization. ErrInvitationUnknown: there is no open
// invitation with the id.
func RevokeInvitationOf(u *Unit, member people.Member, id int64) (people.Invitation, error) {
	if err := u.RequirePermission(member, PermissionInvite); err != nil {
		return people.Invitation{}, err
	}
	i, found, err := u.Organizations().Invitation(id)
	if err != nil {
		return i, err
	}
	if !found || i.Organization != member.Organization.ID {
		return i, ErrInvitationUnknown
	}
	if revoked, err := u.Organizations().RevokeInvitation(id, u.Now); err != nil || !revoked {
		return i, FirstOf(err, ErrInvitationUnknown)
	}
	u.Log(events.OfInvitation(events.InvitationRevoked, i))
	return i, u.Audit("organization.invitation_revoked", object("invitation", id))
}

// OpenInvitation returns the invitation of a token if it is for one of the addresses, which the user has proven or is
// about to prove. ErrInvalidInvitation: there is no such open invitation.
func OpenInvitation(u *Unit, token string, addresses ...string) (people.Invitation, error) {
	i, err := openByToken(u, token)
	if err != nil {
		return i, err
	}
	invited := func(address string) bool { return people.FoldEmail(address) == people.FoldEmail(i.Email) }
	if !slices.ContainsFunc(addresses, invited) {
		return i, ErrInvalidInvitation
	}
	return i, nil
}

// InvitationByToken returns the invitation of a token for a user whose address is not known yet. The caller compares
// the address that the user proves with the invitation's.
func InvitationByToken(u *Unit, token string) (people.Invitation, error) {
	return openByToken(u, token)
}

// openByToken returns the invitation of a token that can still be accepted. ErrInvalidInvitation: there is no such
// invitation.
func openByToken(u *Unit, token string) (people.Invitation, error) {
	hash, formed := session.Hash(token)
	if !formed || !u.B2B.Enabled {
		return people.Invitation{}, ErrInvalidInvitation
	}
	i, found, err := u.Organizations().InvitationByToken(hash)
	if err != nil {
		return i, err
	}
	if !found || !i.AcceptedAt.IsZero() || !i.RevokedAt.IsZero() || !u.Now.Before(i.ExpiresAt) {
		return i, ErrInvalidInvitation
	}
	if mayStillInvite, err := inviterMayInvite(u, i); err != nil || !mayStillInvite {
		return i, FirstOf(err, ErrInvalidInvitation)
	}
	return i, nil
}

// inviterMayInvite reports whether an invitation's inviter is still allowed to invite. The invitation is invalid once
// the inviter was removed, was disabled, or lost the permission.
func inviterMayInvite(u *Unit, i people.Invitation) (bool, error) {
	inviter, err := inviter(u, i)
	return mayStillInvite(u, inviter, i), err
}

// inviter returns the membership of an invitation's inviter, nil if the inviter was removed or disabled.
func inviter(u *Unit, i people.Invitation) (*people.Member, error) {
	member, found, err := u.Organizations().Member(i.Organization, i.InvitedBy)
	if err != nil || !found {
		return nil, err
	}
	user, found, err := u.Users().User(i.InvitedBy)
	if err != nil || !found || user.Disabled {
		return nil, err
	}
	return &member, nil
}

// mayStillInvite reports whether an invitation's inviter could send the same invitation now.
func mayStillInvite(u *Unit, inviter *people.Member, i people.Invitation) bool {
	return inviter != nil && u.May(*inviter, PermissionInvite) && mayGrant(u, *inviter, i.Role) == nil
}

// Accept makes a user a member by an invitation and makes the organization active for the user. It reports whether this
// transaction accepted the invitation. It checks the inviter's permissions again.
func Accept(u *Unit, i people.Invitation, user int64) (bool, error) {
	mayStillInvite, err := inviterMayInvite(u, i)
	if err != nil || !mayStillInvite {
		return false, err
	}
	if accepted, err := u.Organizations().AcceptInvitation(i.ID, u.Now); err != nil || !accepted {
		return false, err
	}
	o, found, err := u.Organizations().Organization(i.Organization)
	if err != nil || !found {
		return false, FirstOf(err, ErrInvalidInvitation)
	}
	role := i.Role
	if !u.HasRole(v1alpha1.RoleLevelOrganization, role) {
		role = 0 // the role was deleted meanwhile: the default applies
	}
	if _, err := Join(u, o, user, role); err != nil {
		return false, err
	}
	if err := u.Users().SetLastOrganization(user, o.ID); err != nil {
		return false, err
	}
	if err := tieWaiting(u, user, i.Email); err != nil { // the token was mailed there
		return false, err
	}
	accepted := events.OfInvitation(events.InvitationAccepted, i)
	accepted.Data.User = user
	LogAs(u, object("user", user), accepted)
	return true, u.AuditAs(object("user", user), "organization.joined", object("organization", o.ID), u.Session)
}

// FirstOf returns the first error that is not nil.
func FirstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
