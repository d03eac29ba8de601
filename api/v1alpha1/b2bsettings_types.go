package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// B2BSettingsSpec declares the organization and workspace settings of a deployment.
type B2BSettingsSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment to which these settings belong. A deployment has at most one
	// B2BSettings. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another resource for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// enabled lets end users create and switch organizations. Disabling it keeps the data. Absent: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// allowWorkspaceCreation lets end users create workspaces. Absent: true.
	// +optional
	AllowWorkspaceCreation *bool `json:"allowWorkspaceCreation,omitempty"`

	// defaultWorkspaceLimit is how many workspaces an organization may have, 0 to 2147483647; 0: none. Lowering it
	// deletes nothing. Absent: 5.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	DefaultWorkspaceLimit *int32 `json:"defaultWorkspaceLimit,omitempty"`

	// maxOrganizationsPerUser is how many organizations a user may own, 0 to 10000. Lowering it deletes nothing. Absent:
	// 20.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MaxOrganizationsPerUser *int32 `json:"maxOrganizationsPerUser,omitempty"`

	// requireOrgForSignup requires a sign-up to have an invitation or to create an organization. Absent: false.
	// +optional
	RequireOrgForSignup *bool `json:"requireOrgForSignup,omitempty"`

	// autoAssignOrgRoleRef names the role of level Organization for members who join without a role. Absent: none.
	// +optional
	AutoAssignOrgRoleRef *MembershipRoleReference `json:"autoAssignOrgRoleRef,omitempty"`

	// autoAssignWorkspaceRoleRef names the role of level Workspace for members who join without a role. Absent: none.
	// +optional
	AutoAssignWorkspaceRoleRef *MembershipRoleReference `json:"autoAssignWorkspaceRoleRef,omitempty"`

	// ownerAssurance is the level that owners need in their organizations. The owners' role is built in, so no
	// MembershipRole can declare it. Absent: OneFactor.
	// +optional
	OwnerAssurance *MemberAssurance `json:"ownerAssurance,omitempty"`

	// organizationAssurance selects whether organizations may require a level of their members themselves.
	// `OwnersMayRequire`: owners may require one over HTTP. `Disabled`: they may not; existing requirements are kept and
	// have no effect. Absent: OwnersMayRequire.
	// +optional
	OrganizationAssurance *OrganizationAssurance `json:"organizationAssurance,omitempty"`
}

// B2BSettingsStatus is what the operator observed.
type B2BSettingsStatus struct {
	CommonStatus `json:",inline"`
}

// B2BSettings are the organization and workspace settings of a deployment. A deployment has at most one B2BSettings.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=b2b,categories=cardea
// +kubebuilder:printcolumn:name="Enabled",type=boolean,JSONPath=`.spec.enabled`,description="Whether organizations are on; off when empty"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`,description="The IdentityDeployment to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type B2BSettings struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the settings.
	// +required
	Spec B2BSettingsSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status B2BSettingsStatus `json:"status,omitzero"`
}

// B2BSettingsList is a list of B2BSettings.
// +kubebuilder:object:root=true
type B2BSettingsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the B2BSettings.
	Items []B2BSettings `json:"items"`
}

// CommonSpec implements Resource.
func (b *B2BSettings) CommonSpec() *CommonSpec { return &b.Spec.CommonSpec }

// CommonStatus implements Resource.
func (b *B2BSettings) CommonStatus() *CommonStatus { return &b.Status.CommonStatus }
