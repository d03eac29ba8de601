package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ConnectionSpec declares a connection.
// +kubebuilder:validation:XValidation:rule="has(self.oidc) == (self.type == 'OIDC')",message="oidc is required with type OIDC, and not allowed with another: write the issuer there, or remove it",fieldPath=".oidc"
// +kubebuilder:validation:XValidation:rule="has(self.microsoft) == (self.type == 'Microsoft')",message="microsoft is required with type Microsoft, and not allowed with another: write the tenant there, or remove it",fieldPath=".microsoft"
// +kubebuilder:validation:XValidation:rule="has(self.apple) == (self.type == 'Apple')",message="apple is required with type Apple, and not allowed with another: write teamID and keyID there, or remove it",fieldPath=".apple"
// +kubebuilder:validation:XValidation:rule="!has(self.google) || self.type == 'Google'",message="google is only for type Google: remove it",fieldPath=".google"
// +kubebuilder:validation:XValidation:rule="!has(self.github) || self.type == 'GitHub'",message="github is only for type GitHub: remove it",fieldPath=".github"
// +kubebuilder:validation:XValidation:rule="!has(self.gitlab) || self.type == 'GitLab'",message="gitlab is only for type GitLab: remove it",fieldPath=".gitlab"
// +kubebuilder:validation:XValidation:rule="has(self.saml) == (self.type == 'SAML')",message="saml is required with type SAML, and not allowed with another: write metadataURL or metadataConfigMapRef there, or remove it",fieldPath=".saml"
// +kubebuilder:validation:XValidation:rule="has(self.client) == (self.type != 'SAML')",message="client is required with all types but SAML, and not allowed with SAML: write clientID and the Secret there, or remove it",fieldPath=".client"
// +kubebuilder:validation:XValidation:rule="!has(self.client) || !has(self.client.authentication) || !(self.type in ['GitHub', 'Apple'])",message="authentication is not allowed with types GitHub and Apple, which accept one way only: remove it",fieldPath=".client"
// +kubebuilder:validation:XValidation:rule="!has(self.client) || ((self.type == 'Apple' || (has(self.client.authentication) && self.client.authentication == 'PrivateKeyJWT')) ? has(self.client.privateKeySecretRef) : has(self.client.clientSecretRef))",message="authentication PrivateKeyJWT and type Apple need client.privateKeySecretRef, everything else client.clientSecretRef: name the Secret there",fieldPath=".client"
// +kubebuilder:validation:XValidation:rule="!has(self.scopes) || self.type in ['GitHub', 'Apple', 'SAML'] || 'openid' in self.scopes",message="without the scope openid the provider issues no ID token: add openid",fieldPath=".scopes"
// +kubebuilder:validation:XValidation:rule="!has(self.scopes) || self.type != 'SAML'",message="type SAML has no scopes, because the identity provider chooses the attributes: remove scopes, and configure the attributes there",fieldPath=".scopes"
// +kubebuilder:validation:XValidation:rule="self.type != 'SAML' || !has(self.authorizationParameters) || self.authorizationParameters.all(p, p.name == 'acr_values')",message="type SAML has no parameter but acr_values, the requested AuthnContextClassRefs: remove the others",fieldPath=".authorizationParameters"
// +kubebuilder:validation:XValidation:rule="self.type != 'SAML' || !has(self.assurance) || !has(self.assurance.amr)",message="assertions of SAML have no amr: write AuthnContextClassRefs into assurance.acr, and remove assurance.amr",fieldPath=".assurance"
// +kubebuilder:validation:XValidation:rule="self.type != 'Google' || !has(self.authorizationParameters) || self.authorizationParameters.all(p, p.name != 'hd')",message="Cardea sets hd from google.hostedDomains: list the domains there",fieldPath=".authorizationParameters"
// +kubebuilder:validation:XValidation:rule="!has(self.membership) || has(self.organization)",message="membership needs organization: name the organization whose members users become, or remove membership",fieldPath=".membership"
// +kubebuilder:validation:XValidation:rule="!has(self.enforcement) || self.enforcement != 'Members' || has(self.organization)",message="enforcement Members needs organization: name the organization, or use Domains",fieldPath=".enforcement"
// +kubebuilder:validation:XValidation:rule="!has(self.enforcement) || self.enforcement != 'Domains' || has(self.organization) || (has(self.domains) && self.domains.size() > 0)",message="enforcement Domains needs domains or organization: list the domains, or name the organization",fieldPath=".enforcement"
// +kubebuilder:validation:XValidation:rule="has(self.organization) == has(oldSelf.organization) && (!has(self.organization) || self.organization == oldSelf.organization)",message="organization is immutable, also whether there is one: create another Connection",fieldPath=".organization"
type ConnectionSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment whose users sign in by this connection. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another Connection for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// slug is the connection's name in analytics (`sso:<slug>`) and imports, unique in the deployment. Immutable.
	// +required
	Slug Slug `json:"slug"`

	// type is the type of the identity provider. `OIDC`: any OpenID provider. `SAML`: any provider of SAML 2.0. `Google`,
	// `Microsoft`, `GitHub`, `GitLab` and `Apple`: that provider, whose URLs and rules are built in. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="type is immutable: create another Connection"
	Type ConnectionType `json:"type"`

	// displayName is the name on buttons. Absent: the provider's name, or the slug for types OIDC
	// and SAML.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// logoURL is the URL of the picture on buttons, which browsers fetch. Absent: the provider's own, or none for types
	// OIDC and SAML.
	// +optional
	LogoURL *UpstreamURL `json:"logoURL,omitempty"`

	// active lets users sign in by this connection. `false`: no user does, and no Secret or ConfigMap is needed; the
	// users' identities stay. Absent: true.
	// +optional
	Active *bool `json:"active,omitempty"`

	// button selects where the connection is offered. `Shown`: on the sign-in page; an organization's connection is
	// offered to users who enter an address in one of its domains. `Hidden`: nowhere; its link leads to it. Absent:
	// Shown.
	// +optional
	Button *ConnectionButton `json:"button,omitempty"`

	// organization is the organization whose members sign in by this connection. The provider's word binds that
	// organization only. Immutable, also whether there is one. Absent: a connection for all users of the deployment.
	// +optional
	Organization *ConnectionOrganization `json:"organization,omitempty"`

	// domains are the domains whose mailboxes the identity provider controls: a sign-in with an address in one of them is
	// accepted for the account with that address, without a further proof. No DNS record is looked up: the declaration is
	// trusted. No other Connection of the deployment can list the same domain. Public suffixes are refused. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	Domains []DomainName `json:"domains,omitempty"`

	// enforcement selects which users must sign in by this connection. `Optional`: none. `Domains`: those with an address
	// in the domains of the connection or of its organization. `Members`: all members of the organization. Absent:
	// Optional.
	// +optional
	Enforcement *ConnectionEnforcement `json:"enforcement,omitempty"`

	// signUp selects whether the first sign-in of an unknown user creates an account. `Allowed`: it does. `Refused`: such
	// a user gets SSO_NOT_PROVISIONED. Absent: Allowed.
	// +optional
	SignUp *ConnectionSignUp `json:"signUp,omitempty"`

	// emailProof selects what verifies an address outside of domains. `Code`: an emailed code. `Upstream`: for a new
	// account, the provider's claim that the address is verified; an address that an account already has still needs a
	// code. `Upstream` changes nothing for type SAML, whose assertions do not say that an address is verified. Absent:
	// Code.
	// +optional
	EmailProof *EmailProof `json:"emailProof,omitempty"`

	// attributes name the claims, or the attributes of an assertion, that hold a user's attributes. Absent: each of its
	// fields has its own meaning when absent.
	// +optional
	Attributes *ConnectionAttributes `json:"attributes,omitempty"`

	// membership configures how users become members of organization. Absent: each of its fields has its own meaning when
	// absent.
	// +optional
	Membership *ConnectionMembership `json:"membership,omitempty"`

	// assurance says what makes a sign-in assurance level 2. Absent: every sign-in by this connection is level 1.
	// +optional
	Assurance *ConnectionAssurance `json:"assurance,omitempty"`

	// session bounds sign-ins by this connection. Absent: each of its fields has its own meaning when absent.
	// +optional
	Session *ConnectionSession `json:"session,omitempty"`

	// client is Cardea's registration at the identity provider, and is required with all types but SAML. Absent: type
	// SAML.
	// +optional
	Client UpstreamClient `json:"client,omitzero"`

	// scopes are the requested scopes. They are not allowed with type SAML. Absent: openid, email and profile; for GitHub
	// read:user and user:email; for Apple name and email.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Scopes []ScopeName `json:"scopes,omitempty"`

	// authorizationParameters are further parameters of the authorization requests. With type SAML only acr_values is
	// allowed: the AuthnContextClassRefs to request, separated by blanks. Absent: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	AuthorizationParameters []AuthorizationParameter `json:"authorizationParameters,omitempty"`

	// oidc describes the provider of type OIDC, and is required there. Absent: another type.
	// +optional
	OIDC *OIDCProvider `json:"oidc,omitempty"`

	// saml describes the provider of type SAML, and is required there. Absent: another type.
	// +optional
	SAML *SAMLProvider `json:"saml,omitempty"`

	// microsoft selects the tenants of type Microsoft, and is required there. Absent: another type.
	// +optional
	Microsoft *MicrosoftProvider `json:"microsoft,omitempty"`

	// google restricts type Google to domains of Google Workspace. Absent: every Google account.
	// +optional
	Google *GoogleProvider `json:"google,omitempty"`

	// github selects the instance of type GitHub. Absent: https://github.com.
	// +optional
	GitHub *HostedProvider `json:"github,omitempty"`

	// gitlab selects the instance of type GitLab. Absent: https://gitlab.com.
	// +optional
	GitLab *HostedProvider `json:"gitlab,omitempty"`

	// apple identifies the team and key of type Apple, and is required there. Absent: another type.
	// +optional
	Apple *AppleProvider `json:"apple,omitempty"`
}

