package document

import (
	"cmp"
	"time"
)

// The kinds under which a deployment's secrets are sealed. A sealed signing key is bound to the key's id, any other
// secret to SecretID.
const (
	SealedSigningKey    = "session-signing-key"
	SealedOAuthKey      = "oauth-signing-key"
	SealedWebhookKey    = "webhook-signing-key"
	SealedSMTPPassword  = "smtp-password"
	SealedTwilioToken   = "twilio-auth-token"
	SealedWebhookSecret = "sms-webhook-signing-secret"
)

// SecretID returns the id to which a sealed secret of a deployment ("namespace/name") is bound. The kind identifies the
// field from which the secret comes.
func SecretID(deployment, kind string) string { return deployment + "/" + kind }

// SessionSettings are the effective settings of end users' sessions.
type SessionSettings struct {
	IdleTimeoutSeconds int64 `json:"idle_timeout_seconds"`
	LifetimeSeconds    int64 `json:"lifetime_seconds"`
	MaxSignIns         int   `json:"max_sign_ins"`
	// ReauthenticateSeconds is 0 if nothing is declared, and in documents of earlier versions; read it through
	// ReauthenticateWithin.
	ReauthenticateSeconds int64 `json:"reauthenticate_seconds,omitempty"`
}

// absentReauthenticateSeconds is the maximum age of the last authentication if a deployment declares none.
const absentReauthenticateSeconds = 600

// ReauthenticateWithin is the maximum age of the user's last authentication for sensitive operations.
func (s SessionSettings) ReauthenticateWithin() time.Duration {
	return time.Duration(cmp.Or(s.ReauthenticateSeconds, absentReauthenticateSeconds)) * time.Second
}

// IdleTimeout is how long a session lives without a request.
func (s SessionSettings) IdleTimeout() time.Duration {
	return time.Duration(s.IdleTimeoutSeconds) * time.Second
}

// Lifetime is how long a session lives in all.
func (s SessionSettings) Lifetime() time.Duration {
	return time.Duration(s.LifetimeSeconds) * time.Second
}

// SignInSettings are the effective settings of how end users sign in.
type SignInSettings struct {
	Password bool `json:"password"`
	// PasswordMinLength is in characters.
	PasswordMinLength int  `json:"password_min_length"`
	EmailCode         bool `json:"email_code"`
	// ConnectionsOnly reports that neither passwords nor emailed codes sign users in, as the deployment declares.
	ConnectionsOnly bool `json:"connections_only,omitempty"`
}

// OrganizationConnections are the effective settings of connections that organizations and backends set up.
type OrganizationConnections struct {
	// SelfService lets organizations manage their connections and domains.
	SelfService bool `json:"self_service,omitempty"`
	// Types are the types that organizations may set up.
	Types []string `json:"types"`
	// MaxPerOrganization bounds an organization's connections of this kind.
	MaxPerOrganization int `json:"max_per_organization"`
	// NoDirectories reports that organizations may not set up directories.
	NoDirectories bool `json:"no_directories,omitempty"`
}

// DefaultConnections returns the settings of a deployment that declares none.
func DefaultConnections() OrganizationConnections {
	return OrganizationConnections{Types: []string{"OIDC", "SAML"}, MaxPerOrganization: 5}
}

// DefaultSession returns the settings of a deployment that declares none.
func DefaultSession() SessionSettings {
	return SessionSettings{IdleTimeoutSeconds: 24 * 60 * 60, LifetimeSeconds: 7 * 24 * 60 * 60, MaxSignIns: 5}
}

// DefaultSignIn returns the settings of a deployment that declares none.
func DefaultSignIn() SignInSettings {
	return SignInSettings{Password: true, PasswordMinLength: 15, EmailCode: true}
}

// absentAddressRetentionDays is for how many days addresses are kept if a deployment declares nothing.
const absentAddressRetentionDays = 30

// AddressRetention is for how long the address and user agent of a sign-in or sign-up are kept.
func (d *Deployment) AddressRetention() time.Duration {
	days := d.AddressRetentionDays
	if days == 0 {
		days = absentAddressRetentionDays
	}
	return time.Duration(days) * 24 * time.Hour
}

