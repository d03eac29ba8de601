package integration

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// kinds are the names of all Cardea kinds.
var kinds = func() (names []string) {
	for _, info := range v1alpha1.Kinds {
		names = append(names, info.Kind)
	}
	return names
}()

// place creates a resource that no operator reconciles, and deletes it when the spec ends.
func place(ctx context.Context, kind, name, overlay string) *unstructured.Unstructured {
	GinkgoHelper()
	obj := declare(kind, "default", name, overlay)
	create(ctx, obj)
	DeferCleanup(func(ctx context.Context) { Expect(cluster.Client.Delete(ctx, obj)).To(Succeed()) })
	return obj
}

// tryMerge returns the API server's decision on a merge patch of spec.
func tryMerge(ctx context.Context, obj client.Object, spec string) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":`+spec+`}`))
	return cluster.Client.Patch(ctx, obj.DeepCopyObject().(client.Object), patch, client.DryRunAll)
}

// judgedChange is the body of a table: a resource, a merge patch of its spec, and the parts of the expected error.
func judgedChange(ctx context.Context, kind, overlay, patch string, faults ...string) {
	expectVerdict(tryMerge(ctx, place(ctx, kind, "changed", overlay), patch), faults)
}

var _ = DescribeTable("A change of spec is validated:", judgedChange,
	Entry("deploymentRef of a scheme", v1alpha1.KindRateLimitScheme, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", "deploymentRef is immutable: create another resource for the other deployment"),
	Entry("slug of a scheme", v1alpha1.KindRateLimitScheme, `{}`, `{"slug":"other"}`, "spec.slug", "slug is immutable: create another resource with the new slug"),
	Entry("the rest of a scheme", v1alpha1.KindRateLimitScheme, `{}`, `{"displayName":"x","description":"y","suspend":true,"deletionPolicy":"Retain","rules":[{"unit":"day","duration":30,"maxRequests":1}]}`),
	Entry("deploymentRef of an app", v1alpha1.KindAPIAuthApp, `{}`, `{"deploymentRef":{"name":"other"}}`, "spec.deploymentRef", "deploymentRef is immutable"),
	Entry("slug of an app", v1alpha1.KindAPIAuthApp, `{}`, `{"slug":"other"}`, "spec.slug", "slug is immutable"),
	Entry("the rest of an app", v1alpha1.KindAPIAuthApp, `{}`, `{"keyPrefix":"x","permissions":["*"],"active":false,"rateLimitSchemeRef":{"name":"free"}}`),
	Entry("appRef of a key", v1alpha1.KindAPIKey, `{}`, `{"appRef":{"name":"other"}}`, "spec.appRef", "appRef is immutable: create another APIKey for the other app"),
	Entry("where a key comes from", v1alpha1.KindAPIKey, `{}`, `{"secretTemplate":null,"existingSecretRef":{"name":"s"}}`),
	Entry("both sources of a key", v1alpha1.KindAPIKey, `{}`, `{"existingSecretRef":{"name":"s"}}`, oneOfTwo),
	Entry("Staging with localhost to Production", v1alpha1.KindIdentityDeployment, "mode: Staging\nfrontendHosts: [localhost]", `{"mode":null}`, "only a deployment with mode Staging may claim localhost"),
	Entry("Staging with a log to Production", v1alpha1.KindIdentityDeployment, "mode: Staging\nsms: {provider: Log}", `{"mode":"Production"}`, "only a deployment with mode Staging may write messages to the log"),
	Entry("a fault in an edit", v1alpha1.KindRateLimitScheme, `{}`, `{"rules":[]}`, "spec.rules", "at least 1 items"),
)

var _ = Describe("spec.id", func() {
	const (
		frozen = "spec.id is never changed or removed: restore the old value"
		added  = "spec.id can be added to an existing resource only with the value of its status.id: copy that value"
	)
	for _, kind := range kinds {
		It("of "+kind+" is set once, by the creator or as the operator derived it", func(ctx context.Context) {
			declared := place(ctx, kind, "declared", `id: "7"`)
			expectVerdict(tryMerge(ctx, declared, `{"id":"8"}`), []string{"spec.id", frozen})
			expectVerdict(tryMerge(ctx, declared, `{"id":null}`), []string{"spec.id", frozen})
			expectVerdict(tryMerge(ctx, declared, `{"id":"7","suspend":true}`), nil)

			derived := place(ctx, kind, "derived", `{}`)
			expectVerdict(tryMerge(ctx, derived, `{"id":"9"}`), []string{"spec.id", added})
			status := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"id":"9"}}`))
			Expect(cluster.Client.Status().Patch(ctx, derived.DeepCopy(), status)).To(Succeed())
			expectVerdict(tryMerge(ctx, derived, `{"id":"10"}`), []string{"spec.id", added})
			expectVerdict(tryMerge(ctx, derived, `{"id":"9"}`), nil)
		})
	}

	It("of a deployment without spec is validated, too", func(ctx context.Context) {
		obj := declare(v1alpha1.KindIdentityDeployment, "default", "specless", `{}`)
		unstructured.RemoveNestedField(obj.Object, "spec")
		create(ctx, obj)
		DeferCleanup(func(ctx context.Context) { Expect(cluster.Client.Delete(ctx, obj)).To(Succeed()) })
		expectVerdict(tryMerge(ctx, obj, `{"id":"9"}`), []string{added})
		expectVerdict(tryMerge(ctx, obj, `{"mode":"Staging"}`), nil)
	})
})

var _ = Describe("A resource", func() {
	It("of any kind begins with status.observedGeneration -1, whatever status the request has", func(ctx context.Context) {
		for _, kind := range kinds {
			obj := declare(kind, "default", "fresh", `{}`)
			Expect(unstructured.SetNestedField(obj.Object, "77", "status", "id")).To(Succeed())
			create(ctx, obj)
			DeferCleanup(func(ctx context.Context) { Expect(cluster.Client.Delete(ctx, obj)).To(Succeed()) })
			live := obj.DeepCopy()
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(obj), live)).To(Succeed())
			Expect(live.Object["status"]).To(Equal(map[string]any{"observedGeneration": int64(-1)}), kind)
		}
	})

	It("of a deployment has a name of at most 63 characters", func(ctx context.Context) {
		obj := declare(v1alpha1.KindIdentityDeployment, "default", letters(63), `{}`)
		Expect(cluster.Client.Create(ctx, obj, client.DryRunAll)).To(Succeed())
		obj.SetName(letters(64))
		expectVerdict(cluster.Client.Create(ctx, obj, client.DryRunAll), []string{"the name of an IdentityDeployment has at most 63 characters: choose a shorter one"})
	})

	It("must have a spec, unless it is a deployment", func(ctx context.Context) {
		for _, kind := range kinds {
			obj := declare(kind, "default", "specless", `{}`)
			unstructured.RemoveNestedField(obj.Object, "spec")
			var faults []string
			if kind != v1alpha1.KindIdentityDeployment {
				faults = []string{"spec: Required value"}
			}
			expectVerdict(cluster.Client.Create(ctx, obj, client.DryRunAll), faults)
		}
	})
})

// manifest returns a resource as YAML for kubectl.
func manifest(kind, namespace, name, spec string) string {
	return "apiVersion: iam.cardea.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + ", namespace: " + namespace + "}\nspec:\n  " +
		strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n"
}

var _ = DescribeTable("kubectl apply reports", func(ctx context.Context, kind, spec string, faults ...string) {
	for _, side := range []string{"--server-side=false", "--server-side=true"} {
		out, err := cluster.Kubectl(ctx, manifest(kind, "default", "applied", spec), "apply", side, "--dry-run=server", "-f", "-")
		if len(faults) == 0 {
			Expect(err).NotTo(HaveOccurred(), out)
		} else {
			Expect(err).To(HaveOccurred(), out)
		}
		for _, fault := range faults {
			Expect(out).To(ContainSubstring(fault))
		}
	}
},
	Entry("of success", v1alpha1.KindRateLimitScheme, minimal[v1alpha1.KindRateLimitScheme]),
	Entry("an unknown field of spec", v1alpha1.KindRateLimitScheme, minimal[v1alpha1.KindRateLimitScheme]+"\nmaxRequests: 5", "maxRequests"),
	Entry("an unknown field of a rule, in the HTTP spelling", v1alpha1.KindRateLimitScheme, "deploymentRef: {name: acme}\nslug: free\nrules: [{unit: minute, duration: 1, maxRequests: 1, max_requests: 5}]", "max_requests"),
	Entry("an unknown field of management", v1alpha1.KindIdentityDeployment, `management: {write: Disabled}`, "write"),
	Entry("several faults at once", v1alpha1.KindRateLimitScheme, "deploymentRef: {name: acme}\nslug: Free\nrules: [{unit: week, duration: 0, maxRequests: 0}]",
		"spec.slug", "spec.rules[0].unit", "spec.rules[0].duration", "spec.rules[0].maxRequests"),
	Entry("a rule that only CEL sees", v1alpha1.KindAPIKey, "appRef: {name: a}", oneOfTwo),
)
