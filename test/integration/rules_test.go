package integration

import (
	"context"
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// minimal is the smallest valid spec of each kind that needs other members than deploymentRef, or none.
var minimal = map[string]string{
	v1alpha1.KindIdentityDeployment: `{}`,
	v1alpha1.KindRateLimitScheme: `
deploymentRef: {name: acme}
slug: free
rules: [{unit: minute, duration: 1, maxRequests: 60}]`,
	v1alpha1.KindAPIAuthApp: `
deploymentRef: {name: acme}
slug: backend`,
	v1alpha1.KindAPIKey: `
appRef: {name: backend}
secretTemplate: {}`,
	v1alpha1.KindMembershipRole: `
deploymentRef: {name: acme}
level: Organization`,
	v1alpha1.KindOAuthApp: `
deploymentRef: {name: acme}
slug: portal`,
	v1alpha1.KindOAuthScope: `
oauthAppRef: {name: portal}
scope: read:users`,
	v1alpha1.KindOAuthClient: `
oauthAppRef: {name: portal}
redirectURIs: ["https://app.example/callback"]
secretTemplate: {}`,
	v1alpha1.KindConnection: `
deploymentRef: {name: acme}
slug: globex
type: OIDC
client: {clientID: abc, clientSecretRef: {name: globex, key: client-secret}}
oidc: {issuer: "https://idp.globex.example"}`,
	v1alpha1.KindDirectory: `
deploymentRef: {name: acme}
slug: globex
organization: {slug: globex}
secretTemplate: {}`,
	v1alpha1.KindWebhookEndpoint: `
deploymentRef: {name: acme}
url: https://crm.example/hooks`,
	v1alpha1.KindAITool: `
deploymentRef: {name: acme}
type: API`,
}

// declare returns a resource from YAML: the minimal spec of the kind, with the members of overlay replacing its own. A
// null member is removed.
func declare(kind, namespace, name, overlay string) *unstructured.Unstructured {
	GinkgoHelper()
	spec, over := map[string]any{}, map[string]any{}
	smallest, declared := minimal[kind]
	if !declared {
		smallest = "deploymentRef: {name: acme}"
	}
	Expect(yaml.Unmarshal([]byte(smallest), &spec)).To(Succeed())
	Expect(yaml.Unmarshal([]byte(overlay), &over)).To(Succeed())
	maps.Copy(spec, over)
	maps.DeleteFunc(spec, func(_ string, value any) bool { return value == nil })
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	obj.SetAPIVersion(v1alpha1.GroupVersion.String())
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// expectVerdict checks the API server's response: without faults it must be a success, otherwise an error with each
// fault in its message.
func expectVerdict(err error, faults []string) {
	GinkgoHelper()
	if len(faults) == 0 {
		Expect(err).NotTo(HaveOccurred())
		return
	}
	Expect(err).To(HaveOccurred(), "accepted")
	Expect(apierrors.IsInvalid(err) || apierrors.IsBadRequest(err)).To(BeTrue(), "%v", err)
	for _, fault := range faults {
		Expect(err.Error()).To(ContainSubstring(fault))
	}
}

// validates returns the body of a table. An entry is an overlay and parts of the expected error; without such parts,
// the API server must accept the overlay.
func validates(kind string) func(context.Context, string, ...string) {
	return func(ctx context.Context, overlay string, faults ...string) {
		err := cluster.Client.Create(ctx, declare(kind, "default", "judged", overlay), client.DryRunAll)
		expectVerdict(err, faults)
	}
}

const (
	slugPattern = `should match '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'`
	notBlank    = "must not be blank: write a name or leave the field out"
	tooMany     = "Too many"
)

func letters(n int) string { return strings.Repeat("a", n) }

// quoted returns a member with a quoted string as YAML.
func quoted(member, text string) string { return fmt.Sprintf("%s: %q", member, text) }

// repeated returns a list of n elements as YAML; each "#" in format becomes the element's number.
func repeated(member, format string, n int) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = strings.ReplaceAll(format, "#", fmt.Sprint(i))
	}
	return member + ": [" + strings.Join(elements, ", ") + "]"
}

// commonEntries are the rules that every kind shares.
func commonEntries() []TableEntry {
	return []TableEntry{
		Entry("the minimum", `{}`),
		Entry("id 1", `id: "1"`),
		Entry("the largest id", `id: "9223372036854775807"`),
		Entry("an id over it", `id: "9223372036854775808"`, "spec.id", "id must be at most 9223372036854775807: choose a smaller number or leave it out"),
		Entry("an id of 19 nines", `id: "9999999999999999999"`, "id must be at most 9223372036854775807"),
		Entry("an id of 20 digits", `id: "10000000000000000000"`, "spec.id", "may not be more than 19"),
		Entry("id 0", `id: "0"`, "spec.id", "should match '^[1-9][0-9]{0,18}$'"),
		Entry("an id with a leading zero", `id: "01"`, "should match '^[1-9][0-9]{0,18}$'"),
		Entry("a negative id", `id: "-1"`, "should match"),
		Entry("an empty id", `id: ""`, "spec.id"),
		Entry("an id that is a number", `id: 7`, "spec.id", "must be of type string"),
		Entry("suspend", `suspend: true`),
		Entry("suspend that is a word", `suspend: "yes"`, "spec.suspend", "must be of type boolean"),
		Entry("deletionPolicy Retain", `deletionPolicy: Retain`),
		Entry("deletionPolicy Delete", `deletionPolicy: Delete`),
		Entry("another deletionPolicy", `deletionPolicy: Orphan`, "spec.deletionPolicy", `supported values: "Delete", "Retain"`),
	}
}

