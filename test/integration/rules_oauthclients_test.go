package integration

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

const (
	oneSecret     = "a client that authenticates by a secret has exactly one of secretTemplate (the operator generates the secret) and existingSecretRef (you provide it)"
	public        = "authentication: None\nsecretTemplate: null\n"
	signing       = "authentication: PrivateKeyJWT\nsecretTemplate: null\n"
	oneKeySet     = "exactly one of jwksURL and jwksConfigMapRef is set with authentication PrivateKeyJWT, and neither without"
	needsRedirect = "AuthorizationCode (the default grant type) needs redirectURIs"
)

var _ = DescribeTable("The schema of OAuthClient validates", validates(v1alpha1.KindOAuthClient),
	table(commonEntries(), nameEntries(), referenceEntries("oauthAppRef", 253), optionalReferenceEntries("rateLimitSchemeRef", 253), switchEntries("active", "requirePAR"),
		urlEntries("logoURL"), urlEntries("clientURI"), urlEntries("policyURI"), urlEntries("tosURI"), []TableEntry{
			Entry("a secret that is brought", "secretTemplate: null\nexistingSecretRef: {name: s, key: tls.key_-A}"),
			Entry("neither a template nor a Secret", `secretTemplate: null`, oneSecret), Entry("both", `existingSecretRef: {name: s}`, oneSecret),
			Entry("a public client", public), Entry("a public client with a secret", `authentication: None`, oneSecret),
			Entry("another authentication", `authentication: TLS`, "spec.authentication", `supported values: "ClientSecretBasic", "ClientSecretPost", "PrivateKeyJWT", "None"`),
			Entry("a secret in the body", `authentication: ClientSecretPost`),
			Entry("keys by URL", signing+`jwksURL: "https://app.example/jwks"`), Entry("keys by ConfigMap", signing+`jwksConfigMapRef: {name: keys, key: jwks.json}`),
			Entry("signing without keys", signing, oneKeySet), Entry("keys twice", signing+"jwksURL: https://app.example/jwks\njwksConfigMapRef: {name: keys, key: jwks.json}", oneKeySet),
			Entry("keys without signing", `jwksURL: https://app.example/jwks`, oneKeySet), Entry("keys without TLS", signing+`jwksURL: http://app.example/jwks`, "spec.jwksURL", "should match"),
			Entry("rotation", `rotation: {everySeconds: 86400, overlapSeconds: 60}`), Entry("rotation of nothing", public+`rotation: {everySeconds: 86400}`, "spec.rotation", "rotation needs secretTemplate"),
			Entry("the template's keys", `secretTemplate: {name: argocd, labels: {app.kubernetes.io/part-of: argocd}, keys: {clientID: oidc.id, clientSecret: oidc.secret}}`),
			Entry("every grant", `grantTypes: [AuthorizationCode, RefreshToken, ClientCredentials, DeviceCode]`),
			Entry("no grant", `grantTypes: []`, "spec.grantTypes", "at least 1 items"), Entry("another grant", `grantTypes: [Implicit]`, "spec.grantTypes[0]", "Unsupported value"),
			Entry("everybody's credentials", public+`grantTypes: [AuthorizationCode, ClientCredentials]`, "spec.grantTypes", "a client without authentication cannot use ClientCredentials, because every program could: set authentication or remove the grant type"),
			Entry("refreshing alone", `grantTypes: [RefreshToken]`, "spec.grantTypes", "RefreshToken needs AuthorizationCode or DeviceCode"),
			Entry("refreshing of a device", "redirectURIs: null\ngrantTypes: [DeviceCode, RefreshToken]"),
			Entry("a code without an address", `redirectURIs: null`, "spec.redirectURIs", needsRedirect), Entry("a code with no address", `redirectURIs: []`, needsRedirect),
			Entry("a machine without an address", "redirectURIs: null\ngrantTypes: [ClientCredentials]\nmachinePermissions: [users:read]"),
			Entry("what a machine may of a client that is none", `machinePermissions: [users:read]`, "spec.machinePermissions", "machinePermissions are only for ClientCredentials"),
			Entry("addresses of the machine", public+`redirectURIs: ["http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost", "com.example.app:/cb"]`),
			Entry("an address with a wildcard", `redirectURIs: ["https://*.example/cb"]`, "spec.redirectURIs[0]"), Entry("an address with a fragment", `redirectURIs: ["https://a.example/#x"]`, "spec.redirectURIs[0]"),
			Entry("an address twice", `redirectURIs: ["https://a.example", "https://a.example"]`, "Duplicate value"),
			Entry("32 addresses", repeated("redirectURIs", `"https://a#.example"`, 32)), Entry("33 addresses", repeated("redirectURIs", `"https://a#.example"`, 33), "spec.redirectURIs", tooMany),
			Entry("consent skipped", `consent: Skip`), Entry("consent of another kind", `consent: Never`, "spec.consent", `supported values: "Required", "Skip"`),
			Entry("consent skipped for anybody", public+"consent: Skip\nredirectURIs: [\"http://127.0.0.1/cb\"]", "spec.consent", "any local program could pass as it"),
			Entry("consent skipped for a page", public+"consent: Skip"),
			Entry("tokens", `accessToken: {format: Opaque, lifetimeSeconds: 300}`), Entry("tokens of another kind", `accessToken: {format: SAML}`, "spec.accessToken.format", `supported values: "JWT", "Opaque"`),
			Entry("tokens that never end", `accessToken: {lifetimeSeconds: 8640000}`, "spec.accessToken.lifetimeSeconds", "less than or equal to"),
			Entry("refreshing", `refreshToken: {lifetimeSeconds: 86400, idleSeconds: 3600}`), Entry("refreshing for no time", `refreshToken: {lifetimeSeconds: 0}`, "spec.refreshToken.lifetimeSeconds", "greater than or equal to"),
			Entry("algorithms", "idTokenSigningAlg: RS256\nuserinfoSigningAlg: ES256"), Entry("no algorithm", `idTokenSigningAlg: none`, "spec.idTokenSigningAlg", `supported values: "ES256", "RS256"`),
			Entry("who is told", `backchannelLogoutURI: https://app.example/logout`), Entry("who is told in the clear", `backchannelLogoutURI: http://app.example/logout`, "spec.backchannelLogoutURI", "should match"),
			Entry("origins", `allowedOrigins: ["https://app.example"]`), Entry("an origin with a path", `allowedOrigins: ["https://app.example/x"]`, "spec.allowedOrigins[0]"),
			Entry("scopes", `scopes: [openid, "read:users"]`), Entry("a scope with a blank", `scopes: ["a b"]`, "spec.scopes[0]", scopeCharset),
			Entry("resources", `resources: ["https://api.example"]`),
		}))

var _ = DescribeTable("A change of an OAuthClient is validated:", judgedChange,
	Entry("another app", v1alpha1.KindOAuthClient, `{}`, `{"oauthAppRef":{"name":"other"}}`, "spec.oauthAppRef", "oauthAppRef is immutable: create another OAuthClient for the other app"),
	Entry("a client made public", v1alpha1.KindOAuthClient, `{}`, `{"authentication":"None","secretTemplate":null}`),
	Entry("the rest", v1alpha1.KindOAuthClient, `{}`, `{"active":false,"redirectURIs":["https://b.example"],"grantTypes":["AuthorizationCode","RefreshToken"]}`))
