package document

import "time"

// ConnectionSAML is what a connection of type SAML has in place of a client, scopes and a provider.
type ConnectionSAML struct {
	// MetadataURL is where servers fetch the metadata of the identity provider. It is "" if Metadata or Given has it.
	MetadataURL string `json:"metadata_url,omitempty"`
	// Metadata is the metadata as XML, of a ConfigMap.
	Metadata string `json:"metadata,omitempty"`
	// Given is what an organization or a backend stated instead of a URL; nil for declared connections.
	Given *SAMLMetadata `json:"given,omitempty"`
	// EntityID is the entity ID of the identity provider, "" for the only one of the metadata.
	EntityID string `json:"entity_id,omitempty"`
	// ServiceEntityID is the entity ID of the connection as a service provider, never "".
	ServiceEntityID string `json:"service_entity_id"`
	// Subject is the attribute that identifies a user, "" for the NameID.
	Subject string `json:"subject,omitempty"`
	// NameIDFormat is the format that requests ask for, as a URN; "" for none.
	NameIDFormat string `json:"name_id_format,omitempty"`
	// Encrypted refuses assertions that are not encrypted.
	Encrypted bool `json:"encrypted,omitempty"`
	// ForceAuthn asks the identity provider to authenticate users at each sign-in.
	ForceAuthn bool `json:"force_authn,omitempty"`
	// Restarts begins a sign-in after a response that answers no request. Otherwise such a response is refused.
	Restarts bool `json:"restarts,omitempty"`
	// SkewSeconds is how far the clock of the identity provider may differ.
	SkewSeconds int64 `json:"skew_seconds"`
	// Keys are the keys of the connection: the first one signs, all of them decrypt and are in its metadata. There are
	// none for an inactive connection.
	Keys []SAMLKey `json:"keys,omitempty"`
}

// SAMLKey is a key of a connection.
type SAMLKey struct {
	// Certificate is the certificate in PEM.
	Certificate string `json:"certificate"`
	// Sealed is the private key in PEM (PKCS #8), sealed for the kind SealedConnectionSecret and the connection's id; that
	// of a row for people.SealedConnection and the row.
	Sealed string `json:"sealed"`
}

// DefaultSAMLSkewSeconds is SkewSeconds of a connection that declares none.
const DefaultSAMLSkewSeconds = 60

// SAMLMetadata is what is used of the metadata of an identity provider, as servers store it after a fetch: it contains
// no XML.
type SAMLMetadata struct {
	EntityID string `json:"entity_id"`
	// SignOn and Logout are the endpoints with the bindings HTTP-Redirect and HTTP-POST.
	SignOn []SAMLEndpoint `json:"sign_on"`
	Logout []SAMLEndpoint `json:"logout,omitempty"`
	// Certificates are those that verify signatures, in DER.
	Certificates [][]byte `json:"certificates"`
	// ValidUntil is when the identity provider withdraws the document, zero if it does not say so. The hash of a stored
	// document does not cover it.
	ValidUntil time.Time `json:"valid_until,omitzero"`
}

// SAMLEndpoint is where an identity provider takes requests.
type SAMLEndpoint struct {
	// Binding is the URN of the binding.
	Binding string `json:"binding"`
	URL     string `json:"url"`
	// ResponseURL is where responses go, URL if the metadata states no other.
	ResponseURL string `json:"response_url"`
}
