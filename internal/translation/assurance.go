package translation

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/assurance"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/relyingparty"
	"github.com/cardea-iam/cardea/internal/text"
)

// Level returns the assurance level that a resource declares.
func Level(declared *v1alpha1.AssuranceLevel) assurance.Level {
	level, _ := assurance.ParseDeclared(string(ptr.Deref(declared, v1alpha1.AssuranceOneFactor)))
	return level
}

// requirement is nil for OneFactor, which every sign-in reaches.
func requirement(declared *v1alpha1.AssuranceLevel, from *metav1.Time) *document.Requirement {
	level := Level(declared)
	if level <= assurance.OneFactor {
		return nil
	}
	return &document.Requirement{Level: level.String(), From: moment(from)}
}

// moment is in UTC, so that the content has the same hash in every time zone.
func moment(declared *metav1.Time) *time.Time {
	if declared == nil {
		return nil
	}
	return ptr.To(declared.UTC())
}

func memberRequirement(declared *v1alpha1.MemberAssurance) *document.Requirement {
	if declared == nil {
		return nil
	}
	return requirement(declared.Required, declared.EnforceFrom)
}

// clientAssurance is nil if the client requires nothing.
func clientAssurance(declared *v1alpha1.ClientAssurance) *document.ClientAssurance {
	if declared == nil {
		return nil
	}
	level := Level(declared.Required)
	if level <= assurance.OneFactor && declared.MaxAgeSeconds == nil {
		return nil
	}
	content := &document.ClientAssurance{Level: level.String()}
	if age := declared.MaxAgeSeconds; age != nil {
		content.MaxAgeSeconds = ptr.To(int64(*age))
	}
	return content
}

// strong is never nil: servers let users add second factors only if the document has these settings.
func strong(d *v1alpha1.IdentityDeployment) *document.Assurance {
	required := ptr.Deref(d.Spec.Assurance, v1alpha1.DeploymentAssurance{})
	factors := ptr.Deref(d.Spec.SecondFactor, v1alpha1.SecondFactorSettings{})
	totp, sms := ptr.Deref(factors.TOTP, v1alpha1.TOTPSettings{}), ptr.Deref(factors.SMS, v1alpha1.SMSFactorSettings{})
	return &document.Assurance{
		Required:     requirement(required.Required, required.EnforceFrom),
		GraceSeconds: int64(ptr.Deref(required.GracePeriodSeconds, 0)),
		Passkey:      ptr.Deref(passkey(d).Enabled, true),
		TOTP:         ptr.Deref(totp.Enabled, true),
		SMS:          ptr.Deref(sms.Enabled, false),
		RelyingParty: relyingparty.ID(word(passkey(d).RelyingPartyID), words(d.Spec.FrontendHosts)),
		TOTPIssuer:   totpIssuer(d, totp.Issuer),
	}
}

func passkey(d *v1alpha1.IdentityDeployment) v1alpha1.PasskeySettings {
	if d.Spec.SignIn == nil {
		return v1alpha1.PasskeySettings{}
	}
	return ptr.Deref(d.Spec.SignIn.Passkey, v1alpha1.PasskeySettings{})
}

// totpIssuer has no colon, which separates the issuer from the account in the URI of an authenticator app. For a
// displayName of colons only, it is the resource's name.
func totpIssuer(d *v1alpha1.IdentityDeployment, declared *v1alpha1.TOTPIssuer) string {
	if declared != nil {
		return text.Normal(string(*declared))
	}
	if issuer := strings.TrimSpace(strings.ReplaceAll(named(d.Spec.DisplayName, d.Name), ":", "")); issuer != "" {
		return issuer
	}
	return d.Name
}

// Passkeys are the settings of a deployment's passkeys.
type Passkeys struct {
	// Enabled reports whether users may add and use passkeys.
	Enabled bool
	// Declared reports whether the resource enables passkeys itself, not only by default.
	Declared bool
	// RelyingParty is the id of the relying party, "" without frontend hosts.
	RelyingParty string
	// Served reports whether the relying party is a frontend host, so that Cardea serves the list of related origins.
	Served bool
	// Origins are the origins whose pages may use the passkeys.
	Origins []string
}

// PasskeysOf returns the settings of a deployment's passkeys. local is where browsers reach hosts of this machine.
func PasskeysOf(d *v1alpha1.IdentityDeployment, local LocalFrontend) Passkeys {
	settings, hosts := strong(d), words(d.Spec.FrontendHosts)
	out := Passkeys{
		Enabled: settings.Passkey, Declared: settings.Passkey && d.Spec.SignIn != nil && d.Spec.SignIn.Passkey != nil, RelyingParty: settings.RelyingParty,
		Origins: relyingparty.Origins(hosts, words(d.Spec.AllowedOrigins), func(host string) string { return local.origin(d, host) }),
	}
	out.Served = slices.Contains(hosts, out.RelyingParty)
	return out
}
