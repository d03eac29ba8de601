package integration

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-jose/go-jose/v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	documents "github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/test/testkit"
)

// rootKey returns a keyring of one root key.
func rootKey(fill byte) *seal.Keyring {
	GinkgoHelper()
	file := filepath.Join(GinkgoT().TempDir(), "root-key")
	Expect(os.WriteFile(file, bytes.Repeat([]byte{fill}, 32), 0o600)).To(Succeed())
	ring, err := seal.Load([]string{file})
	Expect(err).NotTo(HaveOccurred())
	return ring
}

// signed returns a token with the permission ai_agents:read in the claim scope.
func signed(key *ecdsa.PrivateKey, keyID, issuer, audience string) string {
	GinkgoHelper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: key, KeyID: keyID}}, nil)
	Expect(err).NotTo(HaveOccurred())
	claims, err := json.Marshal(map[string]any{"iss": issuer, "aud": audience, "exp": time.Now().Add(time.Hour).Unix(), "sub": "7", "scope": "ai_agents:read"})
	Expect(err).NotTo(HaveOccurred())
	object, err := signer.Sign(claims)
	Expect(err).NotTo(HaveOccurred())
	token, err := object.CompactSerialize()
	Expect(err).NotTo(HaveOccurred())
	return token
}

// parsedKey reads a private key in PEM.
func parsedKey(text []byte) *ecdsa.PrivateKey {
	GinkgoHelper()
	block, _ := pem.Decode(text)
	Expect(block).NotTo(BeNil(), "no PEM")
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	Expect(err).NotTo(HaveOccurred())
	return key.(*ecdsa.PrivateKey)
}

