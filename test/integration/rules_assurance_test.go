package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

const (
	levels        = `supported values: "OneFactor", "TwoFactors", "PhishingResistant"`
	fromNeeds     = "enforceFrom is only for a required level above OneFactor: set required to TwoFactors or PhishingResistant, or remove enforceFrom"
	graceNeeds    = "gracePeriodSeconds is only for a required level above OneFactor: set required to TwoFactors or PhishingResistant, or remove gracePeriodSeconds"
	passkeysNeed  = "PhishingResistant needs passkeys and a host where they are used: remove signIn.passkey.enabled: false and add a host to frontendHosts, or require TwoFactors"
	factorsNeed   = "TwoFactors needs a second factor: enable one of secondFactor.totp, secondFactor.sms and signIn.passkey (with a host in frontendHosts)"
	textsNeedSMS  = "texts as a second factor need spec.sms, which sends them: add sms or remove secondFactor.sms.enabled"
	textsNeedMore = "texts as a second factor need another factor beside them, because phone numbers can be taken over: enable secondFactor.totp or signIn.passkey"
	partyNeeds    = "relyingPartyID must be one of frontendHosts or a parent domain of one: correct it, add the host to frontendHosts, or remove it for the first of frontendHosts"

	host      = "frontendHosts: [login.acme.example]\n"
	noPasskey = "signIn: {passkey: {enabled: false}}\n"
	noTOTP    = "secondFactor: {totp: {enabled: false}}\n"
	textsOnly = "secondFactor: {totp: {enabled: false}, sms: {enabled: true}}\n"
	sender    = "sms: {provider: Webhook, webhook: {url: 'https://hook.example', signingSecretRef: {name: s, key: k}}}\n"
)

// requirementEntries are the rules of a level with enforceFrom, in a member of spec, which other members precede.
func requirementEntries(member, others string) []TableEntry {
	in := func(fields string) string { return others + member + ": {" + fields + "}" }
	at := "spec." + member
	return []TableEntry{
		Entry("no level", in("")), Entry("one factor", in("required: OneFactor")), Entry("two factors", in("required: TwoFactors")), Entry("passkeys", in("required: PhishingResistant")),
		Entry("another level", in("required: AAL2"), at+".required", levels), Entry("a level as in JSON", in("required: two_factors"), at+".required", levels),
		Entry("from a time", in(`required: TwoFactors, enforceFrom: "2027-02-01T00:00:00Z"`)), Entry("from a time elsewhere", in(`required: TwoFactors, enforceFrom: "2027-02-01T01:00:00+01:00"`)),
		Entry("from a day", in(`required: TwoFactors, enforceFrom: "2027-02-01"`), at+".enforceFrom", "must be of type date-time"),
		Entry("from a time, and no level", in(`enforceFrom: "2027-02-01T00:00:00Z"`), at+".enforceFrom", fromNeeds),
		Entry("from a time, and one factor", in(`required: OneFactor, enforceFrom: "2027-02-01T00:00:00Z"`), at+".enforceFrom", fromNeeds),
	}
}

var _ = DescribeTable("The schema of a deployment's assurance validates", validates(v1alpha1.KindIdentityDeployment),
	table(requirementEntries("assurance", host), []TableEntry{
		Entry("no grace", "assurance: {required: TwoFactors, gracePeriodSeconds: 0}"), Entry("30 days of grace", "assurance: {required: TwoFactors, gracePeriodSeconds: 2592000}"),
		Entry("more grace", "assurance: {required: TwoFactors, gracePeriodSeconds: 2592001}", "spec.assurance.gracePeriodSeconds", "2592000"),
		Entry("less grace", "assurance: {required: TwoFactors, gracePeriodSeconds: -1}", "spec.assurance.gracePeriodSeconds", "0"),
		Entry("grace of no level", "assurance: {gracePeriodSeconds: 60}", "spec.assurance.gracePeriodSeconds", graceNeeds),
		Entry("grace of one factor", "assurance: {required: OneFactor, gracePeriodSeconds: 60}", "spec.assurance.gracePeriodSeconds", graceNeeds),
		Entry("passkeys without a host", "assurance: {required: PhishingResistant}", "spec.assurance.required", passkeysNeed),
		Entry("passkeys with an empty list of hosts", "frontendHosts: []\nassurance: {required: PhishingResistant}", "spec.assurance.required", passkeysNeed),
		Entry("passkeys that are disabled", host+noPasskey+"assurance: {required: PhishingResistant}", "spec.assurance.required", passkeysNeed),
		Entry("passkeys that are enabled", host+"signIn: {passkey: {enabled: true}}\nassurance: {required: PhishingResistant}"),
		Entry("two factors by TOTP", noPasskey+"assurance: {required: TwoFactors}"), Entry("two factors without a host", "assurance: {required: TwoFactors}"),
		Entry("two factors by passkeys", host+noTOTP+"assurance: {required: TwoFactors}"),
		Entry("two factors by passkeys without a host", noTOTP+"assurance: {required: TwoFactors}", "spec.assurance.required", factorsNeed),
		Entry("two factors of none", host+noPasskey+noTOTP+"assurance: {required: TwoFactors}", "spec.assurance.required", factorsNeed),
		Entry("one factor of none", host+noPasskey+noTOTP+"assurance: {required: OneFactor}"),
	}))

