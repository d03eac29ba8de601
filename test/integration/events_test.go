package integration

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("The events of resources", func() {
	It("have each change once, although the operator starts again", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		cursor := "since=1970-01-01T00:00:00Z"
		// next waits for events of schemes, and returns them as texts.
		next := func(n int) (all []string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				answer := w.ask("GET", "/events?types=configuration.*&limit=100&"+cursor, key, "")
				g.Expect(answer.Status).To(Equal(200))
				all = nil
				for _, one := range answer.JSON["data"].([]any) {
					e := one.(map[string]any)
					data := e["data"].(map[string]any)
					Expect(e["actor"]).To(HaveKeyWithValue("type", "system"))
					Expect(e["subject"]).To(HaveKeyWithValue("type", "configuration"))
					all = append(all, fmt.Sprint(e["type"], " ", data["kind"], " ", data["name"], " ", data["generation"], " ", data["source"]))
				}
				g.Expect(all).To(HaveLen(n))
				cursor = "after=" + answer.JSON["next_cursor"].(string)
			}).Should(Succeed())
			return all
		}
		Expect(next(3)).To(ConsistOf("configuration.created IdentityDeployment acme 1 declared", "configuration.created APIAuthApp acme-app 1 declared",
			"configuration.created APIKey acme-key 1 declared"))

		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, scheme)
		expectReady(ctx, scheme)
		Expect(next(1)).To(Equal([]string{"configuration.created RateLimitScheme free 1 declared"}))
		update(ctx, scheme, func(s *v1alpha1.RateLimitScheme) { s.Spec.DisplayName = ptr.To(v1alpha1.DisplayName("Another name")) })
		expectReady(ctx, scheme)
		Expect(next(1)).To(Equal([]string{"configuration.updated RateLimitScheme free 2 declared"}))
		w.stopOperator()
		w.startOperator(testkit.OperatorOptions{})

		w.post(key, "partners", "")
		Expect(next(1)).To(Equal([]string{"configuration.created RateLimitScheme acme.partners 1 http"}))
		Expect(cluster.Client.Delete(ctx, scheme)).To(Succeed())
		expectGone(ctx, scheme)
		Expect(next(1)).To(Equal([]string{"configuration.deleted RateLimitScheme free 2 <nil>"}))
	})
})
