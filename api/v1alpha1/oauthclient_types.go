package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Keys of the Secret with a client's credentials, unless the template names others.
const (
	// SecretKeyClientID holds the client's id.
	SecretKeyClientID = "client-id"
	// SecretKeyClientSecret holds the client's secret. `previous-client-secret` holds the previous one while it is
	// accepted.
	SecretKeyClientSecret = "client-secret"
)

// GrantType is an OAuth grant type (RFC 6749, RFC 8628).
// +kubebuilder:validation:Enum=AuthorizationCode;RefreshToken;ClientCredentials;DeviceCode
type GrantType string

// The grant types.
const (
	// GrantTypeAuthorizationCode exchanges a code that a user's browser brought (RFC 6749 4.1).
	GrantTypeAuthorizationCode GrantType = "AuthorizationCode"
	// GrantTypeRefreshToken exchanges a refresh token (RFC 6749 6).
	GrantTypeRefreshToken GrantType = "RefreshToken"
	// GrantTypeClientCredentials issues tokens that name the client itself (RFC 6749 4.4).
	GrantTypeClientCredentials GrantType = "ClientCredentials"
	// GrantTypeDeviceCode exchanges the code of a device, after a user has approved it (RFC 8628).
	GrantTypeDeviceCode GrantType = "DeviceCode"
)

// ClientAuthentication is how a client authenticates.
// +kubebuilder:validation:Enum=ClientSecretBasic;ClientSecretPost;PrivateKeyJWT;None
type ClientAuthentication string

// The ways a client authenticates.
const (
	ClientAuthenticationSecretBasic   ClientAuthentication = "ClientSecretBasic"
	ClientAuthenticationSecretPost    ClientAuthentication = "ClientSecretPost"
	ClientAuthenticationPrivateKeyJWT ClientAuthentication = "PrivateKeyJWT"
	ClientAuthenticationNone          ClientAuthentication = "None"
)

// Consent selects whether users are asked before a client gets a token for them.
// +kubebuilder:validation:Enum=Required;Skip
type Consent string

// The consent modes.
const (
	ConsentRequired Consent = "Required"
	ConsentSkip     Consent = "Skip"
)

// AccessTokenFormat is the format of access tokens.
// +kubebuilder:validation:Enum=JWT;Opaque
type AccessTokenFormat string

// The formats of access tokens.
const (
	AccessTokenFormatJWT    AccessTokenFormat = "JWT"
	AccessTokenFormatOpaque AccessTokenFormat = "Opaque"
)

// TokenSigningAlg is the algorithm that signs tokens for clients.
// +kubebuilder:validation:Enum=ES256;RS256
type TokenSigningAlg string

