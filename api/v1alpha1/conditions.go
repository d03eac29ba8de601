package v1alpha1

// Condition types. Ready, Accepted, ReferencesResolved and Synced are always present; Reconciling, Stalled and Deleting
// only while they are true, as kstatus reads them.
const (
	// ConditionReady is the summary: the declared state is committed to the store; servers follow within 1 s.
	ConditionReady = "Ready"
	// ConditionAccepted reports whether the resource is valid and not in conflict with another.
	ConditionAccepted = "Accepted"
	// ConditionReferencesResolved reports whether every referenced resource exists.
	ConditionReferencesResolved = "ReferencesResolved"
	// ConditionSynced reports whether the store has this generation.
	ConditionSynced = "Synced"
	// ConditionReconciling is true while the operator waits for a referenced resource, a Secret or the store.
	ConditionReconciling = "Reconciling"
	// ConditionStalled is true while only an edit by the user helps: Accepted is False.
	ConditionStalled = "Stalled"
	// ConditionDeleting is true while a deletion waits; its message has the reason.
	ConditionDeleting = "Deleting"
	// ConditionCredentialsReady reports whether the Secrets and ConfigMaps that the resource names or generates have the
	// required values.
	ConditionCredentialsReady = "CredentialsReady"
	// ConditionFormerPeople is true while a deployment has users from before it was created: users of a former
	// deployment with its name. The condition is only a warning. The annotation iam.cardea.dev/former-people-accepted
	// removes it.
	ConditionFormerPeople = "FormerPeople"
	// ConditionPasskeysReady reports whether passkeys can be used from every origin of a deployment. It is absent if
	// passkeys are disabled, and if they are not declared and the deployment has no frontend host.
	ConditionPasskeysReady = "PasskeysReady"
	// ConditionRelyingPartyChanged is true while the store has passkeys of another relying party than the deployment's.
	// They cannot be used, and work again when spec.signIn.passkey.relyingPartyID has that value.
	ConditionRelyingPartyChanged = "RelyingPartyChanged"
	// ConditionIssuerChanged is true on an OAuthApp for the minute before its issuer changes.
	ConditionIssuerChanged = "IssuerChanged"
	// ConditionNamedAsPermission is true on an OAuthScope without organizationPermission and workspacePermission that has
	// the name of a permission of the deployment's catalog. In decisions, a consent to the scope satisfies a requirement
	// of the permission.
	ConditionNamedAsPermission = "NamedAsPermission"
	// ConditionCallable reports whether agents can call an AITool.
	ConditionCallable = "Callable"
	// ConditionServed reports whether the tools of an AIAgent are served to MCP clients, or the endpoints of a Directory
	// to its identity provider.
	ConditionServed = "Served"
	// ConditionReachable reports whether servers have the current documents of a Connection's identity provider. It does
	// not count into Ready, and is absent for GitHub, which has no documents. The last documents serve seven days.
	ConditionReachable = "Reachable"
	// ConditionCertificateExpiring is true on a Connection of type SAML while a certificate in the metadata of its
	// identity provider expires within 30 days or has expired. Its signatures are still accepted. It does not count into
	// Ready.
	ConditionCertificateExpiring = "CertificateExpiring"
	// ConditionMetadataChanged is true on a Connection of type SAML for 24 hours after the identity provider changed a
	// certificate, an endpoint or the entity ID in its metadata. It does not count into Ready.
	ConditionMetadataChanged = "MetadataChanged"
	// ConditionDelivering reports whether events are sent to a WebhookEndpoint. Only ReasonDisabled counts into Ready.
	ConditionDelivering = "Delivering"
)

// Reasons of the condition Delivering, which also has ReasonInactive and ReasonPending. The first two are also reasons
// of events.
const (
	// ReasonFailing: for ten minutes or more, no request to the endpoint has succeeded; the message says why.
	ReasonFailing = "Failing"
	// ReasonDisabled: the endpoint failed for spec.disableAfterSeconds, or it responded with status 410. Events wait
	// within their retention.
	ReasonDisabled = "Disabled"
	// ReasonDelivering: events are sent to the endpoint.
	ReasonDelivering = "Delivering"
)