var _ = DescribeTable("The schema of a deployment's second factors validates", validates(v1alpha1.KindIdentityDeployment),
	Entry("nothing", "secondFactor: {}"), Entry("empty parts", "secondFactor: {totp: {}, sms: {}}"), Entry("all", sender+"secondFactor: {totp: {enabled: true, issuer: Acme}, sms: {enabled: true}}"),
	Entry("neither", noTOTP+noPasskey), Entry("no texts", "secondFactor: {sms: {enabled: false}}"),
	Entry("texts without a sender", "secondFactor: {sms: {enabled: true}}", "spec.secondFactor.sms.enabled", textsNeedSMS),
	Entry("texts alone", sender+noPasskey+textsOnly, "spec.secondFactor.sms.enabled", textsNeedMore),
	Entry("texts and passkeys", host+sender+textsOnly), Entry("texts and TOTP", sender+noPasskey+"secondFactor: {sms: {enabled: true}}"),
	Entry("enabled as a word", `secondFactor: {totp: {enabled: "no"}}`, "spec.secondFactor.totp.enabled", "must be of type boolean"),
	Entry("an issuer of 64", "secondFactor: {totp: {issuer: "+letters(64)+"}}"), Entry("an issuer of 65", "secondFactor: {totp: {issuer: "+letters(65)+"}}", "spec.secondFactor.totp.issuer", "may not be more than 64"),
	Entry("an empty issuer", `secondFactor: {totp: {issuer: ""}}`, "spec.secondFactor.totp.issuer", "at least 1 chars long"),
	Entry("a blank issuer", `secondFactor: {totp: {issuer: "  "}}`, "spec.secondFactor.totp.issuer", notBlank),
	Entry("an issuer with a colon", `secondFactor: {totp: {issuer: "Acme: Login"}}`, "spec.secondFactor.totp.issuer", "should match"),
	Entry("an issuer on two lines", `secondFactor: {totp: {issuer: "Acme\nLogin"}}`, "spec.secondFactor.totp.issuer", "should match"),
	Entry("an issuer with accents", `secondFactor: {totp: {issuer: "Café Müller"}}`),
)

var _ = DescribeTable("The schema of a deployment's passkeys validates", validates(v1alpha1.KindIdentityDeployment), func() []TableEntry {
	party := func(id string) string { return "signIn: {passkey: {relyingPartyID: " + id + "}}\n" }
	const at = "spec.signIn.passkey.relyingPartyID"
	long := strings.Repeat(letters(63)+".", 3) + letters(50)
	return []TableEntry{
		Entry("nothing", "signIn: {passkey: {}}"), Entry("enabled", host+"signIn: {passkey: {enabled: true}}"), Entry("enabled without a host", "signIn: {passkey: {enabled: true}}"),
		Entry("passkeys beside no password", host+"signIn: {password: {enabled: false}, passkey: {enabled: true}}"),
		Entry("neither password nor code", host+"signIn: {password: {enabled: false}, emailCode: {enabled: false}, passkey: {enabled: true}}", "spec.signIn", "no user could sign in"),
		Entry("enabled as a word", `signIn: {passkey: {enabled: "no"}}`, "spec.signIn.passkey.enabled", "must be of type boolean"),
		Entry("a host", host+party("login.acme.example")), Entry("a parent of a host", host+party("acme.example")), Entry("the second host", "frontendHosts: [a.example, b.example]\n"+party("b.example")),
		Entry("no host", party("acme.example"), at, partyNeeds), Entry("a foreign domain", host+party("globex.example"), at, partyNeeds),
		Entry("a domain below the host", host+party("a.login.acme.example"), at, partyNeeds), Entry("a part of a name", host+party("me.example"), at, partyNeeds),
		Entry("a domain that ends alike", "frontendHosts: [notacme.example]\n"+party("acme.example"), at, partyNeeds),
		Entry("a foreign domain while disabled", host+"signIn: {passkey: {enabled: false, relyingPartyID: globex.example}}", at, partyNeeds),
		Entry("an origin", host+party(`"https://login.acme.example"`), at, "should match"), Entry("upper case", host+party("Login.acme.example"), at, "should match"),
		Entry("an empty one", host+party(`""`), at, "at least 1 chars long"),
		Entry("the longest, of 32 hosts", "frontendHosts: ["+strings.TrimSuffix(strings.TrimPrefix(repeated("x", "h#."+long[3:], 31), "x: ["), "]")+", "+long+"]\n"+party(long)),
	}
}())

var _ = DescribeTable("The schema of a role's assurance validates", validates(v1alpha1.KindMembershipRole), requirementEntries("assurance", ""))

var _ = DescribeTable("The schema of B2BSettings' assurance validates", validates(v1alpha1.KindB2BSettings), table(requirementEntries("ownerAssurance", ""), []TableEntry{
	Entry("organizations may require", "organizationAssurance: OwnersMayRequire"), Entry("organizations may not", "organizationAssurance: Disabled"),
	Entry("another choice", "organizationAssurance: Always", "spec.organizationAssurance", `supported values: "OwnersMayRequire", "Disabled"`),
}))

var _ = DescribeTable("The schema of a client's assurance validates", validates(v1alpha1.KindOAuthClient),
	Entry("nothing", "assurance: {}"), Entry("a level", "assurance: {required: TwoFactors}"), Entry("passkeys", "assurance: {required: PhishingResistant}"),
	Entry("an age", "assurance: {maxAgeSeconds: 3600}"), Entry("both", "assurance: {required: TwoFactors, maxAgeSeconds: 0}"), Entry("a year", "assurance: {maxAgeSeconds: 31536000}"),
	Entry("another level", "assurance: {required: AAL3}", "spec.assurance.required", levels),
	Entry("a longer age", "assurance: {maxAgeSeconds: 31536001}", "spec.assurance.maxAgeSeconds", "31536000"), Entry("a negative age", "assurance: {maxAgeSeconds: -1}", "spec.assurance.maxAgeSeconds", "0"),
)
