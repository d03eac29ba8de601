package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

var _ = DescribeTable("The schema of IdentityDeployment validates", validates(v1alpha1.KindIdentityDeployment),
	table(commonEntries(), nameEntries(), optionalReferenceEntries("defaultRateLimitSchemeRef", 253), []TableEntry{
		Entry("mode Production", `mode: Production`), Entry("mode Staging", `mode: Staging`),
		Entry("another mode", `mode: Test`, "spec.mode", `supported values: "Production", "Staging"`),
		Entry("hosts", `frontendHosts: [app.example.com, 0.example, x]`),
		Entry("no host", `frontendHosts: []`),
		Entry("a host of 253 characters", "frontendHosts: ["+letters(63)+"."+letters(63)+"."+letters(63)+"."+letters(61)+"]"),
		Entry("a host of 254", "frontendHosts: ["+letters(63)+"."+letters(63)+"."+letters(63)+"."+letters(62)+"]", "spec.frontendHosts[0]", "may not be more than 253"),
		Entry("a label of 64", "frontendHosts: ["+letters(64)+".example]", "should match"),
		Entry("an empty host", `frontendHosts: [""]`, "spec.frontendHosts[0]"),
		Entry("an upper-case host", `frontendHosts: [App.example.com]`, "spec.frontendHosts[0]", "should match"),
		Entry("a host with a port", `frontendHosts: ["app.example.com:8080"]`, "should match"),
		Entry("a host with a trailing dot", `frontendHosts: [app.example.com.]`, "should match"),
		Entry("a host with a wildcard", `frontendHosts: ["*.example.com"]`, "should match"),
		Entry("a host with a scheme", `frontendHosts: ["https://app.example.com"]`, "should match"),
		Entry("a host twice", `frontendHosts: [a.example, a.example]`, "spec.frontendHosts[1]", "Duplicate value"),
		Entry("32 hosts", repeated("frontendHosts", "h#.example", 32)),
		Entry("33 hosts", repeated("frontendHosts", "h#.example", 33), "spec.frontendHosts", tooMany),
		Entry("localhost in Staging", "mode: Staging\nfrontendHosts: [localhost, app.localhost]"),
		Entry("localhost in Production", "mode: Production\nfrontendHosts: [localhost]", "spec.frontendHosts", "only a deployment with mode Staging may claim localhost: set mode to Staging or use a public host name"),
		Entry("localhost without mode", "frontendHosts: [app.localhost]", "only a deployment with mode Staging may claim localhost"),
		Entry("a host that only looks like it", "frontendHosts: [mylocalhost, localhost.example]"),
		Entry("management", `management: {fieldConflicts: Override, writes: Disabled}`),
		Entry("management's other values", `management: {fieldConflicts: Reject, writes: Enabled}`), Entry("empty management", `management: {}`),
		Entry("other fieldConflicts", `management: {fieldConflicts: Merge}`, "spec.management.fieldConflicts", `supported values: "Reject", "Override"`),
		Entry("other writes", `management: {writes: ReadOnly}`, "spec.management.writes", `supported values: "Enabled", "Disabled"`),
	}))

var _ = DescribeTable("The schema of APIAuthApp validates", validates(v1alpha1.KindAPIAuthApp),
	table(commonEntries(), nameEntries(), descriptionEntries(), slugEntries(), permissionEntries(),
		referenceEntries("deploymentRef", 63), optionalReferenceEntries("rateLimitSchemeRef", 253), []TableEntry{
			Entry("a prefix", `keyPrefix: acme_live_2`), Entry("a prefix of 20", "keyPrefix: "+letters(20)),
			Entry("a prefix of 21", "keyPrefix: "+letters(21), "spec.keyPrefix", "may not be more than 20"),
			Entry("an empty prefix", `keyPrefix: ""`, "spec.keyPrefix"),
			Entry("an upper-case prefix", `keyPrefix: ACME`, "spec.keyPrefix", "should match '^[a-z0-9]+(_[a-z0-9]+)*$'"),
			Entry("a prefix with two underscores", `keyPrefix: a__b`, "should match"), Entry("a prefix that ends with one", `keyPrefix: a_`, "should match"),
			Entry("a prefix with a dash", `keyPrefix: a-b`, "should match"),
			Entry("inactive", `active: false`), Entry("active as a word", `active: "no"`, "spec.active", "must be of type boolean"),
			Entry("keys of users", `selfService: {enabled: true, maxKeysPerUser: 1000, permissions: [orders:read, "*"]}`), Entry("no keys of users", `selfService: {}`),
			Entry("0 keys a user", `selfService: {maxKeysPerUser: 0}`, "spec.selfService.maxKeysPerUser", "greater than or equal to 1"),
			Entry("1001 keys a user", `selfService: {maxKeysPerUser: 1001}`, "spec.selfService.maxKeysPerUser", "less than or equal to 1000"),
			Entry("a permission of users with a blank", `selfService: {permissions: ["a b"]}`, "spec.selfService.permissions[0]", "should match"),
		}))

