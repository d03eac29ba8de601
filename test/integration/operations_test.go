package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("The views of a deployment's operators", func() {
	It("list its own resources with their conditions, its audit and its decisions", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		sibling := w.tenant(ctx, "sibling")
		free := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, free)
		expectReady(ctx, free)

		By("telling conditions as they are, also of a spec that is refused")
		deployment := func() map[string]any {
			list := w.ok("GET", "/resources?kind=IdentityDeployment", key, "")
			Expect(list).To(And(HaveKeyWithValue("total", 1.0), HaveKeyWithValue("note", BeNil())))
			return list["data"].([]any)[0].(map[string]any)
		}
		accepted := func(status string) OmegaMatcher {
			return HaveKeyWithValue("conditions", ContainElement(And(HaveKeyWithValue("type", "Accepted"), HaveKeyWithValue("status", status))))
		}
		Expect(deployment()).To(And(HaveKeyWithValue("name", "acme"), HaveKeyWithValue("live_generation", 1.0), HaveKeyWithValue("generation", 1.0), accepted("True")))
		update(ctx, testkit.Deployment(w.namespace, "acme"), func(d *v1alpha1.IdentityDeployment) {
			d.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "cluster", Kubernetes: &v1alpha1.KubernetesIssuer{}, PermissionsExpression: ptr.To("claims.")}}
		})
		Eventually(deployment).Should(And(HaveKeyWithValue("live_generation", 2.0), HaveKeyWithValue("generation", 1.0), accepted("False")))

		By("keeping deployments of one namespace apart")
		Expect(w.ok("GET", "/resources?kind=RateLimitScheme", key, "")["data"]).To(HaveExactElements(HaveKeyWithValue("name", free.Name)))
		Expect(w.ok("GET", "/resources?kind=RateLimitScheme", sibling, "")).To(HaveKeyWithValue("data", BeEmpty()))
		Expect(w.ok("GET", "/decisions/summary", sibling, "")).To(HaveKeyWithValue("schemes", BeEmpty()))
		id := w.newUser(key, "audited@example.com")
		w.ok("PATCH", "/users/"+id, key, `{"disabled":true}`)
		Expect(w.ok("GET", "/audit?object=user:"+id, key, "")["data"]).To(HaveExactElements(HaveKeyWithValue("action", "user.disabled"), HaveKeyWithValue("action", "user.created")))
		Expect(w.ok("GET", "/audit?object=user:"+id, sibling, "")["data"]).To(BeEmpty())
		Expect(w.ok("GET", "/decisions/summary", key, "")["schemes"]).To(HaveExactElements(HaveKeyWithValue("slug", "free")))
	})
})
