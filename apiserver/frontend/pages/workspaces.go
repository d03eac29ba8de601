package pages

import (
	"net/http"
	"slices"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

// ownWorkspaces lists one's memberships of an organization's workspaces.
func ownWorkspaces(v *visit, organization string) (list []enduserapi.WorkspaceMembership, err error) {
	err = v.api.call(http.MethodGet, "/me/workspace-memberships", nil, &list)
	return slices.DeleteFunc(list, func(m enduserapi.WorkspaceMembership) bool { return m.Organization.Id != organization }), err
}

// workspaces lists the workspaces of an organization, with what one is there.
func workspaces(v *visit, in place) ([]workspaceRow, error) {
	id := in.Membership.Organization.Id
	own, err := ownWorkspaces(v, id)
	if err != nil {
		return nil, err
	}
	var all []enduserapi.Workspace
	if err := v.api.call(http.MethodGet, at("/organizations/{id}/workspaces", id), nil, &all); err != nil {
		return nil, err
	}
	rows := make([]workspaceRow, len(all))
	for i, w := range all {
		row := workspaceRow{Workspace: w, Active: v.who.Workspace != nil && v.who.Workspace.Id == w.Id}
		for _, m := range own {
			if m.Workspace.Id == w.Id {
				row.Member, row.role = true, m.Role
			}
		}
		row.Opens = row.Member || in.may(permissionManageWorkspace)
		rows[i] = row
	}
	return rows, nil
}

// workspacePage shows one workspace.
type workspacePage struct {
	place
	Workspace enduserapi.Workspace
	Members   []workspaceMember
	More      string
	// MayManage reports that one may change it and its members; it hides the organization's.
	MayManage bool
	// Roles are those that can be given, and Others are members of the organization who are not in it.
	Roles, Others []option
}

// workspaceMember is a member of a workspace with the roles they can have.
type workspaceMember struct {
	enduserapi.OrganizationMember
	Roles   []option
	Current string
}

// workspace finds the workspace of the page's path, and what one may do there.
func workspace(v *visit, in place) (enduserapi.Workspace, func(string) bool, error) {
	rows, err := workspaces(v, in)
	if err != nil {
		return enduserapi.Workspace{}, nil, err
	}
	found := slices.IndexFunc(rows, func(w workspaceRow) bool { return w.Id == v.r.PathValue("id") && w.Opens })
	if found < 0 {
		return enduserapi.Workspace{}, nil, nothingThere()
	}
	there := rows[found]
	return there.Workspace, func(permission string) bool { return in.may(permission) || may(there.role, permission) }, nil
}

func showWorkspace(v *visit) error {
	in, err := v.place()
	if err != nil {
		return err
	}
	if !in.Open {
		return nothingThere()
	}
	own := workspacePage{place: in}
	w, may, err := workspace(v, in)
	if err != nil {
		return err
	}
	own.Workspace, own.MayManage = w, may(permissionManageWorkspace)
	members, more, err := members(v, at("/workspaces/{id}/members", w.Id), v.r.URL.Query().Get("after"))
	if err != nil {
		return err
	}
	own.More = more
	if own.MayManage {
		roles, err := roles(v, in.Membership.Organization.Id, "workspace")
		if err != nil {
			return err
		}
		own.Roles = choices(v, roles, "member.no_role", may)
		if own.Others, err = others(v, in, w.Id); err != nil {
			return err
		}
	}
	for _, m := range members {
		own.Members = append(own.Members, workspaceMember{m, withHeld(own.Roles, m.Role), roleID(m.Role)})
	}
	return v.render("workspace", text.Isolate(w.Name), own)
}

// othersOffered is how many members a page offers to add, and of how many of each list it knows.
const othersOffered = 1000

// others are members of the organization who are not in a workspace.
func others(v *visit, in place, workspace string) ([]option, error) {
	there := map[string]bool{}
	err := eachMember(v, at("/workspaces/{id}/members", workspace), func(m enduserapi.OrganizationMember) { there[m.User.Id] = true })
	if err != nil {
		return nil, err
	}
	out := []option{}
	err = eachMember(v, at("/organizations/{id}/members", in.Membership.Organization.Id), func(m enduserapi.OrganizationMember) {
		if !there[m.User.Id] {
			out = append(out, option{m.User.Id, strings.TrimSpace(text.Person(m.User.FirstName, m.User.LastName) + " " + m.User.Email)})
		}
	})
	return out, err
}

// eachMember visits the members of an organization or a workspace, othersOffered at most.
func eachMember(v *visit, operation string, do func(enduserapi.OrganizationMember)) error {
	after := ""
	for range othersOffered / membersListed {
		list, more, err := members(v, operation, after)
		if err != nil {
			return err
		}
		for _, m := range list {
			do(m)
		}
		if after = more; more == "" {
			break
		}
	}
	return nil
}

func takeWorkspace(v *visit) error {
	sent := v.form
	in, err := v.place()
	if err != nil {
		return err
	}
	operation := at("/workspaces/{id}", v.r.PathValue("id"))
	action, id, _ := strings.Cut(sent.Action, "-")
	notice, back := "", at("/organizations/"+in.Membership.Organization.Slug+"/workspaces/{id}", v.r.PathValue("id"))
	switch action {
	case "rename":
		notice = "workspace_changed"
		err = v.api.call(http.MethodPatch, operation, map[string]string{"name": sent.trimmed("name")}, nil)
	case "add":
		notice = "member_added"
		body := map[string]string{"user_id": sent.value("user")}
		if role := sent.value("role"); role != "" {
			body["role_id"] = role
		}
		err = v.api.call(http.MethodPost, operation+"/members", body, nil)
	case "role":
		notice = "member_changed"
		err = v.api.call(http.MethodPatch, at(operation+"/members/{id}", id), map[string]any{"role_id": roleWanted(sent.value("role"))}, nil)
	case "remove":
		notice = "member_removed"
		err = v.api.call(http.MethodDelete, at(operation+"/members/{id}", id), nil, nil)
	default:
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	if err != nil {
		return v.again(sent, err)
	}
	if action == "remove" {
		if _, _, err := workspace(v, in); err != nil {
			back = at("/organizations/{id}", in.Membership.Organization.Slug) // one removed oneself
		}
	}
	return v.redirect(notice, back)
}
