package integration

import (
	"context"
	"crypto/rand"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/test/testkit"
)

// rivals are two resources of different kinds that need the same reservation. The holder has it.
type rivals struct{ holder, rival v1alpha1.Resource }

func kindOf(obj v1alpha1.Resource) string {
	GinkgoHelper()
	gvk, err := cluster.Client.GroupVersionKindFor(obj)
	Expect(err).NotTo(HaveOccurred())
	return gvk.Kind
}

var _ = Describe("A reservation that two kinds can need", func() {
	const host = "app.shared.example"
	var w *world
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(7)})
	})

	deployment := func() v1alpha1.Resource {
		d := testkit.Deployment(w.namespace, "shop")
		d.Spec.FrontendHosts = []v1alpha1.Hostname{host}
		return d
	}
	app := func(deployment string) v1alpha1.Resource {
		a := testkit.OAuthApp(w.namespace, deployment, "tools")
		a.Spec.FQDN = ptr.To(v1alpha1.Hostname(host))
		return a
	}
	// secret creates the Secret that a key and a client adopt, and the apps that they need.
	secret := func(ctx context.Context) {
		key, err := apikey.Mint(rand.Reader, "ck")
		Expect(err).NotTo(HaveOccurred())
		create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "brought"},
			StringData: map[string]string{"v": key.Plain()},
		})
		d := testkit.Deployment(w.namespace, "shop")
		d.Spec.FrontendHosts = []v1alpha1.Hostname{"other.shared.example"}
		create(ctx, d, testkit.App(w.namespace, "shop", "api", "*"), testkit.OAuthApp(w.namespace, "shop", "portal"))
	}
	adoptingKey := func() v1alpha1.Resource {
		key := testkit.Adopting(w.namespace, "api", "adopter", "brought")
		key.Spec.ExistingSecretRef.Key = ptr.To("v")
		return key
	}
	adoptingClient := func() v1alpha1.Resource {
		return &v1alpha1.OAuthClient{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "machine"},
			Spec: v1alpha1.OAuthClientSpec{
				OAuthAppRef: v1alpha1.OAuthAppReference{Name: "portal"}, GrantTypes: []v1alpha1.GrantType{v1alpha1.GrantTypeClientCredentials},
				ExistingSecretRef: &v1alpha1.ExistingClientSecretReference{Name: "brought", Key: ptr.To("v")},
			},
		}
	}

	DescribeTable("stays with its owner until the owner is deleted", func(ctx context.Context, pair func(context.Context) rivals) {
		p := pair(ctx)
		create(ctx, p.holder)
		expectReady(ctx, p.holder)
		held := w.held(ctx, kindOf(p.holder), p.holder.GetName())

		create(ctx, p.rival)
		Eventually(condition(ctx, p.rival, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Consistently(func() any { return w.held(ctx, kindOf(p.holder), p.holder.GetName()) }).Should(Equal(held))
		Expect(w.held(ctx, kindOf(p.rival), p.rival.GetName()).Found).To(BeFalse())
		expectReady(ctx, p.holder)

		Expect(cluster.Client.Delete(ctx, p.holder)).To(Succeed())
		expectGone(ctx, p.holder)
		Eventually(condition(ctx, p.rival, v1alpha1.ConditionAccepted)).Should(Equal("True/Accepted"))
	},
		Entry("a deployment's host, wanted by an OAuth app of another deployment", func(ctx context.Context) rivals {
			d := testkit.Deployment(w.namespace, "other")
			d.Spec.FrontendHosts = []v1alpha1.Hostname{"other.shared.example"}
			create(ctx, d)
			return rivals{deployment(), app("other")}
		}),
		Entry("an OAuth app's host, wanted by another deployment", func(ctx context.Context) rivals {
			d := testkit.Deployment(w.namespace, "other")
			d.Spec.FrontendHosts = []v1alpha1.Hostname{"other.shared.example"}
			create(ctx, d)
			return rivals{app("other"), deployment()}
		}),
		Entry("an API key's Secret, wanted by an OAuth client", func(ctx context.Context) rivals {
			secret(ctx)
			return rivals{adoptingKey(), adoptingClient()}
		}),
		Entry("an OAuth client's Secret, wanted by an API key", func(ctx context.Context) rivals {
			secret(ctx)
			return rivals{adoptingClient(), adoptingKey()}
		}),
	)

	It("does not pass to a waiting tenant when a mistaken app is deleted", func(ctx context.Context) {
		shop := deployment()
		create(ctx, shop)
		expectReady(ctx, shop)
		other := w.neighbour(ctx, "other")
		squatter := testkit.OAuthApp(other, "other", "squatter")
		squatter.Spec.FQDN = ptr.To(v1alpha1.Hostname(host))
		mistaken := app("shop")
		create(ctx, squatter, mistaken)
		Eventually(condition(ctx, squatter, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Eventually(condition(ctx, mistaken, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(cluster.Client.Delete(ctx, mistaken)).To(Succeed())
		expectGone(ctx, mistaken)
		Consistently(func() bool { return w.held(ctx, v1alpha1.KindIdentityDeployment, "shop").Found }).Should(BeTrue())
		Expect(w.heldIn(ctx, v1alpha1.KindOAuthApp, other, "squatter").Found).To(BeFalse())
	})

	It("is released when an owner of another kind vanished without the operator", func(ctx context.Context) {
		shop := deployment()
		d := testkit.Deployment(w.namespace, "other")
		d.Spec.FrontendHosts = []v1alpha1.Hostname{"other.shared.example"}
		create(ctx, shop, d)
		expectReady(ctx, shop, d)
		w.stopOperator()
		removeFinalizers(ctx, shop)
		Expect(cluster.Client.Delete(ctx, shop)).To(Succeed())
		expectGone(ctx, shop)
		heir := app("other")
		create(ctx, heir)
		w.startOperator(testkit.OperatorOptions{Keyring: rootKey(7)})
		expectReady(ctx, heir)
		Expect(w.held(ctx, v1alpha1.KindIdentityDeployment, "shop").Found).To(BeFalse())
	})
})
