package v1alpha1

// Origin is a web origin as browsers send it: `https://host`, or `https://host:port` if the port is not 443, in lower
// case, without path and wildcard. `http://` is only for localhost, *.localhost and 127.0.0.1, with a port if it is not
// 80.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=267
// +kubebuilder:validation:Pattern=`^(https://[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*|http://(([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)*localhost|127\.0\.0\.1))(:[1-9][0-9]{0,4})?$`
// +kubebuilder:validation:XValidation:rule="!self.matches('^(https://.*:443|http://.*:80)$')",message="browsers leave the scheme's own port out of an origin: write it without"
// +kubebuilder:validation:XValidation:rule="!self.matches(':(6553[6-9]|655[4-9][0-9]|65[6-9][0-9]{2}|6[6-9][0-9]{3}|[7-9][0-9]{4})$')",message="a port is at most 65535: correct it"
type Origin string

// SessionPreset names an assurance level of NIST SP 800-63B-4, whose time limits become the lifetimes of sessions.
// +kubebuilder:validation:Enum=AAL1;AAL2
type SessionPreset string

const (
	// SessionPresetAAL1 is a lifetime of 30 days and an idle timeout of 30 days.
	SessionPresetAAL1 SessionPreset = "AAL1"
	// SessionPresetAAL2 is a lifetime of 24 hours and an idle timeout of one hour.
	SessionPresetAAL2 SessionPreset = "AAL2"
)

