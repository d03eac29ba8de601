package v1alpha1

// ConnectionButton selects where a connection is offered.
// +kubebuilder:validation:Enum=Shown;Hidden
type ConnectionButton string

const (
	// ConnectionButtonShown offers a connection of the deployment on the sign-in page, and an organization's connection
	// to users who enter an address in one of its domains.
	ConnectionButtonShown ConnectionButton = "Shown"
	// ConnectionButtonHidden offers a connection nowhere. Its link, or enforcement, leads to it.
	ConnectionButtonHidden ConnectionButton = "Hidden"
)

// ConnectionEnforcement selects which users must sign in by a connection.
// +kubebuilder:validation:Enum=Optional;Domains;Members
type ConnectionEnforcement string

const (
	// ConnectionEnforcementOptional leaves users every sign-in method.
	ConnectionEnforcementOptional ConnectionEnforcement = "Optional"
	// ConnectionEnforcementDomains refuses other sign-in methods to addresses in the domains of the connection and of its
	// organization.
	ConnectionEnforcementDomains ConnectionEnforcement = "Domains"
	// ConnectionEnforcementMembers refuses other sign-in methods to every member of the connection's organization, within
	// that organization.
	ConnectionEnforcementMembers ConnectionEnforcement = "Members"
)

// ConnectionSignUp selects whether the first sign-in of an unknown user creates an account.
// +kubebuilder:validation:Enum=Allowed;Refused
type ConnectionSignUp string

const (
	// ConnectionSignUpAllowed creates an account.
	ConnectionSignUpAllowed ConnectionSignUp = "Allowed"
	// ConnectionSignUpRefused answers SSO_NOT_PROVISIONED: only users with an account sign in.
	ConnectionSignUpRefused ConnectionSignUp = "Refused"
)

// EmailProof selects what verifies an address for which the identity provider is not authoritative.
// +kubebuilder:validation:Enum=Code;Upstream
type EmailProof string

const (
	// EmailProofCode sends a code to the address.
	EmailProofCode EmailProof = "Code"
	// EmailProofUpstream accepts the provider's claim that the address is verified, for a new account only. An address
	// that an account already has still needs a code.
	EmailProofUpstream EmailProof = "Upstream"
)

// RoleSync selects when roleExpression is applied.
// +kubebuilder:validation:Enum=EverySignIn;FirstSignIn
type RoleSync string

const (
	// RoleSyncEverySignIn sets the role at each sign-in, so that a role that the provider takes away is lost.
	RoleSyncEverySignIn RoleSync = "EverySignIn"
	// RoleSyncFirstSignIn sets the role when the user becomes a member. Later changes are made in the organization.
	RoleSyncFirstSignIn RoleSync = "FirstSignIn"
)

// ConnectionSignOut selects whether a sign-out continues at the identity provider.
// +kubebuilder:validation:Enum=Local;Upstream
type ConnectionSignOut string

const (
	// ConnectionSignOutLocal ends the sign-in here and leaves the provider's session alone.
	ConnectionSignOutLocal ConnectionSignOut = "Local"
	// ConnectionSignOutUpstream also leads the browser to the provider's end_session_endpoint, if the provider has one.
	ConnectionSignOutUpstream ConnectionSignOut = "Upstream"
)

// DomainName is an exact domain name in lower case, such as `globex.example`. A name in another script is written with
// A-labels (`xn--...`). It has at least two labels, is no IP address and has no wildcard.
// +kubebuilder:validation:MinLength=3
// +kubebuilder:validation:MaxLength=253
// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)+[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
// +kubebuilder:validation:XValidation:rule="!self.matches('(^|[.])([0-9]+|0x[0-9a-f]*)$')",message="must not be an IP address: write a domain name"
type DomainName string

// ClaimName is the name of a claim of an ID token or a userinfo response, or of an attribute of an assertion.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=200
// +kubebuilder:validation:Pattern=`^[!-~]+$`
type ClaimName string

