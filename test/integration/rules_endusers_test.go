package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// staging returns an overlay of a deployment with mode Staging.
func staging(overlay string) string { return "mode: Staging\n" + overlay }

// origin returns allowedOrigins with one element.
func origin(text string) string { return fmt.Sprintf("allowedOrigins: [%q]", text) }

var _ = DescribeTable("The schema of a deployment's allowedOrigins validates", validates(v1alpha1.KindIdentityDeployment), func() []TableEntry {
	const at, ownPort, highPort = "spec.allowedOrigins[0]", "browsers leave the scheme's own port out of an origin: write it without", "a port is at most 65535: correct it"
	return []TableEntry{
		Entry("none", `allowedOrigins: []`), Entry("a host", origin("https://app.example.com")), Entry("a port", origin("https://app.example.com:8443")),
		Entry("an address", origin("https://10.0.0.1")), Entry("the last port", origin("https://a.example:65535")),
		Entry("the first port", origin("https://a.example:1")), Entry("http's port over https", origin("https://a.example:80")),
		Entry("localhost", origin("http://localhost:3000")), Entry("localhost without port", origin("http://localhost")),
		Entry("below localhost", origin("http://app.localhost:5173")), Entry("the loopback address", origin("http://127.0.0.1:3000")),
		Entry("https for localhost", origin("https://localhost:3000")), Entry("https's port over http", origin("http://localhost:443")),
		Entry("http elsewhere", origin("http://app.example.com"), at, "should match"), Entry("http to another loopback address", origin("http://127.0.0.2"), at, "should match"),
		Entry("http to what looks like localhost", origin("http://mylocalhost"), at, "should match"), Entry("http to a host that begins so", origin("http://localhost.example"), at, "should match"),
		Entry("upper case", origin("https://App.example.com"), at, "should match"), Entry("a slash", origin("https://app.example.com/"), at, "should match"),
		Entry("a path", origin("https://app.example.com/a"), at, "should match"), Entry("a wildcard", origin("https://*.example.com"), at, "should match"),
		Entry("a star", origin("*"), at, "should match"), Entry("null", origin("null"), at, "should match"), Entry("nothing", origin(""), at),
		Entry("no scheme", origin("app.example.com"), at, "should match"), Entry("another scheme", origin("ftp://app.example.com"), at, "should match"),
		Entry("a user", origin("https://me@app.example.com"), at, "should match"), Entry("a trailing dot", origin("https://app.example.com."), at, "should match"),
		Entry("a colon without port", origin("https://a.example:"), at, "should match"), Entry("port 0", origin("https://a.example:0"), at, "should match"),
		Entry("a port of six digits", origin("https://a.example:100000"), at, "should match"),
		Entry("port 65536", origin("https://a.example:65536"), at, highPort), Entry("port 99999", origin("http://localhost:99999"), at, highPort),
		Entry("port 65999", origin("https://a.example:65999"), at, highPort), Entry("port 65540", origin("https://a.example:65540"), at, highPort),
		Entry("port 65499", origin("https://a.example:65499")),
		Entry("https's own port", origin("https://a.example:443"), at, ownPort), Entry("http's own port", origin("http://localhost:80"), at, ownPort),
		Entry("the longest", origin("https://"+strings.Repeat(letters(63)+".", 3)+letters(61)+":65535")),
		Entry("one longer", origin("https://"+strings.Repeat(letters(63)+".", 3)+letters(62)+":65535"), at, "may not be more than 267"),
		Entry("an origin twice", `allowedOrigins: ["https://a", "https://a"]`, "spec.allowedOrigins[1]", "Duplicate value"),
		Entry("32 origins", repeated("allowedOrigins", "https://a#.example", 32)), Entry("33 origins", repeated("allowedOrigins", "https://a#.example", 33), "spec.allowedOrigins", tooMany),
	}
}())

