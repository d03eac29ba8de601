package integration

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// asType returns an overlay of a connection of a type that has no member oidc.
func asType(name, more string) string { return "type: " + name + "\noidc: null\n" + more }

// oidc returns an overlay with members of oidc.
func oidc(members string) string { return "oidc: {" + members + "}" }

const (
	keyClient  = "client: {clientID: abc, privateKeySecretRef: {name: globex, key: key}}"
	needSecret = "authentication PrivateKeyJWT and type Apple need client.privateKeySecretRef, everything else client.clientSecretRef"
	oneWayOnly = "authentication is not allowed with types GitHub and Apple, which accept one way only: remove it"
	apple      = "apple: {teamID: TEAMTEAM01, keyID: KEYKEYKEY1}"
)

var _ = DescribeTable("The schema of Connection validates", validates(v1alpha1.KindConnection),
	table(commonEntries(), nameEntries(), slugEntries(), referenceEntries("deploymentRef", 63), switchEntries("active"),
		connectionTypeEntries(), connectionClientEntries(), connectionDomainEntries(), connectionMembershipEntries(), connectionRequestEntries(), upstreamURLEntries(),
		samlEntries(), samlConnectionEntries()))

func connectionTypeEntries() []TableEntry {
	entries := []TableEntry{
		Entry("no type", `type: null`, "spec.type: Required value"),
		Entry("another type", asType("Facebook", ""), "spec.type", `supported values: "OIDC", "SAML", "Google", "Microsoft", "GitHub", "GitLab", "Apple"`),
		Entry("OIDC without oidc", `oidc: null`, "spec.oidc", "oidc is required with type OIDC, and not allowed with another"),
		Entry("Google", asType("Google", "")), Entry("Google for a Workspace", asType("Google", "google: {hostedDomains: [globex.example]}")),
		Entry("Google with no domain", asType("Google", "google: {hostedDomains: []}"), "spec.google.hostedDomains", "at least 1 items"),
		Entry("Google with oidc", "type: Google", "spec.oidc", "oidc is required with type OIDC, and not allowed with another"),
		Entry("Microsoft without tenant", asType("Microsoft", ""), "spec.microsoft", "microsoft is required with type Microsoft"),
		Entry("GitHub", asType("GitHub", "")), Entry("GitHub elsewhere", asType("GitHub", `github: {baseURL: "https://git.acme.example"}`)),
		Entry("GitLab", asType("GitLab", "")), Entry("GitLab elsewhere", asType("GitLab", `gitlab: {baseURL: "https://git.acme.example/lab"}`)),
		Entry("GitLab with a query", asType("GitLab", `gitlab: {baseURL: "https://git.acme.example/?a"}`), "spec.gitlab.baseURL", "baseURL must not have a query"),
		Entry("Apple", asType("Apple", apple+"\n"+keyClient)), Entry("Apple without its member", asType("Apple", keyClient), "spec.apple", "apple is required with type Apple"),
		Entry("Apple with a short team", asType("Apple", "apple: {teamID: T, keyID: KEYKEYKEY1}\n"+keyClient), "spec.apple.teamID", "should match"),
		Entry("Apple with a key in lower case", asType("Apple", "apple: {teamID: TEAMTEAM01, keyID: keykeykey1}\n"+keyClient), "spec.apple.keyID", "should match"),
		Entry("Apple with a secret", asType("Apple", apple), "spec.client", needSecret),
		Entry("google with another type", `google: {}`, "spec.google", "google is only for type Google: remove it"),
		Entry("github with another type", `github: {}`, "spec.github", "github is only for type GitHub: remove it"),
		Entry("gitlab with another type", `gitlab: {}`, "spec.gitlab", "gitlab is only for type GitLab: remove it"),
		Entry("microsoft with another type", `microsoft: {tenant: common}`, "spec.microsoft", "microsoft is required with type Microsoft, and not allowed with another"),
		Entry("apple with another type", apple, "spec.apple", "apple is required with type Apple, and not allowed with another"),
	}
	const guid = "9188040d-6c67-4c5b-b112-36a304b66dad"
	for _, tenant := range []string{guid, "organizations", "consumers", "common"} {
		entries = append(entries, Entry("Microsoft's tenant "+tenant, asType("Microsoft", "microsoft: {tenant: "+tenant+"}")))
	}
	for _, tenant := range []string{"globex.example", "9188040D-6C67-4C5B-B112-36A304B66DAD", "9188040d"} {
		entries = append(entries, Entry("Microsoft's tenant "+tenant, asType("Microsoft", "microsoft: {tenant: "+tenant+"}"), "spec.microsoft.tenant", "should match"))
	}
	return append(entries,
		Entry("tenants", asType("Microsoft", "microsoft: {tenant: common, allowedTenants: ["+guid+"]}")),
		Entry("no tenant at all", asType("Microsoft", "microsoft: {tenant: common, allowedTenants: []}"), "spec.microsoft.allowedTenants", "at least 1 items"),
		Entry("a tenant's name", asType("Microsoft", "microsoft: {tenant: common, allowedTenants: [globex]}"), "spec.microsoft.allowedTenants[0]", "should match"))
}

