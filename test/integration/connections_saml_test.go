package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"maps"
	"math/big"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	documents "github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("A Connection of type SAML", func() {
	var w *world
	var offset atomic.Int64 // how far the operator's clock is ahead
	BeforeEach(func(ctx context.Context) {
		offset.Store(0)
		w = newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(7), Clock: func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }})
		deployment := testkit.Deployment(w.namespace, "acme")
		deployment.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(w.namespace + ".id.example"), v1alpha1.Hostname(w.namespace + ".login.example")}
		create(ctx, deployment)
		expectReady(ctx, deployment)
	})
	globex := func() *v1alpha1.Connection {
		c := testkit.Connection(w.namespace, "acme", "globex", upstreamIssuer)
		c.Spec.Type, c.Spec.OIDC, c.Spec.Client = v1alpha1.ConnectionTypeSAML, nil, v1alpha1.UpstreamClient{}
		c.Spec.SAML = &v1alpha1.SAMLProvider{MetadataURL: ptr.To[v1alpha1.UpstreamURL]("https://globex.example/saml/metadata")}
		return c
	}
	credentials := func(ctx context.Context, c *v1alpha1.Connection) func() (string, error) {
		return condition(ctx, c, v1alpha1.ConditionCredentialsReady)
	}
	stored := func(ctx context.Context) documents.Connection {
		GinkgoHelper()
		var content documents.Connection
		_, err := documents.Decode(w.held(ctx, v1alpha1.KindConnection, "globex").Document.Payload, &content)
		Expect(err).NotTo(HaveOccurred())
		return content
	}
	// certificates returns the certificates of the stored keys, and checks that each private key opens and fits.
	certificates := func(ctx context.Context) (list []string) {
		GinkgoHelper()
		for _, key := range stored(ctx).SAML.Keys {
			private, err := w.keyring.Open(documents.SealedConnectionSecret, ids.Format(w.held(ctx, v1alpha1.KindConnection, "globex").Document.ID), key.Sealed)
			Expect(err).NotTo(HaveOccurred())
			_, err = saml.ParseKey(private, []byte(key.Certificate))
			Expect(err).NotTo(HaveOccurred(), "servers read what the operator generates")
			list = append(list, key.Certificate)
		}
		return list
	}
	keysSecret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "globex-saml-keys"}}
	}

	// pass requests a reconcile, and waits until it was done.
	pass := func(ctx context.Context, c *v1alpha1.Connection, annotations map[string]string) {
		GinkgoHelper()
		asked := rand.Text()
		update(ctx, c, func(c *v1alpha1.Connection) {
			c.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: asked}
			maps.Copy(c.Annotations, annotations)
		})
		Eventually(func() (string, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(c), c)
			return c.Status.LastHandledReconcileAt, err
		}).Should(Equal(asked))
	}

	It("becomes Ready with keys of its own, says what to register, and is withdrawn with its Secret", func(ctx context.Context) {
		c := globex()
		create(ctx, c)
		expectReady(ctx, c)
		id := ids.Format(ids.Derive(v1alpha1.KindConnection, w.namespace, "globex"))
		first := "https://" + w.namespace + ".id.example/sso/" + id
		Expect(c.Status.EntityID).To(Equal(first + "/metadata"))
		Expect(c.Status.MetadataURL).To(Equal(first + "/metadata"))
		Expect(c.Status.ACSURLs).To(Equal([]string{first + "/acs", "https://" + w.namespace + ".login.example/sso/" + id + "/acs"}))
		Expect(c.Status.RedirectURIs).To(BeEmpty())
		Expect(c.Status.BackchannelLogoutURL).To(BeEmpty())
		Expect(condition(ctx, c, v1alpha1.ConditionReachable)()).To(Equal("Unknown/Pending"))

		content := stored(ctx)
		Expect(content.SAML.MetadataURL).To(Equal("https://globex.example/saml/metadata"))
		Expect(content.SAML.ServiceEntityID).To(Equal(c.Status.EntityID))
		Expect(certificates(ctx)).To(HaveLen(1))
		secret := keysSecret()
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(secret), secret)).To(Succeed())
		Expect(string(secret.Data["current-certificate.pem"])).To(Equal(content.SAML.Keys[0].Certificate))
		Expect(w.held(ctx, v1alpha1.KindConnection, "globex").Document.Payload).NotTo(ContainSubstring("PRIVATE KEY"))

		By("a Secret that is deleted")
		before := certificates(ctx)
		Expect(cluster.Client.Delete(ctx, secret)).To(Succeed())
		Eventually(func() []string { return certificates(ctx) }).Should(And(HaveLen(1), Not(Equal(before))))

		By("an inactive connection")
		update(ctx, c, func(c *v1alpha1.Connection) { c.Spec.Active = ptr.To(false) })
		Eventually(func() []string { return certificates(ctx) }).Should(BeEmpty())
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(secret), keysSecret())).To(Succeed(), "the keys wait for it")

		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		expectGone(ctx, c)
		expectGone(ctx, keysSecret())
	})

	It("reads metadata from a ConfigMap, and follows its changes", func(ctx context.Context) {
		c := globex()
		c.Spec.SAML = &v1alpha1.SAMLProvider{MetadataConfigMapRef: &v1alpha1.ConfigMapKeyReference{Name: "globex", Key: "metadata.xml"}}
		create(ctx, c)
		Eventually(credentials(ctx, c)).Should(Equal("False/ConfigMapNotFound"))
		Expect(lazyConditions{c}.String()).To(ContainSubstring(`spec.saml.metadataConfigMapRef: there is no ConfigMap "globex" with key "metadata.xml": create it`))
		Expect(c.Status.ACSURLs).To(HaveLen(2), "a provider asks for them before it gives its metadata")
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(keysSecret()), keysSecret())).NotTo(Succeed())
		configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "globex"}, Data: map[string]string{"metadata.xml": "<first/>"}}
		create(ctx, configMap)
		expectReady(ctx, c)
		Expect(stored(ctx).SAML.Metadata).To(Equal("<first/>"))
		update(ctx, configMap, func(m *corev1.ConfigMap) { m.Data["metadata.xml"] = "<second/>" })
		Eventually(func() string { return stored(ctx).SAML.Metadata }).Should(Equal("<second/>"))
		update(ctx, configMap, func(m *corev1.ConfigMap) { m.Data["metadata.xml"] = "" })
		Eventually(condition(ctx, c, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		Expect(stored(ctx).SAML.Metadata).To(Equal("<second/>"), "accepted content stays active")

		By("an inactive connection, which needs no ConfigMap")
		Expect(cluster.Client.Delete(ctx, configMap)).To(Succeed())
		Eventually(credentials(ctx, c)).Should(Equal("False/ConfigMapNotFound"))
		update(ctx, c, func(c *v1alpha1.Connection) { c.Spec.Active = ptr.To(false) })
		expectReady(ctx, c)
	})

	It("changes its key in steps of seven days, after a request", func(ctx context.Context) {
		c := globex()
		create(ctx, c)
		expectReady(ctx, c)
		first := certificates(ctx)
		Expect(first).To(HaveLen(1))
		at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		// later advances the operator's clock, and requests a pass.
		later := func(by time.Duration) {
			offset.Add(int64(by))
			pass(ctx, c, map[string]string{v1alpha1.AnnotationRotateAt: at})
		}
		later(time.Second)
		Expect(certificates(ctx)).To(Equal(first), "its time has not come")
		later(time.Hour)
		both := certificates(ctx)
		Expect(both).To(HaveLen(2))
		Expect(both[0]).To(Equal(first[0]), "the next key does not sign yet")
		later(7 * 24 * time.Hour)
		Expect(certificates(ctx)).To(Equal([]string{both[1], both[0]}))
		later(7*24*time.Hour + time.Second)
		Expect(certificates(ctx)).To(Equal([]string{both[1]}))
	})

	It("reports what servers found in the metadata, and stays Ready", func(ctx context.Context) {
		w.server.Stop() // its own fetches would fail
		c := globex()
		create(ctx, c)
		expectReady(ctx, c)
		id := ids.Derive(v1alpha1.KindConnection, w.namespace, "globex")
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		at := time.Now().Truncate(time.Second)
		expires := at.Add(10 * 24 * time.Hour).UTC()
		template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: at.Add(-time.Hour), NotAfter: expires}
		certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		Expect(err).NotTo(HaveOccurred())
		fetch := func(metadata documents.SAMLMetadata) {
			GinkgoHelper()
			text, err := json.Marshal(metadata)
			Expect(err).NotTo(HaveOccurred())
			Expect(w.store.Change(ctx, w.namespace+"/acme", func(tx people.Tx) error {
				at = at.Add(time.Second)
				before, _, err := tx.Connections().UpstreamDocument(id, people.UpstreamSAML)
				if err != nil {
					return err
				}
				if _, err := tx.Connections().LeaseUpstreamDocument(id, people.UpstreamSAML, "lease", before.TriedAt, at, at.Add(time.Second)); err != nil {
					return err
				}
				_, err = tx.Connections().StoreUpstreamDocument(people.UpstreamDocument{
					Connection: id, Kind: people.UpstreamSAML, Body: "url\n" + string(text), SHA256: metadata.EntityID, FetchedAt: at, ValidUntil: at,
				}, "lease")
				return err
			})).To(Succeed())
			pass(ctx, c, nil)
		}
		fetch(documents.SAMLMetadata{EntityID: "first"})
		Expect(condition(ctx, c, v1alpha1.ConditionReachable)()).To(Equal("True/Fetched"))
		Expect(c.Status.Upstream).To(Equal(&v1alpha1.ConnectionUpstream{FetchedAt: at.UTC().Format(time.RFC3339), SHA256: "first"}))
		Expect(lazyConditions{c}.String()).NotTo(Or(ContainSubstring(v1alpha1.ConditionCertificateExpiring), ContainSubstring(v1alpha1.ConditionMetadataChanged)))

		fetch(documents.SAMLMetadata{EntityID: "second", Certificates: [][]byte{certificate}})
		Expect(condition(ctx, c, v1alpha1.ConditionCertificateExpiring)()).To(Equal("True/Expiring"))
		Expect(condition(ctx, c, v1alpha1.ConditionMetadataChanged)()).To(Equal("True/Changed"))
		Expect(c.Status.Upstream.CertificateExpiresAt).To(Equal(expires.Format(time.RFC3339)))
		expectReady(ctx, c)
		Eventually(func() (string, error) { return cluster.Kubectl(ctx, "", "get", "events", "-n", w.namespace) }).Should(ContainSubstring(v1alpha1.EventReasonMetadataChanged))
		writes := w.store.Writes()
		pass(ctx, c, nil)
		Expect(w.store.Writes()).To(Equal(writes), "nothing changed")

		offset.Store(int64(11 * 24 * time.Hour))
		pass(ctx, c, nil)
		Expect(condition(ctx, c, v1alpha1.ConditionCertificateExpiring)()).To(Equal("True/Expired"))
		Expect(lazyConditions{c}.String()).NotTo(ContainSubstring(v1alpha1.ConditionMetadataChanged))
		expectReady(ctx, c)
	})

	It("keeps the keys of a Secret that was copied from another cluster", func(ctx context.Context) {
		c := globex()
		create(ctx, c)
		expectReady(ctx, c)
		before := certificates(ctx)
		copied := keysSecret()
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(copied), copied)).To(Succeed())
		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		expectGone(ctx, c)
		expectGone(ctx, keysSecret())
		copied.ResourceVersion, copied.UID, copied.OwnerReferences = "", "", nil
		c = globex()
		create(ctx, copied, c)
		expectReady(ctx, c)
		Expect(certificates(ctx)).To(Equal(before))
	})

	It("takes over no Secret of another owner", func(ctx context.Context) {
		foreign := keysSecret()
		foreign.Data = map[string][]byte{"mine": []byte("x")}
		c := globex()
		create(ctx, foreign, c)
		Eventually(condition(ctx, c, v1alpha1.ConditionAccepted)).Should(Equal("False/SecretNotOwned"))
		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		expectGone(ctx, c)
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(foreign), foreign)).To(Succeed())
	})
})