// SessionSettings configure how long end users stay signed in, and with how many accounts.
// +kubebuilder:validation:XValidation:rule="!has(self.preset) || !has(self.idleTimeoutSeconds) && !has(self.lifetimeSeconds)",message="preset stands for both idleTimeoutSeconds and lifetimeSeconds: remove it or them"
// +kubebuilder:validation:XValidation:rule="(has(self.idleTimeoutSeconds) ? self.idleTimeoutSeconds : 86400) <= (has(self.lifetimeSeconds) ? self.lifetimeSeconds : 604800)",message="idleTimeoutSeconds (absent: 86400) must not be more than lifetimeSeconds (absent: 604800): shorten the one or lengthen the other"
type SessionSettings struct {
	// preset sets the lifetime and the idle timeout by an assurance level of NIST SP 800-63B-4. `AAL1`: 30 days for
	// both. `AAL2`: a lifetime of 24 hours and an idle timeout of one hour. Absent: idleTimeoutSeconds and
	// lifetimeSeconds apply.
	// +optional
	Preset *SessionPreset `json:"preset,omitempty"`

	// idleTimeoutSeconds is how long a session lives without a request, 60 to 2592000 seconds. Absent: 86400 (a day).
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2592000
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`

	// lifetimeSeconds is how long a session lives in total, 300 to 2592000 seconds. Absent: 604800 (a week).
	// +optional
	// +kubebuilder:validation:Minimum=300
	// +kubebuilder:validation:Maximum=2592000
	LifetimeSeconds *int32 `json:"lifetimeSeconds,omitempty"`

	// maxSignIns is how many accounts may be signed in to one session, 1 to 20. Absent: 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxSignIns *int32 `json:"maxSignIns,omitempty"`

	// requireReauthenticationSeconds is the maximum age of the user's last authentication for sensitive operations, such
	// as adding an address or deleting the account, 60 to 86400 seconds. Absent: 600 (ten minutes).
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	RequireReauthenticationSeconds *int32 `json:"requireReauthenticationSeconds,omitempty"`
}

// AnalyticsSettings configure the personal data that analytics keeps about sign-ins and sign-ups.
type AnalyticsSettings struct {
	// addressRetentionDays is how many days the client's address and user agent of a sign-in or sign-up are kept, 1 to
	// 3650. Counts are not affected. An import stores no address and no user agent of older sign-ins. Absent: 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3650
	AddressRetentionDays *int32 `json:"addressRetentionDays,omitempty"`
}

// PasswordSignIn configures sign-in by password.
type PasswordSignIn struct {
	// enabled lets end users have a password and sign in with it. Absent: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// minLength is the minimum number of characters of a new password, 8 to 64. Existing passwords stay valid. Absent: 15.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=64
	MinLength *int32 `json:"minLength,omitempty"`
}

// EmailCodeSignIn configures sign-in by an emailed code.
type EmailCodeSignIn struct {
	// enabled lets end users sign in with a code that is sent to their address. Absent: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// ConnectionSignIn configures sign-in by Connections.
type ConnectionSignIn struct {
	// only permits password and emailCode both to be disabled: users then sign in by the deployment's Connections, and by
	// passkeys that they have. A deployment without an active Connection signs in no new user. Absent: false.
	// +optional
	Only *bool `json:"only,omitempty"`
}

// SignInSettings configure how end users sign in.
// +kubebuilder:validation:XValidation:rule="!(has(self.password) && has(self.password.enabled) && !self.password.enabled && has(self.emailCode) && has(self.emailCode.enabled) && !self.emailCode.enabled) || (has(self.connections) && has(self.connections.only) && self.connections.only)",message="with both password and emailCode disabled, no user could sign in: enable one of them, or set connections.only to true if all users sign in by Connections"
type SignInSettings struct {
	// password configures sign-in by password. Absent: each of its fields has its own meaning when absent.
	// +optional
	Password *PasswordSignIn `json:"password,omitempty"`

	// emailCode configures sign-in by an emailed code. Absent: each of its fields has its own meaning when absent.
	// +optional
	EmailCode *EmailCodeSignIn `json:"emailCode,omitempty"`

	// passkey configures passkeys. Absent: each of its fields has its own meaning when absent.
	// +optional
	Passkey *PasskeySettings `json:"passkey,omitempty"`

	// connections configures sign-in by Connections. Absent: each of its fields has its own meaning when absent.
	// +optional
	Connections *ConnectionSignIn `json:"connections,omitempty"`
}

// MailAddress is an email address, such as `no-reply@acme.example`, without a name and with the domain in lower case.
// +kubebuilder:validation:MinLength=3
// +kubebuilder:validation:MaxLength=254
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+)*@[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
type MailAddress string

// SMTPSecurity selects how the connection to a mail server is protected.
// +kubebuilder:validation:Enum=StartTLS;TLS;None
type SMTPSecurity string

const (
	// SMTPSecurityStartTLS connects in the clear and switches to TLS before any mail or credential is sent. A server
	// without STARTTLS is refused.
	SMTPSecurityStartTLS SMTPSecurity = "StartTLS"
	// SMTPSecurityTLS uses TLS from the first byte, usually on port 465.
	SMTPSecurityTLS SMTPSecurity = "TLS"
	// SMTPSecurityNone uses no TLS: for a server on the same machine or network.
	SMTPSecurityNone SMTPSecurity = "None"
)

// SMTPServer is a mail server that accepts mail for delivery.
// +kubebuilder:validation:XValidation:rule="has(self.username) == has(self.passwordSecretRef)",message="username and passwordSecretRef go together: give both or neither"
type SMTPServer struct {
	// host is the server's name or IPv4 address. With TLS, its certificate must be valid for this name.
	// +required
	Host Hostname `json:"host"`

	// port is the server's port, 1 to 65535. Absent: 587.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// security selects how the connection is protected. `StartTLS`: it switches to TLS before any mail or credential is
	// sent. `TLS`: TLS from the first byte. `None`: no protection. Absent: StartTLS.
	// +optional
	Security *SMTPSecurity `json:"security,omitempty"`

	// username is the name for the server's authentication, with the password of passwordSecretRef. Absent: no
	// authentication.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[ -~]+$`
	Username *string `json:"username,omitempty"`

	// passwordSecretRef names the Secret and key with the password of username: one line of at most 512 bytes. The Secret
	// needs the label iam.cardea.dev/deployment with the deployment's name. Absent: no authentication.
	// +optional
	PasswordSecretRef *SecretKeyReference `json:"passwordSecretRef,omitempty"`
}

// MessageLog writes messages to the server's log instead of sending them.
type MessageLog struct{}

// EmailSettings configure how mail to end users is sent.
// +kubebuilder:validation:XValidation:rule="has(self.smtp) != has(self.log)",message="set exactly one of smtp and log"
type EmailSettings struct {
	// from is the sender's address.
	// +required
	From MailAddress `json:"from"`

	// fromName is the sender's name. Absent: the deployment's displayName.
	// +optional
	FromName *DisplayName `json:"fromName,omitempty"`

	// smtp is the mail server. Absent: see log.
	// +optional
	SMTP *SMTPServer `json:"smtp,omitempty"`

	// log writes mail, including codes, to the server's log instead of sending it; only with mode Staging. Absent: see
	// smtp.
	// +optional
	Log *MessageLog `json:"log,omitempty"`
}

