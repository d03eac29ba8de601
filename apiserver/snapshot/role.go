package snapshot

import (
	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// MembershipRole returns the role with an id in a deployment, and false if there is none on the level. A deleted role
// permits nothing, although memberships still name it.
func (s *Snapshot) MembershipRole(deployment string, level v1alpha1.RoleLevel, id int64) (*document.MembershipRole, bool) {
	entry, found := s.ByID(v1alpha1.KindMembershipRole, deployment, id)
	if id == 0 || !found {
		return nil, false
	}
	role := ContentOf[document.MembershipRole](entry)
	return role, role.Level == string(level)
}

// RolePermissions returns the permissions of a membership on a level of a deployment: an owner has the whole catalog of
// the level, every other member the permissions of the role with the id. The list is shared: callers must not change
// it.
func (s *Snapshot) RolePermissions(deployment *Entry, level v1alpha1.RoleLevel, owner bool, id int64) []string {
	if owner {
		settings := ContentOf[document.Deployment](deployment)
		if level == v1alpha1.RoleLevelWorkspace {
			return settings.WorkspacePermissions
		}
		return settings.OrganizationPermissions
	}
	role, found := s.MembershipRole(deployment.Deployment, level, id)
	if !found {
		return nil
	}
	return role.Permissions
}
