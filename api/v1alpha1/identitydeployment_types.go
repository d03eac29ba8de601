package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeploymentMode selects whether a deployment serves real users.
// +kubebuilder:validation:Enum=Production;Staging
type DeploymentMode string

const (
	// DeploymentModeProduction is for real users.
	DeploymentModeProduction DeploymentMode = "Production"
	// DeploymentModeStaging is for tests: the deployment may claim localhost and *.localhost, write messages to the log,
	// and send them over http.
	DeploymentModeStaging DeploymentMode = "Staging"
)

// FieldConflicts selects what a management write does to a field that another manager owns.
// +kubebuilder:validation:Enum=Reject;Override
type FieldConflicts string

const (
	// FieldConflictsReject returns 409 and names the manager.
	FieldConflictsReject FieldConflicts = "Reject"
	// FieldConflictsOverride takes the field over.
	FieldConflictsOverride FieldConflicts = "Override"
)

// ManagementWrites selects whether the management API may write.
// +kubebuilder:validation:Enum=Enabled;Disabled
type ManagementWrites string

const (
	// ManagementWritesEnabled lets the management API write this deployment's resources.
	ManagementWritesEnabled ManagementWrites = "Enabled"
	// ManagementWritesDisabled refuses every management write with 403.
	ManagementWritesDisabled ManagementWrites = "Disabled"
)

// Hostname is a lower-case DNS name without port and trailing dot, at most 253 characters.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
type Hostname string

// ManagementPolicy controls what the management API (the backend API of the docs) may do with a deployment's resources.
type ManagementPolicy struct {
	// fieldConflicts selects what a PATCH does if another manager owns a field that it changes. `Reject`: it returns 409
	// and names the manager. `Override`: it takes over the field. Absent: Reject.
	// +optional
	FieldConflicts *FieldConflicts `json:"fieldConflicts,omitempty"`

	// writes selects whether the management API may change resources. `Enabled`: it may, with the permission of each
	// operation. `Disabled`: every write returns 403, so that resources change only through the Kubernetes API, for
	// example from Git. Absent: Enabled.
	// +optional
	Writes *ManagementWrites `json:"writes,omitempty"`
}

// JWTAlgorithm is an asymmetric signature algorithm of JSON web tokens (RFC 7518).
// +kubebuilder:validation:Enum=RS256;PS256;ES256;EdDSA
type JWTAlgorithm string

// ConfigMapKeyReference names a key of a ConfigMap in the same namespace.
type ConfigMapKeyReference struct {
	// name of the ConfigMap, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`

	// key of the ConfigMap's data.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
}

// KubernetesIssuer verifies tokens of ServiceAccounts with the Kubernetes API.
type KubernetesIssuer struct{}

// OwnSessionsIssuer accepts the session tokens of the deployment's own end users.
type OwnSessionsIssuer struct{}

// Audience is a value of a token's aud claim, at most 200 printable ASCII characters.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=200
// +kubebuilder:validation:Pattern=`^[!-~]+$`
type Audience string

