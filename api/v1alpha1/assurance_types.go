package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AssuranceLevel is how surely a sign-in proves its user.
// +kubebuilder:validation:Enum=OneFactor;TwoFactors;PhishingResistant
type AssuranceLevel string

const (
	// AssuranceOneFactor needs any one proof, such as a password or an emailed code.
	AssuranceOneFactor AssuranceLevel = "OneFactor"
	// AssuranceTwoFactors needs a password or an emailed code, and a second factor: a code of an authenticator app, a
	// texted code, a recovery code or a passkey. A passkey that verified its user is sufficient alone.
	AssuranceTwoFactors AssuranceLevel = "TwoFactors"
	// AssurancePhishingResistant needs a passkey that verified its user, or a passkey and the password.
	AssurancePhishingResistant AssuranceLevel = "PhishingResistant"
)

// DeploymentAssurance is the level that a deployment requires of every sign-in.
// +kubebuilder:validation:XValidation:rule="!has(self.enforceFrom) || (has(self.required) && self.required != 'OneFactor')",message="enforceFrom is only for a required level above OneFactor: set required to TwoFactors or PhishingResistant, or remove enforceFrom",fieldPath=".enforceFrom"
// +kubebuilder:validation:XValidation:rule="!has(self.gracePeriodSeconds) || (has(self.required) && self.required != 'OneFactor')",message="gracePeriodSeconds is only for a required level above OneFactor: set required to TwoFactors or PhishingResistant, or remove gracePeriodSeconds",fieldPath=".gracePeriodSeconds"
type DeploymentAssurance struct {
	// required is the level. `OneFactor`: any one proof, such as a password or an emailed code. `TwoFactors`: a
	// password or an emailed code, and a second factor; or a passkey that verified its user. `PhishingResistant`: a
	// passkey that verified its user, or a passkey and the password. A user below the level must show or add a factor
	// before anything else. A level that is lowered or removed no longer applies within 1 s. Absent: OneFactor.
	// +optional
	Required *AssuranceLevel `json:"required,omitempty"`

	// enforceFrom is the time (RFC 3339) from which the level is required, such as `2027-02-01T00:00:00Z`. Until then,
	// users can add factors, and responses announce the time. Absent: at once.
	// +optional
	EnforceFrom *metav1.Time `json:"enforceFrom,omitempty"`

	// gracePeriodSeconds is how long after its creation an account is exempt from the level, 0 to 2592000 seconds (30
	// days). Of enforceFrom and the end of this period, the later time applies. Absent: 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2592000
	GracePeriodSeconds *int32 `json:"gracePeriodSeconds,omitempty"`
}

// MemberAssurance is the level that members of an organization need to enter it.
// +kubebuilder:validation:XValidation:rule="!has(self.enforceFrom) || (has(self.required) && self.required != 'OneFactor')",message="enforceFrom is only for a required level above OneFactor: set required to TwoFactors or PhishingResistant, or remove enforceFrom",fieldPath=".enforceFrom"
type MemberAssurance struct {
	// required is the level. `OneFactor`: any one proof, such as a password or an emailed code. `TwoFactors`: a
	// password or an emailed code, and a second factor; or a passkey that verified its user. `PhishingResistant`: a
	// passkey that verified its user, or a passkey and the password. A member below the level stays signed in, and
	// cannot enter the organization before showing or adding a factor. The deployment must be able to reach the level.
	// Absent: OneFactor.
	// +optional
	Required *AssuranceLevel `json:"required,omitempty"`

	// enforceFrom is the time (RFC 3339) from which the level is required, such as `2027-02-01T00:00:00Z`. Absent: at
	// once.
	// +optional
	EnforceFrom *metav1.Time `json:"enforceFrom,omitempty"`
}

