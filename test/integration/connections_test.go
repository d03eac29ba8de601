package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
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
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	upstreamIssuer = "https://idp.globex.example"
	clientSecret   = "correct-horse-upstream"
)

// storedConnection returns the stored document of a connection, and its secret or private key as it opens.
func (w *world) storedConnection(ctx context.Context, name string) (content documents.Connection, opened string) {
	GinkgoHelper()
	held := w.held(ctx, v1alpha1.KindConnection, name).Document
	_, err := documents.Decode(held.Payload, &content)
	Expect(err).NotTo(HaveOccurred())
	text, err := w.keyring.Open(documents.SealedConnectionSecret, ids.Format(held.ID), content.Client.Sealed)
	Expect(err).NotTo(HaveOccurred())
	return content, string(text)
}

// upstreamSecret returns a Secret with a client secret that is shared with the deployment acme.
func upstreamSecret(namespace, name, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{v1alpha1.LabelDeployment: "acme"}},
		Data:       map[string][]byte{"client-secret": []byte(value)},
	}
}

var _ = Describe("A Connection", func() {
	var w *world
	var deployment *v1alpha1.IdentityDeployment
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(7)})
		deployment = testkit.Deployment(w.namespace, "acme")
		deployment.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(w.namespace + ".id.example"), v1alpha1.Hostname(w.namespace + ".login.example")}
		create(ctx, deployment)
		expectReady(ctx, deployment)
	})
	globex := func() *v1alpha1.Connection { return testkit.Connection(w.namespace, "acme", "globex", upstreamIssuer) }
	accepted := func(ctx context.Context, c *v1alpha1.Connection) func() (string, error) {
		return condition(ctx, c, v1alpha1.ConditionAccepted)
	}
	credentials := func(ctx context.Context, c *v1alpha1.Connection) func() (string, error) {
		return condition(ctx, c, v1alpha1.ConditionCredentialsReady)
	}
	held := func(ctx context.Context, name string) bool { return w.held(ctx, v1alpha1.KindConnection, name).Found }

	It("becomes Ready with its secret sealed, says what to register, and is withdrawn with its resource", func(ctx context.Context) {
		c := globex()
		c.Spec.Domains = []v1alpha1.DomainName{"globex.example"}
		create(ctx, upstreamSecret(w.namespace, "globex", clientSecret+"\n"), c)
		expectReady(ctx, c)
		id := ids.Format(ids.Derive(v1alpha1.KindConnection, w.namespace, "globex"))
		Expect(c.Status.ID).To(Equal(id), "the same in a cluster that is rebuilt from Git")
		first := "https://" + w.namespace + ".id.example/sso/" + id
		Expect(c.Status.RedirectURIs).To(Equal([]string{first + "/callback", "https://" + w.namespace + ".login.example/sso/" + id + "/callback"}))
		Expect(c.Status.BackchannelLogoutURL).To(Equal(first + "/backchannel-logout"))

		content, opened := w.storedConnection(ctx, "globex")
		Expect(opened).To(Equal(clientSecret), "without the newline at its end")
		Expect(content.Slug).To(Equal("globex"))
		Expect(content.Active).To(BeTrue())
		Expect(content.Domains).To(Equal([]string{"globex.example"}))
		Expect(content.Provider.Issuer).To(Equal(upstreamIssuer))
		stored := w.held(ctx, v1alpha1.KindConnection, "globex")
		Expect(stored.Document.Key).To(Equal("globex"))
		Expect(stored.Document.Deployment).To(Equal(w.namespace + "/acme"))
		shown, err := cluster.Kubectl(ctx, "", "get", "conn,events", "-n", w.namespace, "-o", "json", "--show-managed-fields")
		Expect(err).NotTo(HaveOccurred())
		for _, text := range []string{shown, string(stored.Document.Payload)} {
			Expect(text).NotTo(ContainSubstring(clientSecret))
		}

		By("a host more")
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = append(d.Spec.FrontendHosts, v1alpha1.Hostname(w.namespace+".third.example"))
		})
		Eventually(func() ([]string, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(c), c)
			return c.Status.RedirectURIs, err
		}).Should(HaveLen(3))

		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		expectGone(ctx, c)
		Expect(held(ctx, "globex")).To(BeFalse())
		Expect(cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: "globex"}, &corev1.Secret{})).To(Succeed(), "the user's Secret stays")
	})

	It("waits for its Secret, which must be shared with the deployment, and follows its changes", func(ctx context.Context) {
		c := globex()
		create(ctx, c)
		Eventually(credentials(ctx, c)).Should(Equal("False/SecretNotFound"))
		Expect(c.Status.RedirectURIs).To(HaveLen(2), "a provider asks for them before it gives a secret")
		Expect(c.Status.BackchannelLogoutURL).NotTo(BeEmpty())
		secret := upstreamSecret(w.namespace, "globex", clientSecret)
		secret.Labels, secret.Data = nil, map[string][]byte{"other": []byte(clientSecret)}
		create(ctx, secret)
		Eventually(credentials(ctx, c)).Should(Equal("False/SecretNotShared"))
		Expect(lazyConditions{c}.String()).To(ContainSubstring("kubectl label secret globex iam.cardea.dev/deployment=acme"))
		update(ctx, secret, func(s *corev1.Secret) { s.Labels = map[string]string{v1alpha1.LabelDeployment: "other"} })
		Consistently(credentials(ctx, c)).Should(Equal("False/SecretNotShared"), "the label names another deployment")
		update(ctx, secret, func(s *corev1.Secret) { s.Labels[v1alpha1.LabelDeployment] = "acme" })
		Eventually(credentials(ctx, c)).Should(Equal("False/SecretNotFound"))
		Expect(lazyConditions{c}.String()).To(ContainSubstring(`spec.client.clientSecretRef: there is no Secret "globex" with key "client-secret": create it`))
		Expect(held(ctx, "globex")).To(BeFalse())
		rewrite := func(value string) {
			GinkgoHelper()
			update(ctx, secret, func(s *corev1.Secret) { s.Data = map[string][]byte{"client-secret": []byte(value)} })
		}
		rewrite(clientSecret)
		expectReady(ctx, c)

		By("a rotation")
		opened := func() string {
			_, opened := w.storedConnection(ctx, "globex")
			return opened
		}
		rewrite("the-next-secret")
		Eventually(opened).Should(Equal("the-next-secret"))
		expectReady(ctx, c)
		rewrite("two\nlines")
		Eventually(accepted(ctx, c)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{c}.String()).To(And(ContainSubstring("has more than one line"), Not(ContainSubstring("lines: "))))
		Expect(opened()).To(Equal("the-next-secret"), "accepted content stays active")
		Expect(cluster.Client.Delete(ctx, secret)).To(Succeed())
		Eventually(credentials(ctx, c)).Should(Equal("False/SecretNotFound"))
		Expect(opened()).To(Equal("the-next-secret"))
	})

	It("reports what servers fetched and whether the organization exists, and stays Ready", func(ctx context.Context) {
		w.server.Stop() // its own fetches would fail
		c := globex()
		c.Spec.Organization = &v1alpha1.ConnectionOrganization{Slug: "globex"}
		create(ctx, upstreamSecret(w.namespace, "globex", clientSecret), c)
		expectReady(ctx, c)
		is := func(kind string) func() (string, error) { return condition(ctx, c, kind) }
		Expect(is(v1alpha1.ConditionReachable)()).To(Equal("Unknown/Pending"))
		Expect(is(v1alpha1.ConditionReferencesResolved)()).To(Equal("False/OrganizationNotFound"))
		Expect(c.Status.Upstream).To(BeNil())
		Expect(cluster.Kubectl(ctx, "", "get", "conn", "-n", w.namespace, "-o", "wide")).To(ContainSubstring("REACHABLE"))

		at := time.Now().Truncate(time.Second)
		id := ids.Derive(v1alpha1.KindConnection, w.namespace, "globex")
		fetch := func(kind, failure string) {
			Expect(w.store.Change(ctx, w.namespace+"/acme", func(tx people.Tx) error {
				at = at.Add(time.Second)
				before, _, err := tx.Connections().UpstreamDocument(id, kind)
				if err != nil {
					return err
				}
				if _, err := tx.Connections().LeaseUpstreamDocument(id, kind, "lease", before.TriedAt, at, at.Add(time.Second)); err != nil {
					return err
				}
				if failure != "" {
					_, err := tx.Connections().FailUpstreamDocument(id, kind, "lease", failure)
					return err
				}
				_, err = tx.Connections().StoreUpstreamDocument(people.UpstreamDocument{Connection: id, Kind: kind, Body: "url\n{}", SHA256: "abc", FetchedAt: at, ValidUntil: at}, "lease")
				return err
			})).To(Succeed())
		}
		pass := func() {
			asked := rand.Text()
			update(ctx, c, func(c *v1alpha1.Connection) {
				c.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: asked}
			})
			Eventually(func() (string, error) {
				err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(c), c)
				return c.Status.LastHandledReconcileAt, err
			}).Should(Equal(asked))
		}
		fetch(people.UpstreamDiscovery, "")
		fetch(people.UpstreamJWKS, "")
		Expect(w.store.Change(ctx, w.namespace+"/acme", func(tx people.Tx) error {
			return tx.Organizations().InsertOrganization(people.Organization{ID: 1, Slug: "globex", Name: "Globex", CreatedAt: at})
		})).To(Succeed())
		pass()
		Expect(is(v1alpha1.ConditionReachable)()).To(Equal("True/Fetched"))
		Expect(is(v1alpha1.ConditionReferencesResolved)()).To(Equal("True/Resolved"))
		Expect(c.Status.Upstream).To(Equal(&v1alpha1.ConnectionUpstream{FetchedAt: at.UTC().Format(time.RFC3339), SHA256: "abc"}))
		pass()
		version := c.ResourceVersion

		fetch(people.UpstreamJWKS, "Refused: idp.globex.example: 10.0.0.1 is private")
		pass()
		Expect(c.ResourceVersion).NotTo(Equal(version))
		Expect(is(v1alpha1.ConditionReachable)()).To(Equal("False/Refused"))
		Expect(meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReachable).Message).To(Equal("jwks: idp.globex.example: 10.0.0.1 is private"))
		expectReady(ctx, c)
	})

	It("writes nothing while nothing changes", func(ctx context.Context) {
		c := globex()
		create(ctx, upstreamSecret(w.namespace, "globex", clientSecret), c)
		expectReady(ctx, c)
		writes := w.store.Writes()
		update(ctx, c, func(c *v1alpha1.Connection) {
			c.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
		})
		Eventually(func() (string, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(c), c)
			return c.Status.LastHandledReconcileAt, err
		}).Should(Equal("now"))
		Expect(w.store.Writes()).To(Equal(writes), "sealing the same value again writes nothing")
		version := c.ResourceVersion
		update(ctx, upstreamSecret(w.namespace, "globex", clientSecret), func(s *corev1.Secret) { s.Annotations = map[string]string{"note": "x"} })
		Consistently(func() (string, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(c), c)
			return c.ResourceVersion, err
		}).Should(Equal(version))
	})

	It("reads a private key in PEM, and refuses another value", func(ctx context.Context) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		Expect(err).NotTo(HaveOccurred())
		der, err := x509.MarshalECPrivateKey(key)
		Expect(err).NotTo(HaveOccurred())
		secret := upstreamSecret(w.namespace, "globex", "-----BEGIN PRIVATE KEY-----\nbm90IGEga2V5\n-----END PRIVATE KEY-----\n")
		c := globex()
		c.Spec.Client = v1alpha1.UpstreamClient{
			ClientID: "cardea", Authentication: ptr.To(v1alpha1.UpstreamAuthenticationPrivateKeyJWT), PrivateKeySecretRef: &v1alpha1.SecretKeyReference{Name: "globex", Key: "client-secret"},
		}
		create(ctx, secret, c)
		Eventually(accepted(ctx, c)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{c}.String()).To(And(
			ContainSubstring(`spec.client.privateKeySecretRef: the value of Secret "globex", key "client-secret", is a private key that cannot be read: correct it there`), Not(ContainSubstring("bm90IGEga2V5"))))
		update(ctx, secret, func(s *corev1.Secret) {
			s.Data["client-secret"] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der})
		})
		expectReady(ctx, c)
		_, opened := w.storedConnection(ctx, "globex")
		block, _ := pem.Decode([]byte(opened))
		Expect(block).NotTo(BeNil())
		parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		Expect(err).NotTo(HaveOccurred())
		Expect(key.Equal(parsed)).To(BeTrue())
	})

	It("uses http URLs in Staging only", func(ctx context.Context) {
		c := testkit.Connection(w.namespace, "acme", "globex", "http://127.0.0.1:5556/dex")
		create(ctx, upstreamSecret(w.namespace, "globex", clientSecret), c)
		Eventually(accepted(ctx, c)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{c}.String()).To(ContainSubstring("spec.oidc.issuer: http is only for deployments with mode Staging"))
		Expect(held(ctx, "globex")).To(BeFalse())
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) { d.Spec.Mode = ptr.To(v1alpha1.DeploymentModeStaging) })
		expectReady(ctx, c)
	})

	It("reports domains that many share, and roles that do not compile", func(ctx context.Context) {
		c := globex()
		c.Spec.Domains = []v1alpha1.DomainName{"globex.example", "co.uk"}
		c.Spec.Organization = &v1alpha1.ConnectionOrganization{Slug: "globex"}
		create(ctx, upstreamSecret(w.namespace, "globex", clientSecret), c)
		Eventually(accepted(ctx, c)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{c}.String()).To(ContainSubstring(`spec.domains[1]: "co.uk" is a public suffix`))
		update(ctx, c, func(c *v1alpha1.Connection) {
			c.Spec.Domains = c.Spec.Domains[:1]
			c.Spec.Membership = &v1alpha1.ConnectionMembership{RoleExpression: ptr.To(`'eng' in claims.groups ? 'developer'`)}
		})
		Eventually(func() string {
			_, _ = cluster.Ready(ctx, c)
			return lazyConditions{c}.String()
		}).Should(ContainSubstring("spec.membership.roleExpression: "))
		update(ctx, c, func(c *v1alpha1.Connection) {
			c.Spec.Membership.RoleExpression = ptr.To(`'eng' in claims.groups ? ['developer'] : []`)
		})
		expectReady(ctx, c)
		content, _ := w.storedConnection(ctx, "globex")
		Expect(content.Organization).To(Equal("globex"))
		Expect(content.Membership).To(Equal(documents.ConnectionMembership{JustInTime: true, RoleExpression: `'eng' in claims.groups ? ['developer'] : []`}))
	})

	DescribeTable("owns its slug and its domains in the deployment:", func(ctx context.Context, overlap func(first, second *v1alpha1.Connection), message string) {
		first, second := globex(), testkit.Connection(w.namespace, "acme", "initech", upstreamIssuer)
		first.Spec.Domains = []v1alpha1.DomainName{"globex.example"}
		second.Spec.Client = first.Spec.Client
		overlap(first, second)
		create(ctx, upstreamSecret(w.namespace, "globex", clientSecret), first)
		expectReady(ctx, first)
		create(ctx, second)
		Eventually(accepted(ctx, second)).Should(Equal("False/Conflict"))
		Expect(lazyConditions{second}.String()).To(And(ContainSubstring(message), ContainSubstring("globex")))
		Expect(held(ctx, "initech")).To(BeFalse())
		Expect(second.Finalizers).To(BeEmpty())
		expectReady(ctx, first)

		elsewhere := testkit.Deployment(w.namespace, "other")
		third := second.DeepCopy()
		third.ObjectMeta = metav1.ObjectMeta{Namespace: w.namespace, Name: "third"}
		third.Status, third.Spec.DeploymentRef.Name, third.Spec.Client.ClientSecretRef.Name = v1alpha1.ConnectionStatus{}, "other", "third"
		secret := upstreamSecret(w.namespace, "third", clientSecret)
		secret.Labels[v1alpha1.LabelDeployment] = "other"
		create(ctx, elsewhere, secret, third)
		expectReady(ctx, third)

		Expect(cluster.Client.Delete(ctx, first)).To(Succeed())
		expectReady(ctx, second)
	},
		Entry("a slug", func(first, second *v1alpha1.Connection) { second.Spec.Slug = first.Spec.Slug }, "slug globex"),
		Entry("a domain", func(first, second *v1alpha1.Connection) {
			second.Spec.Domains = []v1alpha1.DomainName{"initech.example", "globex.example"}
		}, "domain globex.example"),
		Entry("a domain of the same organization", func(first, second *v1alpha1.Connection) {
			first.Spec.Organization = &v1alpha1.ConnectionOrganization{Slug: "globex"}
			second.Spec.Organization, second.Spec.Domains = first.Spec.Organization, first.Spec.Domains
		}, "domain globex.example"),
	)

	It("needs a root key, and keeps its document with deletionPolicy Retain", func(ctx context.Context) {
		w.stopOperator()
		w.startOperator(testkit.OperatorOptions{})
		c := globex()
		c.Spec.DeletionPolicy = ptr.To(v1alpha1.DeletionPolicyRetain)
		create(ctx, upstreamSecret(w.namespace, "globex", clientSecret), c)
		Eventually(credentials(ctx, c)).Should(Equal("False/RootKeyMissing"))
		w.stopOperator()
		w.startOperator(testkit.OperatorOptions{Keyring: rootKey(7)})
		expectReady(ctx, c)
		Expect(cluster.Client.Delete(ctx, c)).To(Succeed())
		expectGone(ctx, c)
		stored := w.held(ctx, v1alpha1.KindConnection, "globex")
		Expect(stored.Found).To(BeTrue())
		Expect(stored.Document.Retained).To(BeTrue())
	})

	It("is disabled although its Secret is missing, and needs the Secret again to be active", func(ctx context.Context) {
		c := globex()
		secret := upstreamSecret(w.namespace, "globex", "the-first-secret")
		create(ctx, secret, c)
		expectReady(ctx, c)
		update(ctx, secret, func(s *corev1.Secret) { s.Data["client-secret"] = []byte(clientSecret) })
		Eventually(func() string {
			_, opened := w.storedConnection(ctx, "globex")
			return opened
		}).Should(Equal(clientSecret), "from here on the operator watches Secrets")
		Expect(cluster.Client.Delete(ctx, secret)).To(Succeed())
		Eventually(credentials(ctx, c)).Should(Equal("False/SecretNotFound"))
		update(ctx, c, func(c *v1alpha1.Connection) { c.Spec.Active = ptr.To(false) })
		expectReady(ctx, c)
		stored := func() (content documents.Connection) {
			_, err := documents.Decode(w.held(ctx, v1alpha1.KindConnection, "globex").Document.Payload, &content)
			Expect(err).NotTo(HaveOccurred())
			return content
		}
		Expect(stored().Active).To(BeFalse())
		Expect(stored().Client.Sealed).To(BeEmpty())
		update(ctx, c, func(c *v1alpha1.Connection) { c.Spec.Active = nil })
		Eventually(credentials(ctx, c)).Should(Equal("False/SecretNotFound"))
		Expect(stored().Active).To(BeFalse(), "without its Secret it stays disabled")
		create(ctx, upstreamSecret(w.namespace, "globex", clientSecret))
		expectReady(ctx, c)
		content, opened := w.storedConnection(ctx, "globex")
		Expect(content.Active).To(BeTrue())
		Expect(opened).To(Equal(clientSecret))
	})

	It("waits for its deployment", func(ctx context.Context) {
		c := testkit.Connection(w.namespace, "later", "globex", upstreamIssuer)
		secret := upstreamSecret(w.namespace, "globex", clientSecret)
		secret.Labels[v1alpha1.LabelDeployment] = "later"
		create(ctx, secret, c)
		Eventually(condition(ctx, c, v1alpha1.ConditionReferencesResolved)).Should(Equal("False/NotFound"))
		Expect(c.Status.RedirectURIs).To(BeEmpty())
		later := testkit.Deployment(w.namespace, "later")
		create(ctx, later)
		expectReady(ctx, later, c)
		Expect(c.Status.RedirectURIs).To(BeEmpty(), "a deployment without hosts has no redirect URI")
		Expect(c.Status.BackchannelLogoutURL).To(BeEmpty())
	})
})