// OAuthAppIssuer accepts the tokens of one of the deployment's own OAuth apps.
type OAuthAppIssuer struct {
	// name of the OAuthApp resource, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// JWTIssuer declares an issuer whose tokens the management API accepts, and their permissions.
// +kubebuilder:validation:XValidation:rule="[has(self.jwksURL), has(self.jwksConfigMapRef), has(self.kubernetes), has(self.ownSessions), has(self.oauthApp)].filter(x, x).size() == 1",message="set exactly one of jwksURL, jwksConfigMapRef, kubernetes, ownSessions and oauthApp"
// +kubebuilder:validation:XValidation:rule="has(self.issuer) == (has(self.jwksURL) || has(self.jwksConfigMapRef))",message="issuer is required with jwksURL and jwksConfigMapRef, and must be absent with kubernetes, ownSessions and oauthApp, which imply it",fieldPath=".issuer"
// +kubebuilder:validation:XValidation:rule="has(self.oauthApp) ? !has(self.permissionsClaim) || !has(self.permissionsExpression) : has(self.permissionsClaim) != has(self.permissionsExpression)",message="set exactly one of permissionsClaim and permissionsExpression; with oauthApp both may be absent"
type JWTIssuer struct {
	// name of the entry, unique in the deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// issuer is the exact value of the tokens' iss claim. It is required with jwksURL and jwksConfigMapRef. Absent:
	// implied by kubernetes, ownSessions or oauthApp.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Issuer *string `json:"issuer,omitempty"`

	// audiences are the accepted values of the tokens' aud claim. Each pair of issuer and audience belongs to one
	// deployment of the install. Absent: `cardea:<namespace>:<name>` of the deployment.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Audiences []Audience `json:"audiences,omitempty"`

	// algorithms are the accepted signature algorithms, `RS256`, `PS256`, `ES256`, `EdDSA`. Absent: all of these. With
	// ownSessions, only ES256 is accepted, whatever this field says.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Algorithms []JWTAlgorithm `json:"algorithms,omitempty"`

	// jwksURL is the https URL of the issuer's JSON Web Key Set. Absent: see the other sources of keys.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https://[!-~]+$`
	JWKSURL *string `json:"jwksURL,omitempty"`

	// jwksConfigMapRef names the ConfigMap and key that hold the issuer's keys as a JSON Web Key Set. Absent: see the
	// other sources of keys.
	// +optional
	JWKSConfigMapRef *ConfigMapKeyReference `json:"jwksConfigMapRef,omitempty"`

	// kubernetes verifies tokens of ServiceAccounts with the Kubernetes API. Absent: see the other sources of keys.
	// +optional
	Kubernetes *KubernetesIssuer `json:"kubernetes,omitempty"`

	// ownSessions verifies the session tokens that the deployment signs for its end users. Their issuer is `https://` and
	// the first of frontendHosts. Absent: see the other sources of keys.
	// +optional
	OwnSessions *OwnSessionsIssuer `json:"ownSessions,omitempty"`

	// oauthApp verifies tokens that an OAuthApp of this deployment issued to clients by ClientCredentials. Issuer and keys
	// are the app's, and the audiences must be in its resources. Absent: see the other sources of keys.
	// +optional
	OAuthApp *OAuthAppIssuer `json:"oauthApp,omitempty"`

	// maxLifetimeSeconds is the maximum time between a token's iat (or now, if it has none) and its exp, 60 to 31536000
	// seconds. Absent: 86400 (a day), or unbounded with kubernetes, whose API bounds its tokens itself.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=31536000
	MaxLifetimeSeconds *int32 `json:"maxLifetimeSeconds,omitempty"`

	// permissionsClaim names the claim with the token's permissions: a list, or words separated by blanks. Absent: see
	// permissionsExpression. If oauthApp is set and both fields are absent: the claim `permissions`, which has the
	// client's machinePermissions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	PermissionsClaim *string `json:"permissionsClaim,omitempty"`

	// permissionsExpression is a CEL expression over `claims`, the token's payload, that returns the list of its
	// permissions. The functions join, replace and split are not available. The expression grants nothing if a string in
	// the token has more than 4096 bytes. Absent: see permissionsClaim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	PermissionsExpression *string `json:"permissionsExpression,omitempty"`
}

// PermissionCatalog lists the permissions that roles and scopes of a deployment may use.
type PermissionCatalog struct {
	// organization lists the permissions of organization roles. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=500
	Organization []CatalogPermission `json:"organization,omitempty"`

	// workspace lists the permissions of workspace roles. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=500
	Workspace []CatalogPermission `json:"workspace,omitempty"`
}

// IdentityDeploymentSpec declares a tenant.
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.frontendHosts) || !self.frontendHosts.exists(h, h == 'localhost' || h.endsWith('.localhost'))",message="only a deployment with mode Staging may claim localhost: set mode to Staging or use a public host name",fieldPath=".frontendHosts"
// +kubebuilder:validation:XValidation:rule="!has(self.jwtIssuers) || !self.jwtIssuers.exists(i, has(i.ownSessions)) || (has(self.frontendHosts) && self.frontendHosts.size() > 0)",message="an issuer with ownSessions needs frontendHosts, because the first host is its issuer: add a host",fieldPath=".jwtIssuers"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.email) || !has(self.email.log)",message="only a deployment with mode Staging may write mail to the log: set mode to Staging or use smtp",fieldPath=".email.log"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.sms) || !has(self.sms.testNumbers)",message="only a deployment with mode Staging may have test numbers, whose codes are in its resource: set mode to Staging or remove them",fieldPath=".sms.testNumbers"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.sms) || self.sms.provider != 'Log'",message="only a deployment with mode Staging may write messages to the log: set mode to Staging or use another provider",fieldPath=".sms.provider"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.sms) || !has(self.sms.twilio) || !has(self.sms.twilio.baseURL) || self.sms.twilio.baseURL.startsWith('https://')",message="only a deployment with mode Staging may send over http: set mode to Staging or use https",fieldPath=".sms.twilio.baseURL"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.sms) || !has(self.sms.webhook) || self.sms.webhook.url.startsWith('https://')",message="only a deployment with mode Staging may send over http: set mode to Staging or use https",fieldPath=".sms.webhook.url"
// +kubebuilder:validation:XValidation:rule="!(has(self.assurance) && has(self.assurance.required) && self.assurance.required == 'PhishingResistant') || (!(has(self.signIn) && has(self.signIn.passkey) && has(self.signIn.passkey.enabled) && !self.signIn.passkey.enabled) && (has(self.frontendHosts) && self.frontendHosts.size() > 0))",message="PhishingResistant needs passkeys and a host where they are used: remove signIn.passkey.enabled: false and add a host to frontendHosts, or require TwoFactors",fieldPath=".assurance.required"
// +kubebuilder:validation:XValidation:rule="!(has(self.assurance) && has(self.assurance.required) && self.assurance.required == 'TwoFactors') || (!(has(self.signIn) && has(self.signIn.passkey) && has(self.signIn.passkey.enabled) && !self.signIn.passkey.enabled) && (has(self.frontendHosts) && self.frontendHosts.size() > 0)) || !(has(self.secondFactor) && has(self.secondFactor.totp) && has(self.secondFactor.totp.enabled) && !self.secondFactor.totp.enabled) || (has(self.secondFactor) && has(self.secondFactor.sms) && has(self.secondFactor.sms.enabled) && self.secondFactor.sms.enabled)",message="TwoFactors needs a second factor: enable one of secondFactor.totp, secondFactor.sms and signIn.passkey (with a host in frontendHosts)",fieldPath=".assurance.required"
// +kubebuilder:validation:XValidation:rule="!(has(self.secondFactor) && has(self.secondFactor.sms) && has(self.secondFactor.sms.enabled) && self.secondFactor.sms.enabled) || has(self.sms)",message="texts as a second factor need spec.sms, which sends them: add sms or remove secondFactor.sms.enabled",fieldPath=".secondFactor.sms.enabled"
// +kubebuilder:validation:XValidation:rule="!(has(self.secondFactor) && has(self.secondFactor.sms) && has(self.secondFactor.sms.enabled) && self.secondFactor.sms.enabled) || !(has(self.signIn) && has(self.signIn.passkey) && has(self.signIn.passkey.enabled) && !self.signIn.passkey.enabled) || !(has(self.secondFactor) && has(self.secondFactor.totp) && has(self.secondFactor.totp.enabled) && !self.secondFactor.totp.enabled)",message="texts as a second factor need another factor beside them, because phone numbers can be taken over: enable secondFactor.totp or signIn.passkey",fieldPath=".secondFactor.sms.enabled"
// +kubebuilder:validation:XValidation:rule="!(has(self.signIn) && has(self.signIn.passkey) && has(self.signIn.passkey.relyingPartyID)) || (has(self.frontendHosts) && self.frontendHosts.exists(h, h == self.signIn.passkey.relyingPartyID || h.endsWith('.' + self.signIn.passkey.relyingPartyID)))",message="relyingPartyID must be one of frontendHosts or a parent domain of one: correct it, add the host to frontendHosts, or remove it for the first of frontendHosts",fieldPath=".signIn.passkey.relyingPartyID"
type IdentityDeploymentSpec struct {
	CommonSpec `json:",inline"`

	// displayName is the deployment's name for people. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// mode selects whether the deployment serves real users. `Production`: for real users. `Staging`: for tests; the
	// deployment may claim localhost and *.localhost, write messages to the log, and send them over http. Absent:
	// Production.
	// +optional
	Mode *DeploymentMode `json:"mode,omitempty"`

	// frontendHosts are the host names of this deployment, each unique in the install. The host of a request selects the
	// deployment. Absent: the deployment serves no end users.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	FrontendHosts []Hostname `json:"frontendHosts,omitempty"`

	// allowedOrigins are further origins whose pages may call the end-user API with credentials, in addition to the
	// deployment's own hosts. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	AllowedOrigins []Origin `json:"allowedOrigins,omitempty"`

	// session configures how long end users stay signed in. Absent: each of its fields has its own meaning when absent.
	// +optional
	Session *SessionSettings `json:"session,omitempty"`

	// signIn configures how end users sign in. Absent: each of its fields has its own meaning when absent.
	// +optional
	SignIn *SignInSettings `json:"signIn,omitempty"`

	// connections configures the connections that organizations and backends set up, and permits them. Absent: there are
	// only Connection resources, and connections that were set up before have no effect.
	// +optional
	Connections *OrganizationConnections `json:"connections,omitempty"`

	// secondFactor configures the second factors of end users, in addition to passkeys, which signIn configures. Absent:
	// each of its fields has its own meaning when absent.
	// +optional
	SecondFactor *SecondFactorSettings `json:"secondFactor,omitempty"`

	// assurance is the level that the deployment requires of every sign-in. Absent: OneFactor.
	// +optional
	Assurance *DeploymentAssurance `json:"assurance,omitempty"`

	// email configures how mail to end users is sent. Absent: no mail is sent, and operations that need mail, such as
	// sign-up, are not available.
	// +optional
	Email *EmailSettings `json:"email,omitempty"`

	// sms configures how text messages to end users are sent. Absent: no texts are sent, and phone numbers cannot be
	// verified.
	// +optional
	SMS *SMSSettings `json:"sms,omitempty"`

	// pages configures the pages that end users see in a browser. Absent: each of its fields has its own meaning when
	// absent.
	// +optional
	Pages *PagesSettings `json:"pages,omitempty"`

	// analytics configures the personal data that analytics keeps about sign-ins and sign-ups. Absent: each of its fields
	// has its own meaning when absent.
	// +optional
	Analytics *AnalyticsSettings `json:"analytics,omitempty"`

	// defaultRateLimitSchemeRef names the scheme of apps and keys without their own scheme, of keys that manage the
	// deployment over HTTP, and of users with a session token. Absent: they are not limited.
	// +optional
	DefaultRateLimitSchemeRef *RateLimitSchemeReference `json:"defaultRateLimitSchemeRef,omitempty"`

	// management controls what the management API may do with this deployment's resources. Absent: each of its fields has
	// its own meaning when absent.
	// +optional
	Management *ManagementPolicy `json:"management,omitempty"`

	// jwtIssuers are the issuers whose tokens the management API accepts, in addition to API keys. Absent: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	JWTIssuers []JWTIssuer `json:"jwtIssuers,omitempty"`

	// permissionCatalog lists the permissions that roles and scopes of the deployment may use. Absent: none.
	// +optional
	PermissionCatalog *PermissionCatalog `json:"permissionCatalog,omitempty"`
}