// ClientAssurance is the level that an OAuth client requires of the users who authorize it.
type ClientAssurance struct {
	// required is the level, in addition to what the client itself requests. `OneFactor`: any one proof, such as a
	// password or an emailed code. `TwoFactors`: a password or an emailed code, and a second factor; or a passkey that
	// verified its user. `PhishingResistant`: a passkey that verified its user, or a passkey and the password. The
	// deployment must be able to reach the level. Absent: OneFactor.
	// +optional
	Required *AssuranceLevel `json:"required,omitempty"`

	// maxAgeSeconds is the maximum age of the user's newest proof of the level when the client is authorized, 0 to
	// 31536000 seconds (a year). `0`: each authorization needs a new proof. Absent: no maximum.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=31536000
	MaxAgeSeconds *int32 `json:"maxAgeSeconds,omitempty"`
}

// PasskeySettings configure passkeys (WebAuthn), as a way to sign in and as a second factor.
type PasskeySettings struct {
	// enabled lets end users add passkeys and use them. Existing passkeys are kept while it is false, and are not asked
	// for. Absent: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// relyingPartyID is the domain to which passkeys belong: one of frontendHosts, or a parent domain of one that is
	// not a public suffix such as `com`. Passkeys of another relying party cannot be used, and work again when the
	// previous value is restored: choose the value before users have passkeys. Absent: the first of frontendHosts that
	// is not an IP address.
	// +optional
	RelyingPartyID *Hostname `json:"relyingPartyID,omitempty"`
}

// TOTPIssuer is the name of a deployment in authenticator apps: 1 to 64 characters on one line, without colons,
// control, bidirectional control and invisible characters, and not blank.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^[^:\p{Cc}\p{Zl}\p{Zp}\x{202A}-\x{202E}\x{2066}-\x{2069}\x{200B}\x{2060}\x{FEFF}]*$`
// +kubebuilder:validation:XValidation:rule="self.matches('[^\\\\s\\\\p{Z}]')",message="must not be blank: write a name or leave the field out"
type TOTPIssuer string

// TOTPSettings configure the codes of authenticator apps (RFC 6238).
type TOTPSettings struct {
	// enabled lets end users add authenticator apps and use their codes. Existing ones are kept while it is false, and
	// are not asked for. Absent: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// issuer is the name of the deployment in authenticator apps. A change applies to apps that are added later.
	// Absent: the displayName, without colons.
	// +optional
	Issuer *TOTPIssuer `json:"issuer,omitempty"`
}

// SMSFactorSettings configure texted codes as a second factor.
type SMSFactorSettings struct {
	// enabled lets end users make a verified phone number a second factor. It needs sms, and TOTP or passkeys as
	// another way, because phone numbers can be taken over. Absent: false.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// SecondFactorSettings configure the second factors of end users, in addition to passkeys.
type SecondFactorSettings struct {
	// totp configures the codes of authenticator apps. Absent: each of its fields has its own meaning when absent.
	// +optional
	TOTP *TOTPSettings `json:"totp,omitempty"`

	// sms configures texted codes. Absent: each of its fields has its own meaning when absent.
	// +optional
	SMS *SMSFactorSettings `json:"sms,omitempty"`
}

// OrganizationAssurance selects whether organizations may require a level of their members themselves.
// +kubebuilder:validation:Enum=OwnersMayRequire;Disabled
type OrganizationAssurance string

const (
	// OrganizationAssuranceOwnersMayRequire lets owners require a level of the members of their organization.
	OrganizationAssuranceOwnersMayRequire OrganizationAssurance = "OwnersMayRequire"
	// OrganizationAssuranceDisabled refuses new requirements. Existing ones are kept and have no effect.
	OrganizationAssuranceDisabled OrganizationAssurance = "Disabled"
)

// PasskeyStatus is where a deployment's passkeys can be used.
type PasskeyStatus struct {
	// relyingPartyID is the domain to which new passkeys belong.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	RelyingPartyID string `json:"relyingPartyID,omitempty"`

	// origins are the origins whose pages may use the passkeys: those of frontendHosts and allowedOrigins.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=267
	Origins []string `json:"origins,omitempty"`
}