// nameEntries are the rules of displayName.
func nameEntries() []TableEntry {
	return []TableEntry{
		Entry("a name", `displayName: Free plan`),
		Entry("a name with joiners", quoted("displayName", "👩\u200d👩\u200d👧")),
		Entry("a name of 80 characters", "displayName: "+strings.Repeat("ä", 80)),
		Entry("a name of 81", "displayName: "+strings.Repeat("ä", 81), "spec.displayName", "may not be more than 80"),
		Entry("an empty name", `displayName: ""`, "spec.displayName", "at least 1 chars long"),
		Entry("a blank name", `displayName: "  "`, "spec.displayName", notBlank),
		Entry("a name of wide blanks", quoted("displayName", "\u3000\u00a0\u2003"), notBlank),
		Entry("two lines", `displayName: "a\nb"`, "spec.displayName", "should match"),
		Entry("a line separator", quoted("displayName", "a\u2028b"), "should match"),
		Entry("a bidirectional control", quoted("displayName", "\u202egnp.exe"), "should match"),
		Entry("a bidirectional isolate", quoted("displayName", "a\u2067b"), "should match"),
		Entry("zero width", quoted("displayName", "a\u200bb"), "should match"),
		Entry("a word joiner", quoted("displayName", "a\u2060b"), "should match"),
		Entry("a byte order mark", quoted("displayName", "\ufeffa"), "should match"),
		Entry("a control character", `displayName: "a\tb"`, "should match"),
		Entry("a name that is a number", `displayName: 7`, "must be of type string"),
	}
}

// descriptionEntries are the rules of description.
func descriptionEntries() []TableEntry {
	return []TableEntry{
		Entry("a description of two lines", `description: "a\r\nb"`),
		Entry("an empty description", `description: ""`),
		Entry("a description of 500 characters", "description: "+strings.Repeat("ä", 500)),
		Entry("a description of 501", "description: "+strings.Repeat("ä", 501), "spec.description", "may not be more than 500"),
		Entry("a description with zero width", quoted("description", "a\u200bb"), "spec.description", "should match"),
		Entry("a description with a bidirectional control", quoted("description", "a\u202ab"), "should match"),
		Entry("a description with a tab", `description: "a\tb"`, "should match"),
	}
}

// slugEntries are the rules of slug.
func slugEntries() []TableEntry {
	return []TableEntry{
		Entry("a slug of 1", `slug: a`), Entry("a slug of 63", "slug: "+letters(63)), Entry("a slug with dashes and digits", `slug: 0-a--9`),
		Entry("a slug of 64", "slug: "+letters(64), "spec.slug", "may not be more than 63"),
		Entry("no slug", `slug: null`, "spec.slug: Required value"),
		Entry("an empty slug", `slug: ""`, "spec.slug"),
		Entry("an upper-case slug", `slug: Free`, slugPattern), Entry("a slug that begins with a dash", `slug: -a`, slugPattern),
		Entry("a slug that ends with a dash", `slug: a-`, slugPattern), Entry("a slug with a dot", `slug: a.b`, slugPattern),
		Entry("a slug with a blank", `slug: a b`, slugPattern), Entry("a slug with a line break", `slug: "a\n"`, slugPattern),
	}
}

// referenceEntries are the rules of a required reference.
func referenceEntries(member string, longest int) []TableEntry {
	return append(optionalReferenceEntries(member, longest), Entry(member+" missing", member+": null", "spec."+member+": Required value"))
}

func optionalReferenceEntries(member string, longest int) []TableEntry {
	at := "spec." + member + ".name"
	return []TableEntry{
		Entry(member, fmt.Sprintf("%s: {name: %s}", member, letters(longest))),
		Entry(member+" with dots", member+": {name: a.b-c.0}"),
		Entry(member+" too long", fmt.Sprintf("%s: {name: %s}", member, letters(longest+1)), at, fmt.Sprintf("may not be more than %d", longest)),
		Entry(member+" without name", member+": {}", at+": Required value"),
		Entry(member+" with an empty name", member+`: {name: ""}`, at),
		Entry(member+" that no resource can have", member+": {name: a/b}", at, "should match"),
		Entry(member+" as a word", member+": acme", "spec."+member, "must be of type object"),
	}
}

func table(groups ...[]TableEntry) []TableEntry {
	var all []TableEntry
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}
