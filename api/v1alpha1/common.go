package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Labels, annotations and the finalizer that Cardea reads or writes.
const (
	// LabelManagedBy is Kubernetes' recommended label for the tool that manages an object.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedByOperator is LabelManagedBy's value on Secrets that the operator generated. The operator updates and
	// deletes no other Secrets.
	ManagedByOperator = "cardea"
	// ManagedByHTTP is LabelManagedBy's value on resources that the management API created. A declared resource takes
	// over the slug of such a resource. Such a resource becomes a declared one when another manager declares any part
	// of its spec.
	ManagedByHTTP = "cardea-http"

	// LabelDeployment is the label of a Secret that names the IdentityDeployment that may read its values. As an
	// annotation of the Secret it can be `*`, which is not a valid label value: every deployment of the namespace may
	// read the Secret's values.
	LabelDeployment = "iam.cardea.dev/deployment"
	// AnnotationHosts on a Secret lists the hosts to which AITools may send its values: names, or names with a port,
	// separated by commas. Without it, tools may send them to every host.
	AnnotationHosts = "iam.cardea.dev/hosts"
	// AnnotationAllowedHosts on a Namespace lists the frontend hosts that its deployments may declare, if the operator
	// requires grants: names and patterns such as `*.acme.example`, separated by commas or blanks. Cluster admins write
	// it.
	AnnotationAllowedHosts = "iam.cardea.dev/allowed-hosts"
	// AnnotationFormerPeopleAccepted on an IdentityDeployment accepts users that are older than the deployment. Its
	// value has no meaning, but must not be empty.
	AnnotationFormerPeopleAccepted = "iam.cardea.dev/former-people-accepted"

	// AnnotationReconcileRequestedAt requests one reconcile now; any new value counts. status.lastHandledReconcileAt
	// repeats the handled value.
	AnnotationReconcileRequestedAt = "iam.cardea.dev/reconcile-requested-at"
	// AnnotationRotateAt (RFC 3339) requests one rotation of a credential: the key of an APIKey, the secret of an
	// OAuthClient, or the token of a Directory. It also rotates the signing keys of an OAuthApp, and the key of a
	// Connection of type SAML. The operator rotates when the time is past, and only if it is later than the last rotation
	// (status.lastRotatedAt of an APIKey, OAuthClient or Directory).
	AnnotationRotateAt = "iam.cardea.dev/rotate-at"
	// AnnotationAPIKey on a generated Secret names the APIKey it belongs to.
	AnnotationAPIKey = "iam.cardea.dev/api-key"
	// AnnotationOAuthClient on a generated Secret names the OAuthClient it belongs to.
	AnnotationOAuthClient = "iam.cardea.dev/oauth-client"
	// AnnotationDirectory on a generated Secret names the Directory it belongs to.
	AnnotationDirectory = "iam.cardea.dev/directory"
	// AnnotationWebhookEndpoint on a generated Secret names the WebhookEndpoint it belongs to.
	AnnotationWebhookEndpoint = "iam.cardea.dev/webhook-endpoint"
	// AnnotationPreviousExpiresAt (RFC 3339) on a generated Secret is the time until which its previous key, secret or
	// token is accepted.
	AnnotationPreviousExpiresAt = "iam.cardea.dev/previous-expires-at"
	// AnnotationRotatedAt (RFC 3339) on a generated Secret is the time when its current key was issued.
	AnnotationRotatedAt = "iam.cardea.dev/rotated-at"
	// AnnotationRotatedFor on a generated Secret is the value of AnnotationRotateAt that was handled last.
	AnnotationRotatedFor = "iam.cardea.dev/rotated-for"

	// Finalizer keeps a resource that is being deleted until the store no longer serves it.
	Finalizer = "iam.cardea.dev/store"
)

// FieldManagerOperator and FieldManagerHTTP are the field managers of Cardea's own writes.
const (
	FieldManagerOperator = "cardea-operator"
	FieldManagerHTTP     = "cardea-http"
)

// DeletionPolicy selects what happens to the stored document when the resource is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

