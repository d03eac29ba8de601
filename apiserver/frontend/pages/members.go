package pages

import (
	"strconv"

	"github.com/oapi-codegen/nullable"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
)

// memberPage shows one member of an organization to its managers.
type memberPage struct {
	place
	Member enduserapi.OrganizationMember
	// Self reports that the membership is the user's own.
	Self  bool
	Roles []option
	Role  string
}

// member returns the member whose id is in the page's path. The API lists members by ascending id, so the list after
// id-1 begins with the member.
func member(v *visit, organization string) (enduserapi.OrganizationMember, error) {
	id := v.r.PathValue("id")
	number, err := strconv.ParseInt(id, 10, 64)
	if err != nil || number < 2 {
		return enduserapi.OrganizationMember{}, nothingThere()
	}
	list, err := organizationMembers(v, organization)(strconv.FormatInt(number-1, 10), 1)
	if err != nil {
		return enduserapi.OrganizationMember{}, err
	}
	if len(list) == 0 || list[0].Id != id {
		return enduserapi.OrganizationMember{}, nothingThere()
	}
	return list[0], nil
}

func showMember(v *visit) error {
	in, err := v.place()
	if err != nil {
		return err
	}
	if !in.MayManage && !v.form.refused() {
		return nothingThere()
	}
	own := memberPage{place: in}
	if own.Member, err = member(v, in.Membership.Organization.Id); err != nil {
		return err
	}
	roles, err := roles(v, in.Membership.Organization.Id, "organization")
	if err != nil {
		return err
	}
	own.Self, own.Role = own.Member.User.Id == v.user(), roleID(own.Member.Role)
	if !own.Member.Owner { // an owner's role has no effect until the ownership ends, so it is not shown
		own.Roles = withHeld(choices(v, roles, "member.no_role", in.may), own.Member.Role)
	}
	return v.render("member", v.text.Text("member.title"), own)
}

func takeMember(v *visit) error {
	sent := v.form
	in, err := v.place()
	if err != nil {
		return err
	}
	back := at("/organizations/{id}", in.Membership.Organization.Slug)
	organization, id := in.Membership.Organization.Id, v.r.PathValue("id")
	if sent.Action == "remove" {
		if _, err := v.api.RemoveMember(v.r.Context(), organization, id); err != nil {
			return v.again(sent, err)
		}
		if in.Membership.Id == id {
			return v.redirect("left", "/organizations")
		}
		return v.redirect("member_removed", back)
	}
	sent.Action = "change"
	var body enduserapi.OrganizationMemberPatch
	if role, there := sent.values["role"]; there && role != "" {
		body.RoleId = nullable.NewNullableWithValue(role)
	} else if there {
		body.RoleId = nullable.NewNullNullable[string]()
	}
	if in.Owner {
		owner := sent.ticked("owner")
		body.Owner = &owner
	}
	if _, err := v.api.ChangeMember(v.r.Context(), organization, id, body); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("member_changed", back)
}

// settingsPage is where an organization is renamed and deleted, and where its owners require more of sign-ins.
type settingsPage struct {
	place
	// Levels are the levels that the owners can require, nil if the page has no such form. From is the date of the
	// requirement, "" for none.
	Levels []option
	From   string
	// Required reports that the organization requires a level. NotReady are members whose factors do not reach it, and
	// More reports that the page did not look at all members.
	Required bool
	NotReady []enduserapi.OrganizationMember
	More     bool
}

func showSettings(v *visit) error {
	in, err := v.place()
	if err != nil {
		return err
	}
	if !in.MayManage && !v.form.refused() {
		return nothingThere()
	}
	own := settingsPage{place: in}
	if err := own.require(v); err != nil {
		return err
	}
	return v.render("settings", v.text.Text("settings.title"), own)
}

func takeSettings(v *visit) error {
	sent := v.form
	in, err := v.place()
	if err != nil {
		return err
	}
	o := in.Membership.Organization
	if sent.Action == "delete" {
		if _, err := v.api.DeleteOrganization(v.r.Context(), o.Id, enduserapi.OrganizationDeletion{Confirmation: sent.trimmed("confirmation")}); err != nil {
			return v.again(sent, err)
		}
		return v.redirect("organization_deleted", "/organizations")
	}
	if sent.Action == "require" {
		return takeRequirement(v, sent, o)
	}
	sent.Action = "change"
	body := enduserapi.OrganizationPatch{Name: sent.member("name"), ImageUrl: sent.member("image_url")}
	if _, err := v.api.ChangeOrganization(v.r.Context(), o.Id, body); err != nil {
		return v.again(sent, err)
	}
	return v.redirect("organization_changed", at("/organizations/{id}", o.Slug))
}
