package v1alpha1

// Condition types. Ready, Accepted, ReferencesResolved and Synced are always present; Reconciling, Stalled and Deleting
// only while they are true, as kstatus reads them.
const (
	// ConditionReady is the summary: the resource is committed to the store as declared; servers follow within 1 s.
	ConditionReady = "Ready"
	// ConditionAccepted says whether the resource is valid and in conflict with no other.
	ConditionAccepted = "Accepted"
	// ConditionReferencesResolved says whether everything the resource points at exists.
	ConditionReferencesResolved = "ReferencesResolved"
	// ConditionSynced says whether the store holds this generation.
	ConditionSynced = "Synced"
	// ConditionReconciling is true while the operator waits for something that may still come: a referent, a Secret, the
	// store.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true while only a change by the user can help: Accepted is False.
	ConditionStalled = "Stalled"
	// ConditionDeleting is true while a deletion waits; its message says for what.
	ConditionDeleting = "Deleting"
	// ConditionCredentialsReady says whether the Secrets and ConfigMaps that the resource names or generates hold what it needs.
	ConditionCredentialsReady = "CredentialsReady"
)

// Reasons of conditions.
const (
	// ReasonReady: everything declared is in force.
	ReasonReady = "Ready"
	// ReasonAccepted: the resource is valid and holds its claims.
	ReasonAccepted = "Accepted"
	// ReasonResolved: every reference was found.
	ReasonResolved = "Resolved"
	// ReasonSynced: the store holds this generation.
	ReasonSynced = "Synced"
	// ReasonPending: this could not be judged yet, because something before it has not succeeded.
	ReasonPending = "Pending"

	// ReasonInvalid: the spec breaks a rule that the API server cannot check; the message names the field.
	ReasonInvalid = "Invalid"
	// ReasonUnknownPermission: a permission is not in the deployment's catalog of that level; the message names it.
	ReasonUnknownPermission = "UnknownPermission"
	// ReasonConflict: another resource holds a claim this one needs (an id, a slug, a host, a key); the message names it.
	ReasonConflict = "Conflict"
	// ReasonSuperseded: the management API created this resource, and a declared one has taken its claim.
	ReasonSuperseded = "Superseded"

	// ReasonNotFound: a referenced resource does not exist (yet); creating it is enough.
	ReasonNotFound = "NotFound"
	// ReasonBeingDeleted: a referenced resource, or the namespace, is being deleted, and nothing new may depend on it.
	ReasonBeingDeleted = "BeingDeleted"

	// ReasonStoreUnavailable: the runtime store did not answer; the operator retries.
	ReasonStoreUnavailable = "StoreUnavailable"
	// ReasonProgressing: an attempt failed for a passing reason; the operator retries.
	ReasonProgressing = "Progressing"

	// ReasonInUse: the resource is deleted once nothing refers to it any more; until then it stays in force.
	ReasonInUse = "InUse"

	// ReasonSecretNotOwned: the Secret to generate exists already and belongs to somebody else: choose another name or
	// delete it.
	ReasonSecretNotOwned = "SecretNotOwned"
	// ReasonSecretNotFound: the Secret to adopt or to read, or its key, does not exist yet; creating it is enough.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretForbidden: the operator has no rights on Secrets in this namespace: bind ClusterRole
	// cardea-operator-secrets to it there.
	ReasonSecretForbidden = "SecretForbidden"
	// ReasonInvalidKey: the Secret's value is not an API key of Cardea's form: mint one with `cardea key new`.
	ReasonInvalidKey = "InvalidKey"
	// ReasonExpired: expiresAt is past; the key is refused.
	ReasonExpired = "Expired"
	// ReasonConfigMapNotFound: the ConfigMap that holds an issuer's keys, or its key, does not exist yet.
	ReasonConfigMapNotFound = "ConfigMapNotFound"
	// ReasonRootKeyMissing: the operator was started without a root key, which the deployment's secrets are sealed under.
	ReasonRootKeyMissing = "RootKeyMissing"
	// ReasonIssued: the key is in its Secret and registered.
	ReasonIssued = "Issued"
)

// Reasons of events.
const (
	// EventReasonKeyIssued: a new API key was written to the Secret.
	EventReasonKeyIssued = "KeyIssued"
	// EventReasonKeyRotated: the API key was rotated; the previous one is accepted until the overlap ends.
	EventReasonKeyRotated = "KeyRotated"
	// EventReasonKeyReplaced: the Secret was deleted or edited by hand; a new key was issued and the old one revoked.
	EventReasonKeyReplaced = "KeyReplaced"
)