func connectionClientEntries() []TableEntry {
	client := func(more string) string { return "client: {clientID: abc" + more + "}" }
	const secret, key = ", clientSecretRef: {name: s, key: k}", ", privateKeySecretRef: {name: s, key: k}"
	return []TableEntry{
		Entry("no client", `client: null`, "spec.client", "client is required with all types but SAML, and not allowed with SAML: write clientID and the Secret there, or remove it"), Entry("a client without id", `client: {clientSecretRef: {name: s, key: k}}`, "spec.client.clientID: Required value"),
		Entry("a client with a blank inside", `client: {clientID: "a b", clientSecretRef: {name: s, key: k}}`), Entry("a client with a blank at its end", `client: {clientID: "a ", clientSecretRef: {name: s, key: k}}`, "spec.client.clientID", "should match"),
		Entry("a client of 256", "client: {clientID: "+letters(256)+secret+"}", "spec.client.clientID", "may not be more than 255"),
		Entry("neither a secret nor a key", client(""), "spec.client", needSecret), Entry("both", client(secret+key), "spec.client", "clientSecretRef and privateKeySecretRef exclude each other: remove one"),
		Entry("a key without PrivateKeyJWT", client(key), "spec.client", needSecret), Entry("PrivateKeyJWT", client(key+", authentication: PrivateKeyJWT")),
		Entry("PrivateKeyJWT with a secret", client(secret+", authentication: PrivateKeyJWT"), "spec.client", needSecret),
		Entry("a secret in the body", client(secret+", authentication: ClientSecretPost")), Entry("a secret in a header", client(secret+", authentication: ClientSecretBasic")),
		Entry("another authentication", client(secret+", authentication: None"), "spec.client.authentication", `supported values: "ClientSecretBasic", "ClientSecretPost", "PrivateKeyJWT"`),
		Entry("GitHub with an authentication", asType("GitHub", client(secret+", authentication: ClientSecretBasic")), "spec.client", oneWayOnly),
		Entry("Apple with an authentication", asType("Apple", apple+"\n"+client(key+", authentication: PrivateKeyJWT")), "spec.client", oneWayOnly),
		Entry("a Secret without key", client(", clientSecretRef: {name: s}"), "spec.client.clientSecretRef.key: Required value"),
	}
}

func connectionDomainEntries() []TableEntry {
	domain := func(name string) string { return fmt.Sprintf("domains: [%q]", name) }
	const at, ip = "spec.domains[0]", "must not be an IP address: write a domain name"
	return []TableEntry{
		Entry("domains", `domains: [globex.example, a-b.globex.co.uk, xn--bcher-kva.example, 1and1.example, "1.2.3.example"]`), Entry("no domain", `domains: []`),
		Entry("a domain in upper case", domain("Globex.example"), at, "should match"), Entry("a domain of one label", domain("localhost"), at, "should match"),
		Entry("a wildcard", domain("*.globex.example"), at, "should match"), Entry("a dot at the end", domain("globex.example."), at, "should match"),
		Entry("a dot at the start", domain(".globex.example"), at, "should match"), Entry("an address's at", domain("@globex.example"), at, "should match"),
		Entry("a letter beyond ASCII", domain("b\u00fccher.example"), at, "should match"), Entry("an underscore", domain("a_b.example"), at, "should match"),
		Entry("a label of 63", domain(letters(63)+".example")), Entry("a label of 64", domain(letters(64)+".example"), at, "should match"),
		Entry("a label that begins with a dash", domain("-a.example"), at, "should match"), Entry("a line break", domain("globex.example\n"), at, "should match"),
		Entry("an IPv4 address", domain("192.0.2.1"), at, ip), Entry("a short IPv4 address", domain("127.1"), at, ip), Entry("a hexadecimal address", domain("127.0x1"), at, ip),
		Entry("an IPv6 address", domain("2001:db8::1"), at, "should match"), Entry("a domain twice", `domains: [a.example, a.example]`, "spec.domains[1]", "Duplicate value"),
		Entry("50 domains", repeated("domains", "d#.example", 50)), Entry("51 domains", repeated("domains", "d#.example", 51), "spec.domains", tooMany),
	}
}