// Reasons of the condition Reachable. Unknown has ReasonPending: no server has fetched the documents yet.
const (
	// ReasonFetched: the last fetch of each document succeeded.
	ReasonFetched = "Fetched"
	// ReasonUnreachable: the provider does not answer, or with an error of its own.
	ReasonUnreachable = "Unreachable"
	// ReasonRefused: the servers' egress policy does not allow the provider's address. Their flag --egress-allowed-cidrs
	// allows private addresses.
	ReasonRefused = "Refused"
	// ReasonInvalidMetadata: a document of the provider breaks a rule, which the message names.
	ReasonInvalidMetadata = "InvalidMetadata"
	// ReasonIssuerMismatch: the discovery document states another issuer than the declared one.
	ReasonIssuerMismatch = "IssuerMismatch"
)

// Reasons of the conditions CertificateExpiring and MetadataChanged. CertificateExpiring also has ReasonExpired.
const (
	// ReasonExpiring: a certificate of the identity provider expires within 30 days; the message says when.
	ReasonExpiring = "Expiring"
	// ReasonChanged: the metadata of the identity provider changed; the message says when.
	ReasonChanged = "Changed"
)

// Reasons of the conditions Callable and Served.
const (
	// ReasonCallable: agents that list the tool can call it.
	ReasonCallable = "Callable"
	// ReasonServing: MCP clients can call the agent's tools, or the identity provider can use the directory.
	ReasonServing = "Serving"
	// ReasonInactive: spec.active is false, or a WebhookEndpoint lacks a credential.
	ReasonInactive = "Inactive"
	// ReasonNoEndpoint: the tool has no endpoint, so that only its definition is served.
	ReasonNoEndpoint = "NoEndpoint"
	// ReasonCredentialsMissing: the value of a header or the signing secret is missing or may not be used, and
	// CredentialsReady says why; or the operator has no root key for the deployment's signatures.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonNotPerformed: the tool needs a token of the application; only the tool's definition is served.
	ReasonNotPerformed = "NotPerformed"
	// ReasonAppNotReady: the OAuthApp whose tokens the agent accepts does not exist or has no issuer. API keys and
	// session tokens are accepted.
	ReasonAppNotReady = "AppNotReady"
	// ReasonDuplicateToolName: two tools of the agent have one name for models; the later is left out.
	ReasonDuplicateToolName = "DuplicateToolName"
)

