package v1alpha1

// Origin is a web origin as browsers send it: `https://host`, or `https://host:port` where the port is not 443, in lower case, with
// neither path nor wildcard. `http://` is for localhost, *.localhost and 127.0.0.1 alone, with a port where it is not 80.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=267
// +kubebuilder:validation:Pattern=`^(https://[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*|http://(([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?\.)*localhost|127\.0\.0\.1))(:[1-9][0-9]{0,4})?$`
// +kubebuilder:validation:XValidation:rule="!self.matches('^(https://.*:443|http://.*:80)$')",message="browsers leave the scheme's own port out of an origin: write it without"
// +kubebuilder:validation:XValidation:rule="!self.matches(':(6553[6-9]|655[4-9][0-9]|65[6-9][0-9]{2}|6[6-9][0-9]{3}|[7-9][0-9]{4})$')",message="a port is at most 65535: correct it"
type Origin string

// SessionPreset names lifetimes of sessions by the assurance level of NIST SP 800-63B-4 that they are the bounds of.
// +kubebuilder:validation:Enum=AAL1;AAL2
type SessionPreset string

const (
	// SessionPresetAAL1 is 30 days in all, and as long without a request.
	SessionPresetAAL1 SessionPreset = "AAL1"
	// SessionPresetAAL2 is 24 hours in all, and one hour without a request.
	SessionPresetAAL2 SessionPreset = "AAL2"
)

// SessionSettings say how long end users stay signed in, and with how many accounts.
// +kubebuilder:validation:XValidation:rule="!has(self.preset) || !has(self.idleTimeoutSeconds) && !has(self.lifetimeSeconds)",message="preset stands for both idleTimeoutSeconds and lifetimeSeconds: remove it or them"
// +kubebuilder:validation:XValidation:rule="(has(self.idleTimeoutSeconds) ? self.idleTimeoutSeconds : 86400) <= (has(self.lifetimeSeconds) ? self.lifetimeSeconds : 604800)",message="idleTimeoutSeconds (absent: 86400) must not be more than lifetimeSeconds (absent: 604800): shorten the one or lengthen the other"
type SessionSettings struct {
	// preset gives both lifetimes by an assurance level. `AAL1`: 30 days in all, and as long without a request. `AAL2`: 24 hours in
	// all, one hour without a request. Absent: idleTimeoutSeconds and lifetimeSeconds say.
	// +optional
	Preset *SessionPreset `json:"preset,omitempty"`

	// idleTimeoutSeconds is how long a session lives without a request, 60 to 2592000 seconds. Absent: 86400, a day.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=2592000
	IdleTimeoutSeconds *int32 `json:"idleTimeoutSeconds,omitempty"`

	// lifetimeSeconds is how long a session lives in all, 300 to 2592000 seconds. Absent: 604800, a week.
	// +optional
	// +kubebuilder:validation:Minimum=300
	// +kubebuilder:validation:Maximum=2592000
	LifetimeSeconds *int32 `json:"lifetimeSeconds,omitempty"`

	// maxSignIns is how many accounts may be signed in to one session, 1 to 20. Absent: 5.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=20
	MaxSignIns *int32 `json:"maxSignIns,omitempty"`

	// requireReauthenticationSeconds is how old the proof of who somebody is may be for what changes a way into the account, such as
	// adding an address or deleting the account, 60 to 86400 seconds. Absent: 600, ten minutes.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	RequireReauthenticationSeconds *int32 `json:"requireReauthenticationSeconds,omitempty"`
}

// AnalyticsSettings say what analytics keeps of sign-ins and sign-ups.
type AnalyticsSettings struct {
	// addressRetentionDays is for how many days the client's address and user agent are kept of a sign-in or sign-up, 1 to 3650; what
	// is counted stays. An import of older ones brings neither. Absent: 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3650
	AddressRetentionDays *int32 `json:"addressRetentionDays,omitempty"`
}