var _ = DescribeTable("The schema of a deployment's session validates", validates(v1alpha1.KindIdentityDeployment), func() []TableEntry {
	const presetAlone = "preset stands for both idleTimeoutSeconds and lifetimeSeconds: remove it or them"
	const idleOver = "idleTimeoutSeconds (absent: 86400) must not be more than lifetimeSeconds (absent: 604800): shorten the one or lengthen the other"
	return []TableEntry{
		Entry("nothing", `session: {}`), Entry("all", `session: {idleTimeoutSeconds: 3600, lifetimeSeconds: 7200, maxSignIns: 3}`),
		Entry("the least", `session: {idleTimeoutSeconds: 60, lifetimeSeconds: 300, maxSignIns: 1}`), Entry("the most", `session: {idleTimeoutSeconds: 2592000, lifetimeSeconds: 2592000, maxSignIns: 20}`),
		Entry("idle below", `session: {idleTimeoutSeconds: 59}`, "spec.session.idleTimeoutSeconds", "60"), Entry("idle above", `session: {idleTimeoutSeconds: 2592001, lifetimeSeconds: 2592000}`, "spec.session.idleTimeoutSeconds", "2592000"),
		Entry("lifetime below", `session: {idleTimeoutSeconds: 60, lifetimeSeconds: 299}`, "spec.session.lifetimeSeconds", "300"), Entry("lifetime above", `session: {lifetimeSeconds: 2592001}`, "spec.session.lifetimeSeconds", "2592000"),
		Entry("no sign-in", `session: {maxSignIns: 0}`, "spec.session.maxSignIns", "1"), Entry("21 sign-ins", `session: {maxSignIns: 21}`, "spec.session.maxSignIns", "20"),
		Entry("idle equal to the lifetime", `session: {idleTimeoutSeconds: 300, lifetimeSeconds: 300}`), Entry("idle over the lifetime", `session: {idleTimeoutSeconds: 301, lifetimeSeconds: 300}`, "spec.session", idleOver),
		Entry("idle equal to the absent lifetime", `session: {idleTimeoutSeconds: 604800}`), Entry("idle over the absent lifetime", `session: {idleTimeoutSeconds: 604801}`, "spec.session", idleOver),
		Entry("a level", `session: {preset: AAL1, maxSignIns: 3}`), Entry("the other level", `session: {preset: AAL2}`), Entry("another level", `session: {preset: AAL3}`, "spec.session.preset", `supported values: "AAL1", "AAL2"`),
		Entry("a level beside idle", `session: {preset: AAL2, idleTimeoutSeconds: 60}`, "spec.session", presetAlone), Entry("a level beside a lifetime", `session: {preset: AAL1, lifetimeSeconds: 86400}`, "spec.session", presetAlone),
		Entry("the shortest proof", `session: {requireReauthenticationSeconds: 60}`), Entry("the longest proof", `session: {requireReauthenticationSeconds: 86400}`),
		Entry("a proof too short", `session: {requireReauthenticationSeconds: 59}`, "spec.session.requireReauthenticationSeconds", "60"),
		Entry("a proof too long", `session: {requireReauthenticationSeconds: 86401}`, "spec.session.requireReauthenticationSeconds", "86400"),
		Entry("a lifetime equal to the absent idle", `session: {lifetimeSeconds: 86400}`), Entry("a lifetime below the absent idle", `session: {lifetimeSeconds: 86399}`, "spec.session", idleOver),
	}
}())

var _ = DescribeTable("The schema of a deployment's analytics validates", validates(v1alpha1.KindIdentityDeployment),
	Entry("nothing", `analytics: {}`), Entry("the least", `analytics: {addressRetentionDays: 1}`), Entry("the most", `analytics: {addressRetentionDays: 3650}`),
	Entry("no day", `analytics: {addressRetentionDays: 0}`, "spec.analytics.addressRetentionDays", "1"),
	Entry("a day too many", `analytics: {addressRetentionDays: 3651}`, "spec.analytics.addressRetentionDays", "3650"),
)

