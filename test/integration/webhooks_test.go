package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	documents "github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/webhook"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

// storedWebhook returns the stored document of a webhook endpoint.
func (w *world) storedWebhook(ctx context.Context, name string) (content documents.WebhookEndpoint) {
	GinkgoHelper()
	_, err := documents.Decode(w.held(ctx, v1alpha1.KindWebhookEndpoint, name).Document.Payload, &content)
	Expect(err).NotTo(HaveOccurred())
	return content
}

var _ = Describe("A WebhookEndpoint", func() {
	var w *world
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		deployment := testkit.Deployment(w.namespace, "acme")
		create(ctx, deployment)
		expectReady(ctx, deployment)
	})
	crm := func() *v1alpha1.WebhookEndpoint {
		return testkit.WebhookEndpoint(w.namespace, "acme", "crm", "https://crm.example/hooks")
	}
	id := func() string { return ids.Format(ids.Derive(v1alpha1.KindWebhookEndpoint, w.namespace, "crm")) }

	It("waits for the key of its deployment if it signs with Ed25519", func(ctx context.Context) {
		e := crm()
		e.Spec.Signing = &v1alpha1.WebhookSigning{Scheme: ptr.To(v1alpha1.WebhookSchemeEd25519)}
		create(ctx, e)
		Eventually(condition(ctx, e, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/NoFrontendHost"))
		Eventually(condition(ctx, e, v1alpha1.ConditionDelivering)).Should(Equal("False/Inactive"))
		deployment := testkit.Deployment(w.namespace, "acme")
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) { d.Spec.FrontendHosts = []v1alpha1.Hostname{"keys.example"} })
		expectReady(ctx, e)
	})

	It("becomes Ready with a sealed secret that is in its Secret, and is withdrawn with it", func(ctx context.Context) {
		e := crm()
		e.Spec.Signing = &v1alpha1.WebhookSigning{SecretTemplate: &v1alpha1.SecretTemplate{Name: ptr.To("crm-webhook")}}
		create(ctx, e)
		expectReady(ctx, e)
		plain := w.secretData(ctx, "crm-webhook")["signing-secret"]
		_, err := webhook.ParseSecret(plain)
		Expect(err).NotTo(HaveOccurred())
		Expect(e.Status.SecretName).To(Equal("crm-webhook"))
		Expect(e.Status.LastRotatedAt).NotTo(BeNil())
		content := w.storedWebhook(ctx, "crm")
		Expect(content.Secrets).To(HaveLen(1))
		opened, err := w.keyring.Open(documents.SealedEndpointSecret, id(), content.Secrets[0].Sealed)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(opened)).To(Equal(plain))
		content.Secrets = nil
		Expect(content).To(Equal(documents.WebhookEndpoint{
			Name: "crm", URL: "https://crm.example/hooks", Types: []string{"*"}, Format: "standard_webhooks", Scheme: "hmac", Ordering: "entity", TimeoutSeconds: 15, MaxConcurrent: 8,
			RetrySeconds: 259200, DisableAfterSeconds: 432000, Active: true,
		}))
		Expect(string(w.held(ctx, v1alpha1.KindWebhookEndpoint, "crm").Document.Payload)).NotTo(ContainSubstring(plain))
		// The server may have read the first events meanwhile.
		Expect(condition(ctx, e, v1alpha1.ConditionDelivering)()).To(Or(Equal("Unknown/Pending"), Equal("True/Delivering")))
		Expect(cluster.Kubectl(ctx, "", "get", "whe", "-n", w.namespace)).To(MatchRegexp(`NAME +URL +DELIVERING +BACKLOG +READY +AGE\ncrm +https://crm.example/hooks +(Pending|Delivering) +(\d+ +)?True`))

		Expect(cluster.Client.Delete(ctx, e)).To(Succeed())
		expectGone(ctx, e)
		Expect(w.secretData(ctx, "crm-webhook")).To(BeNil())
	})

	It("rotates its secret on demand, and signs with both in the overlap", func(ctx context.Context) {
		e := crm()
		e.Spec.Signing = &v1alpha1.WebhookSigning{Rotation: &v1alpha1.KeyRotation{EverySeconds: 3600, OverlapSeconds: ptr.To[int32](3)}}
		create(ctx, e)
		expectReady(ctx, e)
		Expect(e.Status.NextRotationAt).NotTo(BeNil())
		first := w.secretData(ctx, "crm")["signing-secret"]
		update(ctx, e, func(e *v1alpha1.WebhookEndpoint) {
			e.Annotations = map[string]string{v1alpha1.AnnotationRotateAt: e.Status.LastRotatedAt.Add(time.Second).UTC().Format(time.RFC3339)}
		})
		Eventually(func() string { return w.secretData(ctx, "crm")["previous-signing-secret"] }).Should(Equal(first))
		Eventually(func() int { return len(w.storedWebhook(ctx, "crm").Secrets) }).Should(Equal(2))
		Expect(w.storedWebhook(ctx, "crm").Secrets[1].ExpiresAt).NotTo(BeNil())
		Eventually(func() int { return len(w.storedWebhook(ctx, "crm").Secrets) }).Should(Equal(1))
		Expect(w.secretData(ctx, "crm")).To(HaveLen(1))
	})

	It("sends nothing while the Secret of its own or of a header may not be used", func(ctx context.Context) {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "mine"}, StringData: map[string]string{
			"signing-secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "token": "Bearer hush-canary",
		}}
		create(ctx, secret)
		e := crm()
		e.Spec.Signing = &v1alpha1.WebhookSigning{ExistingSecretRef: &v1alpha1.ExistingSigningSecretReference{Name: "mine"}}
		e.Spec.Headers = []v1alpha1.ToolHeader{{Name: "Authorization", ValueFrom: &v1alpha1.HeaderValueSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "mine", Key: "token"}}}}
		create(ctx, e)
		Eventually(condition(ctx, e, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotShared"))
		Expect(condition(ctx, e, v1alpha1.ConditionDelivering)()).To(Equal("False/Inactive"))
		Expect(w.storedWebhook(ctx, "crm")).To(And(HaveField("Incomplete", true), HaveField("Secrets", BeEmpty())))
		update(ctx, secret, func(s *corev1.Secret) { s.Labels = map[string]string{v1alpha1.LabelDeployment: "acme"} })
		expectReady(ctx, e)
		content := w.storedWebhook(ctx, "crm")
		Expect(content).To(And(HaveField("Incomplete", false), HaveField("Secrets", HaveLen(1))))
		opened, err := w.keyring.Open(documents.SealedEndpointHeader, documents.ToolHeaderID(id(), "Authorization"), content.Headers[0].Sealed)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(opened)).To(Equal("Bearer hush-canary"))
		Expect(w.secretData(ctx, "crm")).To(BeNil(), "no secret is generated")
	})

	It("refuses headers that Cardea sets itself, and types that do not exist", func(ctx context.Context) {
		e := crm()
		e.Spec.Headers = []v1alpha1.ToolHeader{{Name: "Webhook-Signature", Value: ptr.To("v1,forged")}}
		create(ctx, e)
		Eventually(condition(ctx, e, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		update(ctx, e, func(e *v1alpha1.WebhookEndpoint) {
			e.Spec.Headers, e.Spec.Types = nil, []v1alpha1.EventTypeFilter{"user.craeted"}
		})
		Eventually(condition(ctx, e, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		Eventually(func() string {
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(e), e)).To(Succeed())
			return meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionAccepted).Message
		}).Should(ContainSubstring("user.created"))
		update(ctx, e, func(e *v1alpha1.WebhookEndpoint) { e.Spec.Types = []v1alpha1.EventTypeFilter{"user.*"} })
		expectReady(ctx, e)
	})

	It("reports what servers noted about its deliveries", func(ctx context.Context) {
		e := crm()
		create(ctx, e)
		expectReady(ctx, e)
		now := time.Now().UTC().Truncate(time.Microsecond)
		endpoint := ids.Derive(v1alpha1.KindWebhookEndpoint, w.namespace, "crm")
		Eventually(func() (seen bool, err error) { // a server has seen the endpoint, and its state is changed then
			err = w.store.Change(ctx, w.namespace+"/acme", func(tx people.Tx) error {
				state, found, err := tx.Webhooks().LockWebhookState(endpoint)
				if err != nil || !found {
					return err
				}
				read := state.Epoch
				state.Epoch, state.Position, state.Status, state.Error, state.Failures = read+1, 7, 500, "HTTP status 500", 30
				state.FailingSince, state.SucceededAt, state.DisabledAt, state.Reason = now.Add(-time.Hour), now.Add(-2*time.Hour), now, "SustainedFailure"
				seen, err = tx.Webhooks().UpdateWebhookState(state, read)
				return err
			})
			return seen, err
		}).Should(BeTrue())
		update(ctx, e, func(e *v1alpha1.WebhookEndpoint) { e.Spec.MaxConcurrent = ptr.To[int32](4) })
		Eventually(condition(ctx, e, v1alpha1.ConditionDelivering)).Should(Equal("False/Disabled"))
		Eventually(condition(ctx, e, v1alpha1.ConditionReady)).Should(Equal("False/Disabled"))
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(e), e)).To(Succeed())
		Expect(e.Status.LastDeliveredAt).NotTo(BeNil())
		Expect(e.Status.Backlog).NotTo(BeNil())
		Eventually(func() (string, error) { return cluster.Kubectl(ctx, "", "get", "events", "-n", w.namespace) }).Should(ContainSubstring("after event 7"))
	})
})
