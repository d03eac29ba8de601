package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Labels, annotations and the finalizer that Cardea reads or writes.
const (
	// LabelManagedBy is Kubernetes' recommended label for the tool that manages an object.
	LabelManagedBy = "app.kubernetes.io/managed-by"
	// ManagedByOperator is LabelManagedBy's value on Secrets the operator generated; the operator may update and
	// delete only those.
	ManagedByOperator = "cardea"
	// ManagedByHTTP is LabelManagedBy's value on resources the management API created; they yield their slug
	// to declared ones, and are declared themselves once somebody else declares any of their spec.
	ManagedByHTTP = "cardea-http"

	// LabelDeployment on a Secret names the IdentityDeployment that may take values from it. As an annotation with the value `*`,
	// which no label can have, it lets every one of the namespace.
	LabelDeployment = "iam.cardea.dev/deployment"
	// AnnotationAllowedHosts on a Namespace lists the frontend hosts its deployments may declare, where the operator requires
	// grants: names and patterns such as `*.acme.example`, separated by commas or blanks. Cluster admins write it.
	AnnotationAllowedHosts = "iam.cardea.dev/allowed-hosts"
	// AnnotationFormerPeopleAccepted on an IdentityDeployment says, by any value, that people from before its creation are
	// meant to be there.
	AnnotationFormerPeopleAccepted = "iam.cardea.dev/former-people-accepted"

	// AnnotationReconcileRequestedAt asks for one reconcile now; any new value counts. It is answered in
	// status.lastHandledReconcileAt.
	AnnotationReconcileRequestedAt = "iam.cardea.dev/reconcile-requested-at"
	// AnnotationRotateAt (RFC 3339) on an APIKey rotates it once, when the time is past and later than
	// status.lastRotatedAt; on an OAuthClient its secret, on an OAuthApp its signing keys.
	AnnotationRotateAt = "iam.cardea.dev/rotate-at"
	// AnnotationAPIKey on a generated Secret names the APIKey it belongs to.
	AnnotationAPIKey = "iam.cardea.dev/api-key"
	// AnnotationOAuthClient on a generated Secret names the OAuthClient it belongs to.
	AnnotationOAuthClient = "iam.cardea.dev/oauth-client"
	// AnnotationPreviousExpiresAt (RFC 3339) on a generated Secret tells until when its previous-api-key is accepted.
	AnnotationPreviousExpiresAt = "iam.cardea.dev/previous-expires-at"
	// AnnotationRotatedAt (RFC 3339) on a generated Secret tells when its current key was issued.
	AnnotationRotatedAt = "iam.cardea.dev/rotated-at"
	// AnnotationRotatedFor on a generated Secret is the value of AnnotationRotateAt that was answered last.
	AnnotationRotatedFor = "iam.cardea.dev/rotated-for"

	// Finalizer holds a resource until the store no longer serves it.
	Finalizer = "iam.cardea.dev/store"
)

// FieldManagerOperator and FieldManagerHTTP are the field managers of Cardea's own writes.
const (
	FieldManagerOperator = "cardea-operator"
	FieldManagerHTTP     = "cardea-http"
)

// DeletionPolicy says what becomes of the stored document when the resource is deleted.
// +kubebuilder:validation:Enum=Delete;Retain
type DeletionPolicy string

const (
	// DeletionPolicyDelete removes the document with the resource.
	DeletionPolicyDelete DeletionPolicy = "Delete"
	// DeletionPolicyRetain keeps the document, marked as retained, when the resource goes; for an
	// IdentityDeployment it withdraws the documents and keeps people's rows.
	DeletionPolicyRetain DeletionPolicy = "Retain"
)

// CommonSpec is the part of every kind's spec that the engine reads.
type CommonSpec struct {
	// id is the number this resource is served under, as a decimal string from 1 to 9223372036854775807, unique per
	// kind in the install. Absent: derived from kind, namespace and name, so that a cluster rebuilt from Git serves
	// the same ids. It may be added later only equal to status.id, and is never changed or removed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=19
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,18}$`
	// +kubebuilder:validation:XValidation:rule="self.size() < 19 || self <= '9223372036854775807'",message="id must be at most 9223372036854775807: choose a smaller number or leave it out"
	ID *string `json:"id,omitempty"`

	// suspend stops reconciling while true: edits wait, what is served stays, deletion still works. Absent: false.
	// +optional
	Suspend *bool `json:"suspend,omitempty"`

	// deletionPolicy says what becomes of the stored document when this resource is deleted. `Delete`: it is removed
	// and no longer served. `Retain`: it is kept and served, marked as retained; an IdentityDeployment's documents are
	// withdrawn while people's rows stay. Absent: Delete, but Retain for an IdentityDeployment. An APIKey always revokes.
	// +optional
	DeletionPolicy *DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// CommonStatus is the part of every kind's status that the engine writes.
type CommonStatus struct {
	// conditions tell how far this resource has come: Ready (summary), Accepted, ReferencesResolved, Synced, and,
	// present only while true, Reconciling, Stalled and Deleting.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the metadata.generation these conditions speak of; -1 before the first pass.
	// +optional
	// +kubebuilder:validation:Minimum=-1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// id is the number this resource is served under, as a decimal string.
	// +optional
	// +kubebuilder:validation:MaxLength=19
	ID string `json:"id,omitempty"`

	// claims are the things this resource owns alone (its id, slug, hosts, key ids), as last recorded in the store.
	// After a lost store they decide who owned what.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=512
	Claims []string `json:"claims,omitempty"`

	// contentHash identifies the served content last committed to the store.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ContentHash string `json:"contentHash,omitempty"`

	// updatedAt is when the served content last changed, served as updated_at; kept here so that a lost store does not
	// change it.
	// +optional
	UpdatedAt *metav1.MicroTime `json:"updatedAt,omitempty"`

	// lastHandledReconcileAt echoes the annotation iam.cardea.dev/reconcile-requested-at of the last pass.
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

// DisplayName is a name people read: 1 to 80 characters on one line, without control, bidirectional control and
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

// Slug is the name a resource is addressed by over HTTP: lower-case letters, digits and inner dashes, 1 to 63
// characters (an RFC 1123 label).
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="slug is immutable: create another resource with the new slug"
type Slug string

// Permission is `*` (all), a built-in name such as `rate_limit_schemes:write`, or a name of the app's own such as
// `orders:read`: words of letters, digits, `_`, `.`, `-` and `/`, joined by colons.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=100
// +kubebuilder:validation:Pattern=`^(\*|[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+)*)$`
type Permission string

// Resource is what every kind of this package is to the engine.
// +kubebuilder:object:generate=false
type Resource interface {
	metav1.Object
	runtime.Object
	// CommonSpec returns the part of spec shared by every kind; it may be changed through the pointer.
	CommonSpec() *CommonSpec
	// CommonStatus returns the part of status shared by every kind; it may be changed through the pointer.
	CommonStatus() *CommonStatus
}
