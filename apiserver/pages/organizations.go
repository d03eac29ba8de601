package pages

import (
	"net/http"
	"slices"

	"github.com/cardea-iam/cardea/apiserver/openapi/enduserapi"
)

// organizationsPage shows where one is a member.
type organizationsPage struct {
	Memberships []enduserapi.OrganizationMembership
	// Active is the id of the active organization, "" for none.
	Active string
	// Open tells that organizations can be created and switched.
	Open bool
}

func (v *visit) memberships() (list []enduserapi.OrganizationMembership, err error) {
	err = v.api.call(http.MethodGet, "/me/organization-memberships", nil, &list)
	return list, err
}

func (v *visit) activeOrganization() string {
	if v.who.Organization == nil {
		return ""
	}
	return v.who.Organization.Id
}

func showOrganizations(v *visit) error {
	own := organizationsPage{Active: v.activeOrganization(), Open: v.tenant.B2B.Enabled}
	var err error
	if own.Memberships, err = v.memberships(); err != nil {
		return err
	}
	return v.render("organizations", v.text.Text("organizations.title"), own)
}

func takeOrganizations(v *visit) error {
	sent := v.form
	if err := v.api.call(http.MethodPost, "/session/switch-organization", map[string]string{"organization_id": sent.value("organization_id")}, nil); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("switched", "/organizations")
}

func showNewOrganization(v *visit) error {
	return v.render("neworganization", v.text.Text("neworganization.title"), organizationsPage{Open: v.tenant.B2B.Enabled})
}

func takeNewOrganization(v *visit) error {
	sent := v.form
	sent.Action = "create"
	body := map[string]string{"name": sent.trimmed("name")}
	if about := sent.trimmed("description"); about != "" {
		body["description"] = about
	}
	var created enduserapi.OwnOrganization
	if err := v.api.call(http.MethodPost, "/organizations", body, &created); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("organization_created", at("/organizations/{id}", created.Organization.Slug))
}

// organizationPage shows one organization, with what the member may do there.
type organizationPage struct {
	Membership enduserapi.OrganizationMembership
	Active     bool
	Owner      bool
	// Workspaces are those of the member, and Workspace is the active one.
	Workspaces []enduserapi.WorkspaceMembership
	Workspace  string
	// MayInvite shows the invitations, MayCreate the form of a workspace.
	MayInvite, MayCreate bool
	Invitations          []enduserapi.Invitation
	// Open tells that organizations are enabled.
	Open bool
}

// The permissions that the API asks for.
const (
	permissionInvite          = "organization:invite"
	permissionCreateWorkspace = "workspace:create"
)

// organization finds the organization of the page's path among the user's own. Unknown and foreign are alike.
func (v *visit) organization() (enduserapi.OrganizationMembership, error) {
	list, err := v.memberships()
	if err != nil {
		return enduserapi.OrganizationMembership{}, err
	}
	found := slices.IndexFunc(list, func(m enduserapi.OrganizationMembership) bool { return m.Organization.Slug == v.r.PathValue("slug") })
	if found < 0 {
		return enduserapi.OrganizationMembership{}, nothingThere()
	}
	return list[found], nil
}

// may tells whether a member holds a permission. The owner has all that the catalog has, and what the API asks for beside it.
func may(m enduserapi.OrganizationMembership, permission string) bool {
	return m.Role != nil && (m.Role.Id == nil || slices.Contains(m.Role.Permissions, permission))
}

func showOrganization(v *visit) error {
	m, err := v.organization()
	if err != nil {
		return err
	}
	own := organizationPage{
		Membership: m, Active: v.activeOrganization() == m.Organization.Id, Owner: m.Role != nil && m.Role.Id == nil, Open: v.tenant.B2B.Enabled,
	}
	own.MayInvite = own.Open && v.mails() && may(m, permissionInvite)
	own.MayCreate = own.Open && v.tenant.B2B.AllowWorkspaceCreation && may(m, permissionCreateWorkspace)
	if v.who.Workspace != nil {
		own.Workspace = v.who.Workspace.Id
	}
	if err := v.api.call(http.MethodGet, "/me/workspace-memberships", nil, &own.Workspaces); err != nil {
		return err
	}
	own.Workspaces = slices.DeleteFunc(own.Workspaces, func(w enduserapi.WorkspaceMembership) bool { return w.Organization.Id != m.Organization.Id })
	if own.MayInvite {
		if err := v.api.call(http.MethodGet, at("/organizations/{id}/invitations", m.Organization.Id), nil, &own.Invitations); err != nil {
			return err
		}
	}
	return v.render("organization", m.Organization.Name, own)
}

func takeOrganization(v *visit) error {
	sent := v.form
	m, err := v.organization()
	if err != nil {
		return err
	}
	notice, back := "", at("/organizations/{id}", m.Organization.Slug)
	switch sent.Action {
	case "switch":
		notice = "switched"
		err = v.api.call(http.MethodPost, "/session/switch-organization", map[string]string{"organization_id": m.Organization.Id}, nil)
	case "switch-workspace":
		notice = "switched"
		err = v.switchWorkspace(m, sent.value("workspace_id"))
	case "workspace":
		notice = "workspace_created"
		err = v.api.call(http.MethodPost, "/workspaces", map[string]string{"name": sent.trimmed("name"), "organization_id": m.Organization.Id}, nil)
	case "invite":
		notice = "invited"
		err = v.api.call(http.MethodPost, at("/organizations/{id}/invitations", m.Organization.Id), map[string]string{"email": sent.trimmed("email")}, nil)
	case "revoke":
		notice = "revoked"
		err = v.api.call(http.MethodDelete, at("/organizations/"+m.Organization.Id+"/invitations/{id}", sent.value("invitation_id")), nil, nil)
	case "leave":
		notice, back = "left", "/organizations"
		err = v.api.call(http.MethodDelete, at("/me/organization-memberships/{id}", m.Id), nil, nil)
	default:
		v.failure(http.StatusBadRequest, "bad_form")
		return nil
	}
	if err != nil {
		return v.again(sent, err)
	}
	return v.redirect(notice, back)
}

// switchWorkspace makes a workspace active, and its organization before it.
func (v *visit) switchWorkspace(m enduserapi.OrganizationMembership, workspace string) error {
	if v.activeOrganization() != m.Organization.Id {
		if err := v.api.call(http.MethodPost, "/session/switch-organization", map[string]string{"organization_id": m.Organization.Id}, nil); err != nil {
			return err
		}
	}
	return v.api.call(http.MethodPost, "/session/switch-workspace", map[string]string{"workspace_id": workspace}, nil)
}