// ConnectionStatus is what the operator observed.
type ConnectionStatus struct {
	CommonStatus `json:",inline"`

	// redirectURIs are the redirect URIs to register at the identity provider, one for each frontend host of the
	// deployment. They appear before the Secret exists, and stay the same in a cluster that is rebuilt from Git. Absent
	// for type SAML.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=2048
	RedirectURIs []string `json:"redirectURIs,omitempty"`

	// backchannelLogoutURL is the URL to register at the identity provider for logout tokens (OpenID Connect Back-Channel
	// Logout 1.0), on the first frontend host. Absent for type SAML.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	BackchannelLogoutURL string `json:"backchannelLogoutURL,omitempty"`

	// entityID is the entity ID of a connection of type SAML, to register at the identity provider:
	// spec.saml.spEntityID, or metadataURL.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	EntityID string `json:"entityID,omitempty"`

	// acsURLs are the assertion consumer service URLs of a connection of type SAML, to register at the identity
	// provider, one for each frontend host of the deployment. They appear before the keys exist, and stay the same in a
	// cluster that is rebuilt from Git.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=2048
	ACSURLs []string `json:"acsURLs,omitempty"`

	// metadataURL is where the identity provider reads the metadata of a connection of type SAML, on the first frontend
	// host. They have the entity ID, the URLs and the certificates.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	MetadataURL string `json:"metadataURL,omitempty"`

	// upstream is what servers fetched from the identity provider. The operator updates it once a minute. It is absent
	// before the first fetch, and for GitHub, which has no documents to fetch.
	// +optional
	Upstream *ConnectionUpstream `json:"upstream,omitempty"`
}

