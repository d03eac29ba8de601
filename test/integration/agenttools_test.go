package integration

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("The tools of an agent", func() {
	It("send values of Secrets that are shared with the deployment and permit the host, and follow their changes", func(ctx context.Context) {
		var token atomic.Value // the last value that reached the upstream
		upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			token.Store(r.Header.Get("X-Api-Token"))
			rw.Header().Set("Content-Type", "text/plain")
			_, _ = io.WriteString(rw, "echo: "+r.Header.Get("X-Api-Token"))
		}))
		DeferCleanup(upstream.Close)
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		w.serveWith(testkit.ServerOptions{Keyring: w.keyring, EgressAllowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
		key := w.tenant(ctx, "acme")
		host := w.namespace + ".app.example"
		update(ctx, testkit.Deployment(w.namespace, "acme"), func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(host)}
		})

		tool := testkit.Tool(w.namespace, "acme", "find-order")
		tool.Spec.Endpoint = ptr.To(v1alpha1.URL(upstream.URL))
		tool.Spec.Headers = []v1alpha1.ToolHeader{{Name: "X-Api-Token", ValueFrom: &v1alpha1.HeaderValueSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "s", Key: "token"}}}}
		labels := map[string]string{v1alpha1.LabelDeployment: "acme"}
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "s"}, StringData: map[string]string{"token": "hush-canary-1\n"}},
			tool, testkit.Agent(w.namespace, "acme", "support", "find-order"))
		change := func(how func(*corev1.Secret)) {
			GinkgoHelper()
			update(ctx, secret(w.namespace, "s", "", ""), how)
		}
		called := func() string {
			answer := w.mcp(ctx, host, key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"find-order"}}`)
			listed := w.mcp(ctx, host, key, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
			Expect(listed + answer).NotTo(ContainSubstring("canary"))
			return answer
		}
		const unknown, done = "Unknown tool: find-order", "echo: [redacted]"

		Eventually(condition(ctx, tool, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotShared"))
		Eventually(called).Should(ContainSubstring(unknown))
		change(func(s *corev1.Secret) { s.Labels = labels })
		expectReady(ctx, tool)
		Eventually(called).Should(ContainSubstring(done))
		Expect(token.Load()).To(Equal("hush-canary-1"), "without the newline at its end")

		writes := w.store.Writes()
		update(ctx, tool, func(t *v1alpha1.AITool) {
			t.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
		})
		Eventually(func() (string, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(tool), tool)
			return tool.Status.LastHandledReconcileAt, err
		}).Should(Equal("now"))
		Expect(w.store.Writes()).To(Equal(writes), "sealing the same value again writes nothing")

		change(func(s *corev1.Secret) { s.Data = map[string][]byte{"token": []byte("hush-canary-2")} })
		Eventually(func() any { called(); return token.Load() }).Should(Equal("hush-canary-2"))

		change(func(s *corev1.Secret) {
			s.Annotations = map[string]string{v1alpha1.AnnotationHosts: "api.acme.example"}
		})
		Eventually(called).Should(ContainSubstring(unknown))
		Eventually(condition(ctx, tool, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotShared"))
		Expect(lazyConditions{tool}.String()).To(And(ContainSubstring(v1alpha1.AnnotationHosts), ContainSubstring(`host "`+strings.TrimPrefix(upstream.URL, "http://")+`"`)))
		change(func(s *corev1.Secret) {
			s.Annotations = map[string]string{v1alpha1.AnnotationHosts: "api.acme.example, 127.0.0.1"}
		})
		Eventually(called).Should(ContainSubstring(done))

		change(func(s *corev1.Secret) { s.Data = map[string][]byte{"token": []byte("hush-canary\x01")} })
		Eventually(condition(ctx, tool, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/Invalid"))
		Eventually(called).Should(ContainSubstring(unknown))
		change(func(s *corev1.Secret) { s.Data = map[string][]byte{"token": []byte("hush-canary-3")} })
		expectReady(ctx, tool)
		Eventually(called).Should(ContainSubstring(done))

		events, err := cluster.Kubectl(ctx, "", "get", "events", "-n", w.namespace, "-o", "json")
		Expect(err).NotTo(HaveOccurred())
		shown, err := cluster.Kubectl(ctx, "", "get", "aitool", "find-order", "-n", w.namespace, "-o", "json", "--show-managed-fields")
		Expect(err).NotTo(HaveOccurred())
		Expect(events + shown + string(w.held(ctx, v1alpha1.KindAITool, "find-order").Document.Payload)).NotTo(ContainSubstring("canary"))

		w.serveWith(testkit.ServerOptions{Keyring: rootKey(2)})
		Eventually(called).Should(And(ContainSubstring(`"not_configured"`), ContainSubstring("nothing was sent")))
	})

	It("are signed by the deployment's key, or by a secret of their own", func(ctx context.Context) {
		var signature atomic.Value // the last one
		signature.Store("")
		upstream := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			signature.Store(r.Header.Get("webhook-signature"))
			rw.WriteHeader(http.StatusNoContent)
		}))
		DeferCleanup(upstream.Close)
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		w.serveWith(testkit.ServerOptions{Keyring: w.keyring, EgressAllowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}})
		key := w.tenant(ctx, "acme")
		host := w.namespace + ".app.example"
		deployment := testkit.Deployment(w.namespace, "acme")
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(host)}
		})
		tool := testkit.Tool(w.namespace, "acme", "ship")
		tool.Spec.Type, tool.Spec.Endpoint = v1alpha1.AIToolTypeFunction, ptr.To(v1alpha1.URL(upstream.URL))
		create(ctx, tool, testkit.Agent(w.namespace, "acme", "support", "ship"))
		call := func() string {
			return w.mcp(ctx, host, key, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ship"}}`)
		}
		Eventually(condition(ctx, tool, v1alpha1.ConditionCallable)).Should(Equal("True/Callable"))
		Eventually(call).Should(ContainSubstring("Done (204)."))
		Expect(signature.Load()).To(HavePrefix("v1a,"))
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
		Expect(deployment.Status.WebhookPublicKeys).To(HaveLen(1))
		Expect(deployment.Status.WebhookPublicKeys[0].PublicKey).To(HavePrefix("whpk_"))

		hook := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "hook", Labels: map[string]string{v1alpha1.LabelDeployment: "acme"}},
			StringData: map[string]string{"secret": "not-a-secret"},
		}
		create(ctx, hook)
		update(ctx, tool, func(t *v1alpha1.AITool) {
			t.Spec.SigningSecretRef = &v1alpha1.SecretKeyReference{Name: "hook", Key: "secret"}
		})
		Eventually(condition(ctx, tool, v1alpha1.ConditionCallable)).Should(Equal("False/CredentialsMissing"))
		Expect(lazyConditions{tool}.String()).To(ContainSubstring("whsec_ and the base64 of 24 to 64 bytes"))
		Expect(lazyConditions{tool}.String()).NotTo(ContainSubstring("not-a-secret"))
		update(ctx, secret(w.namespace, "hook", "", ""), func(s *corev1.Secret) {
			s.Data["secret"] = []byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
		})
		Eventually(func() any { call(); return signature.Load() }).Should(HavePrefix("v1,"))
	})
})

// serveWith replaces the server.
func (w *world) serveWith(opts testkit.ServerOptions) {
	GinkgoHelper()
	w.server.Stop()
	var err error
	w.server, err = testkit.StartServer(cluster.RESTConfig(), w.store, opts)
	Expect(err).NotTo(HaveOccurred())
}

// mcp sends a message to the agent support and returns the body of the response.
func (w *world) mcp(ctx context.Context, host, key, message string) string {
	GinkgoHelper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.Frontend+"/mcp/support", strings.NewReader(message))
	Expect(err).NotTo(HaveOccurred())
	r.Host = host
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	return string(raw)
}
