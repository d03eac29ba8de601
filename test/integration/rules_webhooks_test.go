package integration

import (
	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

var _ = DescribeTable("The schema of WebhookEndpoint validates", validates(v1alpha1.KindWebhookEndpoint),
	table(commonEntries(), referenceEntries("deploymentRef", 63), switchEntries("active"), webhookEntries(), webhookSigningEntries()))

func webhookEntries() []TableEntry {
	const value = `valueFrom: {secretKeyRef: {name: s, key: k}}`
	return []TableEntry{
		Entry("no URL", `url: null`, "spec.url: Required value"), Entry("an http URL", `url: http://hooks.internal:8080/in?a=b`),
		Entry("another scheme", `url: ftp://example.com`, "spec.url", "should match"),
		Entry("a fragment", `url: "https://example.com/a#b"`, "spec.url", "must not have a fragment"),
		Entry("a user", `url: https://user:pass@example.com/`, "spec.url", "must not have a user or password"),
		Entry("an at sign in the path", `url: https://example.com/@in`),
		Entry("no types", `types: []`, "spec.types", "should have at least 1 items"), Entry("types", `types: ["user.*", membership.created, "*"]`),
		Entry("a type in upper case", `types: [User.created]`, "spec.types[0]", "should match"),
		Entry("64 types", repeated("types", "t#.x", 64)), Entry("65 types", repeated("types", "t#.x", 65), "spec.types", tooMany),
		Entry("CloudEvents", `format: CloudEvents`), Entry("another format", `format: XML`, "spec.format", `supported values: "StandardWebhooks", "CloudEvents"`),
		Entry("personal data", `personalData: Include`), Entry("other personal data", `personalData: Some`, "spec.personalData", `supported values: "Omit", "Include"`),
		Entry("no order", `ordering: None`), Entry("another order", `ordering: All`, "spec.ordering", `supported values: "Entity", "None"`),
		Entry("a header", `headers: [{name: X-Key, value: a}]`), Entry("a header of a Secret", "headers: [{name: Authorization, "+value+"}]"),
		Entry("a header with both", "headers: [{name: Authorization, value: a, "+value+"}]", "spec.headers[0]", "set exactly one of value and valueFrom"),
		Entry("16 headers", repeated("headers", "{name: X-#, value: a}", 16)), Entry("17 headers", repeated("headers", "{name: X-#, value: a}", 17), "spec.headers", tooMany),
		Entry("the smallest numbers", `{timeoutSeconds: 1, maxConcurrent: 1, maxPerSecond: 1, retrySeconds: 600, disableAfterSeconds: 600}`),
		Entry("the largest numbers", `{timeoutSeconds: 30, maxConcurrent: 64, maxPerSecond: 10000, retrySeconds: 604800, disableAfterSeconds: 2592000}`),
		Entry("no timeout", `timeoutSeconds: 0`, "spec.timeoutSeconds"), Entry("a long timeout", `timeoutSeconds: 31`, "spec.timeoutSeconds"),
		Entry("no concurrency", `maxConcurrent: 0`, "spec.maxConcurrent"), Entry("65 at once", `maxConcurrent: 65`, "spec.maxConcurrent"),
		Entry("none in a second", `maxPerSecond: 0`, "spec.maxPerSecond"), Entry("a short retry", `retrySeconds: 599`, "spec.retrySeconds"),
		Entry("disabled before the last retry", `disableAfterSeconds: 259199`, "spec.disableAfterSeconds", "must be at least retrySeconds (absent: 259200)"),
		Entry("retries beyond the disabling", `retrySeconds: 432001`, "spec.disableAfterSeconds", "disableAfterSeconds (absent: 432000) must be at least"),
	}
}

func webhookSigningEntries() []TableEntry {
	signing := func(members string) string { return "signing: {" + members + "}" }
	return []TableEntry{
		Entry("signing by default", signing("")), Entry("a template", signing("secretTemplate: {name: s, labels: {team: it}}")),
		Entry("rotation", signing("rotation: {everySeconds: 7776000, overlapSeconds: 604800}")), Entry("HMAC", signing("scheme: HMAC")),
		Entry("a Secret of the user", signing("existingSecretRef: {name: s, key: tls.key_-A}")),
		Entry("both", signing("secretTemplate: {}, existingSecretRef: {name: s}"), "spec.signing", "set secretTemplate (the operator generates the secret) or existingSecretRef"),
		Entry("rotation of a secret of the user", signing("existingSecretRef: {name: s}, rotation: {everySeconds: 100000}"), "spec.signing.rotation", "rotation needs a generated secret"),
		Entry("an overlap that is no shorter", signing("rotation: {everySeconds: 60, overlapSeconds: 60}"), "spec.signing.rotation", "must be less than everySeconds"),
		Entry("Ed25519", signing("scheme: Ed25519")), Entry("another scheme", signing("scheme: RSA"), "spec.signing.scheme", `supported values: "HMAC", "Ed25519"`),
		Entry("Ed25519 with a Secret", signing("scheme: Ed25519, secretTemplate: {}"), "spec.signing", "scheme Ed25519 signs with the deployment's key"),
		Entry("Ed25519 with rotation", signing("scheme: Ed25519, rotation: {everySeconds: 100000}"), "spec.signing", "scheme Ed25519 signs with the deployment's key"),
		Entry("an existing Secret without name", signing("existingSecretRef: {}"), "spec.signing.existingSecretRef.name: Required value"),
		Entry("an existing Secret's key of 129", signing("existingSecretRef: {name: s, key: "+letters(129)+"}"), "spec.signing.existingSecretRef.key", "may not be more than 128"),
	}
}

var _ = DescribeTable("A change of a WebhookEndpoint is validated:", judgedChange,
	Entry("another deployment", v1alpha1.KindWebhookEndpoint, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", "deploymentRef is immutable: create another WebhookEndpoint for the other deployment"),
	Entry("another URL", v1alpha1.KindWebhookEndpoint, `{}`, `{"url":"https://other.example"}`),
	Entry("another signature", v1alpha1.KindWebhookEndpoint, `{}`, `{"signing":{"scheme":"Ed25519"}}`),
)