func connectionMembershipEntries() []TableEntry {
	const own = "organization: {slug: globex}\n"
	return []TableEntry{
		Entry("an organization", own), Entry("an organization without slug", `organization: {}`, "spec.organization.slug: Required value"),
		Entry("an organization with a name", `organization: {slug: Globex Inc}`, "spec.organization.slug", "should match"),
		Entry("membership", own+"membership: {justInTime: false, roleExpression: \"['developer']\", roleSync: FirstSignIn}"), Entry("empty membership", own+"membership: {}"),
		Entry("membership without organization", `membership: {}`, "spec.membership", "membership needs organization: name the organization whose members users become, or remove membership"),
		Entry("an empty expression", own+`membership: {roleExpression: ""}`, "spec.membership.roleExpression"),
		Entry("an expression of 4097", own+"membership: {roleExpression: "+letters(4097)+"}", "spec.membership.roleExpression", "may not be more than 4096"),
		Entry("another synchronization", own+"membership: {roleSync: Never}", "spec.membership.roleSync", `supported values: "EverySignIn", "FirstSignIn"`),
		Entry("enforcement Optional", `enforcement: Optional`), Entry("another enforcement", `enforcement: All`, "spec.enforcement", `supported values: "Optional", "Domains", "Members"`),
		Entry("enforcement of members", own+"enforcement: Members"), Entry("enforcement of an organization's domains", own+"enforcement: Domains"),
		Entry("enforcement of domains", "domains: [globex.example]\nenforcement: Domains"), Entry("enforcement of members of none", `enforcement: Members`, "spec.enforcement", "enforcement Members needs organization: name the organization, or use Domains"),
		Entry("enforcement of no domains", `enforcement: Domains`, "spec.enforcement", "enforcement Domains needs domains or organization: list the domains, or name the organization"),
		Entry("enforcement of an empty list", "domains: []\nenforcement: Domains", "spec.enforcement", "enforcement Domains needs domains or organization"),
		Entry("members of a list of domains", "domains: [globex.example]\nenforcement: Members", "spec.enforcement", "enforcement Members needs organization"),
	}
}