// ConnectionUpstream is what servers fetched from an identity provider.
type ConnectionUpstream struct {
	// fetchedAt is when a server fetched the provider's keys, or the metadata of type SAML, last, in UTC (RFC 3339).
	// +required
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:MaxLength=32
	FetchedAt string `json:"fetchedAt"`

	// sha256 is the SHA-256 of the document with the provider's keys, in hexadecimal digits. It changes when the provider
	// changes its keys.
	// +required
	// +kubebuilder:validation:MaxLength=64
	SHA256 string `json:"sha256"`

	// certificateExpiresAt is when the first certificate of the metadata of type SAML expires, in UTC (RFC 3339). Absent
	// for other types.
	// +optional
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:MaxLength=32
	CertificateExpiresAt string `json:"certificateExpiresAt,omitempty"`
}

// Connection is an identity provider by which users of a deployment, or members of one organization, sign in.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=conn,categories=cardea
// +kubebuilder:printcolumn:name="Slug",type=string,JSONPath=`.spec.slug`,description="Its name in analytics and imports"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`,description="The type of the identity provider"
// +kubebuilder:printcolumn:name="Organization",type=string,JSONPath=`.spec.organization.slug`,description="The organization whose members sign in by it"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`,priority=1,description="Whether servers have the documents of the identity provider"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type Connection struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the connection.
	// +required
	Spec ConnectionSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status ConnectionStatus `json:"status,omitzero"`
}

// ConnectionList is a list of Connections.
// +kubebuilder:object:root=true
type ConnectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the Connections.
	Items []Connection `json:"items"`
}

// CommonSpec implements Resource.
func (c *Connection) CommonSpec() *CommonSpec { return &c.Spec.CommonSpec }

// CommonStatus implements Resource.
func (c *Connection) CommonStatus() *CommonStatus { return &c.Status.CommonStatus }