// EffectiveSession returns the settings of sessions, whichever version of Cardea wrote the document.
func (d *Deployment) EffectiveSession() SessionSettings {
	if d.Session == nil {
		return DefaultSession()
	}
	return *d.Session
}

// EffectiveSignIn returns the settings of signing in, whichever version of Cardea wrote the document.
func (d *Deployment) EffectiveSignIn() SignInSettings {
	if d.SignIn == nil {
		return DefaultSignIn()
	}
	return *d.SignIn
}

// EffectiveConnections returns the settings of connections that organizations and backends set up, whichever version of
// Cardea wrote the document.
func (d *Deployment) EffectiveConnections() OrganizationConnections {
	if d.Connections == nil {
		return DefaultConnections()
	}
	return *d.Connections
}

// Email says how a deployment's mail is sent: through SMTP, or to the log.
type Email struct {
	From string `json:"from"`
	// FromName is never "".
	FromName string `json:"from_name"`
	SMTP     *SMTP  `json:"smtp,omitempty"`
	Log      bool   `json:"log,omitempty"`
}

// SMTP is a mail server.
type SMTP struct {
	Host string `json:"host"`
	Port int    `json:"port"`
	// Security is StartTLS, TLS or None.
	Security string `json:"security"`
	// Username is "" if Cardea does not authenticate to the mail server.
	Username string `json:"username,omitempty"`
	// SealedPassword is sealed for kind SealedSMTPPassword; "" without authentication.
	SealedPassword string `json:"sealed_password,omitempty"`
}

// SMS says how a deployment's text messages are sent.
type SMS struct {
	// Provider is Twilio, Webhook or Log. It determines which of the members Twilio and Webhook is set.
	Provider string   `json:"provider"`
	Twilio   *Twilio  `json:"twilio,omitempty"`
	Webhook  *Webhook `json:"webhook,omitempty"`
	// AllowedCountries are ISO 3166-1 codes; nil: all, empty: none.
	AllowedCountries *[]string `json:"allowed_countries,omitempty"`
	// DailyBudget is the number of messages that may be sent in one UTC day.
	DailyBudget int64 `json:"daily_budget"`
	// TestNumbers are set only in Staging deployments.
	TestNumbers []TestNumber `json:"test_numbers,omitempty"`
}

// TestNumber is a number to which nothing is sent, and whose code is always the same.
type TestNumber struct {
	Number string `json:"number"`
	Code   string `json:"code"`
}

// TestCode returns the code of a test number.
func (s *SMS) TestCode(number string) (string, bool) {
	for _, test := range s.TestNumbers {
		if test.Number == number {
			return test.Code, true
		}
	}
	return "", false
}

// Twilio is an account at Twilio. Messages come from From or from MessagingServiceSID.
type Twilio struct {
	AccountSID string `json:"account_sid"`
	// SealedAuthToken is sealed for kind SealedTwilioToken.
	SealedAuthToken     string `json:"sealed_auth_token"`
	From                string `json:"from,omitempty"`
	MessagingServiceSID string `json:"messaging_service_sid,omitempty"`
	// BaseURL has no slash at its end.
	BaseURL string `json:"base_url"`
}

// Webhook is an endpoint of the tenant.
type Webhook struct {
	URL string `json:"url"`
	// SealedSigningSecret is sealed for kind SealedWebhookSecret.
	SealedSigningSecret string `json:"sealed_signing_secret"`
}

// Pages are the settings of the pages that end users see. An empty field is not declared.
type Pages struct {
	// Disabled reports that Cardea serves no pages.
	Disabled bool `json:"disabled,omitempty"`
	// URL is where the tenant's own pages are, without a slash at its end.
	URL     string `json:"url,omitempty"`
	LogoURL string `json:"logo_url,omitempty"`
	// AccentColor is `#rrggbb`, in lower case.
	AccentColor  string `json:"accent_color,omitempty"`
	SupportEmail string `json:"support_email,omitempty"`
	PrivacyURL   string `json:"privacy_url,omitempty"`
	TermsURL     string `json:"terms_url,omitempty"`
}

// EffectivePages returns the settings of pages, whichever version of Cardea wrote the document.
func (d *Deployment) EffectivePages() Pages {
	if d.Pages == nil {
		return Pages{}
	}
	return *d.Pages
}
