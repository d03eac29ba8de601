package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the Secret with a directory's token.
const (
	// SecretKeySCIMToken holds the token itself, the value of `Authorization: Bearer`.
	SecretKeySCIMToken = "scim-token"
	// SecretKeySCIMURL holds the base URL of the directory's endpoints. It is absent while the deployment has no frontend
	// host.
	SecretKeySCIMURL = "scim-url"
	// SecretKeyPreviousSCIMToken holds the previous token after a rotation, while it is still accepted.
	SecretKeyPreviousSCIMToken = "previous-scim-token"
)

// DirectoryOnDelete selects what happens to the account of a user that the identity provider deletes.
// +kubebuilder:validation:Enum=Keep;Erase
type DirectoryOnDelete string

// What happens to the account of a deleted user.
const (
	// DirectoryOnDeleteKeep suspends the membership, disables an account of the organization's domains, and keeps its
	// data.
	DirectoryOnDeleteKeep DirectoryOnDelete = "Keep"
	// DirectoryOnDeleteErase deletes the account, if the directory created it, its address is in the organization's
	// domains, and it is in no other organization.
	DirectoryOnDeleteErase DirectoryOnDelete = "Erase"
)

// DirectoryOrganization names the organization of a directory by its slug.
type DirectoryOrganization struct {
	// slug of the organization, which is a row of the store and not a resource. Servers look it up at each request, so an
	// organization that is created later needs no change here.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	Slug string `json:"slug"`
}

// ConnectionReference names a Connection in the same namespace.
type ConnectionReference struct {
	// name of the Connection resource (not its slug), in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// DirectoryGroupRole gives the members of a group of the identity provider a role.
type DirectoryGroupRole struct {
	// group is the displayName of the group, 1 to 256 characters, compared exactly: upper and lower case differ.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Group string `json:"group"`

	// roleRef names a MembershipRole of level Organization and of the same deployment.
	// +required
	RoleRef MembershipRoleReference `json:"roleRef"`
}

// ExistingTokenReference names a key of a Secret in the same namespace that holds a directory's token.
type ExistingTokenReference struct {
	// name of the Secret, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key of the Secret's data that holds the token, at most 128 characters. Absent: scim-token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key *string `json:"key,omitempty"`
}

// DirectorySpec declares a directory.
// +kubebuilder:validation:XValidation:rule="has(self.secretTemplate) != has(self.existingSecretRef)",message="set exactly one of secretTemplate (the operator generates the token) and existingSecretRef (you provide it)"
// +kubebuilder:validation:XValidation:rule="!has(self.rotation) || has(self.secretTemplate)",message="rotation needs secretTemplate: to rotate a token that you provide, write a new one to its Secret",fieldPath=".rotation"
type DirectorySpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment to which this directory belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another Directory for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// slug names the directory in audit records, unique in the deployment. Immutable.
	// +required
	Slug Slug `json:"slug"`

	// organization is the organization whose members the directory maintains. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="organization is immutable: create another Directory for the other organization"
	Organization DirectoryOrganization `json:"organization"`

	// connectionRef names the Connection by which the users of the directory sign in. It must have the same deployment and
	// the same organization. A user of the identity provider gets the account of the directory at the first sign-in by
	// it. Absent: none.
	// +optional
	ConnectionRef *ConnectionReference `json:"connectionRef,omitempty"`

	// active lets the identity provider use the directory. `false`: every request with a token of the directory gets
	// 403; users and groups stay as they are. Absent: true.
	// +optional
	Active *bool `json:"active,omitempty"`

	// groupRoles give members a role by their groups, at most 100. The first entry whose group contains the user counts.
	// An entry whose role does not exist is left out. Absent, or no such group: the role of B2BSettings'
	// autoAssignOrgRoleRef. A changed list takes effect for a member with the next change of the user or of one of these
	// groups.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	GroupRoles []DirectoryGroupRole `json:"groupRoles,omitempty"`

	// onDelete selects what happens to the account of a user that the identity provider deletes. `Keep`: the membership is
	// suspended, and the account is disabled if its address is in the organization's domains. `Erase`: such an account is
	// deleted, if the directory created it and it is in no other organization. Absent: Keep.
	// +optional
	OnDelete *DirectoryOnDelete `json:"onDelete,omitempty"`

	// secretTemplate lets the operator generate the token, and create a Secret with it and with the URL to register at the
	// identity provider. Exactly one of secretTemplate and existingSecretRef is set. Absent: see existingSecretRef.
	// +optional
	SecretTemplate *SecretTemplate `json:"secretTemplate,omitempty"`

	// existingSecretRef adopts a token that you provide (`cardea key new --prefix scim` prints one). The operator waits
	// for a missing Secret and never changes it. Absent: see secretTemplate.
	// +optional
	ExistingSecretRef *ExistingTokenReference `json:"existingSecretRef,omitempty"`

	// rotation replaces a generated token at an interval, with an overlap in which both are accepted. Absent: never.
	// +optional
	Rotation *KeyRotation `json:"rotation,omitempty"`
}

// DirectoryStatus is what the operator observed. It never contains the token itself.
type DirectoryStatus struct {
	CommonStatus `json:",inline"`

	// url is the base URL of the directory's endpoints, to register at the identity provider, on the first frontend host
	// of the deployment. It appears before the Secret exists, and stays the same in a cluster that is rebuilt from Git.
	// Absent: the deployment has no frontend host.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url,omitempty"`

	// tokenID is the public id of the current token.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	TokenID string `json:"tokenID,omitempty"`

	// last4 are the last four characters of the current token.
	// +optional
	// +kubebuilder:validation:MaxLength=4
	Last4 string `json:"last4,omitempty"`

	// secretName is the Secret that holds the token.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// lastRotatedAt is when the current token was issued. Absent: you provide the token.
	// +optional
	LastRotatedAt *metav1.Time `json:"lastRotatedAt,omitempty"`

	// nextRotationAt is when the operator will rotate the token. Absent: no rotation is declared.
	// +optional
	NextRotationAt *metav1.Time `json:"nextRotationAt,omitempty"`
}

// Directory is the SCIM 2.0 endpoint by which an identity provider maintains the members of one organization. Its token
// is delivered in a Secret. Deleting the resource revokes the token.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=directories,shortName=dir,categories=cardea
// +kubebuilder:printcolumn:name="Slug",type=string,JSONPath=`.spec.slug`,description="Its name in audit records"
// +kubebuilder:printcolumn:name="Organization",type=string,JSONPath=`.spec.organization.slug`,description="The organization whose members it maintains"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type Directory struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the directory.
	// +required
	Spec DirectorySpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status DirectoryStatus `json:"status,omitzero"`
}

// DirectoryList is a list of Directories.
// +kubebuilder:object:root=true
type DirectoryList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Directories.
	Items []Directory `json:"items"`
}

// CommonSpec implements Resource.
func (d *Directory) CommonSpec() *CommonSpec { return &d.Spec.CommonSpec }

// CommonStatus implements Resource.
func (d *Directory) CommonStatus() *CommonStatus { return &d.Status.CommonStatus }