// PasswordSignIn rules signing in by password.
type PasswordSignIn struct {
	// enabled reports whether end users may have a password and sign in by it. Absent: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// minLength is the least number of characters of a new password, 8 to 64; passwords that are there stay valid. Absent: 15.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=64
	MinLength *int32 `json:"minLength,omitempty"`
}

// EmailCodeSignIn rules signing in by a code that is sent by mail.
type EmailCodeSignIn struct {
	// enabled reports whether end users may sign in by a code that is sent to their address. Absent: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`
}

// SignInSettings say how end users sign in.
// +kubebuilder:validation:XValidation:rule="!(has(self.password) && has(self.password.enabled) && !self.password.enabled && has(self.emailCode) && has(self.emailCode.enabled) && !self.emailCode.enabled)",message="with both password and emailCode disabled nobody could sign in: enable one of them"
type SignInSettings struct {
	// password rules signing in by password. Absent: each of its fields has its own meaning when absent.
	// +optional
	Password *PasswordSignIn `json:"password,omitempty"`

	// emailCode rules signing in by a code that is sent by mail. Absent: each of its fields has its own meaning when
	// absent.
	// +optional
	EmailCode *EmailCodeSignIn `json:"emailCode,omitempty"`
}

// MailAddress is an address of mail, such as `no-reply@acme.example`, without a name and with the domain in lower case.
// +kubebuilder:validation:MinLength=3
// +kubebuilder:validation:MaxLength=254
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_{|}~-]+)*@[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*$`
type MailAddress string

// SMTPSecurity says how the connection to a mail server is protected.
// +kubebuilder:validation:Enum=StartTLS;TLS;None
type SMTPSecurity string

const (
	// SMTPSecurityStartTLS begins in the clear and turns to TLS before anything is said; a server that cannot is refused.
	SMTPSecurityStartTLS SMTPSecurity = "StartTLS"
	// SMTPSecurityTLS speaks TLS from the first byte, mostly on port 465.
	SMTPSecurityTLS SMTPSecurity = "TLS"
	// SMTPSecurityNone protects nothing: for a server on the same machine or network.
	SMTPSecurityNone SMTPSecurity = "None"
)

// SMTPServer is a mail server that takes mail for delivery.
// +kubebuilder:validation:XValidation:rule="has(self.username) == has(self.passwordSecretRef)",message="username and passwordSecretRef go together: give both or neither"
type SMTPServer struct {
	// host is the server's name or IPv4 address; with TLS its certificate must be for it.
	// +required
	Host Hostname `json:"host"`

	// port is the server's port, 1 to 65535. Absent: 587.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`

	// security says how the connection is protected. `StartTLS`: it turns to TLS before anything is said. `TLS`: TLS from
	// the first byte. `None`: not at all. Absent: StartTLS.
	// +optional
	Security *SMTPSecurity `json:"security,omitempty"`

	// username signs in to the server, with the password of passwordSecretRef. Absent: no sign-in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:Pattern=`^[ -~]+$`
	Username *string `json:"username,omitempty"`

	// passwordSecretRef names the Secret and key that hold the password of username: one line of at most 512
	// bytes. The Secret carries the label iam.cardea.dev/deployment with the deployment's name.
	// Absent: no sign-in.
	// +optional
	PasswordSecretRef *SecretKeyReference `json:"passwordSecretRef,omitempty"`
}

// MessageLog writes messages to the server's log instead of sending them.
type MessageLog struct{}

// EmailSettings say how mail to end users is sent.
// +kubebuilder:validation:XValidation:rule="has(self.smtp) != has(self.log)",message="set exactly one of smtp and log"
type EmailSettings struct {
	// from is the address that mail comes from.
	// +required
	From MailAddress `json:"from"`

	// fromName is the name beside that address. Absent: the deployment's displayName.
	// +optional
	FromName *DisplayName `json:"fromName,omitempty"`

	// smtp is the mail server that takes the mail. Absent: see log.
	// +optional
	SMTP *SMTPServer `json:"smtp,omitempty"`

	// log writes mail, codes and all, to the server's log instead of sending it; with mode Staging only. Absent: see smtp.
	// +optional
	Log *MessageLog `json:"log,omitempty"`
}

