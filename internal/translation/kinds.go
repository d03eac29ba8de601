package translation

import (
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

// B2BSettings translates B2BSettings.
func B2BSettings(b *v1alpha1.B2BSettings) document.B2BSettings {
	content := document.DefaultB2BSettings()
	content.Enabled = ptr.Deref(b.Spec.Enabled, content.Enabled)
	content.AllowWorkspaceCreation = ptr.Deref(b.Spec.AllowWorkspaceCreation, content.AllowWorkspaceCreation)
	content.DefaultWorkspaceLimit = int64(ptr.Deref(b.Spec.DefaultWorkspaceLimit, int32(content.DefaultWorkspaceLimit)))
	if most := b.Spec.MaxOrganizationsPerUser; most != nil {
		content.MaxOrganizationsPerUser = ptr.To(int64(*most))
	}
	content.RequireOrgForSignup = ptr.Deref(b.Spec.RequireOrgForSignup, content.RequireOrgForSignup)
	content.OrgRole = roleName(b.Spec.AutoAssignOrgRoleRef)
	content.WorkspaceRole = roleName(b.Spec.AutoAssignWorkspaceRoleRef)
	content.OwnerAssurance = memberRequirement(b.Spec.OwnerAssurance)
	content.OrganizationAssuranceOff = word(b.Spec.OrganizationAssurance) == string(v1alpha1.OrganizationAssuranceDisabled)
	return content
}

func roleName(ref *v1alpha1.MembershipRoleReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// MembershipRole translates a MembershipRole.
func MembershipRole(m *v1alpha1.MembershipRole) document.MembershipRole {
	return document.MembershipRole{
		Level: string(m.Spec.Level), Name: named(m.Spec.DisplayName, m.Name), Permissions: words(m.Spec.Permissions), Assurance: memberRequirement(m.Spec.Assurance),
	}
}
