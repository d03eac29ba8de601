package pages

import (
	"net/http"
	"slices"
	"strings"

	enduserapi "github.com/cardea-iam/cardea/client/enduser"
	"github.com/cardea-iam/cardea/internal/text"
)

// ownWorkspaces lists the user's memberships in the workspaces of an organization.
func ownWorkspaces(v *visit, organization string) ([]enduserapi.WorkspaceMembership, error) {
	list, err := v.api.ListWorkspaceMemberships(v.r.Context())
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(list.Data, func(m enduserapi.WorkspaceMembership) bool { return m.Organization.Id != organization }), nil
}

// workspaceMembers lists the members of a workspace.
func workspaceMembers(v *visit, id string) memberList {
	return func(after string, limit int) ([]enduserapi.OrganizationMember, error) {
		list, err := v.api.ListWorkspaceMembers(v.r.Context(), id, enduserapi.EndUserListWorkspaceMembersParams{After: given(after), Limit: &limit})
		if err != nil {
			return nil, err
		}
		members := make([]enduserapi.OrganizationMember, len(list.Data))
		for i, m := range list.Data {
			members[i] = enduserapi.OrganizationMember{Id: m.Id, User: m.User, Role: m.Role, Owner: m.Owner, CreatedAt: m.CreatedAt}
		}
		return members, nil
	}
}

// workspaces lists the workspaces of an organization with the user's membership in each.
func workspaces(v *visit, in place) ([]workspaceRow, error) {
	id := in.Membership.Organization.Id
	own, err := ownWorkspaces(v, id)
	if err != nil {
		return nil, err
	}
	all, err := v.api.ListWorkspaces(v.r.Context(), id)
	if err != nil {
		return nil, err
	}
	rows := make([]workspaceRow, len(all.Data))
	for i, w := range all.Data {
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
	// MayManage reports that the user may change the workspace and its members. It hides place.MayManage, which is for
	// the organization.
	MayManage bool
	// Roles are the roles that the user can grant. Others are the members of the organization who are not in the
	// workspace.
	Roles, Others []option
}

// workspaceMember is a member of a workspace with the roles they can have.
type workspaceMember struct {
	enduserapi.OrganizationMember
	Roles   []option
	Current string
}

// workspace returns the workspace of the page's path, and a function that reports whether the user has a permission
// there.
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
	members, more, err := members(workspaceMembers(v, w.Id), v.r.URL.Query().Get("after"))
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

// othersOffered is how many members of the organization and of the workspace a page reads. It offers at most as many
// members to add.
const othersOffered = 1000

// others are members of the organization who are not in a workspace.
func others(v *visit, in place, workspace string) ([]option, error) {
	there := map[string]bool{}
	err := eachMember(workspaceMembers(v, workspace), func(m enduserapi.OrganizationMember) { there[m.User.Id] = true })
	if err != nil {
		return nil, err
	}
	out := []option{}
	err = eachMember(organizationMembers(v, in.Membership.Organization.Id), func(m enduserapi.OrganizationMember) {
		if !there[m.User.Id] {
			out = append(out, option{m.User.Id, strings.TrimSpace(text.Person(m.User.FirstName, m.User.LastName) + " " + m.User.Email)})
		}
	})
	return out, err
}

// eachMember calls do for each member of an organization or a workspace, at most othersOffered of them.
func eachMember(of memberList, do func(enduserapi.OrganizationMember)) error {
	after := ""
	for range othersOffered / membersListed {
		list, more, err := members(of, after)
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
	workspaceID := v.r.PathValue("id")
	action, id, _ := strings.Cut(sent.Action, "-")
	notice, back := "", at("/organizations/"+in.Membership.Organization.Slug+"/workspaces/{id}", workspaceID)
	switch action {
	case "rename":
		notice = "workspace_changed"
		_, err = v.api.RenameWorkspace(v.r.Context(), workspaceID, enduserapi.WorkspacePatch{Name: sent.trimmed("name")})
	case "add":
		notice = "member_added"
		_, err = v.api.AddWorkspaceMember(v.r.Context(), workspaceID, enduserapi.WorkspaceMemberCreate{UserId: sent.value("user"), RoleId: given(sent.value("role"))})
	case "role":
		notice = "member_changed"
		_, err = v.api.ChangeWorkspaceMember(v.r.Context(), workspaceID, id, enduserapi.WorkspaceMemberPatch{RoleId: given(sent.value("role"))})
	case "remove":
		notice = "member_removed"
		_, err = v.api.RemoveWorkspaceMember(v.r.Context(), workspaceID, id)
	default:
		failure(v, http.StatusBadRequest, "bad_form")
		return nil
	}
	if err != nil {
		return v.again(sent, err)
	}
	if action == "remove" {
		if _, _, err := workspace(v, in); err != nil {
			back = at("/organizations/{id}", in.Membership.Organization.Slug) // the user left the workspace
		}
	}
	return v.redirect(notice, back)
}