// SMSProvider says who sends text messages.
// +kubebuilder:validation:Enum=Twilio;Webhook;Log
type SMSProvider string

const (
	// SMSProviderTwilio is Twilio's Messages resource.
	SMSProviderTwilio SMSProvider = "Twilio"
	// SMSProviderWebhook is an HTTP endpoint of one's own, called with a signature.
	SMSProviderWebhook SMSProvider = "Webhook"
	// SMSProviderLog writes messages to the server's log instead of sending them; with mode Staging only.
	SMSProviderLog SMSProvider = "Log"
)

// TwilioAccount is an account at Twilio, and what its messages come from.
// +kubebuilder:validation:XValidation:rule="has(self.from) != has(self.messagingServiceSID)",message="set exactly one of from and messagingServiceSID"
// +kubebuilder:validation:XValidation:rule="!has(self.baseURL) || self.baseURL.matches('^(https://|http://(([a-z0-9-]+[.])*localhost|127[.]0[.]0[.]1)(:|/|$))')",message="baseURL is https; http is for localhost and 127.0.0.1 alone: use https",fieldPath=".baseURL"
type TwilioAccount struct {
	// accountSID is the account's id: `AC` and 32 hexadecimal digits.
	// +required
	// +kubebuilder:validation:MinLength=34
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:Pattern=`^AC[0-9a-f]{32}$`
	AccountSID string `json:"accountSID"`

	// authTokenSecretRef names the Secret and key that hold the account's auth token: one line of at most 512
	// bytes. The Secret carries the label iam.cardea.dev/deployment with the deployment's name.
	// +required
	AuthTokenSecretRef SecretKeyReference `json:"authTokenSecretRef"`

	// from is the number that messages come from, in E.164 form such as `+15005550006`. Absent: see messagingServiceSID.
	// +optional
	// +kubebuilder:validation:MinLength=8
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^\+[1-9][0-9]{6,14}$`
	From *string `json:"from,omitempty"`

	// messagingServiceSID is the messaging service that chooses the number: `MG` and 32 hexadecimal digits. Absent: see from.
	// +optional
	// +kubebuilder:validation:MinLength=34
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:Pattern=`^MG[0-9a-f]{32}$`
	MessagingServiceSID *string `json:"messagingServiceSID,omitempty"`

	// baseURL is where Twilio's API is, a URL without query, such as a proxy or a stand-in; http is for localhost and
	// 127.0.0.1 with mode Staging only. Absent: https://api.twilio.com.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[1-9][0-9]{0,4})?(/[A-Za-z0-9._~/-]*)?$`
	BaseURL *string `json:"baseURL,omitempty"`
}

// SMSWebhook is an HTTP endpoint of one's own that sends text messages.
type SMSWebhook struct {
	// url is called with POST for every message; https, or http with mode Staging. It holds no credentials: the signature is
	// the proof.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^https?://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[1-9][0-9]{0,4})?([/?][!"$-~]*)?$`
	URL string `json:"url"`

	// signingSecretRef names the Secret and key that hold what the calls are signed with: one line of at
	// most 512 bytes. The Secret carries the label iam.cardea.dev/deployment with the deployment's name.
	// +required
	SigningSecretRef SecretKeyReference `json:"signingSecretRef"`
}

// CountryCode is a country of ISO 3166-1, two upper-case letters such as `US`.
// +kubebuilder:validation:MinLength=2
// +kubebuilder:validation:MaxLength=2
// +kubebuilder:validation:Pattern=`^[A-Z]{2}$`
type CountryCode string

