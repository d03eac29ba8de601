package enduser

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/users/account"
	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/store/people"
)

func viewUser(u people.User) *enduserapi.EndUser {
	view := &enduserapi.EndUser{Id: format(u.ID), Email: u.Email, FirstName: u.FirstName, LastName: u.LastName, CreatedAt: u.CreatedAt}
	if u.Phone != "" {
		view.PrimaryPhoneNumber = &u.Phone
	}
	return view
}

func viewPhone(p people.Phone) enduserapi.PhoneNumber {
	view := enduserapi.PhoneNumber{Id: format(p.ID), PhoneNumber: p.Number, Verified: !p.VerifiedAt.IsZero(), Primary: p.Primary, CreatedAt: p.CreatedAt}
	if view.Verified {
		view.VerifiedAt = &p.VerifiedAt
	}
	return view
}

func viewEmail(e people.Email) enduserapi.EmailAddress {
	view := enduserapi.EmailAddress{Id: format(e.ID), Email: e.Address, Verified: !e.VerifiedAt.IsZero(), Primary: e.Primary, CreatedAt: e.CreatedAt}
	if view.Verified {
		view.VerifiedAt = &e.VerifiedAt
	}
	return view
}

func viewAccount(a people.Account) enduserapi.MemberAccount {
	return enduserapi.MemberAccount{Id: format(a.ID), FirstName: a.FirstName, LastName: a.LastName, Email: a.Email}
}

func viewMemberAccount(t *account.Tenant, m people.Member, a people.Account) enduserapi.OrganizationMember {
	return enduserapi.OrganizationMember{
		Id: format(m.ID), User: viewAccount(a), Owner: m.Owner, Role: viewRole(t.RoleOf(v1alpha1.RoleLevelOrganization, m.Owner, m.Role)), CreatedAt: m.CreatedAt,
	}
}

func viewWorkspaceMemberAccount(t *account.Tenant, m people.WorkspaceMember, a people.Account) enduserapi.WorkspaceMember {
	return enduserapi.WorkspaceMember{
		Id: format(m.ID), User: viewAccount(a), Owner: m.Owner, Role: viewRole(t.RoleOf(v1alpha1.RoleLevelWorkspace, m.Owner, m.Role)), CreatedAt: m.CreatedAt,
	}
}

func viewOrganization(o people.Organization) enduserapi.Organization {
	return enduserapi.Organization{Id: format(o.ID), Name: o.Name, Slug: o.Slug, ImageUrl: o.ImageURL}
}

func viewWorkspace(w people.Workspace) enduserapi.Workspace {
	return enduserapi.Workspace{Id: format(w.ID), Name: w.Name, Slug: w.Slug}
}

// viewRole returns nil for no role. The built-in owner role has no id.
func viewRole(r *account.Role) *enduserapi.MemberRole {
	if r == nil {
		return nil
	}
	view := &enduserapi.MemberRole{Name: r.Name, Permissions: r.Permissions}
	if view.Permissions == nil {
		view.Permissions = []string{}
	}
	if r.ID != 0 {
		id := format(r.ID)
		view.Id = &id
	}
	return view
}

// viewMember returns a membership of the user of a sign-in with what is required there. workspaces are the
// user's.
func viewMember(u *account.Unit, g *people.SignIn, m people.Member, workspaces []people.WorkspaceMember) enduserapi.OrganizationMembership {
	required := u.RequiredAmong(g, m, workspaces, u.Now).Level
	outstanding := account.OutstandingAmong(u.Tenant, g, m, workspaces, u.Now).Level
	return enduserapi.OrganizationMembership{
		Id: format(m.ID), Organization: viewMemberOrganization(m.Organization), Role: viewRole(u.RoleOf(v1alpha1.RoleLevelOrganization, m.Owner, m.Role)), CreatedAt: m.CreatedAt,
		Assurance: enduserapi.MembershipAssurance{Required: required.String(), Satisfied: g.Proven().Level() >= outstanding},
	}
}

// viewMemberOrganization returns an organization as its members see it, with its own requirement.
func viewMemberOrganization(o people.Organization) enduserapi.MemberOrganization {
	view := enduserapi.MemberOrganization{
		Id: format(o.ID), Name: o.Name, Slug: o.Slug, ImageUrl: o.ImageURL, RequiredAssurance: max(o.Required.Level, assurance.OneFactor).String(),
	}
	if !o.Required.From.IsZero() {
		view.EnforceFrom = &o.Required.From
	}
	return view
}

func viewWorkspaceMember(t *account.Tenant, o people.Organization, m people.WorkspaceMember) enduserapi.WorkspaceMembership {
	return enduserapi.WorkspaceMembership{
		Id: format(m.ID), Organization: viewOrganization(o), Workspace: viewWorkspace(m.Workspace),
		Role: viewRole(t.RoleOf(v1alpha1.RoleLevelWorkspace, m.Owner, m.Role)), CreatedAt: m.CreatedAt,
	}
}

func viewInvitation(i people.Invitation) enduserapi.Invitation {
	view := enduserapi.Invitation{Id: format(i.ID), OrganizationId: format(i.Organization), Email: i.Email, CreatedAt: i.CreatedAt, ExpiresAt: i.ExpiresAt}
	if i.Role != 0 {
		id := format(i.Role)
		view.RoleId = &id
	}
	return view
}
