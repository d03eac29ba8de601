package enduser

import (
	"github.com/cardea-iam/cardea/apiserver/account"
	"github.com/cardea-iam/cardea/apiserver/body"
	"github.com/cardea-iam/cardea/apiserver/input"
	"github.com/cardea-iam/cardea/apiserver/openapi/enduserapi"
	"github.com/cardea-iam/cardea/internal/ids"
)

// invite asks somebody into an organization by mail. The token is in that mail alone.
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
	if err := c.requireB2B(); err != nil {
		return reply{}, err
	}
	organization, err := c.organizationID()
	if err != nil {
		return reply{}, err
	}
	if err := c.requireEmail(); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		member, err := u.RequireMember(organization, u.signedIn().User)
		if err != nil {
			return reply{}, err
		}
		i, err := u.Invite(member, email, role)
		return reply{data: viewInvitation(i)}, err
	})
}

// listInvitations lists the invitations into an organization that can still be accepted, to those who may invite.
func listInvitations(c *call) (reply, error) {
	if err := c.requireB2B(); err != nil {
		return reply{}, err
	}
	organization, err := c.organizationID()
	if err != nil {
		return reply{}, err
	}
	out := []enduserapi.Invitation{}
	err = c.view(func(u *account.Unit) error {
		member, err := u.RequireMember(organization, c.signedIn().User)
		if err != nil {
			return err
		}
		open, err := u.ListInvitations(member)
		for _, i := range open {
			out = append(out, viewInvitation(i))
		}
		return err
	})
	return reply{data: out}, err
}

// revokeInvitation ends an invitation that was not accepted yet.
func revokeInvitation(c *call) (reply, error) {
	if err := c.requireB2B(); err != nil {
		return reply{}, err
	}
	organization, err := c.organizationID()
	if err != nil {
		return reply{}, err
	}
	id, err := ids.Parse(c.r.PathValue("invitation_id"))
	if err != nil {
		return reply{}, c.answerTo(account.ErrInvitationUnknown)
	}
	return transact(c, func(u *unit) (reply, error) {
		member, err := u.RequireMember(organization, u.signedIn().User)
		if err != nil {
			return reply{}, err
		}
		i, err := u.RevokeInvitationOf(member, id)
		return reply{data: viewInvitation(i)}, err
	})
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
	if err := c.requireB2B(); err != nil {
		return reply{}, err
	}
	return transact(c, func(u *unit) (reply, error) {
		user, err := u.lockOwnUser()
		if err != nil {
			return reply{}, err
		}
		addresses, err := u.ProvenAddresses(user.ID)
		if err != nil {
			return reply{}, err
		}
		i, err := u.OpenInvitation(token, addresses...)
		if err != nil {
			return reply{}, err
		}
		accepted, err := u.Accept(i, user.ID)
		if err != nil {
			return reply{}, err
		}
		if !accepted {
			return reply{}, account.ErrInvalidInvitation
		}
		member, err := u.RequireMember(i.Organization, user.ID)
		return reply{data: enduserapi.AcceptedInvitation{Membership: viewMember(u.Tenant, member)}}, err
	})
}
