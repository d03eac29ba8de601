package integration

import (
	"context"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	documents "github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/test/testkit"
)

// storedDeployment returns the stored document of deployment acme, decoded and raw.
func (w *world) storedDeployment(ctx context.Context) (documents.Deployment, string) {
	GinkgoHelper()
	payload := w.held(ctx, v1alpha1.KindIdentityDeployment, "acme").Document.Payload
	var content documents.Deployment
	_, err := documents.Decode(payload, &content)
	Expect(err).NotTo(HaveOccurred())
	return content, string(payload)
}

var _ = Describe("A deployment's settings of end users", func() {
	const password, token, signing = "correct-horse-battery", "0123456789-auth-token", "webhook-signing-secret"
	mailRef := v1alpha1.SecretKeyReference{Name: "mail", Key: "password"}
	carrierRef := v1alpha1.SecretKeyReference{Name: "carrier", Key: "token"}
	hookRef := v1alpha1.SecretKeyReference{Name: "hook", Key: "secret"}
	deployment := func(w *world) *v1alpha1.IdentityDeployment {
		d := testkit.Deployment(w.namespace, "acme")
		d.Spec.Email = &v1alpha1.EmailSettings{From: "no-reply@acme.example", SMTP: &v1alpha1.SMTPServer{Host: "mail.acme.example", Username: ptr.To("acme"), PasswordSecretRef: &mailRef}}
		d.Spec.SMS = &v1alpha1.SMSSettings{
			Provider: v1alpha1.SMSProviderTwilio, AllowedCountries: &[]v1alpha1.CountryCode{},
			Twilio: &v1alpha1.TwilioAccount{AccountSID: accountSID, AuthTokenSecretRef: carrierRef, From: ptr.To("+15005550006")},
		}
		return d
	}
	credentials := func(ctx context.Context, d *v1alpha1.IdentityDeployment) func() (string, error) {
		return condition(ctx, d, v1alpha1.ConditionCredentialsReady)
	}
	rewrite := func(ctx context.Context, w *world, name, key, value string) {
		GinkgoHelper()
		update(ctx, secret(w.namespace, name, key, value), func(s *corev1.Secret) { s.Data = map[string][]byte{key: []byte(value)} })
	}

	It("read secrets from Secrets, wait for them, follow their changes, and never show them", func(ctx context.Context) {
		ring := rootKey(1)
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: ring})
		opened := func(kind, sealed string) string {
			text, err := ring.Open(kind, documents.SecretID(w.namespace+"/acme", kind), sealed)
			if err != nil {
				return err.Error()
			}
			return string(text)
		}
		storedToken := func() string {
			content, _ := w.storedDeployment(ctx)
			return opened(documents.SealedTwilioToken, content.SMS.Twilio.SealedAuthToken)
		}

		d := deployment(w)
		create(ctx, d, secret(w.namespace, "mail", "password", password+"\n"))
		Eventually(credentials(ctx, d)).Should(Equal("False/SecretNotFound"))
		Expect(lazyConditions{d}.String()).To(ContainSubstring(`spec.sms.twilio.authTokenSecretRef: there is no Secret "carrier" with key "token": create it`))
		create(ctx, secret(w.namespace, "carrier", "other", token))
		Consistently(credentials(ctx, d)).Should(Equal("False/SecretNotFound"), "a Secret without the key is as good as none")
		rewrite(ctx, w, "carrier", "token", token)
		expectReady(ctx, d)

		content, _ := w.storedDeployment(ctx)
		Expect(opened(documents.SealedSMTPPassword, content.Email.SMTP.SealedPassword)).To(Equal(password), "without the newline at its end")
		Expect(storedToken()).To(Equal(token))
		Expect(content.SMS.AllowedCountries).To(HaveValue(BeEmpty()), "a list of no country is not the absent list")
		_, err := ring.Open(documents.SealedTwilioToken, documents.SecretID(w.namespace+"/other", documents.SealedTwilioToken), content.SMS.Twilio.SealedAuthToken)
		Expect(err).To(HaveOccurred(), "the sealed token opens for another deployment")
		writes := w.store.Writes()
		rewrite(ctx, w, "mail", "password", password)
		update(ctx, d, func(d *v1alpha1.IdentityDeployment) {
			d.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
		})
		Eventually(func() (string, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), d)
			return d.Status.LastHandledReconcileAt, err
		}).Should(Equal("now"))
		Expect(w.store.Writes()).To(Equal(writes), "sealing the same value again writes nothing")

		rewrite(ctx, w, "carrier", "token", "another-token")
		Eventually(storedToken).Should(Equal("another-token"))
		expectReady(ctx, d)

		for what, bad := range map[string]string{"has more than one line": "first-line\nsecond-line", "is empty": "\n", "has more than 512 bytes": strings.Repeat("long", 129)} {
			rewrite(ctx, w, "carrier", "token", bad)
			Eventually(func() string {
				_, _ = cluster.Ready(ctx, d)
				return lazyConditions{d}.String()
			}).Should(And(ContainSubstring("Accepted=False Invalid"), ContainSubstring("spec.sms.twilio.authTokenSecretRef"), ContainSubstring(what)))
			for _, leak := range []string{"first-line", "second-line", "longlong"} {
				Expect(lazyConditions{d}.String()).NotTo(ContainSubstring(leak))
			}
			Expect(storedToken()).To(Equal("another-token"), "accepted content stays active")
		}
		Expect(cluster.Client.Delete(ctx, secret(w.namespace, "carrier", "", ""))).To(Succeed())
		Eventually(credentials(ctx, d)).Should(Equal("False/SecretNotFound"))
		Expect(storedToken()).To(Equal("another-token"))
		create(ctx, secret(w.namespace, "carrier", "token", token))
		expectReady(ctx, d)
		Expect(storedToken()).To(Equal(token))

		create(ctx, secret(w.namespace, "hook", "secret", signing))
		update(ctx, d, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.SMS = &v1alpha1.SMSSettings{Provider: v1alpha1.SMSProviderWebhook, Webhook: &v1alpha1.SMSWebhook{URL: "https://hook.acme.example", SigningSecretRef: hookRef}}
		})
		expectReady(ctx, d)
		content, payload := w.storedDeployment(ctx)
		Expect(content.SMS.Twilio).To(BeNil())
		Expect(content.SMS.AllowedCountries).To(BeNil())
		Expect(opened(documents.SealedWebhookSecret, content.SMS.Webhook.SealedSigningSecret)).To(Equal(signing))

		events, err := cluster.Kubectl(ctx, "", "get", "events", "-n", w.namespace, "-o", "json")
		Expect(err).NotTo(HaveOccurred())
		shown, err := cluster.Kubectl(ctx, "", "get", "idep", "acme", "-n", w.namespace, "-o", "json", "--show-managed-fields")
		Expect(err).NotTo(HaveOccurred())
		for _, leak := range []string{password, token, signing, "another-token"} {
			for _, text := range []string{payload, events, shown} {
				Expect(text).NotTo(ContainSubstring(leak))
			}
		}
	})

	It("need a root key only if something is sealed", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		d := testkit.Deployment(w.namespace, "acme")
		d.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(w.namespace + ".app.example")}
		create(ctx, d, secret(w.namespace, "mail", "password", password), secret(w.namespace, "carrier", "token", token))
		expectReady(ctx, d)
		content, _ := w.storedDeployment(ctx)
		Expect(content.SigningKeys).To(BeEmpty())
		Expect(content.EffectiveSession()).To(Equal(documents.DefaultSession()))
		Expect(content.EffectiveSignIn()).To(Equal(documents.DefaultSignIn()))
		Expect(content.Email).To(BeNil())
		Expect(content.SMS).To(BeNil())

		update(ctx, d, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.Email, d.Spec.SMS = deployment(w).Spec.Email, deployment(w).Spec.SMS
		})
		Eventually(credentials(ctx, d)).Should(Equal("False/RootKeyMissing"))
		Expect(lazyConditions{d}.String()).To(ContainSubstring("spec.email.smtp.passwordSecretRef: the value is stored sealed: start the operator with --root-key"))
		held, _ := w.storedDeployment(ctx)
		Expect(held).To(Equal(content))

		w.stopOperator()
		w.startOperator(testkit.OperatorOptions{Keyring: rootKey(1)})
		expectReady(ctx, d)
		content, _ = w.storedDeployment(ctx)
		Expect(content.SigningKeys).To(HaveLen(1), "hosts alone are enough for a signing key")
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "acme-session-signing-key"}, &corev1.Secret{})).To(Succeed())
	})

	It("report that the operator has no rights on Secrets, and become active when it has", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		w.stopOperator()
		allBut := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group, "events.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		}}
		user := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "no-secrets"}}
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: w.namespace},
		}
		create(ctx, allBut, binding)
		DeferCleanup(func(ctx context.Context) {
			Expect(cluster.Client.Delete(ctx, binding)).To(Succeed())
			Expect(cluster.Client.Delete(ctx, allBut)).To(Succeed())
		})
		config := rest.CopyConfig(cluster.RESTConfig())
		config.Impersonate.UserName = "no-secrets"
		var err error
		w.operator, err = testkit.StartOperator(config, w.store, testkit.OperatorOptions{Keyring: w.keyring})
		Expect(err).NotTo(HaveOccurred())

		hosts := testkit.Deployment(w.namespace, "hosts")
		hosts.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(w.namespace + ".app.example")}
		d := deployment(w)
		create(ctx, d, hosts, secret(w.namespace, "mail", "password", password), secret(w.namespace, "carrier", "token", token))
		for _, one := range []*v1alpha1.IdentityDeployment{d, hosts} {
			Eventually(credentials(ctx, one)).Should(Equal("False/SecretForbidden"))
			Expect(lazyConditions{one}.String()).To(ContainSubstring("bind ClusterRole cardea-operator-secrets there"))
		}
		create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "secrets"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
		}}, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "secrets"}, Subjects: user, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "secrets"},
		})
		expectReady(ctx, d, hosts)
	})
})
