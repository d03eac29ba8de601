package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the Secret with an API key.
const (
	// SecretKeyAPIKey holds the key itself, the value of `Authorization: Bearer`.
	SecretKeyAPIKey = "api-key"
	// SecretKeyKeyID holds the key's public id.
	SecretKeyKeyID = "key-id"
	// SecretKeyPreviousAPIKey holds the previous key after a rotation, while it is still accepted.
	SecretKeyPreviousAPIKey = "previous-api-key"
)

// CIDR is an IPv4 or IPv6 range in CIDR notation, such as `10.0.0.0/8` or `2001:db8::/32`.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=43
// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="must be an IP range in CIDR notation, such as 10.0.0.0/8 or 2001:db8::/32"
type CIDR string

// KeyRotation replaces a generated key at an interval.
// +kubebuilder:validation:XValidation:rule="(has(self.overlapSeconds) ? self.overlapSeconds : 86400) < self.everySeconds",message="overlapSeconds (absent: 86400) must be less than everySeconds: shorten the overlap or lengthen the interval"
type KeyRotation struct {
	// everySeconds is the time from one rotation to the next, 2 to 315360000 seconds.
	// +required
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=315360000
	EverySeconds int32 `json:"everySeconds"`

	// overlapSeconds is how long the previous key is accepted after a rotation, at least 1 and less than everySeconds.
	// Absent: 86400 (a day).
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=315360000
	OverlapSeconds *int32 `json:"overlapSeconds,omitempty"`
}

// SecretTemplate describes the Secret that the operator generates.
type SecretTemplate struct {
	// name of the Secret. After a change of the name, a new key is issued in the new Secret, and the old Secret is
	// deleted. Absent: the resource's name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name *string `json:"name,omitempty"`

	// labels of the Secret. Cardea's own labels are added, and take precedence. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(name, !format.qualifiedName().validate(name).hasValue())",message="each name must be a valid label name, such as team or example.com/team"
	Labels map[string]LabelValue `json:"labels,omitempty"`

	// annotations of the Secret. Cardea's own annotations are added, and take precedence. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(name, !format.qualifiedName().validate(name).hasValue())",message="each name must be a valid annotation name, such as team or example.com/team"
	Annotations map[string]AnnotationValue `json:"annotations,omitempty"`
}

// LabelValue is the value of a label: at most 63 characters.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$`
type LabelValue string

// AnnotationValue is the value of an annotation: at most 4096 characters.
// +kubebuilder:validation:MaxLength=4096
type AnnotationValue string

// ExistingSecretReference names a key of a Secret in the same namespace.
type ExistingSecretReference struct {
	// name of the Secret, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key of the Secret's data that holds the API key, at most 128 characters. Absent: api-key.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key *string `json:"key,omitempty"`
}

// APIKeySpec declares one API key.
// +kubebuilder:validation:XValidation:rule="has(self.secretTemplate) != has(self.existingSecretRef)",message="set exactly one of secretTemplate (the operator generates the key) and existingSecretRef (you provide it)"
// +kubebuilder:validation:XValidation:rule="!has(self.rotation) || has(self.secretTemplate)",message="rotation needs secretTemplate: to rotate a key that you provide, write a new one to its Secret",fieldPath=".rotation"
type APIKeySpec struct {
	CommonSpec `json:",inline"`

	// appRef names the APIAuthApp to which this key belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="appRef is immutable: create another APIKey for the other app"
	AppRef APIAuthAppReference `json:"appRef"`

	// displayName is the key's name for users. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// permissions of the key, which count only if its app also has them. `*` stands for all of the app's. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Permissions []Permission `json:"permissions,omitempty"`

	// expiresAt is when the key stops being accepted (RFC 3339). Absent: never.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// rotation replaces a generated key at an interval, with an overlap in which both are accepted. Absent: never.
	// +optional
	Rotation *KeyRotation `json:"rotation,omitempty"`

	// allowedCIDRs are the ranges of client addresses from which the key is accepted. Absent: any.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	AllowedCIDRs []CIDR `json:"allowedCIDRs,omitempty"`

	// rateLimitSchemeRef names the key's own scheme, instead of its app's. Absent: the app's, then the deployment's
	// default.
	// +optional
	RateLimitSchemeRef *RateLimitSchemeReference `json:"rateLimitSchemeRef,omitempty"`

	// secretTemplate lets the operator generate the key, and create a Secret with it. Exactly one of secretTemplate and
	// existingSecretRef is set. Absent: see existingSecretRef.
	// +optional
	SecretTemplate *SecretTemplate `json:"secretTemplate,omitempty"`

	// existingSecretRef adopts a key that you provide (`cardea key new` prints one). The operator waits for a missing
	// Secret and never changes it. Absent: see secretTemplate.
	// +optional
	ExistingSecretRef *ExistingSecretReference `json:"existingSecretRef,omitempty"`
}

// APIKeyStatus is what the operator observed. It never contains the key itself.
type APIKeyStatus struct {
	CommonStatus `json:",inline"`

	// keyID is the public id of the current key.
	// +optional
	// +kubebuilder:validation:MaxLength=12
	KeyID string `json:"keyID,omitempty"`

	// prefix of the current key.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	Prefix string `json:"prefix,omitempty"`

	// last4 are the last four characters of the current key.
	// +optional
	// +kubebuilder:validation:MaxLength=4
	Last4 string `json:"last4,omitempty"`

	// expiresAt is when the current key stops being accepted. Absent: never.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`

	// lastRotatedAt is when the current key was issued.
	// +optional
	LastRotatedAt *metav1.Time `json:"lastRotatedAt,omitempty"`

	// nextRotationAt is when the operator will rotate the key. Absent: no rotation is declared.
	// +optional
	NextRotationAt *metav1.Time `json:"nextRotationAt,omitempty"`

	// secretName is the Secret that holds the key.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`
}

// APIKey is one API key, delivered in a Secret. Deleting the resource revokes the key.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=akey,categories=cardea
// +kubebuilder:printcolumn:name="App",type=string,JSONPath=`.spec.appRef.name`,description="The APIAuthApp to which it belongs"
// +kubebuilder:printcolumn:name="Key ID",type=string,JSONPath=`.status.keyID`,description="The key's public id"
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.secretName`,description="The Secret that holds the key"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type APIKey struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the key.
	// +required
	Spec APIKeySpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status APIKeyStatus `json:"status,omitzero"`
}

// APIKeyList is a list of APIKeys.
// +kubebuilder:object:root=true
type APIKeyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the APIKeys.
	Items []APIKey `json:"items"`
}

// CommonSpec implements Resource.
func (k *APIKey) CommonSpec() *CommonSpec { return &k.Spec.CommonSpec }

// CommonStatus implements Resource.
func (k *APIKey) CommonStatus() *CommonStatus { return &k.Status.CommonStatus }
