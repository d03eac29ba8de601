package enduser

import (
	"maps"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/httpapi/query"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	"github.com/cardea-iam/cardea/apiserver/users/connections"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

// maxMembersListed is the highest and default number of members in one response.
const maxMembersListed = 200

// memberPage selects the members to list: those after a membership, up to a limit.
type memberPage struct {
	after int64
	limit int
}

// query reads the parameters of the request. A parameter without a value is absent.
func (c *call) query() *query.Query {
	values := c.r.URL.Query()
	maps.DeleteFunc(values, func(_ string, sent []string) bool { return len(sent) == 1 && sent[0] == "" })
	return query.New(values)
}

// memberPage reads after and limit.
func (c *call) memberPage() (memberPage, error) {
	q := c.query()
	page := memberPage{after: q.ID("after"), limit: q.Limit(maxMembersListed, maxMembersListed)}
	return page, q.Err()
}

// listMembers lists the members of an organization, for its members.
func listMembers(c *call) (reply, error) {
	page, err := c.memberPage()
	if err != nil {
		return reply{}, err
	}
	return inOrganization(c, func(u *account.Unit, in people.Member) (any, error) {
		out := []enduserapi.OrganizationMember{}
		members, err := u.Organizations().MembersOf(in.Organization.ID, page.after, page.limit)
		if err != nil {
			return nil, err
		}
		levels := map[int64]assurance.Level(nil)
		if shows := in.Owner && u.RequiresOwn(in.Organization); shows {
			if levels, err = u.Organizations().FactorLevelsOf(in.Organization.ID, page.after, page.limit, account.UsableFactors(u.Tenant)); err != nil {
				return nil, err
			}
		}
		for _, m := range members {
			view := viewMemberAccount(u.Tenant, m.Member, m.Account)
			if level, shown := levels[m.User]; shown {
				view.SecondFactor = ptr.To(level.String())
			}
			out = append(out, view)
		}
		return out, nil
	})
}

// accountOf returns the part of a user's account that other members can see.
func accountOf(u *account.Unit, id int64) (people.Account, error) {
	user, _, err := u.Users().User(id)
	return people.Account{ID: user.ID, FirstName: user.FirstName, LastName: user.LastName, Email: user.Email}, err
}

// readRole reads the id of a role. It returns 0 for null, which means no role.
func readRole(o *body.Object) int64 {
	if o.IsNull("role_id") {
		return 0
	}
	return input.ID(o, "role_id")
}

// changeMember changes a member's role and ownership of the organization.
func changeMember(c *call) (reply, error) {
	var change account.MemberChange
	err := c.parse(func(o *body.Object) {
		if o.Has("role_id") {
			role := readRole(o)
			change.Role = &role
		}
		if owner, sent := o.Bool("owner"); sent {
			change.Owner = &owner
		}
	})
	if err != nil {
		return reply{}, err
	}
	c.fresh = change.Owner != nil
	return changeMembership(c, func(u *unit, by people.Member, id int64) (people.Member, error) {
		return account.ChangeMember(u.Unit, by, id, change)
	})
}

// removeMember ends a membership. The removal of an owner needs a recent authentication.
func removeMember(c *call) (reply, error) {
	return changeMembership(c, func(u *unit, by people.Member, id int64) (people.Member, error) {
		m, err := account.RemoveMember(u.Unit, by, id)
		if err == nil && m.Owner {
			err = u.requireFresh()
		}
		return m, err
	})
}

func changeMembership(c *call, change func(*unit, people.Member, int64) (people.Member, error)) (reply, error) {
	return changeOrganizationBy(c, func(u *unit, by people.Member) (any, error) {
		id, err := membershipID(c)
		if err != nil {
			return nil, err
		}
		m, err := change(u, by, id)
		if err != nil {
			return nil, err
		}
		if g := u.signedIn(); m.User == g.User {
			if _, still, err := u.Organizations().Member(m.Organization.ID, g.User); err != nil {
				return nil, err
			} else if !still && g.Organization == m.Organization.ID {
				g.Organization, g.Workspace = 0, 0
			}
		}
		who, err := accountOf(u.Unit, m.User)
		return viewMemberAccount(u.Tenant, m, who), err
	})
}

// readLevel reads the level of the requested roles; absent means organization.
func readLevel(c *call) (v1alpha1.RoleLevel, error) {
	q := c.query()
	if q.OneOf("level", "organization", "organization", "workspace") == "workspace" {
		return v1alpha1.RoleLevelWorkspace, q.Err()
	}
	return v1alpha1.RoleLevelOrganization, q.Err()
}

// listRoles lists the deployment's roles for members of organizations or workspaces.
func listRoles(c *call) (reply, error) {
	level, err := readLevel(c)
	if err != nil {
		return reply{}, err
	}
	return inManaged(c, func(u *account.Unit, _ connections.Scope) (any, error) {
		out := []enduserapi.MemberRole{}
		for _, role := range u.Roles(level) {
			out = append(out, *viewRole(&role))
		}
		return out, nil
	})
}

// listWorkspaces lists an organization's workspaces, for its members.
func listWorkspaces(c *call) (reply, error) {
	return inOrganization(c, func(u *account.Unit, in people.Member) (any, error) {
		out := []enduserapi.Workspace{}
		workspaces, err := u.Organizations().WorkspacesOf(in.Organization.ID)
		for _, w := range workspaces {
			out = append(out, viewWorkspace(w))
		}
		return out, err
	})
}