func permissionEntries() []TableEntry {
	return []TableEntry{
		Entry("permissions", `permissions: ["*", "rate_limit_schemes:write", "orders:read", "a/b.c-d:e:F"]`), Entry("no permission", `permissions: []`),
		Entry("a permission of 100", "permissions: ["+letters(100)+"]"),
		Entry("a permission of 101", "permissions: ["+letters(101)+"]", "spec.permissions[0]", "may not be more than 100"),
		Entry("an empty permission", `permissions: [""]`, "spec.permissions[0]"),
		Entry("a star within a permission", `permissions: ["orders:*"]`, "spec.permissions[0]", "should match"),
		Entry("a permission with a blank", `permissions: ["a b"]`, "should match"), Entry("a permission that ends with a colon", `permissions: ["a:"]`, "should match"),
		Entry("a permission twice", `permissions: [a, a]`, "spec.permissions[1]", "Duplicate value"),
		Entry("128 permissions", repeated("permissions", "p#", 128)), Entry("129 permissions", repeated("permissions", "p#", 129), "spec.permissions", tooMany),
	}
}

const oneOfTwo = "set exactly one of secretTemplate (the operator generates the key) and existingSecretRef (you provide it)"

var _ = DescribeTable("The schema of APIKey validates", validates(v1alpha1.KindAPIKey),
	table(commonEntries(), nameEntries(), permissionEntries(), referenceEntries("appRef", 253), optionalReferenceEntries("rateLimitSchemeRef", 253), []TableEntry{
		Entry("neither a template nor a Secret", `secretTemplate: null`, oneOfTwo),
		Entry("both", `existingSecretRef: {name: s}`, oneOfTwo),
		Entry("an existing Secret", "secretTemplate: null\nexistingSecretRef: {name: s, key: tls.key_-A}"),
		Entry("an existing Secret without name", "secretTemplate: null\nexistingSecretRef: {}", "spec.existingSecretRef.name: Required value"),
		Entry("an existing Secret that cannot be", "secretTemplate: null\nexistingSecretRef: {name: a/b}", "spec.existingSecretRef.name", "should match"),
		Entry("an existing Secret's key of 128", fmt.Sprintf("secretTemplate: null\nexistingSecretRef: {name: s, key: %s}", letters(128))),
		Entry("an existing Secret's key of 129", fmt.Sprintf("secretTemplate: null\nexistingSecretRef: {name: s, key: %s}", letters(129)), "spec.existingSecretRef.key", "may not be more than 128"),
		Entry("an existing Secret's key with a slash", "secretTemplate: null\nexistingSecretRef: {name: s, key: a/b}", "spec.existingSecretRef.key", "should match '^[-._a-zA-Z0-9]+$'"),
		Entry("an existing Secret's empty key", "secretTemplate: null\nexistingSecretRef: {name: s, key: \"\"}", "spec.existingSecretRef.key"),
		Entry("a template", `secretTemplate: {name: s.0-x, labels: {team: "", example.com/x: A_b.c-9}, annotations: {example.com/note: "any text, ü"}}`),
		Entry("a template's name of 253", "secretTemplate: {name: "+letters(253)+"}"),
		Entry("a template's name of 254", "secretTemplate: {name: "+letters(254)+"}", "spec.secretTemplate.name", "may not be more than 253"),
		Entry("a template's name in upper case", `secretTemplate: {name: S}`, "spec.secretTemplate.name", "should match"),
		Entry("a template's name with an empty part", `secretTemplate: {name: a..b}`, "spec.secretTemplate.name", "should match"),
		Entry("a label's value of 63", "secretTemplate: {labels: {a: "+letters(63)+"}}"),
		Entry("a label's value of 64", "secretTemplate: {labels: {a: "+letters(64)+"}}", "spec.secretTemplate.labels.a", "may not be more than 63"),
		Entry("a label's value with a blank", `secretTemplate: {labels: {a: "b c"}}`, "spec.secretTemplate.labels.a", "should match"),
		Entry("a label's name with a blank", `secretTemplate: {labels: {"a b": c}}`, "spec.secretTemplate.labels", "each name must be a valid label name, such as team or example.com/team"),
		Entry("a label's name of 64", "secretTemplate: {labels: {"+letters(64)+": c}}", "each name must be a valid label name"),
		Entry("33 labels", "secretTemplate: {"+mapped("labels", 33)+"}", "spec.secretTemplate.labels", "32"),
		Entry("32 labels", "secretTemplate: {"+mapped("labels", 32)+"}"),
		Entry("an annotation of 4096", "secretTemplate: {annotations: {a: "+letters(4096)+"}}"),
		Entry("an annotation of 4097", "secretTemplate: {annotations: {a: "+letters(4097)+"}}", "spec.secretTemplate.annotations.a", "may not be more than 4096"),
		Entry("an annotation's name with two slashes", `secretTemplate: {annotations: {a/b/c: d}}`, "spec.secretTemplate.annotations", "such as team or example.com/team"),
		Entry("33 annotations", "secretTemplate: {"+mapped("annotations", 33)+"}", "spec.secretTemplate.annotations", "32"),
		Entry("an expiry", `expiresAt: "2030-01-01T00:00:00Z"`), Entry("an expiry with an offset", `expiresAt: "2030-01-01T00:00:00+02:00"`),
		Entry("an expiry without time", `expiresAt: "2030-01-01"`, "spec.expiresAt", "date-time"), Entry("an expiry in words", `expiresAt: tomorrow`, "spec.expiresAt"),
	}, rotationEntries(), rangeEntries()))

