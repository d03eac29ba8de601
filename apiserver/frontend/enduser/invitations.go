package enduser

import (
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// invite invites an email into an organization. Only the mail has the token.
func invite(c *call) (reply, error) {
	var email string
	var role int64
	err := c.parse(func(o *body.Object) {
		email = required(o, "email", input.Email)
		role = input.ID(o, "role_id")
	})
	if err != nil {
		return reply{}, err
	}
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	organization, err := organizationID(c)
	if err != nil {
		return reply{}, err
	}
	if err := c.requireEmail(); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		member, err := memberOf(u.Unit, organization, u.signedIn())
		if err != nil {
			return reply{}, err
		}
		i, err := account.Invite(u.Unit, member, email, role)
		return reply{data: viewInvitation(i)}, err
	})
}

// listInvitations lists the open invitations into an organization, for members with the permission to invite.
func listInvitations(c *call) (reply, error) {
	out := []enduserapi.OpenInvitation{}
	return inOrganization(c, func(u *account.Unit, member people.Member) (any, error) {
		open, err := account.ListInvitations(u, member)
		if err != nil {
			return nil, err
		}
		inviters := map[int64]people.Account{} // read once each, even if an inviter has several invitations
		for _, i := range open {
			by, read := inviters[i.InvitedBy]
			if !read {
				if by, err = account.Inviter(u, i); err != nil {
					return nil, err
				}
				inviters[i.InvitedBy] = by
			}
			out = append(out, viewOpenInvitation(i, by))
		}
		return out, nil
	})
}

func viewOpenInvitation(i people.Invitation, by people.Account) enduserapi.OpenInvitation {
	view := viewInvitation(i)
	return enduserapi.OpenInvitation{
		Id: view.Id, OrganizationId: view.OrganizationId, Email: view.Email, RoleId: view.RoleId, Inviter: viewAccount(by), CreatedAt: view.CreatedAt, ExpiresAt: view.ExpiresAt,
	}
}

// revokeInvitation revokes an open invitation.
func revokeInvitation(c *call) (reply, error) {
	return changeInvitation(c, func(u *unit, member people.Member, id int64) (people.Invitation, error) {
		return account.RevokeInvitationOf(u.Unit, member, id)
	})
}

// resendInvitation replaces an open invitation with a new one to the same email, which counts toward the limits.
func resendInvitation(c *call) (reply, error) {
	if err := c.parse(func(*body.Object) {}); err != nil {
		return reply{}, err
	}
	if err := c.requireEmail(); err != nil {
		return reply{}, err
	}
	return changeInvitation(c, func(u *unit, member people.Member, id int64) (people.Invitation, error) {
		return account.ResendInvitation(u.Unit, member, id)
	})
}

func changeInvitation(c *call, change func(*unit, people.Member, int64) (people.Invitation, error)) (reply, error) {
	return changeOrganizationBy(c, func(u *unit, member people.Member) (any, error) {
		id, err := ids.Parse(c.r.PathValue("invitation_id"))
		if err != nil {
			return nil, account.ErrInvitationUnknown
		}
		i, err := change(u, member, id)
		return viewInvitation(i), err
	})
}

// lookUpInvitation returns the organization and the inviter of an invitation by its token.
func lookUpInvitation(c *call) (reply, error) {
	var token string
	err := c.parse(func(o *body.Object) {
		o.Require("token")
		token, _ = o.String("token")
	})
	if err != nil {
		return reply{}, err
	}
	var out enduserapi.InvitationLookup
	err = c.view(func(u *account.Unit) error {
		i, o, err := account.LookUpInvitation(u, token)
		if err != nil {
			return err
		}
		by, err := account.Inviter(u, i)
		out = enduserapi.InvitationLookup{
			Organization: enduserapi.InvitingOrganization{Name: o.Name, ImageUrl: o.ImageURL},
			Inviter:      enduserapi.Inviter{FirstName: by.FirstName, LastName: by.LastName, Email: by.Email}, Email: i.Email, ExpiresAt: i.ExpiresAt,
		}
		return err
	})
	return reply{data: out}, err
}

// acceptInvitation makes the signed-in user a member.
func acceptInvitation(c *call) (reply, error) {
	var token string
	err := c.parse(func(o *body.Object) {
		o.Require("token")
		token, _ = o.String("token")
	})
	if err != nil {
		return reply{}, err
	}
	if err := requireB2B(c); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		addresses, err := account.ProvenAddresses(u.Unit, user.ID)
		if err != nil {
			return reply{}, err
		}
		i, err := account.OpenInvitation(u.Unit, token, addresses...)
		if err != nil {
			return reply{}, err
		}
		accepted, err := account.Accept(u.Unit, i, user.ID)
		if err != nil {
			return reply{}, err
		}
		if !accepted {
			return reply{}, account.ErrInvalidInvitation
		}
		member, err := account.RequireMember(u.Unit, i.Organization, user.ID)
		if err != nil {
			return reply{}, err
		}
		workspaces, err := u.Organizations().WorkspaceMembershipsOf(user.ID, i.Organization)
		return reply{data: enduserapi.AcceptedInvitation{Membership: viewMember(u.Unit, u.signedIn(), member, workspaces)}}, err
	})
}