// ConnectionOrganization names the organization of a connection by its slug.
type ConnectionOrganization struct {
	// slug of the organization, which is a row of the store and not a resource. Servers look it up at each request, so an
	// organization that is created later needs no change here.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
	Slug string `json:"slug"`
}

// ConnectionAttributes name the claims, or the attributes of an assertion, that hold a user's attributes.
type ConnectionAttributes struct {
	// email is the claim with the user's address. Absent: email; for type SAML the first of the usual names that the
	// assertion has, such as mail, or a NameID of the format emailAddress.
	// +optional
	Email *ClaimName `json:"email,omitempty"`

	// firstName is the claim with the first name. Absent: given_name; for type SAML the first of the usual names that the
	// assertion has.
	// +optional
	FirstName *ClaimName `json:"firstName,omitempty"`

	// lastName is the claim with the last name. Absent: family_name; for type SAML the first of the usual names that the
	// assertion has.
	// +optional
	LastName *ClaimName `json:"lastName,omitempty"`
}

// ConnectionMembership configures how users become members of the connection's organization.
type ConnectionMembership struct {
	// justInTime makes each user a member of the organization at the first sign-in by the connection. `false`: users that
	// are no members get SSO_NOT_PROVISIONED. Absent: true.
	// +optional
	JustInTime *bool `json:"justInTime,omitempty"`

	// roleExpression is a CEL expression over `claims`: the claims of the ID token and of the userinfo response, or for
	// type SAML the attributes, each a list of strings, with `subject` and `issuer`. It yields a list of names of
	// MembershipRoles with level Organization; the member gets the first one that exists. An expression that fails
	// yields no role. Absent, or no role: the role of B2BSettings' autoAssignOrgRoleRef.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	RoleExpression *string `json:"roleExpression,omitempty"`

	// roleSync selects when roleExpression is applied. `EverySignIn`: at each sign-in, so that a role that the provider
	// takes away is lost. `FirstSignIn`: only when the user becomes a member. Absent: EverySignIn.
	// +optional
	RoleSync *RoleSync `json:"roleSync,omitempty"`
}

// ConnectionAssurance says which claims of an ID token, or which AuthnContextClassRefs of an assertion, prove that the
// user signed in with two factors at the provider.
// The claims of an organization's connection meet what that organization itself requires, up to two factors, and
// nothing else: the sign-in stays assurance level 1.
type ConnectionAssurance struct {
	// amr are values of the claim amr (RFC 8176), such as `mfa`. One of them makes the sign-in assurance level 2. They
	// are not allowed with type SAML. Absent: none does.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	AMR []string `json:"amr,omitempty"`

	// acr are values of the claim acr, for type SAML AuthnContextClassRefs. One of them makes the sign-in assurance level
	// 2. Absent: none does.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	// +kubebuilder:validation:items:Pattern=`^[!-~]+$`
	ACR []string `json:"acr,omitempty"`

	// requestedContext requests the values of acr (parameter acr_values) where a level is required. Absent: false.
	// +optional
	RequestedContext *bool `json:"requestedContext,omitempty"`
}

// ConnectionSession bounds sign-ins by a connection.
type ConnectionSession struct {
	// lifetimeSeconds is how long a sign-in lasts at most, 300 to 2592000 seconds (30 days). The session goes on, with
	// its other sign-ins. Absent: as long as the deployment's sessions.
	// +optional
	// +kubebuilder:validation:Minimum=300
	// +kubebuilder:validation:Maximum=2592000
	LifetimeSeconds *int32 `json:"lifetimeSeconds,omitempty"`

	// signOut selects where a sign-out ends. `Local`: here; the provider's session is left alone. `Upstream`: the
	// browser is also led to the provider's end_session_endpoint, or to its logout service for type SAML, if the
	// provider has one. Absent: Local.
	// +optional
	SignOut *ConnectionSignOut `json:"signOut,omitempty"`
}
