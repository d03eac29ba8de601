package b2bsettings

import (
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
)

// A message that alternated would change the status at every resync.
func TestTwoWrongRolesAreToldInTheSameWordsEachTime(t *testing.T) {
	role := func(name string, level v1alpha1.RoleLevel) *v1alpha1.MembershipRole {
		r := &v1alpha1.MembershipRole{}
		r.Name, r.Spec.Level, r.Spec.DeploymentRef.Name = name, level, "acme"
		return r
	}
	b := &v1alpha1.B2BSettings{}
	b.Spec.DeploymentRef.Name = "acme"
	refs := engine.ResolvedRefs{orgRoleField: role("member", v1alpha1.RoleLevelWorkspace), workspaceRoleField: role("admin", v1alpha1.RoleLevelOrganization)}
	const want = `Invalid: spec.autoAssignOrgRoleRef: MembershipRole "member" is of level Workspace: refer to a role of level Organization`
	for range 100 {
		if err := check(b, refs); err == nil || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
}
