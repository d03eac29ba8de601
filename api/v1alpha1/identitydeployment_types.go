package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// DeploymentMode reports whether a deployment serves real users.
// +kubebuilder:validation:Enum=Production;Staging
type DeploymentMode string

const (
	// DeploymentModeProduction is for real users.
	DeploymentModeProduction DeploymentMode = "Production"
	// DeploymentModeStaging is for trying things out: it may claim localhost and *.localhost, write messages to the log, and
	// send them over http.
	DeploymentModeStaging DeploymentMode = "Staging"
)

// FieldConflicts says what a management write does to a field another manager owns.
// +kubebuilder:validation:Enum=Reject;Override
type FieldConflicts string

const (
	// FieldConflictsReject answers 409 and names the manager.
	FieldConflictsReject FieldConflicts = "Reject"
	// FieldConflictsOverride takes the field over.
	FieldConflictsOverride FieldConflicts = "Override"
)

// ManagementWrites reports whether the management API may write.
// +kubebuilder:validation:Enum=Enabled;Disabled
type ManagementWrites string

const (
	// ManagementWritesEnabled lets the management API write this deployment's resources.
	ManagementWritesEnabled ManagementWrites = "Enabled"
	// ManagementWritesDisabled answers every management write with 403.
	ManagementWritesDisabled ManagementWrites = "Disabled"
)

// Hostname is a lower-case DNS name without port and trailing dot, at most 253 characters.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
type Hostname string

