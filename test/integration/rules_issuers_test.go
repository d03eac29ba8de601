package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

const (
	oneSource      = "set exactly one of jwksURL, jwksConfigMapRef, kubernetes, ownSessions and oauthApp"
	impliedIssuer  = "issuer is required with jwksURL and jwksConfigMapRef, and must be absent with kubernetes, ownSessions and oauthApp, which imply it"
	onePermissions = "set exactly one of permissionsClaim and permissionsExpression"
	hostless       = "an issuer with ownSessions needs frontendHosts, because the first host is its issuer: add a host"
)

// issuer returns a list of one issuer with these members.
func issuer(members ...string) string { return "jwtIssuers: [{" + strings.Join(members, ", ") + "}]" }

// remote returns an issuer with a name, an issuer URL, a JWKS URL and a claim, and more members.
func remote(more ...string) string {
	return issuer(append([]string{"name: idp", "issuer: https://idp.example", "jwksURL: https://idp.example/keys", "permissionsClaim: scope"}, more...)...)
}

var _ = DescribeTable("The schema of a deployment's JWT issuers validates", validates(v1alpha1.KindIdentityDeployment),
	table(sourceEntries(), []TableEntry{
		Entry("no issuer", `jwtIssuers: []`),
		Entry("a claim", remote()),
		Entry("an expression", issuer("name: a", "kubernetes: {}", `permissionsExpression: "['*']"`)),
		Entry("neither a claim nor an expression", issuer("name: a", "kubernetes: {}"), "spec.jwtIssuers[0]", onePermissions),
		Entry("both", remote("permissionsExpression: \"['*']\""), "spec.jwtIssuers[0]", onePermissions),
		Entry("an empty claim", issuer("name: a", "kubernetes: {}", `permissionsClaim: ""`), "spec.jwtIssuers[0].permissionsClaim", "at least 1 chars long"),
		Entry("a claim of 201", issuer("name: a", "kubernetes: {}", "permissionsClaim: "+letters(201)), "spec.jwtIssuers[0].permissionsClaim", "may not be more than 200"),
		Entry("an expression of 4096", issuer("name: a", "kubernetes: {}", "permissionsExpression: "+letters(4096))),
		Entry("an expression of 4097", issuer("name: a", "kubernetes: {}", "permissionsExpression: "+letters(4097)), "spec.jwtIssuers[0].permissionsExpression", "may not be more than 4096"),
		Entry("an empty expression", issuer("name: a", "kubernetes: {}", `permissionsExpression: ""`), "spec.jwtIssuers[0].permissionsExpression"),
		Entry("no name", issuer("kubernetes: {}", "permissionsClaim: s"), "spec.jwtIssuers[0].name: Required value"),
		Entry("a name of 63", issuer("name: "+letters(63), "kubernetes: {}", "permissionsClaim: s")),
		Entry("a name of 64", issuer("name: "+letters(64), "kubernetes: {}", "permissionsClaim: s"), "spec.jwtIssuers[0].name", "may not be more than 63"),
		Entry("an upper-case name", issuer("name: A", "kubernetes: {}", "permissionsClaim: s"), "spec.jwtIssuers[0].name", "should match"),
		Entry("a name twice", `jwtIssuers: [{name: a, kubernetes: {}, permissionsClaim: s}, {name: a, kubernetes: {}, permissionsClaim: s, audiences: [x]}]`, "spec.jwtIssuers[1]", "Duplicate value"),
		Entry("two names", `jwtIssuers: [{name: a, kubernetes: {}, permissionsClaim: s}, {name: b, kubernetes: {}, permissionsClaim: s, audiences: [x]}]`),
		Entry("16 issuers", repeated("jwtIssuers", "{name: i#, issuer: https://i#, jwksURL: https://i#, permissionsClaim: s}", 16)),
		Entry("17 issuers", repeated("jwtIssuers", "{name: i#, issuer: https://i#, jwksURL: https://i#, permissionsClaim: s}", 17), "spec.jwtIssuers", tooMany),
		Entry("audiences", remote("audiences: ["+letters(200)+", api://x]")),
		Entry("no audience", remote("audiences: []"), "spec.jwtIssuers[0].audiences", "at least 1 items"),
		Entry("an audience too long", remote("audiences: ["+letters(201)+"]"), "spec.jwtIssuers[0].audiences[0]", "may not be more than 200"),
		Entry("an empty audience", remote(`audiences: [""]`), "spec.jwtIssuers[0].audiences[0]"),
		Entry("an audience with a blank", remote(`audiences: ["a b"]`), "spec.jwtIssuers[0].audiences[0]", "should match '^[!-~]+$'"),
		Entry("an audience twice", remote("audiences: [a, a]"), "Duplicate value"),
		Entry("8 audiences", remote(repeated("audiences", "a#", 8))), Entry("9 audiences", remote(repeated("audiences", "a#", 9)), "spec.jwtIssuers[0].audiences", tooMany),
		Entry("algorithms", remote("algorithms: [RS256, PS256, ES256, EdDSA]")),
		Entry("no algorithm", remote("algorithms: []"), "spec.jwtIssuers[0].algorithms", "at least 1 items"),
		Entry("an algorithm twice", remote("algorithms: [ES256, ES256]"), "Duplicate value"),
		Entry("a symmetric algorithm", remote("algorithms: [HS256]"), "spec.jwtIssuers[0].algorithms[0]", `supported values: "RS256", "PS256", "ES256", "EdDSA"`),
		Entry("no signature at all", remote("algorithms: [none]"), "Unsupported value"),
	}))