func connectionRequestEntries() []TableEntry {
	parameter := func(name string) string { return fmt.Sprintf("authorizationParameters: [{name: %q, value: x}]", name) }
	const at, ours = "spec.authorizationParameters[0].name", "Cardea sets this parameter itself: remove it"
	entries := []TableEntry{
		Entry("a hidden button", `button: Hidden`), Entry("a shown button", `button: Shown`), Entry("another button", `button: Large`, "spec.button", `supported values: "Shown", "Hidden"`),
		Entry("no sign-up", `signUp: Refused`), Entry("sign-up", `signUp: Allowed`), Entry("another sign-up", `signUp: Ask`, "spec.signUp", `supported values: "Allowed", "Refused"`),
		Entry("the provider's word", `emailProof: Upstream`), Entry("a code", `emailProof: Code`), Entry("another proof", `emailProof: None`, "spec.emailProof", `supported values: "Code", "Upstream"`),
		Entry("attributes", `attributes: {email: mail, firstName: "urn:first", lastName: sn}`), Entry("an empty attribute", `attributes: {email: ""}`, "spec.attributes.email"), Entry("an attribute with a blank", `attributes: {email: "a b"}`, "spec.attributes.email", "should match"),
		Entry("assurance", `assurance: {amr: [mfa, hwk], acr: ["urn:gold"], requestedContext: true}`), Entry("17 methods", "assurance: {"+repeated("amr", "m#", 17)+"}", "spec.assurance.amr", tooMany),
		Entry("a level with a blank", `assurance: {acr: ["a b"]}`, "spec.assurance.acr[0]", "should match"),
		Entry("a session", `session: {lifetimeSeconds: 28800, signOut: Upstream}`), Entry("the shortest session", `session: {lifetimeSeconds: 300}`), Entry("the longest session", `session: {lifetimeSeconds: 2592000}`),
		Entry("a shorter session", `session: {lifetimeSeconds: 299}`, "spec.session.lifetimeSeconds", "greater than or equal to 300"), Entry("a longer session", `session: {lifetimeSeconds: 2592001}`, "spec.session.lifetimeSeconds", "less than or equal to 2592000"),
		Entry("another sign-out", `session: {signOut: Everywhere}`, "spec.session.signOut", `supported values: "Local", "Upstream"`),
		Entry("scopes", `scopes: [openid, groups]`), Entry("no scope", `scopes: []`, "spec.scopes", "at least 1 items"), Entry("a scope with a blank", `scopes: [openid, "a b"]`, "spec.scopes[1]", "should match"),
		Entry("scopes without an ID token", `scopes: [email]`, "spec.scopes", "without the scope openid the provider issues no ID token: add openid"),
		Entry("Apple's scopes", asType("Apple", "scopes: [email]\n"+apple+"\n"+keyClient)), Entry("GitHub's scopes", asType("GitHub", "scopes: [read:org]")),
		Entry("8 parameters", repeated("authorizationParameters", "{name: p#, value: v}", 8)), Entry("9 parameters", repeated("authorizationParameters", "{name: p#, value: v}", 9), "spec.authorizationParameters", tooMany),
		Entry("a parameter twice", `authorizationParameters: [{name: a, value: b}, {name: a, value: c}]`, "Duplicate value"), Entry("a parameter without value", `authorizationParameters: [{name: a}]`, "spec.authorizationParameters[0].value: Required value"),
		Entry("an empty value", `authorizationParameters: [{name: a, value: ""}]`), Entry("a value with a line break", `authorizationParameters: [{name: a, value: "b\nc"}]`, "spec.authorizationParameters[0].value", "should match"),
		Entry("Google's domain as a parameter", asType("Google", parameter("hd")), "spec.authorizationParameters", "Cardea sets hd from google.hostedDomains: list the domains there"), Entry("hd elsewhere", parameter("hd")),
		Entry("userinfo", oidc(`issuer: "https://idp.example", userinfo: Always, responseMode: FormPost, idTokenSigningAlgs: [RS256, EdDSA]`)), Entry("another userinfo", oidc(`issuer: "https://idp.example", userinfo: Sometimes`), "spec.oidc.userinfo", `supported values: "IfMissing", "Always", "Never"`),
		Entry("another response mode", oidc(`issuer: "https://idp.example", responseMode: Fragment`), "spec.oidc.responseMode", `supported values: "Query", "FormPost"`),
		Entry("no algorithm", oidc(`issuer: "https://idp.example", idTokenSigningAlgs: []`), "spec.oidc.idTokenSigningAlgs", "at least 1 items"), Entry("a symmetric algorithm", oidc(`issuer: "https://idp.example", idTokenSigningAlgs: [HS256]`), "spec.oidc.idTokenSigningAlgs[0]", `supported values: "RS256", "PS256", "ES256", "EdDSA"`),
	}
	for _, name := range []string{"prompt", "acr_values", "max_age", "ui_locales", "domain_hint", "resource", "kc_idp_hint"} {
		entries = append(entries, Entry("parameter "+name, parameter(name)))
	}
	for _, name := range []string{
		"response_type", "client_id", "client_secret", "redirect_uri", "scope", "state", "code", "error", "error_description", "error_uri", "grant_type", "access_token", "token_type", "expires_in",
		"refresh_token", "username", "password", "code_verifier", "code_challenge", "code_challenge_method", "nonce", "display", "claims_locales", "id_token_hint", "login_hint", "claims", "registration",
		"request", "request_uri", "response_mode", "iss", "Redirect_URI", "STATE",
	} {
		entries = append(entries, Entry("parameter "+name, parameter(name), at, ours))
	}
	return entries
}

