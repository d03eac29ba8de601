package integration

import (
	"context"
	"crypto/rand"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/apikey"
	documents "github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

// storedDirectory returns the stored document of a directory.
func (w *world) storedDirectory(ctx context.Context, name string) (content documents.Directory) {
	GinkgoHelper()
	_, err := documents.Decode(w.held(ctx, v1alpha1.KindDirectory, name).Document.Payload, &content)
	Expect(err).NotTo(HaveOccurred())
	return content
}

// secretData returns the data of a Secret, nil if there is none.
func (w *world) secretData(ctx context.Context, name string) map[string]string {
	GinkgoHelper()
	var secret corev1.Secret
	err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, &secret)
	Expect(client.IgnoreNotFound(err)).To(Succeed())
	if err != nil {
		return nil
	}
	data := map[string]string{}
	for key, value := range secret.Data {
		data[key] = string(value)
	}
	return data
}

// scimToken mints a token of a directory.
func scimToken(prefix string) apikey.Key {
	GinkgoHelper()
	minted, err := apikey.Mint(rand.Reader, prefix)
	Expect(err).NotTo(HaveOccurred())
	return minted
}

var _ = Describe("A Directory", func() {
	var w *world
	var deployment *v1alpha1.IdentityDeployment
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		deployment = testkit.Deployment(w.namespace, "acme")
		deployment.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(w.namespace + ".id.example"), v1alpha1.Hostname(w.namespace + ".login.example")}
		create(ctx, deployment)
		expectReady(ctx, deployment)
	})
	staff := func() *v1alpha1.Directory { return testkit.Directory(w.namespace, "acme", "staff", "globex") }
	accepted := func(ctx context.Context, d *v1alpha1.Directory) func() (string, error) {
		return condition(ctx, d, v1alpha1.ConditionAccepted)
	}
	held := func(ctx context.Context, name string) bool { return w.held(ctx, v1alpha1.KindDirectory, name).Found }
	base := func() string {
		return "https://" + w.namespace + ".id.example/scim/v2/" + ids.Format(ids.Derive(v1alpha1.KindDirectory, w.namespace, "staff"))
	}

	It("becomes Ready with its token and URL in a Secret, and is withdrawn with both", func(ctx context.Context) {
		d := staff()
		d.Spec.SecretTemplate = &v1alpha1.SecretTemplate{Name: ptr.To("globex-scim"), Labels: map[string]v1alpha1.LabelValue{"team": "it"}}
		d.Spec.OnDelete = ptr.To(v1alpha1.DirectoryOnDeleteErase)
		create(ctx, d)
		expectReady(ctx, d)
		data := w.secretData(ctx, "globex-scim")
		Expect(data).To(And(HaveLen(2), HaveKeyWithValue("scim-url", base())))
		token, err := apikey.Parse(data["scim-token"])
		Expect(err).NotTo(HaveOccurred())
		Expect(token.Prefix()).To(Equal("scim"))
		Expect(d.Status.URL).To(Equal(base()), "the same in a cluster that is rebuilt from Git")
		Expect(d.Status).To(And(HaveField("TokenID", token.ID()), HaveField("Last4", token.Last4()), HaveField("SecretName", "globex-scim")))
		Expect(condition(ctx, d, v1alpha1.ConditionServed)()).To(Equal("True/Serving"))
		Expect(cluster.Kubectl(ctx, "", "get", "dir", "-n", w.namespace, "-o", "wide")).To(MatchRegexp(`NAME +SLUG +ORGANIZATION +READY +REASON +AGE\nstaff +staff +globex +True +Ready`))

		content := w.storedDirectory(ctx, "staff")
		Expect(content.Verifiers).To(HaveLen(1))
		Expect(content.Verifiers[0].ID).To(Equal(token.ID()))
		content.Verifiers = nil
		Expect(content).To(Equal(documents.Directory{Slug: "staff", Organization: "globex", Active: true, Erases: true}))
		stored := w.held(ctx, v1alpha1.KindDirectory, "staff")
		Expect(stored.Document.Key).To(Equal("staff"))
		Expect(stored.Reservations).To(ContainElements("slug/Directory/"+w.namespace+"/acme/staff", "scim-token/"+token.ID()))
		shown, err := cluster.Kubectl(ctx, "", "get", "dir,events", "-n", w.namespace, "-o", "json", "--show-managed-fields")
		Expect(err).NotTo(HaveOccurred())
		for _, text := range []string{shown, string(stored.Document.Payload)} {
			Expect(text).NotTo(ContainSubstring(token.Plain()))
		}

		By("another first host")
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = d.Spec.FrontendHosts[1:]
		})
		Eventually(func() map[string]string { return w.secretData(ctx, "globex-scim") }).Should(And(
			HaveKeyWithValue("scim-url", "https://"+w.namespace+".login.example/scim/v2/"+d.Status.ID), HaveKeyWithValue("scim-token", token.Plain())))

		Expect(cluster.Client.Delete(ctx, d)).To(Succeed())
		expectGone(ctx, d)
		Expect(held(ctx, "staff")).To(BeFalse())
		Expect(w.secretData(ctx, "globex-scim")).To(BeNil())
	})

	It("rotates on demand and by interval, with an overlap in which both tokens are accepted", func(ctx context.Context) {
		d := staff()
		d.Spec.Rotation = &v1alpha1.KeyRotation{EverySeconds: 3600, OverlapSeconds: ptr.To[int32](3)}
		create(ctx, d)
		expectReady(ctx, d)
		Expect(d.Status.NextRotationAt).NotTo(BeNil())
		first := w.secretData(ctx, "staff")["scim-token"]
		issued := d.Status.LastRotatedAt.Time
		update(ctx, d, func(d *v1alpha1.Directory) {
			d.Annotations = rotateAfter(issued)
		})
		Eventually(func() string { return w.secretData(ctx, "staff")["previous-scim-token"] }).Should(Equal(first))
		second := w.secretData(ctx, "staff")["scim-token"]
		Expect(second).NotTo(Equal(first))
		Eventually(func() []string {
			var found []string
			for _, v := range w.storedDirectory(ctx, "staff").Verifiers {
				found = append(found, v.ID)
			}
			return found
		}).Should(Equal([]string{second[5:17], first[5:17]}), "the current token first")
		Eventually(func() []documents.Verifier { return w.storedDirectory(ctx, "staff").Verifiers }).Should(HaveLen(1))
		Expect(w.secretData(ctx, "staff")).To(And(HaveLen(2), HaveKeyWithValue("scim-token", second)), "an old annotation rotates once")
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), d)).To(Succeed())
		Expect(d.Status.TokenID).To(Equal(second[5:17]))

		update(ctx, d, func(d *v1alpha1.Directory) {
			d.Spec.Rotation = &v1alpha1.KeyRotation{EverySeconds: 3, OverlapSeconds: ptr.To[int32](1)}
		})
		Eventually(func() string { return w.secretData(ctx, "staff")["scim-token"] }).ShouldNot(Equal(second))
	})

	It("adopts an existing token, waits for a missing one, and refuses an API key", func(ctx context.Context) {
		d := staff()
		d.Spec.SecretTemplate, d.Spec.ExistingSecretRef = nil, &v1alpha1.ExistingTokenReference{Name: "brought"}
		create(ctx, d)
		Eventually(condition(ctx, d, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotFound"))
		Expect(d.Status.URL).To(Equal(base()), "a provider asks for it before it gets a token")
		Expect(w.secretData(ctx, "brought")).To(BeNil(), "no Secret is generated")
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "brought"}, Data: map[string][]byte{"scim-token": []byte(scimToken("ck").Plain())},
		}
		create(ctx, secret)
		Eventually(accepted(ctx, d)).Should(Equal("False/InvalidKey"))
		Expect(lazyConditions{d}.String()).To(ContainSubstring("use a token from `cardea key new --prefix scim`"))
		Expect(held(ctx, "staff")).To(BeFalse())
		token := scimToken("scim")
		update(ctx, secret, func(s *corev1.Secret) { s.Data["scim-token"] = []byte(token.Plain() + "\n") })
		expectReady(ctx, d)
		Expect(d.Status.TokenID).To(Equal(token.ID()))

		rival := testkit.Directory(w.namespace, "acme", "rival", "globex")
		rival.Spec.SecretTemplate, rival.Spec.ExistingSecretRef = nil, d.Spec.ExistingSecretRef
		create(ctx, rival)
		Eventually(accepted(ctx, rival)).Should(Equal("False/Conflict"))

		By("an inactive directory without its Secret")
		Expect(cluster.Client.Delete(ctx, secret)).To(Succeed())
		Eventually(condition(ctx, d, v1alpha1.ConditionCredentialsReady)).Should(Equal("False/SecretNotFound"))
		Expect(w.storedDirectory(ctx, "staff").Verifiers).To(HaveLen(1), "accepted content stays active")
		update(ctx, d, func(d *v1alpha1.Directory) { d.Spec.Active = ptr.To(false) })
		expectReady(ctx, d)
		Expect(w.storedDirectory(ctx, "staff")).To(And(HaveField("Active", false), HaveField("Verifiers", BeEmpty())))
		Expect(condition(ctx, d, v1alpha1.ConditionServed)()).To(Equal("False/Inactive"))
	})

	It("reports a missing organization and a missing host, and stays Ready", func(ctx context.Context) {
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) { d.Spec.FrontendHosts = nil })
		expectReady(ctx, deployment)
		d := staff()
		create(ctx, d)
		expectReady(ctx, d)
		is := func(kind string) func() (string, error) { return condition(ctx, d, kind) }
		Expect(is(v1alpha1.ConditionReferencesResolved)()).To(Equal("False/OrganizationNotFound"))
		Expect(lazyConditions{d}.String()).To(ContainSubstring("the directory counts from its creation on"))
		Eventually(is(v1alpha1.ConditionServed)).Should(Equal("False/NoFrontendHost"))
		Expect(w.secretData(ctx, "staff")).To(And(HaveLen(1), HaveKey("scim-token")))

		Expect(w.store.Change(ctx, w.namespace+"/acme", func(tx people.Tx) error {
			return tx.Organizations().InsertOrganization(people.Organization{ID: 1, Slug: "globex", Name: "Globex", CreatedAt: time.Now()})
		})).To(Succeed())
		update(ctx, d, func(d *v1alpha1.Directory) {
			d.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
		})
		Eventually(is(v1alpha1.ConditionReferencesResolved)).Should(Equal("True/Resolved"))
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname(w.namespace + ".id.example")}
		})
		Eventually(is(v1alpha1.ConditionServed)).Should(Equal("True/Serving"))
		Eventually(func() map[string]string { return w.secretData(ctx, "staff") }).Should(HaveKeyWithValue("scim-url", base()))
	})

	It("refers to a connection of its organization, and to roles", func(ctx context.Context) {
		connection := testkit.Connection(w.namespace, "acme", "okta", upstreamIssuer)
		connection.Spec.Organization, connection.Spec.Active = &v1alpha1.ConnectionOrganization{Slug: "initech"}, ptr.To(false)
		workspace := testkit.Role(w.namespace, "acme", "planner", v1alpha1.RoleLevelWorkspace)
		d := staff()
		d.Spec.ConnectionRef = &v1alpha1.ConnectionReference{Name: "okta"}
		create(ctx, workspace, d)
		Eventually(condition(ctx, d, v1alpha1.ConditionReferencesResolved)).Should(Equal("False/NotFound"))
		Expect(held(ctx, "staff")).To(BeFalse())
		create(ctx, connection)
		Eventually(accepted(ctx, d)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{d}.String()).To(ContainSubstring(`spec.connectionRef: Connection "okta" belongs to organization "initech": refer to a connection with spec.organization.slug "globex"`))
		Expect(held(ctx, "staff")).To(BeFalse())

		own := testkit.Connection(w.namespace, "acme", "globex", upstreamIssuer)
		own.Spec.Organization, own.Spec.Active = &v1alpha1.ConnectionOrganization{Slug: "globex"}, ptr.To(false)
		create(ctx, own)
		groups := func(names ...string) func(*v1alpha1.Directory) {
			return func(d *v1alpha1.Directory) {
				d.Spec.ConnectionRef.Name, d.Spec.GroupRoles = "globex", nil
				for _, name := range names {
					d.Spec.GroupRoles = append(d.Spec.GroupRoles, v1alpha1.DirectoryGroupRole{Group: "Z of " + name, RoleRef: v1alpha1.MembershipRoleReference{Name: name}})
				}
			}
		}
		update(ctx, d, groups("planner"))
		Eventually(func() string {
			_, _ = cluster.Ready(ctx, d)
			return lazyConditions{d}.String()
		}).Should(ContainSubstring(`spec.groupRoles[0].roleRef: MembershipRole "planner" is of level Workspace`))
		update(ctx, d, groups("second", "first"))
		Eventually(condition(ctx, d, v1alpha1.ConditionReady)).Should(Equal("False/NotFound"))
		Eventually(func() bool { return held(ctx, "staff") }).Should(BeTrue(), "a missing role is left out")
		second, first := testkit.Role(w.namespace, "acme", "second", v1alpha1.RoleLevelOrganization), testkit.Role(w.namespace, "acme", "first", v1alpha1.RoleLevelOrganization)
		create(ctx, second, first)
		expectReady(ctx, d)
		Expect(w.storedDirectory(ctx, "staff")).To(And(HaveField("Connection", "globex"),
			HaveField("GroupRoles", []documents.GroupRole{{Group: "Z of second", Role: "second"}, {Group: "Z of first", Role: "first"}})))

		Expect(cluster.Client.Delete(ctx, own)).To(Succeed())
		Expect(cluster.Client.Delete(ctx, first)).To(Succeed())
		Eventually(condition(ctx, own, v1alpha1.ConditionDeleting)).Should(Equal("True/InUse"))
		Eventually(condition(ctx, first, v1alpha1.ConditionDeleting)).Should(Equal("True/InUse"))
		Expect(cluster.Client.Delete(ctx, d)).To(Succeed())
		for _, gone := range []client.Object{d, own, first} {
			expectGone(ctx, gone)
		}
	})

	It("owns its slug in the deployment, and never takes over a foreign Secret", func(ctx context.Context) {
		first, second := staff(), staff()
		second.Name = "second"
		create(ctx, first)
		expectReady(ctx, first)
		create(ctx, second)
		Eventually(accepted(ctx, second)).Should(Equal("False/Conflict"))
		Expect(lazyConditions{second}.String()).To(ContainSubstring("slug staff"))
		third := testkit.Directory(w.namespace, "acme", "third", "globex")
		theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "third"}, Data: map[string][]byte{"password": []byte("x")}}
		create(ctx, theirs, third)
		Eventually(accepted(ctx, third)).Should(Equal("False/SecretNotOwned"))
		Expect(cluster.Client.Delete(ctx, third)).To(Succeed())
		expectGone(ctx, third)
		Expect(w.secretData(ctx, "third")).To(Equal(map[string]string{"password": "x"}))
	})

	It("writes nothing while nothing changes", func(ctx context.Context) {
		d := staff()
		create(ctx, d)
		expectReady(ctx, d)
		writes := w.store.Writes()
		update(ctx, d, func(d *v1alpha1.Directory) {
			d.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
		})
		Eventually(func() (string, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), d)
			return d.Status.LastHandledReconcileAt, err
		}).Should(Equal("now"))
		version := d.ResourceVersion
		Expect(w.store.Writes()).To(Equal(writes))
		Consistently(func() (string, error) {
			err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(d), d)
			return d.ResourceVersion, err
		}).Should(Equal(version))
	})
})