// SMSSettings say how text messages to end users are sent.
// +kubebuilder:validation:XValidation:rule="(self.provider == 'Twilio') == has(self.twilio)",message="twilio goes with provider Twilio and no other: add it, or remove it",fieldPath=".twilio"
// +kubebuilder:validation:XValidation:rule="(self.provider == 'Webhook') == has(self.webhook)",message="webhook goes with provider Webhook and no other: add it, or remove it",fieldPath=".webhook"
type SMSSettings struct {
	// provider says who sends the messages. `Twilio`: Twilio's Messages resource, see twilio. `Webhook`: an HTTP endpoint of
	// one's own, see webhook. `Log`: nobody, they are written, codes and all, to the server's log; with mode Staging only.
	// +required
	Provider SMSProvider `json:"provider"`

	// twilio is the account of provider Twilio. Absent: another provider sends.
	// +optional
	Twilio *TwilioAccount `json:"twilio,omitempty"`

	// webhook is the endpoint of provider Webhook. Absent: another provider sends.
	// +optional
	Webhook *SMSWebhook `json:"webhook,omitempty"`

	// allowedCountries are the countries whose numbers end users may add; an empty list allows none. Absent: all.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=250
	AllowedCountries *[]CountryCode `json:"allowedCountries,omitempty"` // a pointer, so that clients keep an empty list

	// dailyBudget is how many messages may be sent in one UTC day, 0 to 10000000; those beyond it are refused. Absent: 1000.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000000
	DailyBudget *int32 `json:"dailyBudget,omitempty"`

	// testNumbers are numbers to which nothing is sent, and whose code is always the same, for tests of the deployment; with mode Staging
	// only. Absent: none.
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

	// code is what verifies the number: six digits.
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

// AccentColor is a colour of sRGB, `#` and six lower-case hexadecimal digits, on which white text can be read: the contrast of the
// two is at least 4.5 (WCAG 2.2, 1.4.3).
// +kubebuilder:validation:MinLength=7
// +kubebuilder:validation:MaxLength=7
// +kubebuilder:validation:Pattern=`^#[0-9a-f]{6}$`
// +kubebuilder:validation:XValidation:rule="!self.matches('^#[0-9a-f]{6}$') || [[1, 3, 5].map(i, double('0123456789abcdef'.indexOf(self.substring(i, i + 1)) * 16 + '0123456789abcdef'.indexOf(self.substring(i + 1, i + 2))) / 255.0).map(c, c * (0.012522878 + c * (0.682171111 + c * 0.305306011)))].all(l, 0.2126 * l[0] + 0.7152 * l[1] + 0.0722 * l[2] <= 0.187)",message="white text cannot be read on this colour, the contrast is below 4.5: choose a darker one"
type AccentColor string

// PagesSettings are about the pages that end users see, and how they look.
type PagesSettings struct {
	// enabled reports whether Cardea serves pages to sign in, sign up, and look after one's account on the deployment's hosts; `false`: the
	// end-user API alone is served there. Absent: true.
	// +optional
	Enabled *bool `json:"enabled,omitempty"`

	// url is where the deployment's own pages are, without query; links in mails then begin with it, in place of the first of
	// frontendHosts. Absent: they lead to the pages that Cardea serves.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!self.contains('?')",message="url has no query: paths are put behind it"
	URL *HTTPSURL `json:"url,omitempty"`

	// logoURL is a picture that the pages show above their forms, at most 48 pixels high; browsers fetch it from there. Absent: the
	// deployment's displayName.
	// +optional
	LogoURL *HTTPSURL `json:"logoURL,omitempty"`

	// accentColor is the colour of buttons, whose text is white, in both colour schemes; links have it too, darker in the light scheme
	// and lighter in the dark one where they could not be read otherwise. Absent: a blue.
	// +optional
	AccentColor *AccentColor `json:"accentColor,omitempty"`

	// supportEmail is the address that the pages name for help. Absent: none.
	// +optional
	SupportEmail *MailAddress `json:"supportEmail,omitempty"`

	// privacyURL is the privacy policy that the pages link to. Absent: none.
	// +optional
	PrivacyURL *HTTPSURL `json:"privacyURL,omitempty"`

	// termsURL are the terms of use that the pages link to. Absent: none.
	// +optional
	TermsURL *HTTPSURL `json:"termsURL,omitempty"`
}