func upstreamURLEntries() []TableEntry {
	issuer := func(url string) string { return oidc(fmt.Sprintf("issuer: %q", url)) }
	const at, local = "spec.oidc.issuer", "http is only for 127.0.0.1, [::1] and localhost: use https"
	const endpoints = `issuer: "https://idp.example", endpoints: {authorizationURL: "https://idp.example/a?b=c", tokenURL: "https://idp.example/t", jwksURL: "https://idp.example/j"`
	return []TableEntry{
		Entry("an issuer with a port, a path and a slash", issuer("https://idp.example:8443/realms/Acme-1/")), Entry("an issuer in upper case", issuer("https://IdP.example")), Entry("an issuer by its address", issuer("https://192.0.2.1")),
		Entry("an issuer by its IPv6 address", issuer("https://[2001:db8::1]:8443/x")), Entry("no issuer", oidc(""), "spec.oidc.issuer: Required value"), Entry("an issuer with a query", issuer("https://idp.example?a"), at, "an issuer has no query"),
		Entry("an issuer with a fragment", issuer("https://idp.example/#a"), at, "should match"), Entry("an issuer with a user", issuer("https://me@idp.example"), at, "should match"), Entry("no scheme", issuer("idp.example"), at, "should match"),
		Entry("another scheme", issuer("ftp://idp.example"), at, "should match"), Entry("a scheme in upper case", issuer("HTTPS://idp.example"), at, "should match"), Entry("a blank", issuer("https://idp.example/a b"), at, "should match"), Entry("a backslash", issuer(`https://idp.example\a`), at, "should match"),
		Entry("http to the machine", issuer("http://127.0.0.1:5556/dex")), Entry("http to localhost", issuer("http://localhost:5556")), Entry("http to the IPv6 loopback", issuer("http://[::1]:5556")),
		Entry("http elsewhere", issuer("http://idp.example"), at, local), Entry("http to what begins like localhost", issuer("http://localhost.example"), at, local), Entry("http to a user called localhost", issuer("http://localhost:x@evil.example/"), at, "should match"),
		Entry("an issuer of 2048", issuer("https://a/"+letters(2038))), Entry("an issuer of 2049", issuer("https://a/"+letters(2039)), at, "may not be more than 2048"),
		Entry("endpoints", oidc(endpoints+`, userinfoURL: "https://idp.example/u"}`)), Entry("endpoints without userinfo", oidc(endpoints+"}")), Entry("no endpoint of keys", oidc(`issuer: "https://idp.example", endpoints: {authorizationURL: "https://a", tokenURL: "https://t"}`), "spec.oidc.endpoints.jwksURL: Required value"),
		Entry("userinfo without its endpoint", oidc(endpoints+"}, userinfo: Always"), "spec.oidc.userinfo", "userinfo Always needs endpoints.userinfoURL: add it"), Entry("endpoints over http", oidc(`issuer: "https://idp.example", endpoints: {authorizationURL: "http://a", tokenURL: "https://t", jwksURL: "https://j"}`), "spec.oidc.endpoints.authorizationURL", local),
		Entry("a logo", `logoURL: "https://globex.example/logo.svg?v=2"`), Entry("a logo with a quote", `logoURL: 'https://globex.example/"'`, "spec.logoURL", "should match"), Entry("a logo as a script", `logoURL: "javascript:alert(1)"`, "spec.logoURL", "should match"),
		Entry("a base over http", asType("GitHub", `github: {baseURL: "http://git.acme.example"}`), "spec.github.baseURL", local),
	}
}

var _ = DescribeTable("A change of a Connection is validated:", judgedChange,
	Entry("another deployment", v1alpha1.KindConnection, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", "deploymentRef is immutable: create another Connection for the other deployment"),
	Entry("another slug", v1alpha1.KindConnection, `{}`, `{"slug":"other"}`, "spec.slug", "slug is immutable"),
	Entry("another type", v1alpha1.KindConnection, `{}`, `{"type":"Google","oidc":null}`, "spec.type", "type is immutable: create another Connection"),
	Entry("another organization", v1alpha1.KindConnection, `organization: {slug: globex}`, `{"organization":{"slug":"other"}}`, "spec.organization", "organization is immutable, also whether there is one: create another Connection"),
	Entry("no organization any more", v1alpha1.KindConnection, `organization: {slug: globex}`, `{"organization":null}`, "spec.organization", "organization is immutable"),
	Entry("an organization at last", v1alpha1.KindConnection, `{}`, `{"organization":{"slug":"globex"}}`, "spec.organization", "organization is immutable"),
	Entry("the rest", v1alpha1.KindConnection, `organization: {slug: globex}`,
		`{"active":false,"domains":["globex.example"],"enforcement":"Members","oidc":{"issuer":"https://other.example"},"client":{"clientID":"x","authentication":"PrivateKeyJWT","clientSecretRef":null,"privateKeySecretRef":{"name":"s","key":"k"}}}`))
