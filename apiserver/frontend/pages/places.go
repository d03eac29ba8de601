package pages

import (
	"net/url"
	"slices"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// The permissions that the API asks for.
const (
	permissionInvite          = "organization:invite"
	permissionManage          = "organization:manage"
	permissionCreateWorkspace = "workspace:create"
	permissionManageWorkspace = "workspace:manage"
)

// place is an organization that one is in.
type place struct {
	Membership enduserapi.OrganizationMembership
	Owner      bool
	// Open reports that organizations are enabled: without, nothing is to be seen or done in this one.
	Open bool
	// MayManage reports that one may change it and its members.
	MayManage bool
}

// place finds the organization of the page's path among the user's own. Unknown and foreign are alike.
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
	return in, nil
}

// may reports whether the member holds a permission.
func (p place) may(permission string) bool { return may(p.Membership.Role, permission) }

// may reports whether a role has a permission. The owner's has all that the catalog has, and what the API asks for
// beside it.
func may(role *enduserapi.MemberRole, permission string) bool {
	return role != nil && (role.Id == nil || slices.Contains(role.Permissions, permission))
}

// option is one of a choice.
type option struct{ Value, Label string }

// roles lists the roles of a level: organization or workspace.
func roles(v *visit, organization string, level enduserapi.EndUserListRolesParamsLevel) ([]enduserapi.MemberRole, error) {
	list, err := v.api.ListRoles(v.r.Context(), organization, enduserapi.EndUserListRolesParams{Level: &level})
	if err != nil {
		return nil, err
	}
	return list.Data, nil
}

// choices returns the roles that a member with the given permissions can grant, after the choice of no role with its
// text.
func choices(v *visit, roles []enduserapi.MemberRole, none string, may func(string) bool) []option {
	out := []option{{"", v.text.Text(none)}}
	for _, role := range roles {
		if !slices.ContainsFunc(role.Permissions, func(permission string) bool { return !may(permission) }) {
			out = append(out, option{*role.Id, role.Name})
		}
	}
	return out
}

// withHeld adds a member's role to the choices where they could not give it: it can stay.
func withHeld(choices []option, role *enduserapi.MemberRole) []option {
	if role == nil || role.Id == nil || slices.ContainsFunc(choices, func(o option) bool { return o.Value == *role.Id }) {
		return choices
	}
	return append(slices.Clone(choices), option{*role.Id, role.Name})
}

// roleID is the id of a role in a form, "" for none.
func roleID(role *enduserapi.MemberRole) string {
	if role == nil || role.Id == nil {
		return ""
	}
	return *role.Id
}

// given is an optional member of a body, absent where nothing was typed or chosen.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// picture is the address of a picture that pages may show: the policy of a page names no other host than the logo's.
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
