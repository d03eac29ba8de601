package account

import (
	"slices"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/store/people"
)

// WorkspaceAccess is a user's access to a workspace: as a member of its organization, and of the workspace if Member is
// not nil.
type WorkspaceAccess struct {
	Workspace people.Workspace
	In        people.Member
	Member    *people.WorkspaceMember
}

// WorkspaceAccessOf returns a user's access to a workspace. ErrWorkspaceUnknown: it does not exist, or the user is not
// in its organization.
func WorkspaceAccessOf(u *Unit, workspace, user int64) (WorkspaceAccess, error) {
	w, found, err := u.Organizations().Workspace(workspace)
	if err != nil || !found {
		return WorkspaceAccess{}, FirstOf(err, ErrWorkspaceUnknown)
	}
	in, found, err := u.Organizations().Member(w.Organization, user)
	if err != nil || !found {
		return WorkspaceAccess{}, FirstOf(err, ErrWorkspaceUnknown)
	}
	access := WorkspaceAccess{Workspace: w, In: in}
	m, found, err := u.Organizations().WorkspaceMember(workspace, user)
	if found {
		access.Member = &m
	}
	return access, err
}

// owns reports whether the user has every permission in the workspace.
func (a WorkspaceAccess) owns() bool { return a.In.Owner || a.Member != nil && a.Member.Owner }

// mayInWorkspace reports whether the user's role in the workspace or in its organization has a permission.
func (t *Tenant) mayInWorkspace(a WorkspaceAccess, permission string) bool {
	if a.owns() || t.May(a.In, permission) {
		return true
	}
	if a.Member == nil {
		return false
	}
	role := t.RoleOf(v1alpha1.RoleLevelWorkspace, false, a.Member.Role)
	return role != nil && slices.Contains(role.Permissions, permission)
}

// RequireSeen returns ErrWorkspaceUnknown if the user is neither a member of the workspace nor manages it.
func (t *Tenant) RequireSeen(a WorkspaceAccess) error {
	if a.Member == nil && !t.mayInWorkspace(a, PermissionManageWorkspace) {
		return ErrWorkspaceUnknown
	}
	return nil
}

// RequireManaged returns a PermissionError if the user does not manage the workspace, and ErrWorkspaceUnknown if the
// user cannot see it.
func (t *Tenant) RequireManaged(a WorkspaceAccess) error {
	if t.mayInWorkspace(a, PermissionManageWorkspace) {
		return nil
	}
	if err := t.RequireSeen(a); err != nil {
		return err
	}
	return &PermissionError{Permission: PermissionManageWorkspace}
}

// mayGrantInWorkspace returns a PermissionError if a role has permissions that the user does not have in the workspace.
func (t *Tenant) mayGrantInWorkspace(a WorkspaceAccess, role int64) error {
	granted := t.RoleOf(v1alpha1.RoleLevelWorkspace, false, role)
	if granted == nil {
		return nil
	}
	for _, permission := range granted.Permissions {
		if !t.mayInWorkspace(a, permission) {
			return &PermissionError{Permission: permission, Granting: true}
		}
	}
	return nil
}

// AddToWorkspace adds a member of the organization to the workspace. With role 0, the member gets the role that the B2B
// settings assign, if the actor may grant it, and otherwise no role. Errors: ErrNotMember if the user is not in the
// organization; ErrAlreadyMember; ErrInvalidRole; a PermissionError.
func AddToWorkspace(u *Unit, a WorkspaceAccess, user, role int64) (people.WorkspaceMember, error) {
	if err := u.RequireManaged(a); err != nil {
		return people.WorkspaceMember{}, err
	}
	if role != 0 && !u.HasRole(v1alpha1.RoleLevelWorkspace, role) {
		return people.WorkspaceMember{}, ErrInvalidRole
	}
	if err := u.mayGrantInWorkspace(a, role); err != nil {
		return people.WorkspaceMember{}, err
	}
	if _, err := RequireMember(u, a.Workspace.Organization, user); err != nil {
		return people.WorkspaceMember{}, err
	}
	if _, found, err := u.Organizations().WorkspaceMember(a.Workspace.ID, user); err != nil || found {
		return people.WorkspaceMember{}, FirstOf(err, ErrAlreadyMember)
	}
	if role == 0 {
		if role = u.assigned(u.B2B.WorkspaceRole); u.mayGrantInWorkspace(a, role) != nil {
			role = 0 // the actor may not grant it
		}
	}
	id, err := u.NewID()
	if err != nil {
		return people.WorkspaceMember{}, err
	}
	m := people.WorkspaceMember{ID: id, User: user, Workspace: a.Workspace, Role: role, CreatedAt: u.Now}
	if err := u.Organizations().InsertWorkspaceMember(m); err != nil {
		return m, err
	}
	u.Log(events.OfWorkspaceMember(events.MembershipCreated, m))
	return m, u.Audit("workspace.member_added", object("workspace_membership", id))
}

// workspaceMember returns a membership that the actor may change: the actor owns the workspace or has all permissions
// of the member's role.
func workspaceMember(u *Unit, a WorkspaceAccess, membership int64) (people.WorkspaceMember, error) {
	if err := u.RequireManaged(a); err != nil {
		return people.WorkspaceMember{}, err
	}
	m, found, err := u.Organizations().WorkspaceMemberByID(a.Workspace.ID, membership)
	if err != nil || !found {
		return m, FirstOf(err, ErrMembershipUnknown)
	}
	if m.Owner && !a.owns() {
		return m, ErrOwnersOnly
	}
	return m, u.mayGrantInWorkspace(a, m.Role)
}

// ChangeWorkspaceMember changes the role of a workspace's member. Role 0 removes the role.
func ChangeWorkspaceMember(u *Unit, a WorkspaceAccess, membership, role int64) (people.WorkspaceMember, error) {
	m, err := workspaceMember(u, a, membership)
	if err != nil {
		return m, err
	}
	if role != 0 && !u.HasRole(v1alpha1.RoleLevelWorkspace, role) {
		return m, ErrInvalidRole
	}
	if err := u.mayGrantInWorkspace(a, role); err != nil {
		return m, err
	}
	if err := u.Organizations().SetWorkspaceMemberRole(m.ID, role); err != nil {
		return m, err
	}
	if m.Role != role {
		m.Role = role
		u.Log(events.OfWorkspaceMember(events.MembershipUpdated, m))
	}
	return m, u.Audit("workspace.member_changed", object("workspace_membership", m.ID))
}

// RemoveFromWorkspace ends a membership of a workspace.
func RemoveFromWorkspace(u *Unit, a WorkspaceAccess, membership int64) (people.WorkspaceMember, error) {
	m, err := workspaceMember(u, a, membership)
	if err != nil {
		return m, err
	}
	if err := u.Organizations().DeleteWorkspaceMember(m); err != nil {
		return m, err
	}
	u.Log(events.OfWorkspaceMember(events.MembershipDeleted, m))
	return m, u.Audit("workspace.member_removed", object("workspace_membership", m.ID))
}
