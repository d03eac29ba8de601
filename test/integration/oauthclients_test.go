package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("An OAuthClient", func() {
	const host = "oauth.localhost"
	var w *world
	var app *v1alpha1.OAuthApp
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(7)})
		deployment := testkit.Deployment(w.namespace, "acme")
		deployment.Spec.Mode, deployment.Spec.FrontendHosts = ptr.To(v1alpha1.DeploymentModeStaging), []v1alpha1.Hostname{host}
		app = testkit.OAuthApp(w.namespace, "acme", "portal")
		create(ctx, deployment, app)
		expectReady(ctx, deployment, app)
		Expect(app.Status.Issuer).To(Equal("https://" + host + "/oauth/portal"))
	})

	// machine returns a client that uses client_credentials.
	machine := func(name string) *v1alpha1.OAuthClient {
		return &v1alpha1.OAuthClient{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
			Spec: v1alpha1.OAuthClientSpec{
				OAuthAppRef: v1alpha1.OAuthAppReference{Name: "portal"}, GrantTypes: []v1alpha1.GrantType{v1alpha1.GrantTypeClientCredentials},
				SecretTemplate: &v1alpha1.ClientSecretTemplate{},
			},
		}
	}
	secretOf := func(ctx context.Context, name string) map[string]string {
		GinkgoHelper()
		var secret corev1.Secret
		if cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &secret) != nil {
			return nil
		}
		values := map[string]string{}
		for key, value := range secret.Data {
			values[key] = string(value)
		}
		return values
	}
	post := func(form url.Values) (int, error) {
		r, err := http.NewRequest(http.MethodPost, w.server.Frontend+"/oauth/portal/token", strings.NewReader(form.Encode()))
		if err != nil {
			return 0, err
		}
		r.Host = host
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		return response.StatusCode, err
	}
	// status returns the response status of a client_credentials request with a secret.
	status := func(clientID, secret string) func() (int, error) {
		return func() (int, error) {
			return post(url.Values{"grant_type": {"client_credentials"}, "client_id": {clientID}, "client_secret": {secret}})
		}
	}

	It("is generated once into a Secret, works, and is refused within a second of its deletion", func(ctx context.Context) {
		c := machine("jobs")
		c.Spec.SecretTemplate = &v1alpha1.ClientSecretTemplate{Keys: &v1alpha1.ClientSecretKeys{ClientID: ptr.To("oidc.id"), ClientSecret: ptr.To("oidc.secret")}}
		c.Spec.SecretTemplate.Labels = map[string]v1alpha1.LabelValue{"app.kubernetes.io/part-of": "argocd"}
		create(ctx, c)
		expectReady(ctx, c)
		Expect(c.Status.ClientID).To(Equal(ids.Format(ids.Derive(v1alpha1.KindOAuthClient, w.namespace, "jobs"))), "the same in a cluster that is built anew")
		Expect(c.Status.SecretName).To(Equal("jobs"))
		held := secretOf(ctx, "jobs")
		Expect(held).To(And(HaveLen(2), HaveKeyWithValue("oidc.id", c.Status.ClientID), HaveKeyWithValue("oidc.secret", HavePrefix("cs_"))))
		var secret corev1.Secret
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(c), &secret)).To(Succeed())
		Expect(secret.Labels).To(And(HaveKeyWithValue("app.kubernetes.io/part-of", "argocd"), HaveKeyWithValue(v1alpha1.LabelManagedBy, "cardea")))
		Eventually(status(c.Status.ClientID, held["oidc.secret"])).Should(Equal(200))

		By("another name for the Secret")
		update(ctx, c, func(c *v1alpha1.OAuthClient) { c.Spec.SecretTemplate.Name = ptr.To("jobs-oidc") })
		expectGone(ctx, &secret)
		Eventually(func() map[string]string { return secretOf(ctx, "jobs-oidc") }).Should(HaveKey("oidc.secret"))
		Eventually(status(c.Status.ClientID, secretOf(ctx, "jobs-oidc")["oidc.secret"])).Should(Equal(200))

		last := secretOf(ctx, "jobs-oidc")["oidc.secret"]
		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		Eventually(status(c.Status.ClientID, last)).WithTimeout(time.Second).Should(Equal(401))
		expectGone(ctx, c)
		Expect(secretOf(ctx, "jobs-oidc")).To(BeNil())
	})

	It("gets a new secret when its Secret is deleted or edited by hand; the old one is refused", func(ctx context.Context) {
		c := machine("jobs")
		create(ctx, c)
		expectReady(ctx, c)
		first := secretOf(ctx, "jobs")["client-secret"]
		Eventually(status(c.Status.ClientID, first)).Should(Equal(200))
		Expect(cluster.Client.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "jobs"}})).To(Succeed())
		Eventually(func() string { return secretOf(ctx, "jobs")["client-secret"] }).ShouldNot(BeElementOf("", first))
		second := secretOf(ctx, "jobs")["client-secret"]
		Eventually(status(c.Status.ClientID, second)).Should(Equal(200))
		Eventually(status(c.Status.ClientID, first)).Should(Equal(401))

		foreign := "cs_" + strings.Repeat("x", 40)
		update(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "jobs"}}, func(s *corev1.Secret) {
			s.Data["client-secret"], s.Data["client-id"] = []byte(foreign), []byte("1")
		})
		Eventually(func() string { return secretOf(ctx, "jobs")["client-secret"] }).ShouldNot(BeElementOf(second, foreign))
		Expect(secretOf(ctx, "jobs")).To(HaveKeyWithValue("client-id", c.Status.ClientID))
		Expect(status(c.Status.ClientID, foreign)()).To(Equal(401))
	})

	It("rotates with an overlap in which both secrets are accepted", func(ctx context.Context) {
		c := machine("jobs")
		c.Spec.Rotation = &v1alpha1.KeyRotation{EverySeconds: 3600, OverlapSeconds: ptr.To[int32](3)}
		create(ctx, c)
		expectReady(ctx, c)
		Expect(c.Status.NextRotationAt).NotTo(BeNil())
		first := secretOf(ctx, "jobs")["client-secret"]
		update(ctx, c, func(c *v1alpha1.OAuthClient) {
			c.Annotations = rotateAfter(c.Status.LastRotatedAt.Time)
		})
		Eventually(func() string { return secretOf(ctx, "jobs")["client-secret"] }).ShouldNot(Equal(first))
		Eventually(status(c.Status.ClientID, secretOf(ctx, "jobs")["client-secret"])).Should(Equal(200))
		Expect(status(c.Status.ClientID, first)()).To(Equal(200), "the previous secret is taken during the overlap")
		Eventually(status(c.Status.ClientID, first)).Should(Equal(401))
	})

	It("adopts an existing secret, waits for a missing one, and refuses a short or foreign one", func(ctx context.Context) {
		c := machine("jobs")
		c.Spec.SecretTemplate, c.Spec.ExistingSecretRef = nil, &v1alpha1.ExistingClientSecretReference{Name: "brought"}
		create(ctx, c)
		Eventually(condition(ctx, c, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotFound"))
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "brought"}, Data: map[string][]byte{"client-secret": []byte("hunter2")},
		}
		create(ctx, secret)
		Eventually(condition(ctx, c, v1alpha1.ConditionAccepted)).Should(HavePrefix("False/"))
		Expect(lazyConditions{c}.String()).NotTo(ContainSubstring("hunter2"))
		good := strings.Repeat("brought-", 5)
		update(ctx, secret, func(s *corev1.Secret) { s.Data["client-secret"] = []byte(good + "\n") })
		expectReady(ctx, c)
		Eventually(status(c.Status.ClientID, good)).Should(Equal(200))

		rival := machine("rival")
		rival.Spec.SecretTemplate, rival.Spec.ExistingSecretRef = nil, &v1alpha1.ExistingClientSecretReference{Name: "brought"}
		create(ctx, rival)
		Eventually(condition(ctx, rival, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		expectGone(ctx, c)
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed(), "a brought Secret is never deleted")
	})

	It("never takes over a foreign Secret", func(ctx context.Context) {
		theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "jobs"}, Data: map[string][]byte{"password": []byte("x")}}
		c := machine("jobs")
		create(ctx, theirs, c)
		Eventually(condition(ctx, c, v1alpha1.ConditionAccepted)).Should(Equal("False/SecretNotOwned"))
		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		expectGone(ctx, c)
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
	})

	It("authenticates with keys of a ConfigMap, waits for them, and follows their changes", func(ctx context.Context) {
		c := machine("jobs")
		c.Spec.SecretTemplate, c.Spec.Authentication = nil, ptr.To(v1alpha1.ClientAuthenticationPrivateKeyJWT)
		c.Spec.JWKSConfigMapRef = &v1alpha1.ConfigMapKeyReference{Name: "keys", Key: "jwks.json"}
		create(ctx, c)
		Eventually(condition(ctx, c, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/ConfigMapNotFound"))
		key, set := signingKey("one")
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "keys"}, Data: map[string]string{"jwks.json": set}}
		create(ctx, configMap)
		expectReady(ctx, c)
		by := func(key *ecdsa.PrivateKey, id string) func() (int, error) {
			return func() (int, error) { return post(assertion(key, id, c.Status.ClientID, app.Status.Issuer)) }
		}
		Eventually(by(key, "one")).Should(Equal(200))
		next, set := signingKey("two")
		update(ctx, configMap, func(m *corev1.ConfigMap) { m.Data["jwks.json"] = set })
		Eventually(by(next, "two")).Should(Equal(200))
		Expect(by(key, "one")()).To(Equal(401))
	})

	It("reports what it requests and its app lacks", func(ctx context.Context) {
		c := machine("jobs")
		c.Spec.Resources = []v1alpha1.ResourceURI{"https://api.example"}
		create(ctx, c)
		Eventually(condition(ctx, c, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{c}.String()).To(ContainSubstring(`spec.resources[0]: "https://api.example" is not among the resources of OAuthApp "portal"`))
		update(ctx, app, func(a *v1alpha1.OAuthApp) { a.Spec.Resources = []v1alpha1.ResourceURI{"https://api.example"} })
		expectReady(ctx, c)

		orphan := machine("orphan")
		orphan.Spec.OAuthAppRef.Name = "none"
		create(ctx, orphan)
		Eventually(condition(ctx, orphan, v1alpha1.ConditionReady)).Should(HavePrefix("False/"))
		Expect(lazyConditions{orphan}.String()).To(ContainSubstring(`OAuthApp "none"`))
		web := machine("web")
		web.Spec.GrantTypes, web.Spec.RedirectURIs = nil, []v1alpha1.RedirectURI{"com.example.app:/cb"}
		create(ctx, web)
		Eventually(condition(ctx, web, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{web}.String()).To(ContainSubstring("for clients with authentication None"))
	})
})

// signingKey creates a key, and returns it with a key set that holds its public part.
func signingKey(id string) (*ecdsa.PrivateKey, string) {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: id, Algorithm: "ES256", Use: "sig"}}})
	Expect(err).NotTo(HaveOccurred())
	return key, string(set)
}

// assertion returns the token request of a client that authenticates by private_key_jwt.
func assertion(key *ecdsa.PrivateKey, id, clientID, issuer string) url.Values {
	GinkgoHelper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: id}}, nil)
	Expect(err).NotTo(HaveOccurred())
	now := time.Now()
	signed, err := jwt.Signed(signer).Claims(jwt.Claims{
		Issuer: clientID, Subject: clientID, Audience: jwt.Audience{issuer}, IssuedAt: jwt.NewNumericDate(now), Expiry: jwt.NewNumericDate(now.Add(time.Minute)), ID: rand.Text(),
	}).Serialize()
	Expect(err).NotTo(HaveOccurred())
	return url.Values{
		"grant_type": {"client_credentials"}, "client_assertion": {signed}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}
}
