package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"crypto/rand"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/test/testkit"
)

const schemesPath = "/api-auth/rate-limit-schemes"

// tenant creates a deployment with an app and a key that has every permission, and returns the key.
func (w *world) tenant(ctx context.Context, name string) (key string) {
	GinkgoHelper()
	deployment := testkit.Deployment(w.namespace, name)
	app := testkit.App(w.namespace, name, name+"-app", "*")
	apiKey := testkit.Key(w.namespace, name+"-app", name+"-key", "*")
	create(ctx, deployment, app, apiKey)
	expectReady(ctx, deployment, app, apiKey)
	key = cluster.APIKey(ctx, w.namespace, name+"-key")
	w.expectAccepted(key)
	return key
}

func (w *world) status(key string) func() int {
	return func() int { return w.do("GET", schemesPath, key, "").Status }
}

func (w *world) expectAccepted(key string) {
	GinkgoHelper()
	Eventually(w.status(key)).Should(Equal(200))
}

func (w *world) expectRefused(key string) {
	GinkgoHelper()
	Eventually(w.status(key)).Should(Equal(401))
}

var _ = Describe("An APIKey", func() {
	var w *world
	var app *v1alpha1.APIAuthApp
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		app = testkit.App(w.namespace, "acme", "backend", "*")
		app.Spec.KeyPrefix = ptr.To(v1alpha1.KeyPrefix("acme_live"))
		deployment := testkit.Deployment(w.namespace, "acme")
		create(ctx, deployment, app)
		expectReady(ctx, deployment, app)
	})

	It("is generated once into a Secret, works, and is revoked by its deletion within a second", func(ctx context.Context) {
		key := testkit.Key(w.namespace, "backend", "k", "*")
		key.Spec.SecretTemplate.Labels = map[string]v1alpha1.LabelValue{"team": "payments"}
		create(ctx, key)
		expectReady(ctx, key)
		plain := cluster.APIKey(ctx, w.namespace, "k")
		parsed, err := apikey.Parse(plain)
		Expect(err).NotTo(HaveOccurred())
		Expect(parsed.Prefix()).To(Equal("acme_live"))
		Expect(key.Status).To(HaveField("KeyID", parsed.ID()))
		Expect(key.Status.Last4).To(Equal(parsed.Last4()))
		Expect(key.Status.SecretName).To(Equal("k"))
		var secret corev1.Secret
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(key), &secret)).To(Succeed())
		Expect(secret.Labels).To(And(HaveKeyWithValue("team", "payments"), HaveKeyWithValue(v1alpha1.LabelManagedBy, "cardea")))
		Expect(secret.OwnerReferences).To(HaveLen(1))
		w.expectAccepted(plain)

		Expect(cluster.Client.Delete(ctx, key)).To(Succeed())
		Eventually(w.status(plain)).WithTimeout(time.Second).Should(Equal(401))
		expectGone(ctx, key)
		expectGone(ctx, &secret)
	})

	It("gets a new value when its Secret is deleted or edited by hand; the old one is refused", func(ctx context.Context) {
		key := testkit.Key(w.namespace, "backend", "k", "*")
		create(ctx, key)
		expectReady(ctx, key)
		first := cluster.APIKey(ctx, w.namespace, "k")
		w.expectAccepted(first)

		Expect(cluster.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "k"}})).To(Succeed())
		Eventually(func() string { return cluster.APIKey(ctx, w.namespace, "k") }).ShouldNot(BeElementOf("", first))
		second := cluster.APIKey(ctx, w.namespace, "k")
		w.expectAccepted(second)
		w.expectRefused(first)

		foreign, err := apikey.Mint(rand.Reader, "acme_live")
		Expect(err).NotTo(HaveOccurred())
		update(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "k"}}, func(s *corev1.Secret) {
			s.Data[v1alpha1.SecretKeyAPIKey] = []byte(foreign.Plain())
		})
		Eventually(func() string { return cluster.APIKey(ctx, w.namespace, "k") }).ShouldNot(BeElementOf(second, foreign.Plain()))
		w.expectAccepted(cluster.APIKey(ctx, w.namespace, "k"))
		w.expectRefused(second)
		w.expectRefused(foreign.Plain())
		Eventually(func() (string, error) {
			return cluster.Kubectl(ctx, "", "get", "events", "-n", w.namespace, "-o", "jsonpath={.items[*].reason}")
		}).Should(ContainSubstring("KeyReplaced"))
	})

	It("rotates on demand and by interval, with an overlap in which both are accepted", func(ctx context.Context) {
		key := testkit.Key(w.namespace, "backend", "k", "*")
		key.Spec.Rotation = &v1alpha1.KeyRotation{EverySeconds: 3600, OverlapSeconds: ptr.To[int32](3)}
		create(ctx, key)
		expectReady(ctx, key)
		Expect(key.Status.NextRotationAt).NotTo(BeNil())
		first := cluster.APIKey(ctx, w.namespace, "k")
		issued := key.Status.LastRotatedAt.Time

		update(ctx, key, func(k *v1alpha1.APIKey) {
			k.Annotations = rotateAfter(issued)
		})
		Eventually(func() string { return cluster.APIKey(ctx, w.namespace, "k") }).ShouldNot(Equal(first))
		second := cluster.APIKey(ctx, w.namespace, "k")
		w.expectAccepted(second)
		Expect(w.status(first)()).To(Equal(200), "the previous key is accepted during the overlap")
		w.expectRefused(first)
		Eventually(func() bool {
			var s corev1.Secret
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(key), &s)).To(Succeed())
			_, there := s.Data[v1alpha1.SecretKeyPreviousAPIKey]
			return there
		}).Should(BeFalse())
		Expect(cluster.APIKey(ctx, w.namespace, "k")).To(Equal(second), "an old annotation rotates once")

		update(ctx, key, func(k *v1alpha1.APIKey) {
			k.Spec.Rotation = &v1alpha1.KeyRotation{EverySeconds: 3, OverlapSeconds: ptr.To[int32](1)}
		})
		Eventually(func() string { return cluster.APIKey(ctx, w.namespace, "k") }).ShouldNot(Equal(second))
	})

	It("adopts an existing Secret, waits for a missing one, and refuses a malformed value", func(ctx context.Context) {
		key := testkit.Adopting(w.namespace, "backend", "k", "brought")
		create(ctx, key)
		Eventually(condition(ctx, key, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotFound"))
		Expect(cluster.APIKey(ctx, w.namespace, "brought")).To(BeEmpty(), "nothing is invented")
		Eventually(condition(ctx, key, v1alpha1.ConditionReconciling)).Should(HavePrefix("True/"))

		minted, err := apikey.Mint(rand.Reader, "mine")
		Expect(err).NotTo(HaveOccurred())
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "brought"},
			Data:       map[string][]byte{v1alpha1.SecretKeyAPIKey: []byte(minted.Plain() + "\n")},
		}
		create(ctx, secret)
		expectReady(ctx, key)
		w.expectAccepted(minted.Plain())

		rival := testkit.Adopting(w.namespace, "backend", "rival", "brought")
		create(ctx, rival)
		Eventually(condition(ctx, rival, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))

		update(ctx, secret, func(s *corev1.Secret) { s.Data[v1alpha1.SecretKeyAPIKey] = []byte("hunter2") })
		Eventually(condition(ctx, key, v1alpha1.ConditionAccepted)).Should(Equal("False/InvalidKey"))
		Expect(w.status(minted.Plain())()).To(Equal(200), "accepted content stays active")

		next, err := apikey.Mint(rand.Reader, "mine")
		Expect(err).NotTo(HaveOccurred())
		update(ctx, secret, func(s *corev1.Secret) { s.Data[v1alpha1.SecretKeyAPIKey] = []byte(next.Plain()) })
		expectReady(ctx, key)
		w.expectAccepted(next.Plain())
		w.expectRefused(minted.Plain())

		Expect(cluster.Client.Delete(ctx, key)).To(Succeed())
		expectGone(ctx, key)
		expectReady(ctx, rival)
		w.expectAccepted(next.Plain())
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed(), "a brought Secret is never deleted")
	})

	It("never takes over a foreign Secret", func(ctx context.Context) {
		theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "k"}, Data: map[string][]byte{"password": []byte("x")}}
		key := testkit.Key(w.namespace, "backend", "k", "*")
		create(ctx, theirs, key)
		Eventually(condition(ctx, key, v1alpha1.ConditionAccepted)).Should(Equal("False/SecretNotOwned"))
		Expect(cluster.Client.Delete(ctx, key)).To(Succeed())
		expectGone(ctx, key)
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
	})

	It("expires, is bound to addresses, and to its app's permissions", func(ctx context.Context) {
		key := testkit.Key(w.namespace, "backend", "k", "rate_limit_schemes:read")
		key.Spec.AllowedCIDRs = []v1alpha1.CIDR{"10.0.0.0/8"}
		create(ctx, key)
		expectReady(ctx, key)
		plain := cluster.APIKey(ctx, w.namespace, "k")
		from := func(address string) func() int {
			return func() int {
				return w.do("GET", schemesPath, plain, "", [2]string{"X-Forwarded-For", address}).Status
			}
		}
		Eventually(from("10.1.2.3")).Should(Equal(200))
		Expect(from("192.0.2.1")()).To(Equal(401))
		Expect(w.do("POST", schemesPath, plain, `{}`, [2]string{"X-Forwarded-For", "10.1.2.3"}).Status).To(Equal(403))

		update(ctx, app, func(a *v1alpha1.APIAuthApp) { a.Spec.Permissions = []v1alpha1.Permission{"orders:read"} })
		Eventually(from("10.1.2.3")).Should(Equal(403))
		update(ctx, app, func(a *v1alpha1.APIAuthApp) { a.Spec.Active = ptr.To(false) })
		Eventually(from("10.1.2.3")).Should(Equal(401))
		update(ctx, app, func(a *v1alpha1.APIAuthApp) { a.Spec.Active, a.Spec.Permissions = nil, []v1alpha1.Permission{"*"} })
		Eventually(from("10.1.2.3")).Should(Equal(200))

		update(ctx, key, func(k *v1alpha1.APIKey) { k.Spec.ExpiresAt = ptr.To(metav1.NewTime(time.Now().Add(2 * time.Second))) })
		Eventually(from("10.1.2.3")).Should(Equal(401))
		Eventually(condition(ctx, key, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/Expired"))
	})
})