// Reasons of conditions.
const (
	// ReasonReady: the declared state is active.
	ReasonReady = "Ready"
	// ReasonAccepted: the resource is valid and has its reservations.
	ReasonAccepted = "Accepted"
	// ReasonResolved: every reference was found.
	ReasonResolved = "Resolved"
	// ReasonSynced: the store has this generation.
	ReasonSynced = "Synced"
	// ReasonSuspended: spec.suspend is set; the active state stays, and edits wait.
	ReasonSuspended = "Suspended"
	// ReasonPending: not evaluated yet, because an earlier step has not succeeded.
	ReasonPending = "Pending"

	// ReasonInvalid: the spec breaks a rule that the API server cannot check; the message names the field.
	ReasonInvalid = "Invalid"
	// ReasonUnknownPermission: a permission of a role or scope is not in the deployment's catalog for its level
	// (organization or workspace); the message names it.
	ReasonUnknownPermission = "UnknownPermission"
	// ReasonAssuranceUnreachable: the resource requires an assurance level that no factor enabled in its deployment can
	// reach; the message says what to enable.
	ReasonAssuranceUnreachable = "AssuranceUnreachable"
	// ReasonConflict: another resource has a value that must be unique (an id, a slug, a host, a key). The message names
	// the resource if it is in the same namespace.
	ReasonConflict = "Conflict"
	// ReasonHostNotGranted: the install grants hosts to namespaces, and this namespace has no grant of a frontend host: a
	// cluster admin lists it in the namespace's annotation iam.cardea.dev/allowed-hosts.
	ReasonHostNotGranted = "HostNotGranted"
	// ReasonTooMany: the resources of the deployment, or of the namespace, are at the operator's bound on their number or
	// size. Active resources stay active. The operator tries again each minute.
	ReasonTooMany = "TooMany"
	// ReasonSuperseded: the management API created this resource, and a declared resource has taken its slug.
	ReasonSuperseded = "Superseded"

	// ReasonNotFound: a referenced resource does not exist (yet); creating it is enough.
	ReasonNotFound = "NotFound"
	// ReasonOrganizationNotFound: no organization of the deployment has the slug that the Connection or Directory names.
	// The resource is Ready: it takes effect when the organization is created.
	ReasonOrganizationNotFound = "OrganizationNotFound"
	// ReasonBeingDeleted: a referenced resource, or the namespace, is being deleted, and takes no new references.
	ReasonBeingDeleted = "BeingDeleted"

	// ReasonStoreUnavailable: the runtime store is unreachable; the operator retries.
	ReasonStoreUnavailable = "StoreUnavailable"
	// ReasonProgressing: an attempt failed for a transient reason; the operator retries.
	ReasonProgressing = "Progressing"

	// ReasonInUse: other resources refer to the resource. It stays active, and is deleted when no resource refers to it.
	ReasonInUse = "InUse"

	// ReasonSecretNotOwned: the Secret to generate exists, and Cardea did not create it. Choose another name, or delete
	// the Secret when no program uses it.
	ReasonSecretNotOwned = "SecretNotOwned"
	// ReasonSecretNotFound: the Secret to adopt or to read, or its key, does not exist yet; creating it is enough.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonSecretNotShared: the Secret may not be read for this deployment. Either it has neither the label
	// iam.cardea.dev/deployment with the deployment's name nor that annotation with `*`, or its type is neither Opaque
	// nor kubernetes.io/basic-auth, or Cardea generated it, or its annotation iam.cardea.dev/hosts does not name the host
	// of the tool's endpoint.
	ReasonSecretNotShared = "SecretNotShared"
	// ReasonSecretForbidden: the operator has no rights on Secrets in this namespace: bind ClusterRole
	// cardea-operator-secrets to it there.
	ReasonSecretForbidden = "SecretForbidden"
	// ReasonInvalidKey: the Secret's value is not an API key of Cardea's form: create one with `cardea key new`, for a
	// Directory with `cardea key new --prefix scim`.
	ReasonInvalidKey = "InvalidKey"
	// ReasonExpired: expiresAt is past; the key is refused. Of CertificateExpiring: a certificate of the identity
	// provider has expired.
	ReasonExpired = "Expired"
	// ReasonConfigMapNotFound: the ConfigMap that holds an issuer's keys or an identity provider's metadata, or its key,
	// does not exist yet.
	ReasonConfigMapNotFound = "ConfigMapNotFound"
	// ReasonRootKeyMissing: the operator was started without a root key, under which the deployment's secrets are sealed.
	ReasonRootKeyMissing = "RootKeyMissing"
	// ReasonFoundPeople: users' rows are older than the deployment; the message says what to do.
	ReasonFoundPeople = "FoundPeople"
	// ReasonUsable: passkeys can be used from every origin of the deployment.
	ReasonUsable = "Usable"
	// ReasonNoFrontendHost: the deployment has no frontend host. Declared passkeys could belong to no host, or an agent or
	// a directory has no URL. Or a tool cannot be called: nothing issues its token, publishes the key of its signatures,
	// or receives results that come later.
	ReasonNoFrontendHost = "NoFrontendHost"
	// ReasonRelatedOriginsElsewhere: an origin is outside the relying party, and the relying party is not a frontend
	// host. Its web server, which is not Cardea, must serve the list of origins; the message has the list.
	ReasonRelatedOriginsElsewhere = "RelatedOriginsElsewhere"
	// ReasonTooManyRelatedOrigins: the origins have more than five registrable labels (the `acme` in `acme.co.uk`).
	// Browsers may ignore the origins of further labels.
	ReasonTooManyRelatedOrigins = "TooManyRelatedOrigins"
	// ReasonOtherPasskeys: passkeys in the store belong to another relying party; the message names it and how many.
	ReasonOtherPasskeys = "OtherPasskeys"
	// ReasonHostsChanged: an app's fqdn, or its deployment's frontend hosts, changed; the message names both issuers.
	ReasonHostsChanged = "HostsChanged"
	// ReasonInCatalog: the scope's name is in spec.permissionCatalog of the deployment.
	ReasonInCatalog = "InCatalog"
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
	// EventReasonMetadataChanged: the metadata of the identity provider of a Connection changed.
	EventReasonMetadataChanged = "MetadataChanged"
)