const (
	// DeletionPolicyDelete removes the document with the resource.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain keeps the document, marked as retained, when the resource is deleted. For an
	// IdentityDeployment it withdraws the documents and keeps the users' rows.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// CommonSpec is the part of every kind's spec that the engine reads.
type CommonSpec struct {
	// id is the resource's id over HTTP: a decimal string from 1 to 9223372036854775807, unique for its kind in the
	// install. It may be added later only with the value of status.id, and cannot be changed or removed. Absent: derived
	// from kind, namespace and name, so that a cluster rebuilt from Git serves the same ids.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=19
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,18}$`
	// +kubebuilder:validation:XValidation:rule="self.size() < 19 || self <= '9223372036854775807'",message="id must be at most 9223372036854775807: choose a smaller number or leave it out"
	ID *string `json:"id,omitempty"`

	// suspend stops reconciling while true: edits wait, the served state stays, and deletion still works. Absent: false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// deletionPolicy selects what happens to the stored document when this resource is deleted. `Delete`: the document is
	// removed and no longer served. `Retain`: the document is kept and served, marked as retained; for an
	// IdentityDeployment, its documents are withdrawn and its users' rows stay. An APIKey, an OAuthClient and a Directory
	// are always revoked. Absent: Delete, or Retain for an IdentityDeployment.
	// +optional
	DeletionPolicy *DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// CommonStatus is the part of every kind's status that the engine writes.
type CommonStatus struct {
	// conditions report the state of this resource: Ready (summary), Accepted, ReferencesResolved, Synced, and, present
	// only while true, Reconciling, Stalled and Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation that the conditions describe; -1 before the first reconcile.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// id is the resource's id over HTTP, as a decimal string.
	// +optional
	// +kubebuilder:validation:MaxLength=19
	ID string `json:"id,omitempty"`

	// claims are the values that only this resource owns (its id, slug, hosts, key ids), as last recorded in the store.
	// After the loss of the store they determine the owners.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=512
	Claims []string `json:"claims,omitempty"`

	// contentHash identifies the served content last committed to the store.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ContentHash string `json:"contentHash,omitempty"`

	// updatedAt is when the served content last changed, served as updated_at. It is kept here so that the loss of the
	// store does not change it.
	// +optional
	UpdatedAt *metav1.MicroTime `json:"updatedAt,omitempty"`

	// lastHandledReconcileAt repeats the annotation iam.cardea.dev/reconcile-requested-at of the last reconcile.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	LastHandledReconcileAt string `json:"lastHandledReconcileAt,omitempty"`
}

// DeploymentReference names an IdentityDeployment in the same namespace.
type DeploymentReference struct {
	// name of the IdentityDeployment, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// RateLimitSchemeReference names a RateLimitScheme in the same namespace.
type RateLimitSchemeReference struct {
	// name of the RateLimitScheme resource (not its slug), in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// APIAuthAppReference names an APIAuthApp in the same namespace.
type APIAuthAppReference struct {
	// name of the APIAuthApp resource, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// SecretKeyReference names a key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key of the Secret's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
}

// DisplayName is a name for display: 1 to 80 characters on one line, without control, bidirectional control and
// invisible characters, and not blank. It is served trimmed.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=80
// +kubebuilder:validation:Pattern=`^[^\p{Cc}\p{Zl}\p{Zp}\x{202A}-\x{202E}\x{2066}-\x{2069}\x{200B}\x{2060}\x{FEFF}]*$`
// +kubebuilder:validation:XValidation:rule="self.matches('[^\\\\s\\\\p{Z}]')",message="must not be blank: write a name or leave the field out"
type DisplayName string

// Description is free text of at most 500 characters; line breaks are allowed, other control, bidirectional control
// and invisible characters are not. It is served trimmed.
// +kubebuilder:validation:MaxLength=500
// +kubebuilder:validation:Pattern=`^([^\p{Cc}\x{202A}-\x{202E}\x{2066}-\x{2069}\x{200B}\x{2060}\x{FEFF}]|[\n\r])*$`
type Description string

// Slug is the name of a resource in HTTP paths: lower-case letters, digits and inner dashes, 1 to 63 characters (an RFC
// 1123 label).
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="slug is immutable: create another resource with the new slug"
type Slug string

// Permission is `*` (all), a built-in name such as `rate_limit_schemes:write`, or an application's own name such as
// `orders:read`: words of letters, digits, `_`, `.`, `-` and `/`, joined by colons.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:Pattern=`^(\*|[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+)*)$`
type Permission string

// NeededPermission is a Permission that a caller must have: a plain name, not `*`.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+)*$`
type NeededPermission string

// Resource is the interface of every kind to the engine.
// +kubebuilder:object:generate=false
type Resource interface {
	metav1.Object
	runtime.Object
	// CommonSpec returns the part of spec shared by every kind; it may be changed through the pointer.
	CommonSpec() *CommonSpec
	// CommonStatus returns the part of status shared by every kind; it may be changed through the pointer.
	CommonStatus() *CommonStatus
}
