package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// JWTTemplateReference names a JWTTemplate in the same namespace.
type JWTTemplateReference struct {
	// name of the JWTTemplate resource, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// TemplateClaim is a claim of the tokens of a template: exactly one of value and expression is set.
type TemplateClaim struct {
	// name of the claim, unique in the template. Claims that Cardea sets itself (iss, sub, aud, exp, nbf, iat, jti, act,
	// client_id, scope, org_id, workspace_id and typ) are refused.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[!#-\[\]-~]+$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['iss', 'sub', 'aud', 'exp', 'nbf', 'iat', 'jti', 'act', 'client_id', 'scope', 'org_id', 'workspace_id', 'typ'])",message="this claim is set by Cardea: choose another name"
	Name string `json:"name"`

	// value is any JSON, at most 4096 bytes. Absent: see expression.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Value *JSON `json:"value,omitempty"`

	// expression is a CEL expression that yields the value. It sees `user` (id, email, email_verified, first_name,
	// last_name), `organization` (id, slug, name), `workspace` (id, slug, name), each null if there is none, the list
	// `permissions`, `agent` (id, name), `tool` (id, name) and `call` (id). Absent: see value.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	Expression *string `json:"expression,omitempty"`
}

// JWTTemplateSpec declares the tokens that AITools get.
type JWTTemplateSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment to which this template belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another resource for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// displayName is the template's name for users. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// lifetimeSeconds is how long a token is valid, 10 to 3600 seconds, and never longer than the credential of the
	// caller. Absent: 60.
	// +optional
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=3600
	LifetimeSeconds *int32 `json:"lifetimeSeconds,omitempty"`

	// audiences of the tokens, absolute URIs without a fragment. Absent: the audience of the tool.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=2048
	// +kubebuilder:validation:items:Pattern=`^[A-Za-z][A-Za-z0-9+.-]*:[!"$-~]+$`
	Audiences []string `json:"audiences,omitempty"`

	// claims are further claims of the tokens. Absent: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Claims []TemplateClaim `json:"claims,omitempty"`
}

// JWTTemplateStatus is what the operator observed.
type JWTTemplateStatus struct {
	CommonStatus `json:",inline"`
}

// JWTTemplate declares the tokens that AITools get.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=jwttpl,categories=cardea
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`,description="The template's id over HTTP"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`,description="The IdentityDeployment to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type JWTTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the template.
	// +required
	Spec JWTTemplateSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status JWTTemplateStatus `json:"status,omitzero"`
}

// JWTTemplateList is a list of JWTTemplates.
// +kubebuilder:object:root=true
type JWTTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the JWTTemplates.
	Items []JWTTemplate `json:"items"`
}

// CommonSpec implements Resource.
func (t *JWTTemplate) CommonSpec() *CommonSpec { return &t.Spec.CommonSpec }

// CommonStatus implements Resource.
func (t *JWTTemplate) CommonStatus() *CommonStatus { return &t.Status.CommonStatus }
