package enduser

import (
	"errors"

	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// listOrganizationMemberships lists the user's organizations, also while B2B is disabled.
func listOrganizationMemberships(c *call) (reply, error) {
	out := []enduserapi.OrganizationMembership{}
	err := c.view(func(u *account.Unit) error {
		members, err := u.Organizations().MembershipsOf(c.signedIn().User)
		if err != nil {
			return err
		}
		workspaces, err := u.Organizations().WorkspaceMembershipsOf(c.signedIn().User, 0)
		for _, m := range members {
			if !reaches(c.signedIn(), m.Organization.ID) {
				continue
			}
			out = append(out, viewMember(u, c.signedIn(), m, workspaces))
		}
		return err
	})
	return reply{data: out}, err
}

// listWorkspaceMemberships lists the user's workspaces in all organizations.
func listWorkspaceMemberships(c *call) (reply, error) {
	out := []enduserapi.WorkspaceMembership{}
	err := c.view(func(u *account.Unit) error {
		organizations := map[int64]people.Organization{}
		members, err := u.Organizations().MembershipsOf(c.signedIn().User)
		for _, m := range members {
			organizations[m.Organization.ID] = m.Organization
		}
		if err != nil {
			return err
		}
		workspaces, err := u.Organizations().WorkspaceMembershipsOf(c.signedIn().User, 0)
		for _, m := range workspaces {
			// A user who left the organization meanwhile is no longer in its workspaces.
			if o, member := organizations[m.Workspace.Organization]; member && reaches(c.signedIn(), o.ID) {
				out = append(out, viewWorkspaceMember(u.Tenant, o, m))
			}
		}
		return err
	})
	return reply{data: out}, err
}

// leaveOrganization ends one of the user's memberships.
func leaveOrganization(c *call) (reply, error) {
	id, err := ids.Parse(c.r.PathValue("id"))
	if err != nil {
		return reply{}, c.answerTo(errMembershipUnknown)
	}
	return transact(c, func(u *unit) (reply, error) {
		g := u.signedIn()
		m, err := account.Leave(u.Unit, g.User, id)
		if errors.Is(err, account.ErrNotMember) {
			return reply{}, errMembershipUnknown
		}
		if err != nil {
			return reply{}, err
		}
		if g.Organization == m.Organization.ID {
			g.Organization, g.Workspace = 0, 0
		}
		return reply{data: viewMember(u.Unit, g, m, nil)}, nil
	})
}

// reaches reports whether a sign-in is not confined to another organization.
func reaches(g *people.SignIn, organization int64) bool {
	return g.Upstream.ConfinedTo == 0 || g.Upstream.ConfinedTo == organization
}