var _ = DescribeTable("The schema of a deployment's pages validates", validates(v1alpha1.KindIdentityDeployment), func() []TableEntry {
	const unreadable = "white text is not readable on this color, the contrast is below 4.5: choose a darker color"
	entries := []TableEntry{
		Entry("nothing", `pages: {}`), Entry("none", `pages: {enabled: false}`), Entry("pages elsewhere", `pages: {enabled: false, url: "https://acme.example/me"}`),
		Entry("all", `pages: {enabled: true, url: "https://acme.example:8443", logoURL: "https://cdn.acme.example/logo.svg?v=2", accentColor: "#1d4ed8",
  supportEmail: help@acme.example, privacyURL: "https://acme.example/privacy", termsURL: "https://acme.example/terms"}`),
		Entry("enabled as a word", `pages: {enabled: "no"}`, "spec.pages.enabled", "must be of type boolean"),
		Entry("a query in url", `pages: {url: "https://acme.example/?a"}`, "spec.pages.url", "url must not have a query, because paths are appended: remove the query"),
		Entry("an address that is none", `pages: {supportEmail: "help"}`, "spec.pages.supportEmail", "should match"),
		Entry("black", `pages: {accentColor: "#000000"}`), Entry("a red", `pages: {accentColor: "#c21807"}`), Entry("the lightest grey", `pages: {accentColor: "#767676"}`),
		Entry("white", `pages: {accentColor: "#ffffff"}`, "spec.pages.accentColor", unreadable), Entry("yellow", `pages: {accentColor: "#ffff00"}`, "spec.pages.accentColor", unreadable),
		Entry("red", `pages: {accentColor: "#ff0000"}`, "spec.pages.accentColor", unreadable), Entry("a light grey", `pages: {accentColor: "#7c7c7c"}`, "spec.pages.accentColor", unreadable),
		Entry("upper case", `pages: {accentColor: "#1D4ED8"}`, "spec.pages.accentColor", "should match"), Entry("three digits", `pages: {accentColor: "#00f"}`, "spec.pages.accentColor", "at least 7 chars"),
		Entry("a word", `pages: {accentColor: "navyblu"}`, "spec.pages.accentColor", "should match"), Entry("no colour", `pages: {accentColor: ""}`, "spec.pages.accentColor"),
	}
	for _, member := range []string{"url", "logoURL", "privacyURL", "termsURL"} {
		at := "spec.pages." + member
		for what, written := range map[string]string{
			"http": "http://acme.example", "no scheme": "acme.example", "a script": "javascript:alert(1)", "data": "data:image/svg+xml,x", "a user": "https://me@acme.example",
			"a fragment": "https://acme.example/#a", "a blank": "https://acme.example/a b", "a quote": `https://acme.example/'\"`, "upper case": "https://ACME.example", "nothing": "",
			"markup": "https://acme.example/<script>", "a line's end": "https://acme.example/\n", "a backslash": `https://acme.example\a`, "no host": "https:///a",
		} {
			entries = append(entries, Entry(member+" with "+what, fmt.Sprintf("pages: {%s: %q}", member, written), at))
		}
		entries = append(entries, Entry("the longest "+member, fmt.Sprintf("pages: {%s: %q}", member, "https://a/"+letters(2038))),
			Entry("a longer "+member, fmt.Sprintf("pages: {%s: %q}", member, "https://a/"+letters(2039)), at, "may not be more than 2048"))
	}
	return entries
}())

var _ = DescribeTable("The schema of a deployment's signIn validates", validates(v1alpha1.KindIdentityDeployment), func() []TableEntry {
	const noSignIn = "with both password and emailCode disabled, no user could sign in: enable one of them, or set connections.only to true"
	const neither = "password: {enabled: false}, emailCode: {enabled: false}"
	return []TableEntry{
		Entry("nothing", `signIn: {}`), Entry("empty parts", `signIn: {password: {}, emailCode: {}}`),
		Entry("both", `signIn: {password: {enabled: true}, emailCode: {enabled: true}}`), Entry("no password", `signIn: {password: {enabled: false}}`),
		Entry("no code", `signIn: {emailCode: {enabled: false}}`), Entry("no code, but a password", `signIn: {password: {enabled: true}, emailCode: {enabled: false}}`),
		Entry("no code, and a password's length", `signIn: {password: {minLength: 8}, emailCode: {enabled: false}}`),
		Entry("neither", `signIn: {password: {enabled: false}, emailCode: {enabled: false}}`, "spec.signIn", noSignIn),
		Entry("connections only", "signIn: {"+neither+", connections: {only: true}}"), Entry("connections beside the others", `signIn: {connections: {only: true}}`),
		Entry("neither, with connections", "signIn: {"+neither+", connections: {}}", "spec.signIn", noSignIn),
		Entry("neither, with other ways than connections", "signIn: {"+neither+", connections: {only: false}}", "spec.signIn", noSignIn),
		Entry("8 characters", `signIn: {password: {minLength: 8}}`), Entry("64 characters", `signIn: {password: {minLength: 64}}`),
		Entry("7 characters", `signIn: {password: {minLength: 7}}`, "spec.signIn.password.minLength", "8"), Entry("65 characters", `signIn: {password: {minLength: 65}}`, "spec.signIn.password.minLength", "64"),
		Entry("enabled as a word", `signIn: {password: {enabled: "no"}}`, "spec.signIn.password.enabled", "must be of type boolean"),
	}
}())

