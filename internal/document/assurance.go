package document

import (
	"time"

	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/relyingparty"
)

// Requirement is an assurance level that is required from a time on.
type Requirement struct {
	// Level is a level's name in JSON, such as two_factors.
	Level string `json:"level"`
	// From is nil if the requirement is in force at once.
	From *time.Time `json:"from,omitempty"`
}

// Effective returns the requirement; a nil one requires nothing. A level that this binary does not know counts as the
// highest one, so that an unknown requirement is never weakened.
func (r *Requirement) Effective() assurance.Requirement {
	if r == nil {
		return assurance.Requirement{}
	}
	out := assurance.Requirement{Level: assurance.PhishingResistant}
	if level, known := assurance.ParseLevel(r.Level); known {
		out.Level = level
	}
	if r.From != nil {
		out.From = *r.From
	}
	return out
}

// Assurance has the effective settings of second factors and passkeys of a deployment, and the level that it requires.
// Documents of earlier versions have none.
type Assurance struct {
	// Required is nil if the deployment requires no more than one factor.
	Required *Requirement `json:"required,omitempty"`
	// GraceSeconds is how long after its creation an account is exempt from Required.
	GraceSeconds int64 `json:"grace_seconds,omitempty"`
	// Passkey, TOTP and SMS report which kinds of factors are enabled.
	Passkey bool `json:"passkey,omitempty"`
	TOTP    bool `json:"totp,omitempty"`
	SMS     bool `json:"sms,omitempty"`
	// RelyingParty is the id of the relying party of passkeys, "" if the deployment has no frontend host.
	RelyingParty string `json:"relying_party,omitempty"`
	// TOTPIssuer is the name of the deployment in authenticator apps, without colons.
	TOTPIssuer string `json:"totp_issuer,omitempty"`
}

// Strong returns the settings of second factors and passkeys. It reports false if the document has none: no user can
// enroll then, and the settings are those by which factors that were enrolled before are still asked for.
func (d *Deployment) Strong() (Assurance, bool) {
	if d.Assurance != nil {
		return *d.Assurance, true
	}
	out := Assurance{Passkey: true, TOTP: true, SMS: true}
	out.RelyingParty = relyingparty.ID("", d.FrontendHosts)
	return out, false
}

// FactorsFor returns the kinds of factors with which users of the deployment can reach a level: passkey, totp and sms,
// in this order. If it returns none for a level above one_factor, no user can reach that level.
func (d *Deployment) FactorsFor(level assurance.Level) []assurance.Method {
	settings, _ := d.Strong()
	kinds := []assurance.Method{}
	if settings.Passkey && settings.RelyingParty != "" {
		kinds = append(kinds, assurance.Passkey)
	}
	if level > assurance.TwoFactors {
		return kinds
	}
	if settings.TOTP {
		kinds = append(kinds, assurance.TOTP)
	}
	if settings.SMS && d.SMS != nil {
		kinds = append(kinds, assurance.SMS)
	}
	return kinds
}

// ClientAssurance is what an OAuth client requires of its users, whatever it requests.
type ClientAssurance struct {
	// Level is a level's name in JSON.
	Level string `json:"level"`
	// MaxAgeSeconds bounds the age of the proof of Level; nil: no bound.
	MaxAgeSeconds *int64 `json:"max_age_seconds,omitempty"`
}

// Effective returns the level, as Requirement.Effective does; nil requires none.
func (c *ClientAssurance) Effective() assurance.Level {
	if c == nil {
		return assurance.None
	}
	return (&Requirement{Level: c.Level}).Effective().Level
}