// SMSProvider selects the sender of text messages.
// +kubebuilder:validation:Enum=Twilio;Webhook;Log
type SMSProvider string

const (
	// SMSProviderTwilio is Twilio's Messages resource.
	SMSProviderTwilio SMSProvider = "Twilio"
	// SMSProviderWebhook is your own HTTP endpoint, called with a signature.
	SMSProviderWebhook SMSProvider = "Webhook"
	// SMSProviderLog writes messages to the server's log instead of sending them; only with mode Staging.
	SMSProviderLog SMSProvider = "Log"
)

// TwilioAccount is an account at Twilio, and the sender of its messages.
// +kubebuilder:validation:XValidation:rule="has(self.from) != has(self.messagingServiceSID)",message="set exactly one of from and messagingServiceSID"
// +kubebuilder:validation:XValidation:rule="!has(self.baseURL) || self.baseURL.matches('^(https://|http://(([a-z0-9-]+[.])*localhost|127[.]0[.]0[.]1)(:|/|$))')",message="baseURL is https; http is only for localhost and 127.0.0.1: use https",fieldPath=".baseURL"
type TwilioAccount struct {
	// accountSID is the account's id: `AC` and 32 hexadecimal digits.
	// +required
	// +kubebuilder:validation:MinLength=34
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:Pattern=`^AC[0-9a-f]{32}$`
	AccountSID string `json:"accountSID"`

	// authTokenSecretRef names the Secret and key with the account's auth token: one line of at most 512 bytes. The Secret
	// needs the label iam.cardea.dev/deployment with the deployment's name.
	// +required
	AuthTokenSecretRef SecretKeyReference `json:"authTokenSecretRef"`

	// from is the sender's number, in E.164 form such as `+15005550006`. Absent: see messagingServiceSID.
	// +optional
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^\+[1-9][0-9]{6,14}$`
	From *string `json:"from,omitempty"`

	// messagingServiceSID is the messaging service that chooses the number: `MG` and 32 hexadecimal digits. Absent: see
	// from.
	// +optional
	// +kubebuilder:validation:MinLength=34
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:Pattern=`^MG[0-9a-f]{32}$`
	MessagingServiceSID *string `json:"messagingServiceSID,omitempty"`

	// baseURL is the URL of Twilio's API, or of a proxy, without query. http is only for localhost and 127.0.0.1 with mode
	// Staging. Absent: https://api.twilio.com.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~/-]*)?$`
	BaseURL *string `json:"baseURL,omitempty"`
}

// SMSWebhook is your own HTTP endpoint that sends text messages.
type SMSWebhook struct {
	// url is called with POST for every message: https, or http with mode Staging. It must not contain credentials,
	// because the signature authenticates the calls.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[1-9][0-9]{0,4})?([/?][!"$-~]*)?$`
	URL string `json:"url"`

	// signingSecretRef names the Secret and key with the value that signs the calls: one line of at most 512 bytes. The
	// Secret needs the label iam.cardea.dev/deployment with the deployment's name.
	// +required
	SigningSecretRef SecretKeyReference `json:"signingSecretRef"`
}

// CountryCode is a country of ISO 3166-1, two upper-case letters such as `US`.
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=2
// +kubebuilder:validation:Pattern=`^[A-Z]{2}$`
type CountryCode string

