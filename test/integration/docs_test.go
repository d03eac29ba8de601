package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/test/testkit"
)

// elsewhere maps kinds in docs that the test's API server does not know to the reason why they are not applied.
var elsewhere = map[string]string{
	"AuthenticationConfiguration": "a configuration file of kube-apiserver; test/e2e starts an API server with it",
	"ExternalSecret":              "of External Secrets, whose CRDs are not here",
	"Kustomization":               "of Flux, whose CRDs are not here",
	"SecurityPolicy":              "of Envoy Gateway, whose CRDs are not here",
}

// fenced matches blocks of YAML in a page; separator matches the lines between documents in a block.
var (
	fenced    = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	separator = regexp.MustCompile(`(?m)^---$`)
)

// shown returns the resources of a page, in order.
func shown(page string) (resources []*unstructured.Unstructured) {
	GinkgoHelper()
	content, err := os.ReadFile(page)
	Expect(err).NotTo(HaveOccurred())
	for _, block := range fenced.FindAllStringSubmatch(string(content), -1) {
		for _, text := range separator.Split(block[1], -1) {
			resource := &unstructured.Unstructured{}
			Expect(yaml.UnmarshalStrict([]byte(text), &resource.Object)).To(Succeed(), text)
			Expect(resource.GetKind()).NotTo(BeEmpty(), "the document has no kind, so it cannot be applied: %s", text)
			resources = append(resources, resource)
		}
	}
	return resources
}

var _ = Describe("The pages that show resources", func() {
	pages, err := filepath.Glob(filepath.Join(testkit.Root(), "docs", "oauth", "*.md"))
	if err != nil || len(pages) == 0 {
		panic(fmt.Sprint("docs/oauth has no pages: ", err))
	}
	for _, page := range []string{"agents.md", "console.md", "gitops.md", "strong-auth.md"} {
		pages = append(pages, filepath.Join(testkit.Root(), "docs", page))
	}
	for _, page := range pages {
		It("show resources that apply, without a field too many: "+filepath.Base(page), func(ctx context.Context) {
			namespace, err := cluster.Namespace(ctx)
			Expect(err).NotTo(HaveOccurred())
			var left []string
			for _, resource := range shown(page) {
				what := resource.GetKind() + " " + resource.GetName()
				if why, foreign := elsewhere[resource.GetKind()]; foreign {
					left = append(left, what+": "+why)
					continue
				}
				if resource.GetNamespace() != "" {
					resource.SetNamespace(namespace)
				}
				Expect(cluster.Client.Create(ctx, resource, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))).To(Succeed(), what)
			}
			if len(left) > 0 {
				AddReportEntry("not applied", strings.Join(left, "; "))
			}
		})
	}
})
