package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("A tool that applies from Git", func() {
	var w *world
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		create(ctx, testkit.Deployment(w.namespace, "acme"))
		expectReady(ctx, testkit.Deployment(w.namespace, "acme"))
	})

	It("declares what HTTP created once it applies that very resource", func(ctx context.Context) {
		adopted := slugged(w.namespace, "acme.free", "free")
		createByHTTP(ctx, adopted)
		expectReady(ctx, adopted)

		applied := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.KindRateLimitScheme,
			"metadata": map[string]any{"namespace": w.namespace, "name": "acme.free"},
			"spec":     map[string]any{"displayName": "Free"},
		}}
		Expect(cluster.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner("kustomize-controller"))).To(Succeed())
		expectReady(ctx, adopted)
		Expect(adopted.Labels).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedByHTTP), "Git left the label")

		declared := slugged(w.namespace, "declared", "free")
		create(ctx, declared)
		Eventually(condition(ctx, declared, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(lazyConditions{declared}.String()).To(ContainSubstring("belongs to RateLimitScheme " + w.namespace + "/acme.free"))
		Consistently(condition(ctx, adopted, v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
	})

	It("declares what HTTP created by kubectl apply too, which comes to own no field that had the value", func(ctx context.Context) {
		adopted := slugged(w.namespace, "acme.free", "free")
		createByHTTP(ctx, adopted)
		expectReady(ctx, adopted)
		manifest := manifest(v1alpha1.KindRateLimitScheme, w.namespace, "acme.free", "deploymentRef: {name: acme}\nslug: free\nrules: [{unit: minute, duration: 1, maxRequests: 60}]")
		out, err := cluster.Kubectl(ctx, manifest, "apply", "--server-side=false", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), out)
		declared := slugged(w.namespace, "declared", "free")
		create(ctx, declared)
		Eventually(condition(ctx, declared, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Consistently(condition(ctx, adopted, v1alpha1.ConditionReady)).Should(Equal("True/Ready"))
	})

	It("does not wait for a suspended resource", func(ctx context.Context) {
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, scheme)
		expectReady(ctx, scheme)
		before := w.held(ctx, v1alpha1.KindRateLimitScheme, "free")
		update(ctx, scheme, func(s *v1alpha1.RateLimitScheme) { s.Spec.Suspend, s.Spec.Rules[0].MaxRequests = testkit.Yes(), 5 })
		Eventually(func() (int64, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(scheme), scheme)
			return scheme.Status.ObservedGeneration - scheme.Generation, err
		}).Should(BeZero())
		Expect(condition(ctx, scheme, v1alpha1.ConditionReady)()).To(Equal("True/Suspended"))
		Expect(condition(ctx, scheme, v1alpha1.ConditionReconciling)()).To(BeEmpty())
		Expect(w.held(ctx, v1alpha1.KindRateLimitScheme, "free")).To(Equal(before))
		update(ctx, scheme, func(s *v1alpha1.RateLimitScheme) { s.Spec.Suspend = nil })
		expectReady(ctx, scheme)
	})
})
