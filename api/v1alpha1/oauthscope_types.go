package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScopeCategory is the kind of data that a scope covers.
// +kubebuilder:validation:Enum=personal;organization;workspace
type ScopeCategory string

const (
	// ScopeCategoryPersonal is the user's own data.
	ScopeCategoryPersonal ScopeCategory = "personal"
	// ScopeCategoryOrganization is an organization's data.
	ScopeCategoryOrganization ScopeCategory = "organization"
	// ScopeCategoryWorkspace is a workspace's data.
	ScopeCategoryWorkspace ScopeCategory = "workspace"
)

// OAuthScopeSpec declares a scope of an OAuth app.
// +kubebuilder:validation:XValidation:rule="!has(self.organizationPermission) || (has(self.category) && self.category == 'organization')",message="organizationPermission is only for category organization: set that category or remove the permission",fieldPath=".organizationPermission"
// +kubebuilder:validation:XValidation:rule="!has(self.workspacePermission) || (has(self.category) && self.category == 'workspace')",message="workspacePermission is only for category workspace: set that category or remove the permission",fieldPath=".workspacePermission"
type OAuthScopeSpec struct {
	CommonSpec `json:",inline"`

	// oauthAppRef names the OAuthApp to which this scope belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="oauthAppRef is immutable: create another scope for the other app"
	OAuthAppRef OAuthAppReference `json:"oauthAppRef"`

	// scope is the scope's value, unique in the app: printable ASCII without blank, `"` and backslash (RFC 6749, 3.3).
	// Immutable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="scope is immutable: create another resource with the new scope"
	Scope string `json:"scope"`

	// displayName is the scope's name for users. Absent: the scope.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// description says what the scope allows. Absent: none.
	// +optional
	Description *Description `json:"description,omitempty"`

	// archived stops offering the scope; it is still listed. Absent: false.
	// +optional
	Archived *bool `json:"archived,omitempty"`

	// category is the kind of data that the scope covers. `personal`: the user's own data. `organization`: an
	// organization's data. `workspace`: a workspace's data. Absent: none of these.
	// +optional
	Category *ScopeCategory `json:"category,omitempty"`

	// organizationPermission is the permission that a user needs in the organization to grant the scope: a name in the
	// deployment's organization catalog. Only with category organization. Absent: no permission is needed.
	// +optional
	OrganizationPermission *CatalogPermission `json:"organizationPermission,omitempty"`

	// workspacePermission is the permission that a user needs in the workspace to grant the scope: a name in the
	// deployment's workspace catalog. Only with category workspace. Absent: no permission is needed.
	// +optional
	WorkspacePermission *CatalogPermission `json:"workspacePermission,omitempty"`
}

// OAuthScopeStatus is what the operator observed.
type OAuthScopeStatus struct {
	CommonStatus `json:",inline"`
}

// OAuthScope is a scope of an OAuth app.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=oscope,categories=cardea
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.spec.scope`,description="The scope's value"
// +kubebuilder:printcolumn:name="App",type=string,JSONPath=`.spec.oauthAppRef.name`,description="The OAuthApp to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type OAuthScope struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the scope.
	// +required
	Spec OAuthScopeSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status OAuthScopeStatus `json:"status,omitzero"`
}

// OAuthScopeList is a list of OAuthScopes.
// +kubebuilder:object:root=true
type OAuthScopeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the OAuthScopes.
	Items []OAuthScope `json:"items"`
}

// CommonSpec implements Resource.
func (o *OAuthScope) CommonSpec() *CommonSpec { return &o.Spec.CommonSpec }

// CommonStatus implements Resource.
func (o *OAuthScope) CommonStatus() *CommonStatus { return &o.Status.CommonStatus }
