package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OAuthAppReference names an OAuthApp in the same namespace.
type OAuthAppReference struct {
	// name of the OAuthApp resource, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// URL is an absolute http or https URL of at most 2048 characters.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:Pattern=`^https?://[!-~]+$`
type URL string

// ResourceURI identifies a protected resource (RFC 8707): an absolute https URL without fragment (in Staging
// deployments also http to 127.0.0.1, [::1] and localhost), or `cardea:<namespace>:<name>`, the management API of a
// deployment that accepts the app in its jwtIssuers.
// +kubebuilder:validation:MinLength=9
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:Pattern=`^(https?://[!"$-~]+|cardea:[a-z0-9-]+:[a-z0-9.-]+)$`
// +kubebuilder:validation:XValidation:rule="!self.startsWith('http:') || self.matches('^http://(127[.]0[.]0[.]1|\\\\[::1\\\\]|localhost)([:/?].*)?$')",message="http is only for 127.0.0.1, [::1] and localhost: use https"
type ResourceURI string

// OAuthAppSpec declares an OAuth app.
type OAuthAppSpec struct {
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

	// logoURL is the URL of the app's logo. Absent: none.
	// +optional
	LogoURL *URL `json:"logoURL,omitempty"`

	// fqdn is the app's own host name, unique in the install and not a frontend host. The issuer is then `https://` and
	// this name. Absent: the issuer is `https://`, the deployment's first frontend host, `/oauth/` and the slug.
	// +optional
	FQDN *Hostname `json:"fqdn,omitempty"`

	// allowDynamicClientRegistration lets clients register themselves. Absent: false.
	// +optional
	AllowDynamicClientRegistration *bool `json:"allowDynamicClientRegistration,omitempty"`

	// resources are the protected resources for which the app issues tokens, in addition to the app itself. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Resources []ResourceURI `json:"resources,omitempty"`

	// idTokenSigningAlg signs ID tokens of clients without their own algorithm, `ES256` or `RS256`. Absent: ES256.
	// +optional
	IDTokenSigningAlg *TokenSigningAlg `json:"idTokenSigningAlg,omitempty"`

	// active lets the app be used. Absent: true.
	// +optional
	Active *bool `json:"active,omitempty"`
}

// OAuthAppStatus is what the operator observed.
type OAuthAppStatus struct {
	CommonStatus `json:",inline"`

	// issuer is the issuer of the app's tokens, and the base URL of its metadata. Absent: the deployment has no frontend
	// hosts and the app has no fqdn.
	// +optional
	// +kubebuilder:validation:MaxLength=400
	Issuer string `json:"issuer,omitempty"`
}

// OAuthApp is an OAuth app, a separate authorization server. Its scopes are OAuthScopes, and its clients OAuthClients.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=oapp,categories=cardea
// +kubebuilder:printcolumn:name="Slug",type=string,JSONPath=`.spec.slug`,description="The app's slug over HTTP"
// +kubebuilder:printcolumn:name="Issuer",type=string,JSONPath=`.status.issuer`,priority=1,description="What its tokens name as their issuer"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`,description="The IdentityDeployment to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type OAuthApp struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the app.
	// +required
	Spec OAuthAppSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status OAuthAppStatus `json:"status,omitzero"`
}

// OAuthAppList is a list of OAuthApps.
// +kubebuilder:object:root=true
type OAuthAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the OAuthApps.
	Items []OAuthApp `json:"items"`
}

// CommonSpec implements Resource.
func (o *OAuthApp) CommonSpec() *CommonSpec { return &o.Spec.CommonSpec }

// CommonStatus implements Resource.
func (o *OAuthApp) CommonStatus() *CommonStatus { return &o.Status.CommonStatus }
