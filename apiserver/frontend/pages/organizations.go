package pages

import (
	"net/http"
	"slices"

	"k8s.io/utils/ptr"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

// organizationsPage shows the organizations of which the user is a member.
type organizationsPage struct {
	Memberships []enduserapi.OrganizationMembership
	// Active is the id of the active organization, "" for none.
	Active string
	// Open reports that organizations can be created and switched.
	Open bool
}

func memberships(v *visit) ([]enduserapi.OrganizationMembership, error) {
	list, err := v.api.ListOrganizationMemberships(v.r.Context())
	if err != nil {
		return nil, err
	}
	return list.Data, nil
}

func activeOrganization(v *visit) string {
	if v.who.Organization == nil {
		return ""
	}
	return v.who.Organization.Id
}

func showOrganizations(v *visit) error {
	own := organizationsPage{Active: activeOrganization(v), Open: v.tenant.B2B.Enabled}
	var err error
	if own.Memberships, err = memberships(v); err != nil {
		return err
	}
	return v.render("organizations", v.text.Text("organizations.title"), own)
}

func takeOrganizations(v *visit) error {
	sent := v.form
	if err := switchOrganization(v, sent.value("organization_id")); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("switched", "/organizations")
}

func switchOrganization(v *visit, id string) error {
	_, err := v.api.SwitchOrganization(v.r.Context(), enduserapi.OrganizationChoice{OrganizationId: id})
	return err
}

func showNewOrganization(v *visit) error {
	return v.render("neworganization", v.text.Text("neworganization.title"), organizationsPage{Open: v.tenant.B2B.Enabled})
}

func takeNewOrganization(v *visit) error {
	sent := v.form
	sent.Action = "create"
	body := enduserapi.OwnOrganizationCreate{Name: sent.trimmed("name"), Description: given(sent.trimmed("description"))}
	created, err := v.api.CreateOrganization(v.r.Context(), body)
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect("organization_created", at("/organizations/{id}", created.Data.Organization.Slug))
}

// organizationPage shows one organization, with the actions that the user may perform there.
type organizationPage struct {
	place
	Active bool
	// Members are one part of all members. More is the id of the last one if others follow, else "".
	Members []enduserapi.OrganizationMember
	More    string
	// Workspaces are the organization's workspaces.
	Workspaces []workspaceRow
	// MayInvite shows the invitations, MayCreate the form to create a workspace, and MayLeave the form to leave the
	// organization.
	MayInvite, MayCreate, MayLeave bool
	// Provisions shows a link to the directories.
	Provisions  bool
	Invitations []enduserapi.OpenInvitation
	// Roles are the roles that the user can grant.
	Roles []option
	// roleNames are the names of roles by their ids.
	roleNames map[string]string
}

// RoleName returns the name of an invitation's role, "" for none.
func (own organizationPage) RoleName(id *string) string { return own.roleNames[ptr.Deref(id, "")] }

// workspaceRow is a workspace with the user's membership in it.
type workspaceRow struct {
	enduserapi.Workspace
	// Member reports that the user is in it, Active that it is active, and Opens that the user can see its members.
	Member, Active, Opens bool
	// role is the user's role in the workspace, nil for none.
	role *enduserapi.MemberRole
}

// membersListed is how many members a page shows.
const membersListed = 100

func showOrganization(v *visit) error {
	in, err := v.place()
	if err != nil {
		return err
	}
	o := in.Membership.Organization
	own := organizationPage{
		place: in, Active: activeOrganization(v) == o.Id, MayInvite: in.Open && mails(v) && in.may(permissionInvite),
		MayCreate: in.Open && v.tenant.B2B.AllowWorkspaceCreation && in.may(permissionCreateWorkspace),
	}
	own.MayLeave = !in.Owner
	if in.MayConnect {
		if own.Provisions, err = provisions(v, o.Id); err != nil {
			return err
		}
	}
	if own.Open {
		if err := own.load(v); err != nil {
			return err
		}
	}
	return v.render("organization", text.Isolate(o.Name), own)
}

// load reads the members, workspaces, roles and invitations of the organization.
func (own *organizationPage) load(v *visit) error {
	o := own.Membership.Organization
	var err error
	if own.Members, own.More, err = members(organizationMembers(v, o.Id), v.r.URL.Query().Get("after")); err != nil {
		return err
	}
	// An owner can leave if there is another owner. If the page does not list all members, it shows the form, and the
	// API decides.
	another := slices.ContainsFunc(own.Members, func(m enduserapi.OrganizationMember) bool { return m.Owner && m.Id != own.Membership.Id })
	own.MayLeave = own.MayLeave || another || own.More != "" || v.r.URL.Query().Has("after")
	if own.Workspaces, err = workspaces(v, own.place); err != nil || !own.MayInvite {
		return err
	}
	roles, err := roles(v, o.Id, "organization")
	if err != nil {
		return err
	}
	own.Roles, own.roleNames = choices(v, roles, "organization.default_role", own.may), map[string]string{}
	for _, role := range roles {
		own.roleNames[*role.Id] = role.Name
	}
	invitations, err := v.api.ListInvitations(v.r.Context(), o.Id)
	if err != nil {
		return err
	}
	own.Invitations = invitations.Data
	return nil
}

// memberList lists up to limit members that follow the membership with the id after, or the first ones if after is "".
type memberList func(after string, limit int) ([]enduserapi.OrganizationMember, error)

// organizationMembers lists the members of an organization.
func organizationMembers(v *visit, id string) memberList {
	return func(after string, limit int) ([]enduserapi.OrganizationMember, error) {
		list, err := v.api.ListMembers(v.r.Context(), id, enduserapi.EndUserListMembersParams{After: given(after), Limit: &limit})
		if err != nil {
			return nil, err
		}
		return list.Data, nil
	}
}

// members lists up to membersListed members that follow the membership with the id after. more is the id of the last
// one if others follow it, else "".
func members(of memberList, after string) (list []enduserapi.OrganizationMember, more string, err error) {
	if list, err = of(after, membersListed+1); err != nil {
		return nil, "", err
	}
	if len(list) > membersListed {
		list = list[:membersListed]
		more = list[membersListed-1].Id
	}
	return list, more, nil
}

func takeOrganization(v *visit) error {
	sent := v.form
	in, err := v.place()
	if err != nil {
		return err
	}
	o := in.Membership.Organization
	notice, back, invitation := "", at("/organizations/{id}", o.Slug), sent.value("invitation_id")
	switch sent.Action {
	case "switch":
		notice = "switched"
		err = switchOrganization(v, o.Id)
	case "switch-workspace":
		notice = "switched"
		err = switchWorkspace(v, o.Id, sent.value("workspace_id"))
	case "workspace":
		notice = "workspace_created"
		_, err = v.api.CreateWorkspace(v.r.Context(), enduserapi.WorkspaceCreate{Name: sent.trimmed("name"), OrganizationId: o.Id})
	case "invite":
		notice = "invited"
		_, err = v.api.Invite(v.r.Context(), o.Id, enduserapi.InvitationCreate{Email: sent.trimmed("email"), RoleId: given(sent.value("role"))})
	case "resend":
		notice = "invited"
		_, err = v.api.ResendInvitation(v.r.Context(), o.Id, invitation, enduserapi.Empty{})
	case "revoke":
		notice = "revoked"
		_, err = v.api.RevokeInvitation(v.r.Context(), o.Id, invitation)
	case "leave":
		notice, back = "left", "/organizations"
		_, err = v.api.LeaveOrganization(v.r.Context(), in.Membership.Id)
	default:
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect(notice, back)
}

// switchWorkspace makes a workspace active. If its organization is not active, it makes the organization active first.
func switchWorkspace(v *visit, organization, workspace string) error {
	if activeOrganization(v) != organization {
		if err := switchOrganization(v, organization); err != nil {
			return err
		}
	}
	_, err := v.api.SwitchWorkspace(v.r.Context(), enduserapi.WorkspaceChoice{WorkspaceId: workspace})
	return err
}