func mapped(member string, n int) string {
	pairs := make([]string, n)
	for i := range pairs {
		pairs[i] = fmt.Sprintf("k%d: v", i)
	}
	return member + ": {" + strings.Join(pairs, ", ") + "}"
}

func rotationEntries() []TableEntry {
	const overlap = "overlapSeconds (absent: 86400) must be less than everySeconds: shorten the overlap or lengthen the interval"
	return []TableEntry{
		Entry("rotation", `rotation: {everySeconds: 86401}`),
		Entry("rotation within the absent overlap", `rotation: {everySeconds: 86400}`, "spec.rotation", overlap),
		Entry("rotation with an overlap", `rotation: {everySeconds: 2, overlapSeconds: 1}`),
		Entry("an overlap as long as the interval", `rotation: {everySeconds: 60, overlapSeconds: 60}`, overlap),
		Entry("no overlap at all", `rotation: {everySeconds: 60, overlapSeconds: 0}`, "spec.rotation.overlapSeconds", "greater than or equal to 1"),
		Entry("rotation every second", `rotation: {everySeconds: 1}`, "spec.rotation.everySeconds", "greater than or equal to 2"),
		Entry("rotation every ten years", `rotation: {everySeconds: 315360000}`),
		Entry("rotation more rarely", `rotation: {everySeconds: 315360001}`, "spec.rotation.everySeconds", "less than or equal to 315360000"),
		Entry("an overlap over ten years", `rotation: {everySeconds: 315360000, overlapSeconds: 315360001}`, "spec.rotation.overlapSeconds", "less than or equal to 315360000"),
		Entry("rotation without an interval", `rotation: {overlapSeconds: 60}`, "spec.rotation.everySeconds: Required value"),
		Entry("rotation of a key that was brought", "secretTemplate: null\nexistingSecretRef: {name: s}\nrotation: {everySeconds: 86401}",
			"spec.rotation", "rotation needs secretTemplate: to rotate a key that you provide, write a new one to its Secret"),
	}
}

