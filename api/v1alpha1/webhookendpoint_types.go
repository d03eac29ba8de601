package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the Secret with the signing secret of a webhook endpoint.
const (
	// SecretKeySigningSecret holds the secret itself: `whsec_` and the base64 of 32 bytes.
	SecretKeySigningSecret = "signing-secret"
	// SecretKeyPreviousSigningSecret holds the previous secret after a rotation, while requests are also signed with it.
	SecretKeyPreviousSigningSecret = "previous-signing-secret"
)

// WebhookFormat selects the form of a webhook's body.
// +kubebuilder:validation:Enum=StandardWebhooks;CloudEvents
type WebhookFormat string

const (
	// WebhookFormatStandardWebhooks is the event as GET /events has it.
	WebhookFormatStandardWebhooks WebhookFormat = "StandardWebhooks"
	// WebhookFormatCloudEvents is CloudEvents 1.0 in structured JSON.
	WebhookFormatCloudEvents WebhookFormat = "CloudEvents"
)

// WebhookScheme selects how webhooks are signed.
// +kubebuilder:validation:Enum=HMAC;Ed25519
type WebhookScheme string

const (
	// WebhookSchemeHMAC signs with HMAC-SHA256 and a secret that the receiver has too.
	WebhookSchemeHMAC WebhookScheme = "HMAC"
	// WebhookSchemeEd25519 signs with the deployment's key, whose public part is published.
	WebhookSchemeEd25519 WebhookScheme = "Ed25519"
)

// WebhookOrdering selects in which order webhooks are sent.
// +kubebuilder:validation:Enum=Entity;None
type WebhookOrdering string

const (
	// WebhookOrderingEntity keeps the order of the events of each subject.
	WebhookOrderingEntity WebhookOrdering = "Entity"
	// WebhookOrderingNone sends events as they come.
	WebhookOrderingNone WebhookOrdering = "None"
)

// WebhookPersonalData selects whether webhooks have personal data.
// +kubebuilder:validation:Enum=Omit;Include
type WebhookPersonalData string

const (
	// WebhookPersonalDataOmit sends ids and names of states alone.
	WebhookPersonalDataOmit WebhookPersonalData = "Omit"
	// WebhookPersonalDataInclude adds data.personal.
	WebhookPersonalDataInclude WebhookPersonalData = "Include"
)

// EventTypeFilter selects types of events: a type such as `user.created`, all types of a subject such as `user.*`, or
// `*`. Types that are opt-in, such as `rate_limit.exceeded`, are selected by their name or by all of it before the last
// dot.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:Pattern=`^[a-z0-9_.@*]+$`
type EventTypeFilter string

// ExistingSigningSecretReference names a key of a Secret in the same namespace that holds a signing secret.
type ExistingSigningSecretReference struct {
	// name of the Secret, in this resource's namespace. It needs the label iam.cardea.dev/deployment with the deployment's
	// name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key of the Secret's data that holds the signing secret, at most 128 characters. Absent: signing-secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key *string `json:"key,omitempty"`
}

// WebhookSigning configures how webhooks are signed.
// +kubebuilder:validation:XValidation:rule="!(has(self.secretTemplate) && has(self.existingSecretRef))",message="set secretTemplate (the operator generates the secret) or existingSecretRef (you provide it), not both"
// +kubebuilder:validation:XValidation:rule="!has(self.scheme) || self.scheme != 'Ed25519' || !(has(self.secretTemplate) || has(self.existingSecretRef) || has(self.rotation))",message="scheme Ed25519 signs with the deployment's key: remove secretTemplate, existingSecretRef and rotation, or set scheme to HMAC"
// +kubebuilder:validation:XValidation:rule="!has(self.rotation) || !has(self.existingSecretRef)",message="rotation needs a generated secret: to rotate a secret that you provide, write a new one to its Secret",fieldPath=".rotation"
type WebhookSigning struct {
	// scheme selects the signature. `HMAC`: HMAC-SHA256 with a secret that the receiver has too. `Ed25519`: the
	// deployment's key of status.webhookPublicKeys, of which the receiver needs only the public part. Absent: HMAC.
	// +optional
	Scheme *WebhookScheme `json:"scheme,omitempty"`

	// secretTemplate describes the Secret in which the operator generates the signing secret. Absent: a Secret with the
	// resource's name, if neither existingSecretRef nor the scheme Ed25519 is set.
	// +optional
	SecretTemplate *SecretTemplate `json:"secretTemplate,omitempty"`

	// existingSecretRef adopts a signing secret that you provide: `whsec_` and the base64 of 24 to 64 bytes. The operator
	// waits for a missing Secret and never changes it. Absent: see secretTemplate.
	// +optional
	ExistingSecretRef *ExistingSigningSecretReference `json:"existingSecretRef,omitempty"`

	// rotation replaces a generated secret at an interval, with an overlap in which requests have a signature of both.
	// Absent: never.
	// +optional
	Rotation *KeyRotation `json:"rotation,omitempty"`
}

