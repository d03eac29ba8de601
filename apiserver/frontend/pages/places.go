package pages

import (
	"net/url"
	"slices"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// The permissions that operations of the API require.
const (
	permissionInvite          = "organization:invite"
	permissionManage          = "organization:manage"
	permissionCreateWorkspace = "workspace:create"
	permissionManageWorkspace = "workspace:manage"
	permissionConnections     = "connection:manage"
)

// place is an organization of which the user is a member.
type place struct {
	Membership enduserapi.OrganizationMembership
	Owner      bool
	// Open reports that organizations are enabled in the deployment. Otherwise the organization's page shows only the
	// user's own membership, and the organization cannot be changed.
	Open bool
	// MayManage reports that the user may change the organization and its members.
	MayManage bool
	// Setup reports that a setup link opens the organization's page, for a user that need not be a member.
	Setup bool
	// MayConnect reports that the user may manage the connections, domains and directories of the organization.
	MayConnect bool
}

// place finds the organization of the page's path among the user's own. An unknown organization and one of other users
// get the same response.
func (v *visit) place() (place, error) {
	list, err := memberships(v)
	if err != nil {
		return place{}, err
	}
	found := slices.IndexFunc(list, func(m enduserapi.OrganizationMembership) bool { return m.Organization.Slug == v.r.PathValue("slug") })
	if found < 0 {
		return place{}, nothingThere()
	}
	in := place{Membership: list[found], Owner: list[found].Role != nil && list[found].Role.Id == nil, Open: v.tenant.B2B.Enabled}
	in.MayManage = in.Open && in.may(permissionManage)
	in.MayConnect = in.Open && in.may(permissionConnections) && v.tenant.Settings.EffectiveConnections().SelfService
	return in, nil
}

// may reports whether the user's role has a permission.
func (p place) may(permission string) bool { return may(p.Membership.Role, permission) }

// may reports whether a role has a permission. The built-in owner role has all permissions.
func may(role *enduserapi.MemberRole, permission string) bool {
	return role != nil && (role.Id == nil || slices.Contains(role.Permissions, permission))
}

// option is one option of a select field.
type option struct{ Value, Label string }

// roles lists the roles of a level: organization or workspace.
func roles(v *visit, organization string, level enduserapi.EndUserListRolesParamsLevel) ([]enduserapi.MemberRole, error) {
	list, err := v.api.ListRoles(v.r.Context(), organization, enduserapi.EndUserListRolesParams{Level: &level})
	if err != nil {
		return nil, err
	}
	return list.Data, nil
}

// choices returns the roles that a user can grant; may reports whether the user has a permission. The first option
// stands for no role; the parameter none is the text key of its label.
func choices(v *visit, roles []enduserapi.MemberRole, none string, may func(string) bool) []option {
	out := []option{{"", v.text.Text(none)}}
	for _, role := range roles {
		if !slices.ContainsFunc(role.Permissions, func(permission string) bool { return !may(permission) }) {
			out = append(out, option{*role.Id, role.Name})
		}
	}
	return out
}

// withHeld adds a member's current role to the choices if the user cannot grant it, so that the member can keep it.
func withHeld(choices []option, role *enduserapi.MemberRole) []option {
	if role == nil || role.Id == nil || slices.ContainsFunc(choices, func(o option) bool { return o.Value == *role.Id }) {
		return choices
	}
	return append(slices.Clone(choices), option{*role.Id, role.Name})
}

// roleID returns the id of a role for a form, "" for no role and for the owner role.
func roleID(role *enduserapi.MemberRole) string {
	if role == nil || role.Id == nil {
		return ""
	}
	return *role.Id
}

// given returns an optional member of a request body: nil (absent) for an empty text.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// picture returns the address of a picture if it has the origin of the logo, else "". The Content-Security-Policy of a
// page permits only pictures from that origin and from the page's own.
func picture(v *visit, address string) string {
	logo, err := url.Parse(v.tenant.Settings.EffectivePages().LogoURL)
	if err != nil || logo.Host == "" {
		return ""
	}
	if u, err := url.Parse(address); err != nil || u.Scheme != logo.Scheme || u.Host != logo.Host {
		return ""
	}
	return address
}
