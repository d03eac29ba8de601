package integration

import (
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

const outOfCatalogForm = "should match '^[A-Za-z0-9_./-]+(:[A-Za-z0-9_./-]+)*$'"

// switchEntries are the rules of an optional boolean.
func switchEntries(members ...string) []TableEntry {
	var entries []TableEntry
	for _, member := range members {
		entries = append(entries, Entry(member, member+": true"), Entry(member+" off", member+": false"),
			Entry(member+" as a word", member+`: "yes"`, "spec."+member, "must be of type boolean"))
	}
	return entries
}

// catalogEntries are the rules of a list of catalog permissions.
func catalogEntries(list func(elements string) string, at string, most int) []TableEntry {
	numbered := func(n int) string {
		return strings.TrimSuffix(strings.TrimPrefix(repeated("x", "p#", n), "x: ["), "]")
	}
	return []TableEntry{
		Entry("permissions", list(`"orders:read", a/b.c-d:e:F_9`)), Entry("no permission", list("")),
		Entry("a permission of 100", list(letters(100))),
		Entry("a permission of 101", list(letters(101)), at+"[0]", "may not be more than 100"),
		Entry("an empty permission", list(`""`), at+"[0]", "at least 1 chars long"),
		Entry("the star, which is for credentials", list(`"*"`), at+"[0]", outOfCatalogForm),
		Entry("a permission with a star", list(`"orders:*"`), outOfCatalogForm),
		Entry("a permission with a blank", list(`"a b"`), outOfCatalogForm),
		Entry("a permission that ends with a colon", list(`"a:"`), outOfCatalogForm),
		Entry("a permission twice", list("a, a"), at+"[1]", "Duplicate value"),
		Entry("the most permissions", list(numbered(most))), Entry("one more", list(numbered(most+1)), at, tooMany),
	}
}

func urlEntries(member string) []TableEntry {
	at := "spec." + member
	return []TableEntry{
		Entry(member, member+": https://cdn.example/a?b=c#d"), Entry(member+" of http", member+": http://localhost:8080"),
		Entry(member+" of 2048", member+": https://"+letters(2040)), Entry(member+" of 2049", member+": https://"+letters(2041), at, "may not be more than 2048"),
		Entry(member+" empty", member+`: ""`, at, "at least 1 chars long"), Entry(member+" without scheme", member+": cdn.example/a", at, "should match '^https?://[!-~]+$'"),
		Entry(member+" of another scheme", member+`: "javascript:alert(1)"`, at, "should match"),
		Entry(member+" with a blank", member+`: "https://a b"`, at, "should match"), Entry(member+" with a line break", member+`: "https://a\n"`, at, "should match"),
	}
}

var _ = DescribeTable("The schema of OAuthApp validates", validates(v1alpha1.KindOAuthApp),
	table(commonEntries(), nameEntries(), descriptionEntries(), slugEntries(), referenceEntries("deploymentRef", 63), urlEntries("logoURL"),
		switchEntries("allowDynamicClientRegistration", "active"), []TableEntry{
			Entry("an fqdn", `fqdn: portal.example.com`), Entry("an empty fqdn", `fqdn: ""`, "spec.fqdn", "at least 1 chars long"),
			Entry("an upper-case fqdn", `fqdn: Portal.example`, "spec.fqdn", "should match"), Entry("an fqdn with a port", `fqdn: "a.example:443"`, "spec.fqdn", "should match"),
			Entry("an fqdn too long", "fqdn: "+letters(63)+"."+letters(63)+"."+letters(63)+"."+letters(62), "spec.fqdn", "may not be more than 253"),
		}))

const (
	onlyOrganization = "organizationPermission is only for category organization: set that category or remove the permission"
	onlyWorkspace    = "workspacePermission is only for category workspace: set that category or remove the permission"
	scopeCharset     = `should match '^[\x21\x23-\x5B\x5D-\x7E]+$'`
)

var _ = DescribeTable("The schema of OAuthScope validates", validates(v1alpha1.KindOAuthScope),
	table(commonEntries(), nameEntries(), descriptionEntries(), optionalReferenceEntries("oauthAppRef", 253), switchEntries("archived"), []TableEntry{
		Entry("oauthAppRef missing", `oauthAppRef: null`, "spec.oauthAppRef: Required value"),
		Entry("a scope that is a URL", `scope: "https://x/y?z#0"`), Entry("a scope of punctuation", `scope: "!#$%&'()*+,-./:;<=>?@[]^_{|}~"`),
		Entry("a scope that looks encoded", `scope: a%2Fb`), Entry("a scope of 200", "scope: "+letters(200)),
		Entry("a scope of 201", "scope: "+letters(201), "spec.scope", "may not be more than 200"),
		Entry("no scope", `scope: null`, "spec.scope: Required value"), Entry("an empty scope", `scope: ""`, "spec.scope", "at least 1 chars long"),
		Entry("a blank in a scope", `scope: "read users"`, "spec.scope", scopeCharset), Entry("a quote in a scope", `scope: 'a"b'`, scopeCharset),
		Entry("a backslash in a scope", `scope: 'a\b'`, scopeCharset), Entry("a scope beyond ASCII", `scope: lés`, scopeCharset),
		Entry("a control character in a scope", `scope: "a\tb"`, scopeCharset), Entry("a delete character in a scope", quoted("scope", "a\x7f"), scopeCharset),
		Entry("a line break after a scope", `scope: "a\n"`, scopeCharset),
		Entry("category personal", `category: personal`), Entry("category organization", `category: organization`), Entry("category workspace", `category: workspace`),
		Entry("another category", `category: Organization`, "spec.category", `supported values: "personal", "organization", "workspace"`),
		Entry("an empty category", `category: ""`, "spec.category", "Unsupported value"),
		Entry("an organization's permission", "category: organization\norganizationPermission: orders:read"),
		Entry("a workspace's permission", "category: workspace\nworkspacePermission: plans:read"),
		Entry("an organization's permission without category", `organizationPermission: a`, "spec.organizationPermission", onlyOrganization),
		Entry("an organization's permission of a person", "category: personal\norganizationPermission: a", onlyOrganization),
		Entry("an organization's permission of a workspace", "category: workspace\norganizationPermission: a", onlyOrganization),
		Entry("a workspace's permission without category", `workspacePermission: a`, "spec.workspacePermission", onlyWorkspace),
		Entry("a workspace's permission of a person", "category: personal\nworkspacePermission: a", onlyWorkspace),
		Entry("a workspace's permission of an organization", "category: organization\nworkspacePermission: a", onlyWorkspace),
		Entry("both permissions", "category: workspace\nworkspacePermission: a\norganizationPermission: a", onlyOrganization),
		Entry("the star for a permission", "category: organization\norganizationPermission: \"*\"", "spec.organizationPermission", outOfCatalogForm),
		Entry("an empty permission", "category: workspace\nworkspacePermission: \"\"", "spec.workspacePermission", "at least 1 chars long"),
		Entry("a permission too long", "category: workspace\nworkspacePermission: "+letters(101), "spec.workspacePermission", "may not be more than 100"),
	}))

var _ = DescribeTable("The schema of MembershipRole validates", validates(v1alpha1.KindMembershipRole),
	table(commonEntries(), nameEntries(), referenceEntries("deploymentRef", 63),
		catalogEntries(func(elements string) string { return "permissions: [" + elements + "]" }, "spec.permissions", 128), []TableEntry{
			Entry("level Organization", `level: Organization`), Entry("level Workspace", `level: Workspace`),
			Entry("no level", `level: null`, "spec.level: Required value"),
			Entry("another level", `level: workspace`, "spec.level", `supported values: "Organization", "Workspace"`),
		}))

var _ = DescribeTable("The schema of B2BSettings validates", validates(v1alpha1.KindB2BSettings),
	table(commonEntries(), referenceEntries("deploymentRef", 63), switchEntries("enabled", "allowWorkspaceCreation", "requireOrgForSignup"),
		optionalReferenceEntries("autoAssignOrgRoleRef", 253), optionalReferenceEntries("autoAssignWorkspaceRoleRef", 253), []TableEntry{
			Entry("no workspace", `defaultWorkspaceLimit: 0`), Entry("the most workspaces", `defaultWorkspaceLimit: 2147483647`),
			Entry("fewer than none", `defaultWorkspaceLimit: -1`, "spec.defaultWorkspaceLimit", "greater than or equal to 0"),
			Entry("too many workspaces", `defaultWorkspaceLimit: 2147483648`, "spec.defaultWorkspaceLimit", "less than or equal to 2147483647"),
			Entry("half a workspace", `defaultWorkspaceLimit: 0.5`, "spec.defaultWorkspaceLimit", "must be of type integer"),
			Entry("workspaces as a word", `defaultWorkspaceLimit: "5"`, "spec.defaultWorkspaceLimit", "must be of type integer"),
		}))

const (
	otherDeployment = "deploymentRef is immutable: create another resource for the other deployment"
	otherSlug       = "slug is immutable: create another resource with the new slug"
)

var _ = DescribeTable("A change of the catalog's kinds is validated:", judgedChange,
	Entry("deploymentRef of an OAuth app", v1alpha1.KindOAuthApp, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", otherDeployment),
	Entry("slug of an OAuth app", v1alpha1.KindOAuthApp, `{}`, `{"slug":"other"}`, "spec.slug", otherSlug),
	Entry("the rest of an OAuth app", v1alpha1.KindOAuthApp, `{}`, `{"displayName":"x","description":"","logoURL":"https://x","fqdn":"x","active":false,"allowDynamicClientRegistration":true}`),
	Entry("oauthAppRef of a scope", v1alpha1.KindOAuthScope, `{}`, `{"oauthAppRef":{"name":"other"}}`, "spec.oauthAppRef", "oauthAppRef is immutable: create another scope for the other app"),
	Entry("scope of a scope", v1alpha1.KindOAuthScope, `{}`, `{"scope":"other"}`, "spec.scope", "scope is immutable: create another resource with the new scope"),
	Entry("the rest of a scope", v1alpha1.KindOAuthScope, `{}`, `{"archived":true,"category":"workspace","workspacePermission":"p"}`),
	Entry("the category under a permission", v1alpha1.KindOAuthScope, "category: workspace\nworkspacePermission: p", `{"category":"organization"}`, "spec.workspacePermission", onlyWorkspace),
	Entry("deploymentRef of a role", v1alpha1.KindMembershipRole, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", otherDeployment),
	Entry("level of a role", v1alpha1.KindMembershipRole, `{}`, `{"level":"Workspace"}`, "spec.level", "level is immutable: create another role of the other level"),
	Entry("the rest of a role", v1alpha1.KindMembershipRole, `{}`, `{"displayName":"x","permissions":["a","b"]}`),
	Entry("deploymentRef of settings", v1alpha1.KindB2BSettings, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", otherDeployment),
	Entry("the rest of settings", v1alpha1.KindB2BSettings, `{}`, `{"enabled":true,"defaultWorkspaceLimit":0,"autoAssignOrgRoleRef":{"name":"x"}}`),
	Entry("deploymentRef of a tool", v1alpha1.KindAITool, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", otherDeployment),
	Entry("the rest of a tool", v1alpha1.KindAITool, `{}`, `{"type":"Webhook","active":false,"method":"PUT","timeoutSeconds":600}`),
	Entry("deploymentRef of an agent", v1alpha1.KindAIAgent, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", otherDeployment),
	Entry("the rest of an agent", v1alpha1.KindAIAgent, `{}`, `{"model":"m","temperature":"2","toolRefs":[{"name":"t"}],"active":false}`),
	Entry("the last host of ownSessions", v1alpha1.KindIdentityDeployment, "frontendHosts: [app.example]\njwtIssuers: [{name: own, ownSessions: {}, permissionsClaim: scope}]", `{"frontendHosts":null}`, "spec.jwtIssuers", hostless),
)
