package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RoleLevel selects whether a role is for organizations or workspaces.
// +kubebuilder:validation:Enum=Organization;Workspace
type RoleLevel string

const (
	// RoleLevelOrganization is for members of an organization.
	RoleLevelOrganization RoleLevel = "Organization"
	// RoleLevelWorkspace is for members of a workspace.
	RoleLevelWorkspace RoleLevel = "Workspace"
)

// CatalogPermission is a plain name from a deployment's permission catalog, such as `invoices:read`.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+)*$`
type CatalogPermission string

// MembershipRoleReference names a MembershipRole in the same namespace.
type MembershipRoleReference struct {
	// name of the MembershipRole resource, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// MembershipRoleSpec declares a role for members.
type MembershipRoleSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment to which this role belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another resource for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// level selects which members can have the role. `Organization`: members of an organization. `Workspace`: members of a
	// workspace. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="level is immutable: create another role of the other level"
	Level RoleLevel `json:"level"`

	// displayName is the role's name for users. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// permissions of members with the role, each a name in the deployment's catalog of the level. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Permissions []CatalogPermission `json:"permissions,omitempty"`

	// assurance is the level that members with the role need in its organization. For a role of level Workspace, this is
	// the organization of the workspace. Absent: OneFactor.
	// +optional
	Assurance *MemberAssurance `json:"assurance,omitempty"`
}

// MembershipRoleStatus is what the operator observed.
type MembershipRoleStatus struct {
	CommonStatus `json:",inline"`
}

// MembershipRole is a role that members of organizations or workspaces can have.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=mrole,categories=cardea
// +kubebuilder:printcolumn:name="Level",type=string,JSONPath=`.spec.level`,description="Organization or Workspace"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`,description="The IdentityDeployment to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type MembershipRole struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the role.
	// +required
	Spec MembershipRoleSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status MembershipRoleStatus `json:"status,omitzero"`
}

// MembershipRoleList is a list of MembershipRoles.
// +kubebuilder:object:root=true
type MembershipRoleList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the MembershipRoles.
	Items []MembershipRole `json:"items"`
}

// CommonSpec implements Resource.
func (m *MembershipRole) CommonSpec() *CommonSpec { return &m.Spec.CommonSpec }

// CommonStatus implements Resource.
func (m *MembershipRole) CommonStatus() *CommonStatus { return &m.Status.CommonStatus }
