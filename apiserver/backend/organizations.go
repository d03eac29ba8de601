package backend

import (
	"errors"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/httpapi/body"
	"github.com/cardea-iam/cardea/apiserver/httpapi/input"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// createOrganization creates an organization, with an owner or without one.
func createOrganization(c *call) (reply, error) {
	p := c.people()
	if err := p.RequireB2B(); err != nil {
		return reply{}, peopleError(err)
	}
	var name, description string
	var owner int64
	err := p.parse(func(o *body.Object) {
		if o.Require("name") {
			name = ptr.Deref(input.Name(o, "name"), "")
		}
		description, owner = ptr.Deref(input.Description(o, "description"), ""), input.ID(o, "owner_id")
	})
	if err != nil {
		return reply{}, err
	}
	var served backendapi.CreatedOrganization
	err = p.change(func(u *account.Unit) error {
		created, err := account.CreateOrganization(u, owner, name, description)
		if errors.Is(err, account.ErrUserUnknown) {
			return unknownUser("/owner_id")
		}
		if err != nil {
			return err
		}
		served = createdOrganization(created)
		return p.audit(u, "organization.created", "organization", created.Member.Organization.ID)
	})
	return object(served), err
}

func createdOrganization(created account.Created) backendapi.CreatedOrganization {
	o := created.Member.Organization
	served := backendapi.CreatedOrganization{
		Id: ids.Format(o.ID), Name: o.Name, Slug: o.Slug, Description: o.Description, ImageUrl: o.ImageURL, CreatedAt: o.CreatedAt,
	}
	if created.Workspace != nil {
		workspace := created.Workspace.Workspace
		served.DefaultWorkspace = &backendapi.Workspace{Id: ids.Format(workspace.ID), Name: workspace.Name, Slug: workspace.Slug}
	}
	return served
}

// addOrganizationMember makes a user a member of an organization and of its default workspace.
func addOrganizationMember(c *call) (reply, error) {
	p := c.people()
	if err := p.RequireB2B(); err != nil {
		return reply{}, peopleError(err)
	}
	var user, role int64
	err := p.parse(func(o *body.Object) {
		if o.Require("user_id") {
			user = input.ID(o, "user_id")
		}
		role = input.ID(o, "role_id")
		if role != 0 && !p.HasRole(v1alpha1.RoleLevelOrganization, role) {
			o.Fault("role_id", "is not the id of a role of level %s in the deployment: use the id of one", v1alpha1.RoleLevelOrganization)
		}
	})
	if err != nil {
		return reply{}, err
	}
	var served backendapi.OrganizationMembership
	err = p.change(func(u *account.Unit) error {
		if _, found, err := u.Users().LockUser(user); err != nil {
			return err
		} else if !found {
			return unknownUser("/user_id")
		}
		organization, err := findOrganization(u, c.r.PathValue("organization_id"))
		if err != nil {
			return err
		}
		member, err := account.Join(u, organization, user, role)
		if err != nil {
			return err
		}
		served = p.membership(member)
		return p.audit(u, "organization.member_added", "membership", member.ID)
	})
	return object(served), err
}

func findOrganization(u *account.Unit, text string) (people.Organization, error) {
	id, err := ids.Parse(text)
	if err != nil {
		return people.Organization{}, errNoOrganization
	}
	organization, found, err := u.Organizations().Organization(id)
	if err == nil && !found {
		err = errNoOrganization
	}
	return organization, err
}

// removeOrganizationMember deletes a membership, also that of the last owner: a backend may leave an organization
// without an owner.
func removeOrganizationMember(c *call) (reply, error) {
	p := c.people()
	user, err := ids.Parse(c.r.PathValue("user_id"))
	if err != nil {
		return reply{}, peopleError(errNoMember)
	}
	err = p.change(func(u *account.Unit) error {
		organization, err := findOrganization(u, c.r.PathValue("organization_id"))
		if err != nil {
			return err
		}
		member, found, err := u.Organizations().Member(organization.ID, user)
		if err != nil {
			return err
		}
		if !found {
			return errNoMember
		}
		removed, err := u.Organizations().DeleteMember(organization.ID, user)
		if err != nil {
			return err
		}
		if !removed {
			return errNoMember
		}
		u.Log(events.OfMember(events.MembershipDeleted, member))
		return p.audit(u, "organization.member_removed", "membership", member.ID)
	})
	return reply{}, err
}

// listOrganizations serves a page of the deployment's organizations.
func listOrganizations(c *call) (reply, error) {
	q := c.query()
	limit, offset := q.page()
	search, _ := q.Text("search")
	if err := q.Err(); err != nil {
		return reply{}, err
	}
	var list backendapi.OrganizationList
	err := c.people().view(func(u *account.Unit) error {
		found, total, err := u.Listings().ListOrganizations(search, limit, offset)
		list = backendapi.OrganizationList{
			Data: []backendapi.ListedOrganization{}, Limit: int64(limit), Offset: int64(offset), Total: total, HasMore: int64(offset+len(found)) < total,
		}
		for _, o := range found {
			list.Data = append(list.Data, backendapi.ListedOrganization{
				Id: ids.Format(o.ID), Name: o.Name, Slug: o.Slug, Description: o.Description, ImageUrl: o.ImageURL, Members: o.Members, CreatedAt: o.CreatedAt,
			})
		}
		return err
	})
	return object(list), err
}