// mail returns email with a mail server's members, and more members of email.
func mail(server string, more ...string) string {
	return "email: {" + strings.Join(append([]string{"from: no-reply@acme.example", "smtp: {" + server + "}"}, more...), ", ") + "}"
}

// from returns email with a sender address.
func from(address string) string {
	return fmt.Sprintf("email: {smtp: {host: mail}, from: %q}", address)
}

var _ = DescribeTable("The schema of a deployment's email validates", validates(v1alpha1.KindIdentityDeployment), func() []TableEntry {
	const oneWay, together = "set exactly one of smtp and log", "username and passwordSecretRef go together: give both or neither"
	const stagingOnly = "only a deployment with mode Staging may write mail to the log: set mode to Staging or use smtp"
	const ref = "passwordSecretRef: {name: mail, key: password}"
	return []TableEntry{
		Entry("the least", mail("host: mail.acme.example")), Entry("all", mail("host: 127.0.0.1, port: 465, security: TLS, username: u, "+ref, "fromName: Acme")),
		Entry("StartTLS", mail("host: mail, security: StartTLS")), Entry("None", mail("host: mail, security: None")),
		Entry("another security", mail("host: mail, security: SSL"), "spec.email.smtp.security", `supported values: "StartTLS", "TLS", "None"`),
		Entry("no way", `email: {from: a@b.example}`, "spec.email", oneWay), Entry("both ways", staging(mail("host: mail", "log: {}")), "spec.email", oneWay),
		Entry("no address", `email: {smtp: {host: mail}}`, "spec.email.from: Required value"), Entry("the log in Staging", staging("email: {from: a@b.example, log: {}}")),
		Entry("the log in Production", "mode: Production\nemail: {from: a@b.example, log: {}}", "spec.email.log", stagingOnly), Entry("the log without mode", "email: {from: a@b.example, log: {}}", "spec.email.log", stagingOnly),
		Entry("an address with a plus", from("no-reply+x.y@acme.example")), Entry("an address without a dot", from("root@localhost")), Entry("an address without domain", from("no-reply@"), "spec.email.from", "should match"),
		Entry("an address without an at", from("acme.example"), "spec.email.from", "should match"), Entry("two ats", from("a@b@c.example"), "spec.email.from", "should match"),
		Entry("an address with a name", from("Acme <a@b.example>"), "spec.email.from", "should match"), Entry("two addresses", from("a@b.example,c@d.example"), "spec.email.from", "should match"),
		Entry("a line break", from("a@b.example\r\nBcc: x@y.example"), "spec.email.from", "should match"), Entry("two dots", from("a..b@c.example"), "spec.email.from", "should match"),
		Entry("a domain in upper case", from("a@B.example"), "spec.email.from", "should match"), Entry("an empty address", from(""), "spec.email.from"),
		Entry("an address of 254", from(letters(64)+"@"+letters(63)+"."+letters(63)+"."+letters(61))), Entry("an address of 255", from(letters(64)+"@"+letters(63)+"."+letters(63)+"."+letters(62)), "spec.email.from", "may not be more than 254"),
		Entry("a blank name", mail("host: mail", `fromName: " "`), "spec.email.fromName", notBlank), Entry("a name of 81", mail("host: mail", "fromName: "+letters(81)), "spec.email.fromName", "may not be more than 80"),
		Entry("a name of two lines", mail("host: mail", `fromName: "a\nb"`), "spec.email.fromName", "should match"),
		Entry("no host", mail(""), "spec.email.smtp.host: Required value"), Entry("a host with a port", mail(`host: "mail:25"`), "spec.email.smtp.host", "should match"), Entry("an empty host", mail(`host: ""`), "spec.email.smtp.host"),
		Entry("port 0", mail("host: mail, port: 0"), "spec.email.smtp.port", "1"), Entry("port 65535", mail("host: mail, port: 65535")), Entry("port 65536", mail("host: mail, port: 65536"), "spec.email.smtp.port", "65535"),
		Entry("a user without password", mail("host: mail, username: u"), "spec.email.smtp", together), Entry("a password without user", mail("host: mail, "+ref), "spec.email.smtp", together),
		Entry("an empty user", mail(`host: mail, username: "", `+ref), "spec.email.smtp.username"), Entry("a user of 255", mail("host: mail, username: "+letters(255)+", "+ref)),
		Entry("a user of 256", mail("host: mail, username: "+letters(256)+", "+ref), "spec.email.smtp.username", "may not be more than 255"), Entry("a user of two lines", mail(`host: mail, username: "a\nb", `+ref), "spec.email.smtp.username", "should match"),
		Entry("a Secret without name", mail("host: mail, username: u, passwordSecretRef: {key: a}"), "spec.email.smtp.passwordSecretRef.name: Required value"),
		Entry("a Secret without key", mail("host: mail, username: u, passwordSecretRef: {name: a}"), "spec.email.smtp.passwordSecretRef.key: Required value"),
		Entry("a Secret elsewhere", mail("host: mail, username: u, passwordSecretRef: {name: a/b, key: c}"), "spec.email.smtp.passwordSecretRef.name", "should match"),
	}
}())