// WebhookEndpointSpec declares a webhook endpoint.
// +kubebuilder:validation:XValidation:rule="(has(self.disableAfterSeconds) ? self.disableAfterSeconds : 432000) >= (has(self.retrySeconds) ? self.retrySeconds : 259200)",message="disableAfterSeconds (absent: 432000) must be at least retrySeconds (absent: 259200)",fieldPath=".disableAfterSeconds"
type WebhookEndpointSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment whose events are sent. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another WebhookEndpoint for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// displayName is the endpoint's name for users. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// description says what the endpoint is for. Absent: none.
	// +optional
	Description *Description `json:"description,omitempty"`

	// url receives the events by POST requests: an https URL without user, password and fragment. http is sent only to
	// addresses of the servers' flag --egress-allowed-cidrs. Redirects are not followed.
	// +required
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="must not have a fragment: remove # and what follows"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^https?://[^/?#]*@')",message="must not have a user or password: use headers with valueFrom"
	URL URL `json:"url"`

	// types selects the events by their types, at most 64: `user.created`, all types of a subject as in `user.*`, or `*`.
	// Absent: `*`.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Types []EventTypeFilter `json:"types,omitempty"`

	// format selects the form of the body. `StandardWebhooks`: the event as GET /events has it. `CloudEvents`: CloudEvents
	// 1.0 in structured JSON. Both have the headers of Standard Webhooks. Absent: StandardWebhooks.
	// +optional
	Format *WebhookFormat `json:"format,omitempty"`

	// personalData selects whether events have the member data.personal with the address, names, phone number and client
	// of the user, as they are when the event is sent. `Omit`: they do not. `Include`: they do, where their type has it.
	// Absent: Omit.
	// +optional
	PersonalData *WebhookPersonalData `json:"personalData,omitempty"`

	// signing configures how requests are signed. Absent: HMAC with a generated secret in a Secret with the resource's
	// name.
	// +optional
	Signing *WebhookSigning `json:"signing,omitempty"`

	// headers are sent with each request, at most 16. Absent: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Headers []ToolHeader `json:"headers,omitempty"`

	// ordering selects the order of requests. `Entity`: one request at a time for each subject, in the order in which the
	// events happened; an event that fails holds back the later ones of its subject for at most an hour. `None`: as events
	// come. Absent: Entity.
	// +optional
	Ordering *WebhookOrdering `json:"ordering,omitempty"`

	// timeoutSeconds bounds a request, 1 to 30 seconds. Absent: 15.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// maxConcurrent bounds the requests that run at the same time, 1 to 64. Absent: 8.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	MaxConcurrent *int32 `json:"maxConcurrent,omitempty"`

	// maxPerSecond bounds the requests that begin in a second, 1 to 10000. Absent: no bound.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxPerSecond *int32 `json:"maxPerSecond,omitempty"`

	// retrySeconds is how long an event is tried again, from the first try on, 600 to 604800 seconds. Absent: 259200
	// (three days).
	// +optional
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=604800
	RetrySeconds *int32 `json:"retrySeconds,omitempty"`

	// disableAfterSeconds is how long an endpoint may fail before it is disabled, 600 to 2592000 seconds. At least 20
	// requests failed then. Absent: 432000 (five days).
	// +optional
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=2592000
	DisableAfterSeconds *int32 `json:"disableAfterSeconds,omitempty"`

	// active lets events be sent. `false`: events wait, within their retention. `false` and then `true` enables a disabled
	// endpoint. Absent: true.
	// +optional
	Active *bool `json:"active,omitempty"`
}

// WebhookEndpointStatus is what the operator observed. It never contains the secret itself.
type WebhookEndpointStatus struct {
	CommonStatus `json:",inline"`

	// secretName is the Secret that holds the signing secret. Absent: requests are signed with the deployment's key.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// lastRotatedAt is when the current secret was generated. Absent: you provide the secret.
	// +optional
	LastRotatedAt *metav1.Time `json:"lastRotatedAt,omitempty"`

	// nextRotationAt is when the operator will rotate the secret. Absent: no rotation is declared.
	// +optional
	NextRotationAt *metav1.Time `json:"nextRotationAt,omitempty"`

	// lastDeliveredAt is when an event was last delivered, to the minute. Absent: never.
	// +optional
	LastDeliveredAt *metav1.Time `json:"lastDeliveredAt,omitempty"`

	// backlog is how many events wait: those after the position of the endpoint, of any type, and those with open
	// deliveries. It is counted at most once a minute. Absent: not counted yet.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=9007199254740991
	Backlog *int64 `json:"backlog,omitempty"`
}

// WebhookEndpoint is a URL to which the events of a deployment are sent. Deleting the resource ends that.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=webhookendpoints,shortName=whe,categories=cardea
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`,description="The URL that receives the events"
// +kubebuilder:printcolumn:name="Delivering",type=string,JSONPath=`.status.conditions[?(@.type=="Delivering")].reason`,description="Whether events are delivered, or why not"
// +kubebuilder:printcolumn:name="Backlog",type=integer,JSONPath=`.status.backlog`,description="How many events wait"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type WebhookEndpoint struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the endpoint.
	// +required
	Spec WebhookEndpointSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status WebhookEndpointStatus `json:"status,omitzero"`
}

// WebhookEndpointList is a list of WebhookEndpoints.
// +kubebuilder:object:root=true
type WebhookEndpointList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the WebhookEndpoints.
	Items []WebhookEndpoint `json:"items"`
}

// CommonSpec implements Resource.
func (w *WebhookEndpoint) CommonSpec() *CommonSpec { return &w.Spec.CommonSpec }

// CommonStatus implements Resource.
func (w *WebhookEndpoint) CommonStatus() *CommonStatus { return &w.Status.CommonStatus }
