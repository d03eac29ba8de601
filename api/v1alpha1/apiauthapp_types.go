package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KeyPrefix begins every API key of an app: lower-case letters and digits in words joined by `_`, at most 20
// characters.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=20
// +kubebuilder:validation:Pattern=`^[a-z0-9]+(_[a-z0-9]+)*$`
type KeyPrefix string

// KeySelfService lets users create their own keys.
type KeySelfService struct {
	// enabled lets every signed-in user of the deployment create keys of this app through the end-user API. Such a key
	// acts for its user, has no management permissions, and is deleted with the user. Disabling it revokes no key. Absent:
	// false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// maxKeysPerUser is how many keys of this app a user may have, not counting revoked ones, 1 to 1000. Absent: 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	MaxKeysPerUser *int32 `json:"maxKeysPerUser,omitempty"`

	// permissions are the permissions that users may give to their keys, if the app also has them. `*` stands for all of
	// the app's. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Permissions []Permission `json:"permissions,omitempty"`
}

// APIAuthAppSpec declares a group of API keys.
type APIAuthAppSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment to which this app belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another resource for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// slug identifies the app in HTTP paths, unique in the deployment. Immutable.
	// +required
	Slug Slug `json:"slug"`

	// displayName is the app's name for users. Absent: the slug.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// description says what the app is for. Absent: none.
	// +optional
	Description *Description `json:"description,omitempty"`

	// keyPrefix is the start of the app's API keys, by which users and secret scanners recognize them. A change affects
	// only new keys. Absent: ck.
	// +optional
	KeyPrefix *KeyPrefix `json:"keyPrefix,omitempty"`

	// permissions are the maximum for every key of the app: a key's permission counts only if it is also listed here. `*`
	// stands for all permissions. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Permissions []Permission `json:"permissions,omitempty"`

	// active lets the app's keys authenticate. While it is false, each of these keys gets the same response as an
	// unknown key. Absent: true.
	// +optional
	Active *bool `json:"active,omitempty"`

	// rateLimitSchemeRef names the scheme of the app's keys without their own scheme. Its per_app rules apply to every key
	// of the app. Absent: the deployment's default.
	// +optional
	RateLimitSchemeRef *RateLimitSchemeReference `json:"rateLimitSchemeRef,omitempty"`

	// selfService configures the keys of this app that users of the deployment may create. Absent: users create none.
	// +optional
	SelfService *KeySelfService `json:"selfService,omitempty"`
}

// APIAuthAppStatus is what the operator observed.
type APIAuthAppStatus struct {
	CommonStatus `json:",inline"`
}

// APIAuthApp is a group of API keys: their maximum permissions, their prefix, and their rate limits.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=aapp,categories=cardea
// +kubebuilder:printcolumn:name="Slug",type=string,JSONPath=`.spec.slug`,description="The app's slug over HTTP"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`,description="The IdentityDeployment to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type APIAuthApp struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the app.
	// +required
	Spec APIAuthAppSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status APIAuthAppStatus `json:"status,omitzero"`
}

// APIAuthAppList is a list of APIAuthApps.
// +kubebuilder:object:root=true
type APIAuthAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the APIAuthApps.
	Items []APIAuthApp `json:"items"`
}

// CommonSpec implements Resource.
func (a *APIAuthApp) CommonSpec() *CommonSpec { return &a.Spec.CommonSpec }

// CommonStatus implements Resource.
func (a *APIAuthApp) CommonStatus() *CommonStatus { return &a.Status.CommonStatus }