var _ = Describe("A deployment's session signing key", func() {
	const name = "acme-session-signing-key"
	deployment := func(w *world) *v1alpha1.IdentityDeployment {
		d := testkit.Deployment(w.namespace, "acme")
		d.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(w.namespace + ".app.example"), v1alpha1.Hostname(w.namespace + ".other.example")}
		d.Spec.JWTIssuers = []v1alpha1.JWTIssuer{{Name: "own", OwnSessions: &v1alpha1.OwnSessionsIssuer{}, PermissionsClaim: ptr.To("scope")}}
		return d
	}
	generated := func(ctx context.Context, w *world) *corev1.Secret {
		GinkgoHelper()
		found := &corev1.Secret{}
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, found)).To(Succeed())
		return found
	}

	It("waits for a root key, is generated once, verifies sessions, and is replaced when it was edited", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		d := deployment(w)
		create(ctx, d)
		Eventually(condition(ctx, d, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/RootKeyMissing"))
		Expect(lazyConditions{d}.String()).To(ContainSubstring("start the operator with --root-key"))
		Expect(condition(ctx, d, v1alpha1.ConditionReady)()).To(HavePrefix("False/"))

		ring := rootKey(1)
		w.stopOperator()
		w.startOperator(testkit.OperatorOptions{Keyring: ring})
		expectReady(ctx, d)
		first := generated(ctx, w)
		Expect(first.Data).To(HaveLen(1))
		Expect(first.Labels).To(HaveKeyWithValue(v1alpha1.LabelManagedBy, v1alpha1.ManagedByOperator))
		Expect(metav1.IsControlledBy(first, d)).To(BeTrue())

		content, payload := w.storedDeployment(ctx)
		Expect(content.SigningKeys).To(HaveLen(1))
		Expect(content.SigningKeys[0].ExpiresAt).To(BeNil())
		var public jose.JSONWebKey
		Expect(json.Unmarshal(content.SigningKeys[0].Public, &public)).To(Succeed())
		private := parsedKey(first.Data["current.pem"])
		Expect(public.IsPublic()).To(BeTrue())
		Expect(private.PublicKey.Equal(public.Key)).To(BeTrue())
		Expect(public).To(And(HaveField("KeyID", content.SigningKeys[0].ID), HaveField("Algorithm", "ES256"), HaveField("Use", "sig")))
		opened, err := ring.Open(documents.SealedSigningKey, content.SigningKeys[0].ID, content.SigningKeys[0].Sealed)
		Expect(err).NotTo(HaveOccurred())
		der, err := x509.MarshalPKCS8PrivateKey(private)
		Expect(err).NotTo(HaveOccurred())
		Expect(opened).To(Equal(der))
		_, err = rootKey(2).Open(documents.SealedSigningKey, content.SigningKeys[0].ID, content.SigningKeys[0].Sealed)
		Expect(err).To(MatchError(seal.ErrOpen))
		block, _ := pem.Decode(first.Data["current.pem"])
		for _, leak := range []string{"PRIVATE KEY", `"d":`, base64.StdEncoding.EncodeToString(block.Bytes)} {
			Expect(payload).NotTo(ContainSubstring(leak))
		}

		issuer, audience := "https://"+w.namespace+".app.example", "cardea:"+w.namespace+":acme"
		agents := func(token string) func() int {
			return func() int { return w.do("GET", "/ai-agents", token, "").Status }
		}
		session := signed(private, public.KeyID, issuer, audience)
		Eventually(agents(session)).Should(Equal(200))
		Expect(w.do("GET", "/ai-tools", session, "").Status).To(Equal(403), "the claim grants no more")
		for what, other := range map[string]string{
			"the other host": signed(private, public.KeyID, "https://"+w.namespace+".other.example", audience), "http": signed(private, public.KeyID, "http://"+w.namespace+".app.example", audience),
			"another audience": signed(private, public.KeyID, issuer, "cardea:"+w.namespace+":other"), "another key's id": signed(private, "other", issuer, audience),
		} {
			Expect(agents(other)()).To(Equal(401), what)
		}

		w.stopOperator()
		writes := w.store.Writes()
		w.startOperator(testkit.OperatorOptions{Keyring: ring})
		update(ctx, d, func(d *v1alpha1.IdentityDeployment) { d.Spec.Mode = ptr.To(v1alpha1.DeploymentModeStaging) })
		expectReady(ctx, d)
		Expect(generated(ctx, w).ResourceVersion).To(Equal(first.ResourceVersion), "a restart keeps the key")
		kept, _ := w.storedDeployment(ctx)
		Expect(kept.SigningKeys).To(Equal(content.SigningKeys))
		Expect(w.store.Writes()).To(Equal(writes+1), "the edit alone is written: sealing again is silent")

		edited := generated(ctx, w)
		edited.Data["current.pem"] = []byte("by hand")
		Expect(cluster.Client.Update(ctx, edited)).To(Succeed())
		Eventually(agents(session)).Should(Equal(401))
		second := generated(ctx, w)
		Expect(second.Data).To(HaveLen(1), "the edited value is not kept")
		fresh := parsedKey(second.Data["current.pem"])
		Expect(fresh.Equal(private)).To(BeFalse())
		expectReady(ctx, d)
		content, _ = w.storedDeployment(ctx)
		Expect(content.SigningKeys).To(HaveLen(1))
		Eventually(agents(signed(fresh, content.SigningKeys[0].ID, issuer, audience))).Should(Equal(200))

		Expect(cluster.Client.Delete(ctx, generated(ctx, w))).To(Succeed())
		Eventually(func() (string, error) {
			found := &corev1.Secret{}
			err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, found)
			return string(found.Data["current.pem"]), err
		}).Should(And(Not(BeEmpty()), Not(Equal(string(second.Data["current.pem"])))), "a deleted Secret is generated anew")

		Expect(cluster.Client.Delete(ctx, d)).To(Succeed())
		expectGone(ctx, d)
		expectGone(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
	})

	It("is not read from a foreign Secret", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		theirs := secret(w.namespace, name, "current.pem", "theirs")
		create(ctx, theirs)
		d := deployment(w)
		create(ctx, d)
		Eventually(func() string {
			_, _ = cluster.Ready(ctx, d)
			return lazyConditions{d}.String()
		}).Should(ContainSubstring(v1alpha1.ReasonSecretNotOwned))
		Expect(generated(ctx, w).Data).To(Equal(map[string][]byte{"current.pem": []byte("theirs")}))
		Expect(cluster.Client.Delete(ctx, theirs)).To(Succeed())
		expectReady(ctx, d)
	})
})