func rangeEntries() []TableEntry {
	const form = "must be an IP range in CIDR notation, such as 10.0.0.0/8 or 2001:db8::/32"
	return []TableEntry{
		Entry("ranges", `allowedCIDRs: [10.0.0.0/8, 192.0.2.7/32, "2001:db8::/32", "::/0", 0.0.0.0/0]`),
		Entry("the longest range", `allowedCIDRs: ["2001:0db8:0000:0000:0000:0000:0000:0001/128"]`),
		Entry("no range", `allowedCIDRs: []`, "spec.allowedCIDRs", "at least 1 items"),
		Entry("an address", `allowedCIDRs: [10.0.0.1]`, "spec.allowedCIDRs[0]", form), Entry("a range too wide", `allowedCIDRs: [10.0.0.0/33]`, form),
		Entry("a word", `allowedCIDRs: [office]`, form), Entry("leading zeros", `allowedCIDRs: [010.0.0.0/8]`, form), Entry("a zone", `allowedCIDRs: ["fe80::1%eth0/64"]`, form),
		Entry("an empty range", `allowedCIDRs: [""]`, "spec.allowedCIDRs[0]"), Entry("a range of 44 characters", "allowedCIDRs: ["+letters(44)+"]", "may not be more than 43"),
		Entry("a range twice", `allowedCIDRs: [10.0.0.0/8, 10.0.0.0/8]`, "Duplicate value"),
		Entry("64 ranges", repeated("allowedCIDRs", "10.0.#.0/24", 64)), Entry("65 ranges", repeated("allowedCIDRs", "10.0.#.0/24", 65), "spec.allowedCIDRs", tooMany),
	}
}

var _ = DescribeTable("The schema of RateLimitScheme validates", validates(v1alpha1.KindRateLimitScheme),
	table(commonEntries(), nameEntries(), descriptionEntries(), slugEntries(), referenceEntries("deploymentRef", 63), ruleEntries(), windowEntries()))

