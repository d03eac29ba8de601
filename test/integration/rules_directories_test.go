package integration

import (
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

const oneToken = "set exactly one of secretTemplate (the operator generates the token) and existingSecretRef (you provide it)"

var _ = DescribeTable("The schema of Directory validates", validates(v1alpha1.KindDirectory),
	table(commonEntries(), slugEntries(), referenceEntries("deploymentRef", 63), optionalReferenceEntries("connectionRef", 253), switchEntries("active"), directoryEntries(), directoryTokenEntries()))

func directoryEntries() []TableEntry {
	groups := func(entry string) string { return "groupRoles: [" + entry + "]" }
	const role = "roleRef: {name: developer}"
	return []TableEntry{
		Entry("no organization", `organization: null`, "spec.organization: Required value"),
		Entry("an organization without slug", `organization: {}`, "spec.organization.slug: Required value"),
		Entry("an organization in upper case", `organization: {slug: Globex}`, "spec.organization.slug", slugPattern),
		Entry("an organization of 64", "organization: {slug: "+letters(64)+"}", "spec.organization.slug", "may not be more than 63"),
		Entry("onDelete Keep", `onDelete: Keep`), Entry("onDelete Erase", `onDelete: Erase`),
		Entry("another onDelete", `onDelete: Delete`, "spec.onDelete", `supported values: "Keep", "Erase"`),
		Entry("no group", `groupRoles: []`), Entry("a group", groups("{group: Engineering, "+role+"}")),
		Entry("100 groups", repeated("groupRoles", "{group: g#, "+role+"}", 100)), Entry("101 groups", repeated("groupRoles", "{group: g#, "+role+"}", 101), "spec.groupRoles", tooMany),
		Entry("a group with blanks and an umlaut", groups(`{group: " Köche, Abt. 7 ", `+role+"}")),
		Entry("an empty group", groups(`{group: "", `+role+"}"), "spec.groupRoles[0].group"), Entry("no name of a group", groups("{"+role+"}"), "spec.groupRoles[0].group: Required value"),
		Entry("a group of 256 characters", groups("{group: "+strings.Repeat("ä", 256)+", "+role+"}")),
		Entry("a group of 257", groups("{group: "+letters(257)+", "+role+"}"), "spec.groupRoles[0].group", "may not be more than 256"),
		Entry("a group without role", groups("{group: a}"), "spec.groupRoles[0].roleRef: Required value"),
		Entry("a role that cannot be", groups("{group: a, roleRef: {name: a/b}}"), "spec.groupRoles[0].roleRef.name", "should match"),
	}
}

func directoryTokenEntries() []TableEntry {
	existing := func(members string) string { return "secretTemplate: null\nexistingSecretRef: {" + members + "}" }
	return []TableEntry{
		Entry("neither a template nor a Secret", `secretTemplate: null`, oneToken), Entry("both", `existingSecretRef: {name: s}`, oneToken),
		Entry("an existing Secret", existing("name: s, key: tls.key_-A")), Entry("an existing Secret without name", existing(""), "spec.existingSecretRef.name: Required value"),
		Entry("an existing Secret that cannot be", existing("name: a/b"), "spec.existingSecretRef.name", "should match"),
		Entry("an existing Secret's key of 128", existing("name: s, key: "+letters(128))), Entry("an existing Secret's key of 129", existing("name: s, key: "+letters(129)), "spec.existingSecretRef.key", "may not be more than 128"),
		Entry("an existing Secret's key with a slash", existing("name: s, key: a/b"), "spec.existingSecretRef.key", "should match '^[-._a-zA-Z0-9]+$'"),
		Entry("a template", `secretTemplate: {name: s.0-x, labels: {team: it}, annotations: {example.com/note: "any text"}}`),
		Entry("a template's name that cannot be", `secretTemplate: {name: A}`, "spec.secretTemplate.name", "should match"),
		Entry("rotation", `rotation: {everySeconds: 7776000, overlapSeconds: 604800}`),
		Entry("an overlap that is no shorter", `rotation: {everySeconds: 60, overlapSeconds: 60}`, "spec.rotation", "overlapSeconds (absent: 86400) must be less than everySeconds"),
		Entry("rotation of a token of the user", fmt.Sprintf("%s\nrotation: {everySeconds: 100000}", existing("name: s")), "spec.rotation", "rotation needs secretTemplate: to rotate a token that you provide, write a new one to its Secret"),
	}
}

var _ = DescribeTable("A change of a Directory is validated:", judgedChange,
	Entry("another deployment", v1alpha1.KindDirectory, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", "deploymentRef is immutable: create another Directory for the other deployment"),
	Entry("another slug", v1alpha1.KindDirectory, `{}`, `{"slug":"other"}`, "spec.slug", "slug is immutable"),
	Entry("another organization", v1alpha1.KindDirectory, `{}`, `{"organization":{"slug":"other"}}`, "spec.organization", "organization is immutable: create another Directory for the other organization"),
	Entry("no organization", v1alpha1.KindDirectory, `{}`, `{"organization":null}`, "spec.organization: Required value"),
	Entry("where a token comes from", v1alpha1.KindDirectory, `{}`, `{"secretTemplate":null,"existingSecretRef":{"name":"s"}}`),
	Entry("both sources of a token", v1alpha1.KindDirectory, `{}`, `{"existingSecretRef":{"name":"s"}}`, oneToken),
	Entry("the rest", v1alpha1.KindDirectory, `{}`, `{"active":false,"connectionRef":{"name":"okta"},"onDelete":"Erase","groupRoles":[{"group":"A","roleRef":{"name":"b"}}],"rotation":{"everySeconds":100000}}`))