const accountSID, serviceSID = "AC0123456789abcdef0123456789abcdef", "MG0123456789abcdef0123456789abcdef"

// twilio returns sms through Twilio with a token and these members.
func twilio(members ...string) string {
	return "sms: {provider: Twilio, twilio: {" + strings.Join(append([]string{"authTokenSecretRef: {name: carrier, key: token}"}, members...), ", ") + "}}"
}

// twilioAt returns sms through Twilio with a base URL.
func twilioAt(url string) string {
	return twilio("accountSID: "+accountSID, `from: "+15005550006"`, fmt.Sprintf("baseURL: %q", url))
}

// hook returns sms through a webhook with a URL.
func hook(url string) string {
	return fmt.Sprintf("sms: {provider: Webhook, webhook: {url: %q, signingSecretRef: {name: hook, key: secret}}}", url)
}

// texts returns sms to the log, in Staging, with these members.
func texts(members string) string { return staging("sms: {provider: Log, " + members + "}") }

const overHTTP = "only a deployment with mode Staging may send over http: set mode to Staging or use https"

var _ = DescribeTable("The schema of a deployment's sms validates", validates(v1alpha1.KindIdentityDeployment), func() []TableEntry {
	const twilioGoes, webhookGoes = "twilio is required with provider Twilio, and not allowed with another: add it, or remove it", "webhook is required with provider Webhook, and not allowed with another: add it, or remove it"
	const stagingOnly = "only a deployment with mode Staging may write messages to the log: set mode to Staging or use another provider"
	const account = "{accountSID: " + accountSID + `, authTokenSecretRef: {name: a, key: b}, from: "+15005550006"}`
	const endpoint = "{url: https://hook.example, signingSecretRef: {name: a, key: b}}"
	return []TableEntry{
		Entry("Twilio", "sms: {provider: Twilio, twilio: "+account+"}"), Entry("a webhook", "sms: {provider: Webhook, webhook: "+endpoint+"}"),
		Entry("no provider", "sms: {twilio: "+account+"}", "spec.sms.provider: Required value"), Entry("another provider", "sms: {provider: Vonage}", "spec.sms.provider", `supported values: "Twilio", "Webhook", "Log"`),
		Entry("Twilio without account", "sms: {provider: Twilio}", "spec.sms.twilio", twilioGoes), Entry("a webhook without endpoint", "sms: {provider: Webhook}", "spec.sms.webhook", webhookGoes),
		Entry("Twilio with an endpoint", "sms: {provider: Twilio, twilio: "+account+", webhook: "+endpoint+"}", "spec.sms.webhook", webhookGoes),
		Entry("a webhook with an account", "sms: {provider: Webhook, twilio: "+account+", webhook: "+endpoint+"}", "spec.sms.twilio", twilioGoes),
		Entry("a log with an account", texts("twilio: "+account), "spec.sms.twilio", twilioGoes), Entry("a log with an endpoint", texts("webhook: "+endpoint), "spec.sms.webhook", webhookGoes),
		Entry("the log in Staging", staging("sms: {provider: Log}")), Entry("the log in Production", "mode: Production\nsms: {provider: Log}", "spec.sms.provider", stagingOnly),
		Entry("the log without mode", "sms: {provider: Log}", "spec.sms.provider", stagingOnly),
		Entry("countries", texts("allowedCountries: [US, DE]")), Entry("no country", texts("allowedCountries: []")),
		Entry("a country in lower case", texts("allowedCountries: [us]"), "spec.sms.allowedCountries[0]", "should match '^[A-Z]{2}$'"), Entry("a country of three letters", texts("allowedCountries: [USA]"), "spec.sms.allowedCountries[0]", "may not be more than 2"),
		Entry("a country twice", texts("allowedCountries: [US, US]"), "Duplicate value"), Entry("251 countries", texts(repeated("allowedCountries", "C#", 251)), "spec.sms.allowedCountries", tooMany),
		Entry("no budget", texts("dailyBudget: 0")), Entry("the largest budget", texts("dailyBudget: 10000000")), Entry("a larger one", texts("dailyBudget: 10000001"), "spec.sms.dailyBudget", "10000000"),
		Entry("a negative one", texts("dailyBudget: -1"), "spec.sms.dailyBudget", "0"),
		Entry("a test number", texts(`testNumbers: [{number: "+12025550123", code: "123456"}]`)),
		Entry("a test number in Production", "mode: Production\nsms: {provider: Webhook, webhook: "+endpoint+`, testNumbers: [{number: "+12025550123", code: "123456"}]}`, "spec.sms.testNumbers", "only a deployment with mode Staging may have test numbers"),
		Entry("a test number twice", texts(`testNumbers: [{number: "+12025550123", code: "123456"}, {number: "+12025550123", code: "654321"}]`), "spec.sms.testNumbers[1]", "Duplicate value"),
		Entry("a test number without code", texts(`testNumbers: [{number: "+12025550123"}]`), "spec.sms.testNumbers[0].code: Required value"),
		Entry("a test number that is none", texts(`testNumbers: [{number: "2025550123", code: "123456"}]`), "spec.sms.testNumbers[0].number", "should match"),
		Entry("a code of five digits", texts(`testNumbers: [{number: "+12025550123", code: "12345"}]`), "spec.sms.testNumbers[0].code", "should match"),
		Entry("21 test numbers", texts(repeated("testNumbers", `{number: "+1202555#123", code: "123456"}`, 21)), "spec.sms.testNumbers"),
		Entry("a webhook with a query", hook("https://hook.example:8443/send?a=b")), Entry("a webhook over http in Staging", staging(hook("http://hook.acme.svc:8080/send"))),
		Entry("a webhook over http in Production", "mode: Production\n"+hook("http://hook.acme.svc/send"), "spec.sms.webhook.url", overHTTP), Entry("a webhook over http without mode", hook("http://127.0.0.1/send"), "spec.sms.webhook.url", overHTTP),
		Entry("a webhook with credentials", hook("https://me:secret@hook.example"), "spec.sms.webhook.url", "should match"), Entry("a webhook with a fragment", hook("https://hook.example/#a"), "spec.sms.webhook.url", "should match"),
		Entry("a webhook with a blank", hook("https://hook.example/a b"), "spec.sms.webhook.url", "should match"), Entry("a webhook in a file", hook("file:///hook"), "spec.sms.webhook.url", "should match"), Entry("an empty webhook", hook(""), "spec.sms.webhook.url"),
		Entry("a webhook of 2048", hook("https://hook/"+letters(2035))), Entry("a webhook of 2049", hook("https://hook/"+letters(2036)), "spec.sms.webhook.url", "may not be more than 2048"),
		Entry("a webhook without Secret", "sms: {provider: Webhook, webhook: {url: https://hook.example}}", "spec.sms.webhook.signingSecretRef: Required value"),
		Entry("a webhook without url", "sms: {provider: Webhook, webhook: {signingSecretRef: {name: a, key: b}}}", "spec.sms.webhook.url: Required value"),
	}
}(), twilioEntries())