func ruleEntries() []TableEntry {
	rule := func(more string) string { return "rules: [{unit: minute, duration: 1, maxRequests: 1, " + more + "}]" }
	return []TableEntry{
		Entry("no rules member", `rules: null`, "spec.rules: Required value"),
		Entry("empty rules", `rules: []`, "spec.rules", "at least 1 items"),
		Entry("64 rules", repeated("rules", "{unit: minute, duration: 1, maxRequests: 1}", 64)),
		Entry("65 rules", repeated("rules", "{unit: minute, duration: 1, maxRequests: 1}", 65), "spec.rules", tooMany, "64 items"),
		Entry("a rule without unit", `rules: [{duration: 1, maxRequests: 1}]`, "spec.rules[0].unit: Required value"),
		Entry("a rule without duration", `rules: [{unit: minute, maxRequests: 1}]`, "spec.rules[0].duration: Required value"),
		Entry("a rule without maxRequests", `rules: [{unit: minute, duration: 1}]`, "spec.rules[0].maxRequests: Required value"),
		Entry("another unit", `rules: [{unit: week, duration: 1, maxRequests: 1}]`, "spec.rules[0].unit",
			`supported values: "millisecond", "second", "minute", "hour", "day", "month", "calendar_day", "calendar_month"`),
		Entry("1 request", rule("priority: 0")), Entry("the most requests", `rules: [{unit: minute, duration: 1, maxRequests: 2147483647}]`),
		Entry("no request", `rules: [{unit: minute, duration: 1, maxRequests: 0}]`, "spec.rules[0].maxRequests", "greater than or equal to 1"),
		Entry("too many requests", `rules: [{unit: minute, duration: 1, maxRequests: 2147483648}]`, "spec.rules[0].maxRequests", "less than or equal to 2147483647"),
		Entry("half a request", `rules: [{unit: minute, duration: 1, maxRequests: 1.5}]`, "spec.rules[0].maxRequests", "must be of type integer"),
		Entry("another mode", rule("mode: per_user"), "spec.rules[0].mode", `supported values: "per_app", "per_key", "per_ip", "per_key_and_ip", "per_app_and_ip"`),
		Entry("the lowest priority", rule("priority: -2147483648")), Entry("the highest priority", rule("priority: 2147483647")),
		Entry("a lower priority", rule("priority: -2147483649"), "spec.rules[0].priority", "greater than or equal to -2147483648"),
		Entry("a higher priority", rule("priority: 2147483648"), "spec.rules[0].priority", "less than or equal to 2147483647"),
		Entry("empty endpoints", rule("endpoints: []"), "spec.rules[0].endpoints", "at least 1 items"),
		Entry("an endpoint of 256", rule("endpoints: [/"+letters(255)+"]")),
		Entry("an endpoint of 257", rule("endpoints: [/"+letters(256)+"]"), "spec.rules[0].endpoints[0]", "may not be more than 256"),
		Entry("100 endpoints", rule(repeated("endpoints", "/v#", 100))),
		Entry("101 endpoints", rule(repeated("endpoints", "/v#", 101)), "spec.rules[0].endpoints", tooMany, "100 items"),
		Entry("512 endpoints", repeated("rules", "{unit: minute, duration: 1, maxRequests: 1, "+repeated("endpoints", "/x", 8)+"}", 64)),
		Entry("513 endpoints", repeated("rules", "{unit: minute, duration: 1, maxRequests: 1, "+repeated("endpoints", "/x", 8)+"}", 63)[:len("rules: [")]+
			"{unit: minute, duration: 1, maxRequests: 1, "+repeated("endpoints", "/x", 9)+"}, "+
			strings.TrimPrefix(repeated("rules", "{unit: minute, duration: 1, maxRequests: 1, "+repeated("endpoints", "/x", 8)+"}", 63), "rules: ["),
			"spec.rules", "a scheme has at most 512 endpoints over all its rules: use prefixes (/v1/*) or split the scheme"),
		Entry("all modes", `rules: [{unit: day, duration: 1, maxRequests: 1, mode: per_app}, {unit: day, duration: 1, maxRequests: 1, mode: per_key}, {unit: day, duration: 1, maxRequests: 1, mode: per_ip}, {unit: day, duration: 1, maxRequests: 1, mode: per_key_and_ip}, {unit: day, duration: 1, maxRequests: 1, mode: per_app_and_ip}]`),
	}
}

// windowEntries test each unit at both ends of its duration.
func windowEntries() []TableEntry {
	var entries []TableEntry
	for _, unit := range []struct {
		name    string
		longest int
		message string
	}{
		{"millisecond", 60000, "less than or equal to 60000"},
		{"second", 1800, "duration in seconds is 1 to 1800: use unit minute for longer windows"},
		{"minute", 1440, "duration in minutes is 1 to 1440: use unit hour for longer windows"},
		{"hour", 720, "duration in hours is 1 to 720: use unit month for longer windows"},
		{"day", 30, "duration in days is 1 to 30: 30 days is the longest window"},
		{"month", 1, "duration is exactly 1 for month, calendar_day and calendar_month: set it to 1"},
		{"calendar_day", 1, "duration is exactly 1 for month, calendar_day and calendar_month: set it to 1"},
		{"calendar_month", 1, "duration is exactly 1 for month, calendar_day and calendar_month: set it to 1"},
	} {
		window := func(duration int) string {
			return fmt.Sprintf("rules: [{unit: %s, duration: %d, maxRequests: 1}]", unit.name, duration)
		}
		entries = append(entries,
			Entry("a "+unit.name, window(1)), Entry(unit.name+" at its longest", window(unit.longest)),
			Entry(unit.name+" over its longest", window(unit.longest+1), "spec.rules[0].duration", unit.message),
			Entry("0 of "+unit.name, window(0), "spec.rules[0].duration", "greater than or equal to 1"),
		)
	}
	return entries
}