// sourceEntries are the rules of the sources of an issuer's keys, and of the member issuer for each source.
func sourceEntries() []TableEntry {
	const claim, name, url, config = "permissionsClaim: scope", "name: a", "jwksURL: https://idp.example/keys", "jwksConfigMapRef: {name: keys, key: jwks.json}"
	const self = "issuer: https://idp.example"
	hosted := func(members ...string) string { return "frontendHosts: [app.example]\n" + issuer(members...) }
	return []TableEntry{
		Entry("a URL", issuer(name, self, url, claim)), Entry("a ConfigMap", issuer(name, self, config, claim)),
		Entry("the Kubernetes API", issuer(name, "kubernetes: {}", claim)), Entry("the deployment's sessions", hosted(name, "ownSessions: {}", claim)),
		Entry("no source", issuer(name, claim), "spec.jwtIssuers[0]", oneSource), Entry("no source with an issuer", issuer(name, self, claim), oneSource),
		Entry("URL and ConfigMap", issuer(name, self, url, config, claim), oneSource), Entry("URL and the Kubernetes API", issuer(name, self, url, "kubernetes: {}", claim), oneSource),
		Entry("URL and sessions", hosted(name, self, url, "ownSessions: {}", claim), oneSource),
		Entry("ConfigMap and sessions", hosted(name, self, config, "ownSessions: {}", claim), oneSource),
		Entry("the Kubernetes API and sessions", hosted(name, "kubernetes: {}", "ownSessions: {}", claim), oneSource),
		Entry("all four", hosted(name, self, url, config, "kubernetes: {}", "ownSessions: {}", claim), oneSource),
		Entry("a URL without issuer", issuer(name, url, claim), "spec.jwtIssuers[0].issuer", impliedIssuer),
		Entry("a ConfigMap without issuer", issuer(name, config, claim), impliedIssuer),
		Entry("the Kubernetes API with an issuer", issuer(name, self, "kubernetes: {}", claim), impliedIssuer),
		Entry("sessions with an issuer", hosted(name, self, "ownSessions: {}", claim), impliedIssuer),
		Entry("sessions without hosts", issuer(name, "ownSessions: {}", claim), "spec.jwtIssuers", hostless),
		Entry("sessions with no host", "frontendHosts: []\n"+issuer(name, "ownSessions: {}", claim), hostless),
		Entry("an issuer that is no URL", issuer(name, "issuer: accounts", url, claim)), Entry("an issuer of 250", issuer(name, "issuer: "+letters(250), url, claim)),
		Entry("an issuer of 251", issuer(name, "issuer: "+letters(251), url, claim), "spec.jwtIssuers[0].issuer", "may not be more than 250"),
		Entry("an empty issuer", issuer(name, `issuer: ""`, url, claim), "spec.jwtIssuers[0].issuer"),
		Entry("an issuer with a blank", issuer(name, `issuer: "a b"`, url, claim), "spec.jwtIssuers[0].issuer", "should match"),
		Entry("keys over http", issuer(name, self, "jwksURL: http://idp.example/keys", claim), "spec.jwtIssuers[0].jwksURL", "should match '^https://[!-~]+$'"),
		Entry("keys from a file", issuer(name, self, "jwksURL: file:///keys", claim), "spec.jwtIssuers[0].jwksURL", "should match"),
		Entry("keys in upper case", issuer(name, self, "jwksURL: HTTPS://idp.example", claim), "should match"), Entry("an empty URL", issuer(name, self, `jwksURL: ""`, claim), "spec.jwtIssuers[0].jwksURL"),
		Entry("a URL of 2048", issuer(name, self, "jwksURL: https://"+letters(2040), claim)),
		Entry("a URL of 2049", issuer(name, self, "jwksURL: https://"+letters(2041), claim), "spec.jwtIssuers[0].jwksURL", "may not be more than 2048"),
		Entry("a ConfigMap without name", issuer(name, self, "jwksConfigMapRef: {key: a}", claim), "spec.jwtIssuers[0].jwksConfigMapRef.name: Required value"),
		Entry("a ConfigMap without key", issuer(name, self, "jwksConfigMapRef: {name: a}", claim), "spec.jwtIssuers[0].jwksConfigMapRef.key: Required value"),
		Entry("a ConfigMap's key with a slash", issuer(name, self, "jwksConfigMapRef: {name: a, key: a/b}", claim), "spec.jwtIssuers[0].jwksConfigMapRef.key", "should match '^[-._a-zA-Z0-9]+$'"),
	}
}

func catalogOf(level string) func(string) string {
	return func(elements string) string { return "permissionCatalog: {" + level + ": [" + elements + "]}" }
}

var _ = DescribeTable("The schema of a deployment's organization catalog validates", validates(v1alpha1.KindIdentityDeployment),
	catalogEntries(catalogOf("organization"), "spec.permissionCatalog.organization", 500))

var _ = DescribeTable("The schema of a deployment's workspace catalog validates", validates(v1alpha1.KindIdentityDeployment),
	catalogEntries(catalogOf("workspace"), "spec.permissionCatalog.workspace", 500), []TableEntry{
		Entry("an empty catalog", `permissionCatalog: {}`),
		Entry("the same name on both levels", `permissionCatalog: {organization: [a], workspace: [a]}`),
	})