// twilioEntries are the rules of an account at Twilio.
func twilioEntries() []TableEntry {
	const oneSender, loopback = "set exactly one of from and messagingServiceSID", "baseURL is https; http is only for localhost and 127.0.0.1: use https"
	const sid, number, service = "accountSID: " + accountSID, `from: "+15005550006"`, "messagingServiceSID: " + serviceSID
	const at = "spec.sms.twilio"
	return []TableEntry{
		Entry("a number", twilio(sid, number)), Entry("a service", twilio(sid, service)), Entry("no sender", twilio(sid), at, oneSender), Entry("two senders", twilio(sid, number, service), at, oneSender),
		Entry("no account", twilio(number), at+".accountSID: Required value"), Entry("a service as account", twilio("accountSID: "+serviceSID, number), at+".accountSID", "should match '^AC[0-9a-f]{32}$'"),
		Entry("an account in upper case", twilio("accountSID: "+strings.ToUpper(accountSID), number), at+".accountSID", "should match"), Entry("an account too long", twilio(sid+"0", number), at+".accountSID", "may not be more than 34"),
		Entry("an account too short", twilio("accountSID: AC01", number), at+".accountSID"), Entry("an account as service", twilio(sid, "messagingServiceSID: "+accountSID), at+".messagingServiceSID", "should match '^MG[0-9a-f]{32}$'"),
		Entry("no token", "sms: {provider: Twilio, twilio: {"+sid+", "+number+"}}", at+".authTokenSecretRef: Required value"),
		Entry("a number without plus", twilio(sid, `from: "15005550006"`), at+".from", "should match"), Entry("a number with a zero", twilio(sid, `from: "+05005550006"`), at+".from", "should match"),
		Entry("a name", twilio(sid, "from: ACMECORP"), at+".from", "should match"), Entry("15 digits", twilio(sid, `from: "+123456789012345"`)), Entry("16 digits", twilio(sid, `from: "+1234567890123456"`), at+".from", "may not be more than 16"),
		Entry("7 digits", twilio(sid, `from: "+1234567"`)), Entry("6 digits", twilio(sid, `from: "+123456"`), at+".from", "at least 8"),
		Entry("a proxy", twilioAt("https://proxy.example:8443/twilio")), Entry("a stand-in in Staging", staging(twilioAt("http://127.0.0.1:8084"))), Entry("a stand-in at localhost", staging(twilioAt("http://localhost:8084/a"))),
		Entry("a stand-in below localhost", staging(twilioAt("http://sms.localhost"))), Entry("a stand-in in Production", "mode: Production\n"+twilioAt("http://127.0.0.1:8084"), at+".baseURL", overHTTP),
		Entry("a stand-in without mode", twilioAt("http://127.0.0.1:8084"), at+".baseURL", overHTTP), Entry("http elsewhere", staging(twilioAt("http://proxy.example")), at+".baseURL", loopback),
		Entry("http to a host that begins so", staging(twilioAt("http://localhost.example")), at+".baseURL", loopback), Entry("http to an address that begins so", staging(twilioAt("http://127.0.0.1.example")), at+".baseURL", loopback),
		Entry("http to what looks like localhost", staging(twilioAt("http://mylocalhost")), at+".baseURL", loopback),
		Entry("a base with a query", twilioAt("https://proxy.example/?a"), at+".baseURL", "should match"), Entry("a base with credentials", twilioAt("https://me:secret@proxy.example"), at+".baseURL", "should match"),
		Entry("an empty base", twilioAt(""), at+".baseURL"), Entry("a base of 2049", twilioAt("https://a/"+letters(2039)), at+".baseURL", "may not be more than 2048"),
	}
}