// RedirectURI is an address to which browsers are redirected after an authorization: an https URL, an http URL of the
// user's machine (`127.0.0.1`, `[::1]`, `localhost`, any port), or, for public clients, a URL with an app's own scheme.
// It has no fragment and no wildcard.
// +kubebuilder:validation:MinLength=5
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9+.-]*:[!"$-)+-~]+$`
// +kubebuilder:validation:XValidation:rule="!self.startsWith('http:') || self.matches('^http://(127[.]0[.]0[.]1|\\\\[::1\\\\]|localhost)([:/?].*)?$')",message="http is only for 127.0.0.1, [::1] and localhost: use https"
type RedirectURI string

// AccessTokenSettings configure the access tokens of a client.
type AccessTokenSettings struct {
	// format is `JWT` (RFC 9068), which APIs verify with the app's keys, or `Opaque`, which only introspection can read.
	// Absent: JWT.
	// +optional
	Format *AccessTokenFormat `json:"format,omitempty"`

	// lifetimeSeconds is how long an access token is valid, 60 to 86400 seconds. Absent: 600.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	LifetimeSeconds *int32 `json:"lifetimeSeconds,omitempty"`
}

// RefreshTokenSettings configure how long a client may get new tokens without the user.
// +kubebuilder:validation:XValidation:rule="(has(self.idleSeconds) ? self.idleSeconds : 604800) <= (has(self.lifetimeSeconds) ? self.lifetimeSeconds : 2592000)",message="idleSeconds (absent: 604800) must be at most lifetimeSeconds (absent: 2592000)"
type RefreshTokenSettings struct {
	// lifetimeSeconds is how long a client may refresh after the authorization, 600 to 31536000 seconds. Absent: 2592000
	// (30 days).
	// +optional
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=31536000
	LifetimeSeconds *int32 `json:"lifetimeSeconds,omitempty"`

	// idleSeconds is how long an unused refresh token is valid, 600 to 31536000 seconds. Absent: 604800 (7 days).
	// +optional
	// +kubebuilder:validation:Minimum=600
	// +kubebuilder:validation:Maximum=31536000
	IdleSeconds *int32 `json:"idleSeconds,omitempty"`
}

// ClientSecretKeys name the keys of a client's Secret.
// +kubebuilder:validation:XValidation:rule="(has(self.clientID) ? self.clientID : 'client-id') != (has(self.clientSecret) ? self.clientSecret : 'client-secret')",message="clientID and clientSecret must be different keys"
type ClientSecretKeys struct {
	// clientID is the key that holds the client's id, at most 100 characters. Absent: client-id.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	ClientID *string `json:"clientID,omitempty"`

	// clientSecret is the key that holds the secret, at most 100 characters. The previous secret is under `previous-` and
	// this name. Absent: client-secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	ClientSecret *string `json:"clientSecret,omitempty"`
}

// ClientSecretTemplate describes the Secret that the operator generates for a client.
type ClientSecretTemplate struct {
	SecretTemplate `json:",inline"`

	// keys name the keys of the Secret's data. Absent: client-id and client-secret.
	// +optional
	Keys *ClientSecretKeys `json:"keys,omitempty"`
}

// ExistingClientSecretReference names a key of a Secret in the same namespace that holds a client's secret.
type ExistingClientSecretReference struct {
	// name of the Secret, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key of the Secret's data that holds the client's secret, at most 128 characters. Absent: client-secret.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key *string `json:"key,omitempty"`
}

// ScopeName is the value of a scope: printable ASCII characters without blanks, `"` and `\` (RFC 6749 3.3).
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=200
// +kubebuilder:validation:Pattern=`^[\x21\x23-\x5B\x5D-\x7E]+$`
type ScopeName string

// OAuthClientSpec declares a client of an OAuth app.
// +kubebuilder:validation:XValidation:rule="(has(self.authentication) && self.authentication in ['PrivateKeyJWT', 'None']) ? !has(self.secretTemplate) && !has(self.existingSecretRef) : has(self.secretTemplate) != has(self.existingSecretRef)",message="a client that authenticates by a secret has exactly one of secretTemplate (the operator generates the secret) and existingSecretRef (you provide it); a client with authentication PrivateKeyJWT or None has neither"
// +kubebuilder:validation:XValidation:rule="(has(self.authentication) && self.authentication == 'PrivateKeyJWT') ? has(self.jwksURL) != has(self.jwksConfigMapRef) : !has(self.jwksURL) && !has(self.jwksConfigMapRef)",message="exactly one of jwksURL and jwksConfigMapRef is set with authentication PrivateKeyJWT, and neither without",fieldPath=".jwksURL"
// +kubebuilder:validation:XValidation:rule="!has(self.rotation) || has(self.secretTemplate)",message="rotation needs secretTemplate: to rotate a secret that you provide, write a new one to its Secret",fieldPath=".rotation"
// +kubebuilder:validation:XValidation:rule="!(has(self.authentication) && self.authentication == 'None') || !has(self.grantTypes) || !self.grantTypes.exists(g, g == 'ClientCredentials')",message="a client without authentication cannot use ClientCredentials, because every program could: set authentication or remove the grant type",fieldPath=".grantTypes"
// +kubebuilder:validation:XValidation:rule="!has(self.grantTypes) || !self.grantTypes.exists(g, g == 'RefreshToken') || self.grantTypes.exists(g, g in ['AuthorizationCode', 'DeviceCode'])",message="RefreshToken needs AuthorizationCode or DeviceCode, whose tokens are refreshed",fieldPath=".grantTypes"
// +kubebuilder:validation:XValidation:rule="(has(self.grantTypes) && !self.grantTypes.exists(g, g == 'AuthorizationCode')) || (has(self.redirectURIs) && self.redirectURIs.size() > 0)",message="AuthorizationCode (the default grant type) needs redirectURIs",fieldPath=".redirectURIs"
// +kubebuilder:validation:XValidation:rule="!has(self.machinePermissions) || (has(self.grantTypes) && self.grantTypes.exists(g, g == 'ClientCredentials'))",message="machinePermissions are only for ClientCredentials: add it to grantTypes",fieldPath=".machinePermissions"
// +kubebuilder:validation:XValidation:rule="!(has(self.consent) && self.consent == 'Skip') || !(has(self.authentication) && self.authentication == 'None') || (has(self.redirectURIs) && self.redirectURIs.exists(u, u.startsWith('https://')))",message="a client without authentication needs an https redirect URI to skip the consent, because any local program could pass as it",fieldPath=".consent"
type OAuthClientSpec struct {
	CommonSpec `json:",inline"`

	// oauthAppRef names the OAuthApp to which this client belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="oauthAppRef is immutable: create another OAuthClient for the other app"
	OAuthAppRef OAuthAppReference `json:"oauthAppRef"`

	// displayName is the client's name for users, shown when they are asked for consent. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// redirectURIs are the addresses to which browsers may be redirected after an authorization. They are compared
	// character by character, except for the port of addresses on the user's machine. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	RedirectURIs []RedirectURI `json:"redirectURIs,omitempty"`

	// postLogoutRedirectURIs are the addresses to which browsers may be redirected after a sign-out that the client
	// requested. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	PostLogoutRedirectURIs []RedirectURI `json:"postLogoutRedirectURIs,omitempty"`

	// grantTypes are the grant types that the client may use. Absent: AuthorizationCode.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	GrantTypes []GrantType `json:"grantTypes,omitempty"`

	// authentication is how the client authenticates. `ClientSecretBasic`, `ClientSecretPost`: with a secret, which it may
	// send either way. `PrivateKeyJWT`: with a token that it signs (RFC 7523). `None`: a public client, which does not
	// authenticate. Absent: ClientSecretBasic.
	// +optional
	Authentication *ClientAuthentication `json:"authentication,omitempty"`

	// jwksURL is the https URL of the client's JSON Web Key Set. Absent: see jwksConfigMapRef.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https://[!-~]+$`
	JWKSURL *string `json:"jwksURL,omitempty"`

	// jwksConfigMapRef names the ConfigMap and key that hold the client's keys as a JSON Web Key Set. Absent: see jwksURL.
	// +optional
	JWKSConfigMapRef *ConfigMapKeyReference `json:"jwksConfigMapRef,omitempty"`

	// scopes are the scopes that the client may request. Absent: all scopes of the app that are not archived.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	Scopes []ScopeName `json:"scopes,omitempty"`

	// resources are the resources of the app for which the client may request tokens. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	Resources []ResourceURI `json:"resources,omitempty"`

	// consent selects whether users are asked. `Required`: users are asked. `Skip`, for your own clients: users are not
	// asked, except once for `offline_access`, which outlives the sign-in. Absent: Required.
	// +optional
	Consent *Consent `json:"consent,omitempty"`

	// accessToken configures access tokens. Absent: each of its fields has its own meaning when absent.
	// +optional
	AccessToken *AccessTokenSettings `json:"accessToken,omitempty"`

	// refreshToken configures how long the client may refresh. Absent: each of its fields has its own meaning when absent.
	// +optional
	RefreshToken *RefreshTokenSettings `json:"refreshToken,omitempty"`

	// machinePermissions are the claim `permissions` of tokens by ClientCredentials: built-in names such as `users:read`,
	// or names of the deployment's catalog. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=128
	MachinePermissions []Permission `json:"machinePermissions,omitempty"`

	// idTokenSigningAlg signs the client's ID tokens. Absent: the app's.
	// +optional
	IDTokenSigningAlg *TokenSigningAlg `json:"idTokenSigningAlg,omitempty"`

	// userinfoSigningAlg signs the responses of the userinfo endpoint. Absent: the responses are plain JSON.
	// +optional
	UserinfoSigningAlg *TokenSigningAlg `json:"userinfoSigningAlg,omitempty"`

	// backchannelLogoutURI gets a POST with a logout token when a session of the client ends. Absent: the client is not
	// notified.
	// +optional
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https://[!"$-~]+$`
	BackchannelLogoutURI *string `json:"backchannelLogoutURI,omitempty"`

	// allowedOrigins are the origins whose pages may call the token endpoint. Absent: for a public client, the origins
	// of its https redirect URIs; for other clients, none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	AllowedOrigins []Origin `json:"allowedOrigins,omitempty"`

	// requirePAR refuses authorization requests that were not pushed before (RFC 9126). Absent: false.
	// +optional
	RequirePAR *bool `json:"requirePAR,omitempty"`

	// assurance is the level that the client requires of its users, whatever it requests. Absent: each of its fields has
	// its own meaning when absent.
	// +optional
	Assurance *ClientAssurance `json:"assurance,omitempty"`

	// rateLimitSchemeRef names the scheme that limits the client's tokens in the decision API. Absent: the deployment's
	// default.
	// +optional
	RateLimitSchemeRef *RateLimitSchemeReference `json:"rateLimitSchemeRef,omitempty"`

	// logoURL is the URL of the client's logo, shown on the consent page. Absent: none.
	// +optional
	LogoURL *URL `json:"logoURL,omitempty"`

	// clientURI is the URL of a page about the client. Absent: none.
	// +optional
	ClientURI *URL `json:"clientURI,omitempty"`
	// policyURI is the URL of the client's privacy policy. Absent: none.
	// +optional
	PolicyURI *URL `json:"policyURI,omitempty"`
	// tosURI is the URL of the client's terms of service. Absent: none.
	// +optional
	TOSURI *URL `json:"tosURI,omitempty"`

	// active lets the client be used. Absent: true.
	// +optional
	Active *bool `json:"active,omitempty"`

	// secretTemplate lets the operator generate the client's secret. It creates a Secret with the secret and the client's
	// id. Absent: see existingSecretRef.
	// +optional
	SecretTemplate *ClientSecretTemplate `json:"secretTemplate,omitempty"`

	// existingSecretRef adopts a secret that you provide, 32 to 512 visible ASCII characters. The operator waits for a
	// missing Secret and never changes it. Absent: see secretTemplate.
	// +optional
	ExistingSecretRef *ExistingClientSecretReference `json:"existingSecretRef,omitempty"`

	// rotation replaces a generated secret at an interval, with an overlap in which both are accepted. Absent: never.
	// +optional
	Rotation *KeyRotation `json:"rotation,omitempty"`
}

// OAuthClientStatus is what the operator observed. It never carries the secret.
type OAuthClientStatus struct {
	CommonStatus `json:",inline"`

	// clientID is the client_id of the protocol: the resource's id.
	// +optional
	// +kubebuilder:validation:MaxLength=19
	ClientID string `json:"clientID,omitempty"`

	// secretName is the Secret that holds the client's secret.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SecretName string `json:"secretName,omitempty"`

	// lastRotatedAt is when the current secret was issued.
	// +optional
	LastRotatedAt *metav1.Time `json:"lastRotatedAt,omitempty"`

	// nextRotationAt is when the operator will rotate the secret. Absent: no rotation is declared.
	// +optional
	NextRotationAt *metav1.Time `json:"nextRotationAt,omitempty"`
}

// OAuthClient is a program that gets tokens from an OAuth app.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=oclient,categories=cardea
// +kubebuilder:printcolumn:name="App",type=string,JSONPath=`.spec.oauthAppRef.name`,description="The OAuthApp to which it belongs"
// +kubebuilder:printcolumn:name="Client ID",type=string,JSONPath=`.status.clientID`,description="The client_id of the protocol"
// +kubebuilder:printcolumn:name="Secret",type=string,JSONPath=`.status.secretName`,description="The Secret that holds its secret"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type OAuthClient struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the client.
	// +required
	Spec OAuthClientSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status OAuthClientStatus `json:"status,omitzero"`
}

// OAuthClientList is a list of OAuthClients.
// +kubebuilder:object:root=true
type OAuthClientList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the OAuthClients.
	Items []OAuthClient `json:"items"`
}

// CommonSpec implements Resource.
func (o *OAuthClient) CommonSpec() *CommonSpec { return &o.Spec.CommonSpec }

// CommonStatus implements Resource.
func (o *OAuthClient) CommonStatus() *CommonStatus { return &o.Status.CommonStatus }