// ManagementPolicy rules what the management API may do with a deployment's resources.
type ManagementPolicy struct {
	// fieldConflicts says what a PATCH does when another manager owns a field it changes. `Reject`: 409 naming the
	// manager. `Override`: the field is taken over. Absent: Reject.
	// +optional
	FieldConflicts *FieldConflicts `json:"fieldConflicts,omitempty"`

	// writes reports whether the management API may change anything. `Enabled`: by permission. `Disabled`: every write is
	// 403, so that Git alone decides. Absent: Enabled.
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

// KubernetesIssuer verifies tokens of ServiceAccounts by asking the Kubernetes API.
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

// JWTIssuer says whose tokens the management API accepts, and what they may do.
// +kubebuilder:validation:XValidation:rule="[has(self.jwksURL), has(self.jwksConfigMapRef), has(self.kubernetes), has(self.ownSessions), has(self.oauthApp)].filter(x, x).size() == 1",message="set exactly one of jwksURL, jwksConfigMapRef, kubernetes, ownSessions and oauthApp"
// +kubebuilder:validation:XValidation:rule="has(self.issuer) == (has(self.jwksURL) || has(self.jwksConfigMapRef))",message="issuer is required, but for kubernetes, ownSessions and oauthApp, where it is implied and left out",fieldPath=".issuer"
// +kubebuilder:validation:XValidation:rule="has(self.oauthApp) ? !has(self.permissionsClaim) || !has(self.permissionsExpression) : has(self.permissionsClaim) != has(self.permissionsExpression)",message="set exactly one of permissionsClaim and permissionsExpression; with oauthApp both may be absent"
type JWTIssuer struct {
	// name of the entry, unique in the deployment.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// issuer is the exact value of the tokens' iss claim. Absent: only with kubernetes and
	// ownSessions, where it is implied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=250
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Issuer *string `json:"issuer,omitempty"`

	// audiences are the accepted values of the tokens' aud claim; with the issuer they belong to one deployment of the
	// install. Absent: `cardea:<namespace>:<name>` of the deployment.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	Audiences []Audience `json:"audiences,omitempty"`

	// algorithms are the accepted signature algorithms, `RS256`, `PS256`, `ES256`, `EdDSA`. Absent: all of these.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=4
	Algorithms []JWTAlgorithm `json:"algorithms,omitempty"`

	// jwksURL is where the issuer's keys are, an https URL. Absent: see the other sources of keys.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https://[!-~]+$`
	JWKSURL *string `json:"jwksURL,omitempty"`

	// jwksConfigMapRef names the ConfigMap and key that hold the issuer's keys as a JSON Web Key Set. Absent: see the
	// other sources of keys.
	// +optional
	JWKSConfigMapRef *ConfigMapKeyReference `json:"jwksConfigMapRef,omitempty"`

	// kubernetes verifies tokens of ServiceAccounts by asking the Kubernetes API. Absent: see the other sources of keys.
	// +optional
	Kubernetes *KubernetesIssuer `json:"kubernetes,omitempty"`

	// ownSessions verifies tokens that the deployment signs itself for the sessions of its end users; their issuer is
	// `https://` and the first of frontendHosts. Absent: see the other sources of keys.
	// +optional
	OwnSessions *OwnSessionsIssuer `json:"ownSessions,omitempty"`

	// oauthApp verifies tokens that an OAuthApp of this deployment gave to clients by ClientCredentials; issuer and keys are its own, and the
	// audiences are among its resources. Absent: see the other sources of keys.
	// +optional
	OAuthApp *OAuthAppIssuer `json:"oauthApp,omitempty"`

	// maxLifetimeSeconds is the longest time between a token's issue (its iat, else now) and its exp. Absent: 86400, a
	// day; not bounded with kubernetes, whose API bounds its tokens itself.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=31536000
	MaxLifetimeSeconds *int32 `json:"maxLifetimeSeconds,omitempty"`

	// permissionsClaim names the claim that lists the token's permissions: a list, or words split by blanks. Absent: see
	// permissionsExpression; with oauthApp and without either: `permissions`, the client's machinePermissions.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	PermissionsClaim *string `json:"permissionsClaim,omitempty"`

	// permissionsExpression is a CEL expression over `claims`, the token's payload, that yields the list of its
	// permissions. It has no join, replace and split, and grants nothing where a string in the token has more than
	// 4096 bytes. Absent: see permissionsClaim.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	PermissionsExpression *string `json:"permissionsExpression,omitempty"`
}

// PermissionCatalog lists the permissions that roles and scopes of a deployment may name.
type PermissionCatalog struct {
	// organization are the permissions held in organizations. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=500
	Organization []CatalogPermission `json:"organization,omitempty"`

	// workspace are the permissions held in workspaces. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=500
	Workspace []CatalogPermission `json:"workspace,omitempty"`
}

// IdentityDeploymentSpec declares a tenant.
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.frontendHosts) || !self.frontendHosts.exists(h, h == 'localhost' || h.endsWith('.localhost'))",message="only a deployment with mode Staging may claim localhost: set mode to Staging or use a public host name",fieldPath=".frontendHosts"
// +kubebuilder:validation:XValidation:rule="!has(self.jwtIssuers) || !self.jwtIssuers.exists(i, has(i.ownSessions)) || (has(self.frontendHosts) && self.frontendHosts.size() > 0)",message="an issuer with ownSessions needs frontendHosts, whose first is its issuer: add a host",fieldPath=".jwtIssuers"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.email) || !has(self.email.log)",message="only a deployment with mode Staging may write mail to the log: set mode to Staging or use smtp",fieldPath=".email.log"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.sms) || !has(self.sms.testNumbers)",message="only a deployment with mode Staging may have test numbers, whose codes are in its resource: set mode to Staging or remove them",fieldPath=".sms.testNumbers"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.sms) || self.sms.provider != 'Log'",message="only a deployment with mode Staging may write messages to the log: set mode to Staging or use another provider",fieldPath=".sms.provider"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.sms) || !has(self.sms.twilio) || !has(self.sms.twilio.baseURL) || self.sms.twilio.baseURL.startsWith('https://')",message="only a deployment with mode Staging may send over http: set mode to Staging or use https",fieldPath=".sms.twilio.baseURL"
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'Staging') || !has(self.sms) || !has(self.sms.webhook) || self.sms.webhook.url.startsWith('https://')",message="only a deployment with mode Staging may send over http: set mode to Staging or use https",fieldPath=".sms.webhook.url"
type IdentityDeploymentSpec struct {
	CommonSpec `json:",inline"`

	// displayName is the deployment's name for people. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// mode reports whether the deployment serves real users. `Production`: it does. `Staging`: for trying things out; it
	// may claim localhost and *.localhost, write messages to the log, and send them over http. Absent: Production.
	// +optional
	Mode *DeploymentMode `json:"mode,omitempty"`

	// frontendHosts are the host names whose requests belong to this deployment, each unique in the install. Absent:
	// the deployment serves no end users.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	FrontendHosts []Hostname `json:"frontendHosts,omitempty"`

	// allowedOrigins are the origins, beside the deployment's own hosts, whose pages may call the end-user API with
	// credentials. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	AllowedOrigins []Origin `json:"allowedOrigins,omitempty"`

	// session says how long end users stay signed in. Absent: each of its fields has its own meaning when absent.
	// +optional
	Session *SessionSettings `json:"session,omitempty"`

	// signIn says how end users sign in. Absent: each of its fields has its own meaning when absent.
	// +optional
	SignIn *SignInSettings `json:"signIn,omitempty"`

	// email says how mail to end users is sent. Absent: none is sent, and what begins with a mail, such as signing up, is
	// not to be had.
	// +optional
	Email *EmailSettings `json:"email,omitempty"`

	// sms says how text messages to end users are sent. Absent: none are sent, and phone numbers cannot be verified.
	// +optional
	SMS *SMSSettings `json:"sms,omitempty"`

	// pages are about what end users see in a browser. Absent: each of its fields has its own meaning when absent.
	// +optional
	Pages *PagesSettings `json:"pages,omitempty"`

	// analytics says what analytics keeps of sign-ins and sign-ups. Absent: each of its fields has its own meaning when absent.
	// +optional
	Analytics *AnalyticsSettings `json:"analytics,omitempty"`

	// defaultRateLimitSchemeRef names the scheme of apps and keys that name none, also of keys that manage the deployment over HTTP,
	// and of people who call with a session token. Absent: they are not limited.
	// +optional
	DefaultRateLimitSchemeRef *RateLimitSchemeReference `json:"defaultRateLimitSchemeRef,omitempty"`

	// management rules what the management API may do with this deployment's resources. Absent: each of its fields
	// has its own meaning when absent.
	// +optional
	Management *ManagementPolicy `json:"management,omitempty"`

	// jwtIssuers are those whose tokens the management API accepts beside API keys. Absent: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	JWTIssuers []JWTIssuer `json:"jwtIssuers,omitempty"`

	// permissionCatalog lists the permissions that roles and scopes of the deployment may name. Absent: none.
	// +optional
	PermissionCatalog *PermissionCatalog `json:"permissionCatalog,omitempty"`
}

// IdentityDeploymentStatus is what the operator observed.
type IdentityDeploymentStatus struct {
	CommonStatus `json:",inline"`
}

// IdentityDeployment is a tenant: the "deployment" of the HTTP interface. Apps, keys, schemes and people belong to
// exactly one, in the same namespace.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=idep,categories=cardea
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`,description="The deployment_id of the HTTP interface"
// +kubebuilder:printcolumn:name="Mode",type=string,JSONPath=`.spec.mode`,description="Production when empty"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether what is declared is in force"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="the name of an IdentityDeployment has at most 63 characters: choose a shorter one"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: put the old value back",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id may be added to an existing resource only equal to its status.id: copy that value",fieldPath=".spec.id"
type IdentityDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the deployment. Absent: everything has its meaning when absent.
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