// IdentityDeploymentStatus is what the operator observed.
type IdentityDeploymentStatus struct {
	CommonStatus `json:",inline"`

	// passkeys is where passkeys can be used. Absent: passkeys are disabled, or there is no frontend host.
	// +optional
	Passkeys *PasskeyStatus `json:"passkeys,omitempty"`

	// webhookPublicKeys verify the signatures of calls of Function and Webhook tools, and of webhooks with the scheme
	// Ed25519, the current key first. They are also served at `/.well-known/webhook-keys.json` of the frontend hosts.
	// Absent: there is no frontend host, or the operator has no root key.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=2
	WebhookPublicKeys []WebhookPublicKey `json:"webhookPublicKeys,omitempty"`
}

// WebhookPublicKey verifies Ed25519 signatures of Standard Webhooks.
type WebhookPublicKey struct {
	// id is the key's thumbprint (RFC 7638).
	// +required
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`

	// publicKey is `whpk_` and the base64 of the key.
	// +required
	// +kubebuilder:validation:MaxLength=64
	PublicKey string `json:"publicKey"`

	// expiresAt is when a replaced key stops signing. Absent: it signs.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
}

// IdentityDeployment is a tenant: the "deployment" of the HTTP interface. Apps, keys, schemes and users belong to
// exactly one deployment; resources are in its namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=idep,categories=cardea
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`,description="The deployment_id of the HTTP interface"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="Production when empty"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of an IdentityDeployment has at most 63 characters: choose a shorter one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type IdentityDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the deployment. Absent: the same as a spec in which every field is absent.
	// +optional
	Spec IdentityDeploymentSpec `json:"spec,omitzero"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status IdentityDeploymentStatus `json:"status,omitzero"`
}

// IdentityDeploymentList is a list of IdentityDeployments.
// +kubebuilder:object:root=true
type IdentityDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the IdentityDeployments.
	Items []IdentityDeployment `json:"items"`
}

// CommonSpec implements Resource.
func (d *IdentityDeployment) CommonSpec() *CommonSpec { return &d.Spec.CommonSpec }

// CommonStatus implements Resource.
func (d *IdentityDeployment) CommonStatus() *CommonStatus { return &d.Status.CommonStatus }