// SMSSettings configure how text messages to end users are sent.
// +kubebuilder:validation:XValidation:rule="(self.provider == 'Twilio') == has(self.twilio)",message="twilio is required with provider Twilio, and not allowed with another: add it, or remove it",fieldPath=".twilio"
// +kubebuilder:validation:XValidation:rule="(self.provider == 'Webhook') == has(self.webhook)",message="webhook is required with provider Webhook, and not allowed with another: add it, or remove it",fieldPath=".webhook"
type SMSSettings struct {
	// provider selects the sender of the messages. `Twilio`: Twilio's Messages resource, see twilio. `Webhook`: your own
	// HTTP endpoint, see webhook. `Log`: messages, including codes, are written to the server's log and not sent; only
	// with mode Staging.
	// +required
	Provider SMSProvider `json:"provider"`

	// twilio is the account of provider Twilio. Absent: another provider is used.
	// +optional
	Twilio *TwilioAccount `json:"twilio,omitempty"`

	// webhook is the endpoint of provider Webhook. Absent: another provider is used.
	// +optional
	Webhook *SMSWebhook `json:"webhook,omitempty"`

	// allowedCountries are the countries whose numbers end users may add; an empty list allows none. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=250
	AllowedCountries *[]CountryCode `json:"allowedCountries,omitempty"` // a pointer, so that clients keep an empty list

	// dailyBudget is how many messages may be sent in one UTC day, 0 to 10000000. Further messages are refused. Absent:
	// 1000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	DailyBudget *int32 `json:"dailyBudget,omitempty"`

	// testNumbers are numbers for tests: nothing is sent to them, and their code is always the same. Only with mode
	// Staging. Absent: none.
	// +optional
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=20
	TestNumbers []TestNumber `json:"testNumbers,omitempty"`
}

// TestNumber is a number to which nothing is sent.
type TestNumber struct {
	// number is the number in E.164 form, such as `+12025550123`; end users add it like any other.
	// +required
	// +kubebuilder:validation:Pattern=`^\+[1-9][0-9]{6,14}$`
	// +kubebuilder:validation:MaxLength=16
	Number string `json:"number"`

	// code is the code that verifies the number: six digits.
	// +required
	// +kubebuilder:validation:Pattern=`^[0-9]{6}$`
	// +kubebuilder:validation:MaxLength=6
	Code string `json:"code"`
}

// HTTPSURL is an https URL of at most 2048 printable ASCII characters, without user and fragment.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=2048
// +kubebuilder:validation:Pattern=`^https://[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*(:[1-9][0-9]{0,4})?([/?][!$-;=?-Z_a-z~]*)?$`
type HTTPSURL string

// AccentColor is a color of sRGB, `#` and six lower-case hexadecimal digits. White text must be readable on it: the
// contrast is at least 4.5 (WCAG 2.2, 1.4.3).
// +kubebuilder:validation:MinLength=7
// +kubebuilder:validation:MaxLength=7
// +kubebuilder:validation:Pattern=`^#[0-9a-f]{6}$`
// +kubebuilder:validation:XValidation:rule="!self.matches('^#[0-9a-f]{6}$') || [[1, 3, 5].map(i, double('0123456789abcdef'.indexOf(self.substring(i, i + 1)) * 16 + '0123456789abcdef'.indexOf(self.substring(i + 1, i + 2))) / 255.0).map(c, c * (0.012522878 + c * (0.682171111 + c * 0.305306011)))].all(l, 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2] <= 0.187)",message="white text is not readable on this color, the contrast is below 4.5: choose a darker color"
type AccentColor string

// PagesSettings configure the pages that end users see.
type PagesSettings struct {
	// enabled selects whether Cardea serves pages for sign-in, sign-up and account settings on the deployment's hosts.
	// `false`: only the end-user API is served there. Absent: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// url is the address of your own pages, without query. Links in mails then begin with it, instead of the first of
	// frontendHosts. Absent: links lead to Cardea's pages.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.contains('?')",message="url must not have a query, because paths are appended: remove the query"
	URL *HTTPSURL `json:"url,omitempty"`

	// logoURL is the URL of a picture that the pages show above their forms, at most 48 pixels high. Browsers fetch it
	// from that URL. Absent: the deployment's displayName is shown.
	// +optional
	LogoURL *HTTPSURL `json:"logoURL,omitempty"`

	// accentColor is the color of buttons, whose text is white, in both color schemes. Links have the same color, or a
	// readable shade of it: darker in the light scheme, lighter in the dark one. Absent: a blue.
	// +optional
	AccentColor *AccentColor `json:"accentColor,omitempty"`

	// supportEmail is the address for help on the pages. It also gets a mail when a WebhookEndpoint fails for long, and
	// when it is disabled. Absent: none.
	// +optional
	SupportEmail *MailAddress `json:"supportEmail,omitempty"`

	// privacyURL is the privacy policy that the pages link to. Absent: none.
	// +optional
	PrivacyURL *HTTPSURL `json:"privacyURL,omitempty"`

	// termsURL are the terms of use that the pages link to. Absent: none.
	// +optional
	TermsURL *HTTPSURL `json:"termsURL,omitempty"`
}
