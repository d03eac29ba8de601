package v1alpha1

// SAMLKeysSuffix follows the name of a Connection of type SAML in the name of the Secret with its keys. That Secret is
// the operator's.
const SAMLKeysSuffix = "-saml-keys"

// NameIDFormat is a format of the NameID that requests ask for.
// +kubebuilder:validation:Enum=Persistent;EmailAddress
type NameIDFormat string

const (
	// NameIDFormatPersistent asks for an id that stays the same (urn:oasis:names:tc:SAML:2.0:nameid-format:persistent).
	NameIDFormatPersistent NameIDFormat = "Persistent"
	// NameIDFormatEmailAddress asks for the address (urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress). Another
	// user can get an address later.
	NameIDFormatEmailAddress NameIDFormat = "EmailAddress"
)

// AssertionEncryption selects whether assertions must be encrypted.
// +kubebuilder:validation:Enum=Optional;Required
type AssertionEncryption string

const (
	// AssertionEncryptionOptional accepts encrypted and plain assertions.
	AssertionEncryptionOptional AssertionEncryption = "Optional"
	// AssertionEncryptionRequired refuses plain assertions.
	AssertionEncryptionRequired AssertionEncryption = "Required"
)

// IdPInitiated selects what happens to a response that answers no request, such as one from a tile of a portal.
// +kubebuilder:validation:Enum=Refuse;Restart
type IdPInitiated string

const (
	// IdPInitiatedRefuse refuses the response (SSO_RESPONSE_INVALID).
	IdPInitiatedRefuse IdPInitiated = "Refuse"
	// IdPInitiatedRestart drops the response and begins a sign-in with a request, which the provider's session answers.
	IdPInitiatedRestart IdPInitiated = "Restart"
)

// SAMLEntityID is an entity ID of SAML: a URI of at most 1024 printable ASCII characters without blanks.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=1024
// +kubebuilder:validation:Pattern=`^[!-~]+$`
type SAMLEntityID string

// SAMLProvider configures type SAML. Register status.entityID and status.acsURLs, or status.metadataURL, at the
// identity provider.
// +kubebuilder:validation:XValidation:rule="has(self.metadataURL) != has(self.metadataConfigMapRef)",message="the metadata comes from metadataURL or from metadataConfigMapRef: write exactly one of them"
type SAMLProvider struct {
	// metadataURL is where servers fetch the metadata of the identity provider, again within a day. Absent: see
	// metadataConfigMapRef.
	// +optional
	MetadataURL *UpstreamURL `json:"metadataURL,omitempty"`

	// metadataConfigMapRef names the ConfigMap and key with the metadata of the identity provider as XML, for providers
	// without a URL: at most 1 MiB. A change of the ConfigMap takes effect by itself. Absent: see metadataURL.
	// +optional
	MetadataConfigMapRef *ConfigMapKeyReference `json:"metadataConfigMapRef,omitempty"`

	// entityID is the entity ID of the identity provider. Users are known by entity ID and subject: after a change of it,
	// no user of the former one is recognized. Absent: the only one of the metadata.
	// +optional
	EntityID *SAMLEntityID `json:"entityID,omitempty"`

	// spEntityID is the entity ID under which the identity provider knows this connection, for a provider that cannot be
	// changed after a move. Absent: status.metadataURL.
	// +optional
	SPEntityID *SAMLEntityID `json:"spEntityID,omitempty"`

	// subject is the attribute that identifies a user and never changes, or `NameID`. A transient NameID is refused.
	// Absent: NameID.
	// +optional
	Subject *ClaimName `json:"subject,omitempty"`

	// nameIDFormat is the format of the NameID that requests ask for. `Persistent`: an id that stays the same.
	// `EmailAddress`: the address, which another user can get later. Absent: no format is asked for.
	// +optional
	NameIDFormat *NameIDFormat `json:"nameIDFormat,omitempty"`

	// encryption selects whether assertions must be encrypted. `Optional`: both are accepted. `Required`: plain
	// assertions are refused. Absent: Optional.
	// +optional
	Encryption *AssertionEncryption `json:"encryption,omitempty"`

	// forceAuthn asks the identity provider to authenticate users at each sign-in, also those with a session there.
	// Absent: false.
	// +optional
	ForceAuthn *bool `json:"forceAuthn,omitempty"`

	// idpInitiated selects what happens to a response that answers no request, such as one from a tile of a portal.
	// `Refuse`: it is refused. `Restart`: it is dropped, and a request begins a sign-in, which the provider's session
	// answers. Absent: Refuse.
	// +optional
	IdPInitiated *IdPInitiated `json:"idpInitiated,omitempty"`

	// clockSkewSeconds is how far the clock of the identity provider may differ, 0 to 300 seconds. Absent: 60.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=300
	ClockSkewSeconds *int32 `json:"clockSkewSeconds,omitempty"`
}
