package integration

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
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

	It("of API keys and OAuth clients are those of the keys and clients too", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(7)})
		admin := w.tenant(ctx, "acme")
		cursor := "since=1970-01-01T00:00:00Z"
		// next waits for the events of one kind of subject, and returns them as texts.
		next := func(n int) (all []string) {
			GinkgoHelper()
			Eventually(func(g Gomega) {
				answer := w.ask("GET", "/events?types=api_key.*,oauth.client.*&limit=100&"+cursor, admin, "")
				g.Expect(answer.Status).To(Equal(200))
				all = nil
				for _, one := range answer.JSON["data"].([]any) {
					e := one.(map[string]any)
					data := e["data"].(map[string]any)
					Expect(data).To(HaveKeyWithValue("source", "declared"))
					all = append(all, fmt.Sprintf("%v %v %v %v", e["type"], data["app_slug"], data["last4"], data["changed"]))
				}
				g.Expect(all).To(HaveLen(n))
				cursor = "after=" + answer.JSON["next_cursor"].(string)
			}).Should(Succeed())
			return all
		}
		Expect(next(1)).To(HaveEach(HavePrefix("api_key.created acme-app")))

		key := testkit.Key(w.namespace, "acme-app", "k", "*")
		create(ctx, key)
		expectReady(ctx, key)
		first, issued := key.Status.Last4, key.Status.LastRotatedAt.Time
		Expect(next(1)).To(Equal([]string{"api_key.created acme-app " + first + " <nil>"}))
		update(ctx, key, func(k *v1alpha1.APIKey) { k.Annotations = rotateAfter(issued) })
		rotated := next(1)
		parsed, err := apikey.Parse(cluster.APIKey(ctx, w.namespace, "k"))
		Expect(err).NotTo(HaveOccurred())
		last4 := parsed.Last4()
		Expect(rotated).To(Equal([]string{"api_key.rotated acme-app " + last4 + " <nil>"}))
		update(ctx, key, func(k *v1alpha1.APIKey) { k.Spec.ExpiresAt = ptr.To(metav1.NewTime(time.Now().Add(2 * time.Second))) })
		Expect(next(2)).To(Equal([]string{"api_key.updated acme-app " + last4 + " [expires_at]", "api_key.expired acme-app " + last4 + " <nil>"}))
		w.stopOperator()
		w.startOperator(testkit.OperatorOptions{Keyring: rootKey(7)})
		Expect(cluster.Client.Delete(ctx, key)).To(Succeed())
		expectGone(ctx, key)
		Expect(next(1)).To(Equal([]string{"api_key.revoked acme-app " + last4 + " <nil>"}))

		app := testkit.OAuthApp(w.namespace, "acme", "login")
		client := &v1alpha1.OAuthClient{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "jobs"}, Spec: v1alpha1.OAuthClientSpec{
			OAuthAppRef: v1alpha1.OAuthAppReference{Name: "login"}, GrantTypes: []v1alpha1.GrantType{v1alpha1.GrantTypeClientCredentials},
			SecretTemplate: &v1alpha1.ClientSecretTemplate{},
		}}
		create(ctx, app, client)
		Expect(next(1)).To(Equal([]string{"oauth.client.created <nil> <nil> <nil>"}))
		expectReady(ctx, client)
		update(ctx, client, func(c *v1alpha1.OAuthClient) { c.Annotations = rotateAfter(c.Status.LastRotatedAt.Time) })
		Expect(next(1)).To(Equal([]string{"oauth.client.secret_rotated <nil> <nil> <nil>"}))
		update(ctx, client, func(c *v1alpha1.OAuthClient) { c.Spec.DisplayName = ptr.To(v1alpha1.DisplayName("Another name")) })
		Expect(next(1)).To(Equal([]string{"oauth.client.updated <nil> <nil> <nil>"}))
		Expect(cluster.Client.Delete(ctx, client)).To(Succeed())
		expectGone(ctx, client)
		Expect(next(1)).To(Equal([]string{"oauth.client.deleted <nil> <nil> <nil>"}))
	})
})

// rotateAfter returns the annotation that demands a rotation a second after a time.
func rotateAfter(issued time.Time) map[string]string {
	return map[string]string{v1alpha1.AnnotationRotateAt: issued.Add(time.Second).UTC().Format(time.RFC3339)}
}
