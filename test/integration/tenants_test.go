package integration

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/test/testkit"
)

// neighbour creates another tenant's namespace with a deployment, and returns the namespace.
func (w *world) neighbour(ctx context.Context, deployment string) string {
	GinkgoHelper()
	namespace, err := cluster.Namespace(ctx)
	Expect(err).NotTo(HaveOccurred())
	d := testkit.Deployment(namespace, deployment)
	create(ctx, d)
	expectReady(ctx, d)
	return namespace
}

func (w *world) heldIn(ctx context.Context, kind, namespace, name string) store.Stored {
	GinkgoHelper()
	held, err := w.store.Engine().Stored(ctx, store.Identity{Kind: kind, Namespace: namespace, Name: name})
	Expect(err).NotTo(HaveOccurred())
	return held
}

var _ = Describe("Between tenants", func() {
	var w *world
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		create(ctx, testkit.Deployment(w.namespace, "acme"))
		expectReady(ctx, testkit.Deployment(w.namespace, "acme"))
	})

	It("a resource that HTTP created is not superseded from another namespace", func(ctx context.Context) {
		victim := testkit.Settings(w.namespace, "acme", "acme")
		victim.Spec.RequireOrgForSignup = ptr.To(true)
		createByHTTP(ctx, victim)
		expectReady(ctx, victim)
		before := w.held(ctx, v1alpha1.KindB2BSettings, "acme")

		mallory := w.neighbour(ctx, "mallory")
		evil := testkit.Settings(mallory, "mallory", "evil")
		evil.Spec.ID = ptr.To(ids.Format(ids.Derive(v1alpha1.KindB2BSettings, w.namespace, "acme")))
		create(ctx, evil)
		Eventually(condition(ctx, evil, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(lazyConditions{evil}.String()).NotTo(ContainSubstring(w.namespace), "the holder is not named")
		Consistently(func() store.Stored { return w.held(ctx, v1alpha1.KindB2BSettings, "acme") }).Should(Equal(before))
		expectReady(ctx, victim)
	})

	It("a retained document is not displaced from another namespace", func(ctx context.Context) {
		const id = "4711"
		kept := testkit.Scheme(w.namespace, "acme", "free")
		kept.Spec.ID, kept.Spec.DeletionPolicy = ptr.To(id), ptr.To(v1alpha1.DeletionPolicyRetain)
		create(ctx, kept)
		expectReady(ctx, kept)
		Expect(cluster.Client.Delete(ctx, kept)).To(Succeed())
		expectGone(ctx, kept)

		mallory := w.neighbour(ctx, "mallory")
		evil := testkit.Scheme(mallory, "mallory", "evil")
		evil.Spec.ID = ptr.To(id)
		create(ctx, evil)
		Eventually(condition(ctx, evil, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(w.held(ctx, v1alpha1.KindRateLimitScheme, "free").Document.Retained).To(BeTrue())

		again := testkit.Scheme(w.namespace, "acme", "free")
		again.Spec.ID = ptr.To(id)
		create(ctx, again)
		expectReady(ctx, again)
		Expect(cluster.Client.Delete(ctx, again)).To(Succeed())
		expectReady(ctx, evil)
	})

	It("the sweep releases the reservations of a resource that vanished in another namespace, and the waiting resource becomes active", func(ctx context.Context) {
		gone := testkit.Deployment(w.namespace, "gone")
		gone.Spec.FrontendHosts = []v1alpha1.Hostname{"shared.example.com"}
		create(ctx, gone)
		expectReady(ctx, gone)
		w.stopOperator()
		removeFinalizers(ctx, gone)
		Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, gone))).To(Succeed())
		expectGone(ctx, gone)
		other, err := cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		heir := testkit.Deployment(other, "heir")
		heir.Spec.FrontendHosts = []v1alpha1.Hostname{"shared.example.com"}
		create(ctx, heir)
		w.startOperator(testkit.OperatorOptions{})
		expectReady(ctx, heir)
		Expect(w.held(ctx, v1alpha1.KindIdentityDeployment, "gone").Found).To(BeFalse())
	})

	It("a derived id belongs to the resource it derives from, even if another resource declared it before", func(ctx context.Context) {
		mallory := w.neighbour(ctx, "mallory")
		squatter := testkit.Deployment(mallory, "squatter")
		squatter.Spec.ID = ptr.To(ids.Format(ids.Derive(v1alpha1.KindIdentityDeployment, w.namespace, "prod")))
		create(ctx, squatter)
		expectReady(ctx, squatter)
		prod := testkit.Deployment(w.namespace, "prod")
		create(ctx, prod)
		expectReady(ctx, prod)
		Eventually(condition(ctx, squatter, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(lazyConditions{squatter}.String()).NotTo(ContainSubstring(w.namespace), "the holder is not named")
		Expect(w.heldIn(ctx, v1alpha1.KindIdentityDeployment, mallory, "squatter").Found).To(BeFalse())
	})

	It("a conflict over a host names no resource of another namespace", func(ctx context.Context) {
		host := v1alpha1.Hostname(w.namespace + ".app.example")
		update(ctx, testkit.Deployment(w.namespace, "acme"), func(d *v1alpha1.IdentityDeployment) { d.Spec.FrontendHosts = []v1alpha1.Hostname{host} })
		expectReady(ctx, testkit.Deployment(w.namespace, "acme"))
		mallory := w.neighbour(ctx, "mallory")
		rival := testkit.Deployment(mallory, "rival")
		rival.Spec.FrontendHosts = []v1alpha1.Hostname{host}
		create(ctx, rival)
		Eventually(condition(ctx, rival, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(lazyConditions{rival}.String()).To(ContainSubstring("is reserved in another namespace"))
		Expect(strings.ReplaceAll(lazyConditions{rival}.String(), string(host), "")).NotTo(ContainSubstring(w.namespace))
	})

	It("a deployment under a former tenant's name reports that tenant's users", func(ctx context.Context) {
		deployment := testkit.Deployment(w.namespace, "acme")
		Expect(condition(ctx, deployment, v1alpha1.ConditionFormerPeople)()).To(BeEmpty())
		old, err := ids.New(time.Now().AddDate(-1, 0, 0), strings.NewReader("abc"))
		Expect(err).NotTo(HaveOccurred())
		Expect(w.store.Engine().Change(ctx, w.namespace+"/acme", func(tx people.Tx) error {
			return tx.Users().InsertUser(people.User{ID: old, CreatedAt: time.Now(), UpdatedAt: time.Now()}, people.Email{ID: old, User: old, Address: "old@acme.example", CreatedAt: time.Now()})
		})).To(Succeed())
		Expect(cluster.Client.Delete(ctx, deployment)).To(Succeed())
		expectGone(ctx, deployment)

		again := testkit.Deployment(w.namespace, "acme")
		create(ctx, again)
		expectReady(ctx, again)
		Expect(condition(ctx, again, v1alpha1.ConditionFormerPeople)()).To(Equal("True/FoundPeople"))
		version := again.ResourceVersion
		Consistently(func() string {
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(again), again)).To(Succeed())
			return again.ResourceVersion
		}).Should(Equal(version), "it is reported once")
		update(ctx, again, func(d *v1alpha1.IdentityDeployment) {
			d.Annotations = map[string]string{v1alpha1.AnnotationFormerPeopleAccepted: "true"}
		})
		Eventually(condition(ctx, again, v1alpha1.ConditionFormerPeople)).Should(BeEmpty())
	})
})

var _ = Describe("Where hosts are granted", func() {
	It("a namespace declares only the hosts that its annotation lists", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{RequireHostGrants: true})
		plain := testkit.Deployment(w.namespace, "plain")
		acme := testkit.Deployment(w.namespace, "acme")
		acme.Spec.FrontendHosts = []v1alpha1.Hostname{v1alpha1.Hostname("login." + w.namespace + ".example")}
		create(ctx, plain, acme)
		expectReady(ctx, plain)
		Eventually(condition(ctx, acme, v1alpha1.ConditionAccepted)).Should(Equal("False/HostNotGranted"))
		Expect(lazyConditions{acme}.String()).To(ContainSubstring(v1alpha1.AnnotationAllowedHosts))
		Expect(w.held(ctx, v1alpha1.KindIdentityDeployment, "acme").Found).To(BeFalse())
		Expect(acme.Finalizers).To(BeEmpty(), "a resource without effects has no finalizer")

		grant := func(list string) {
			update(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}, func(n *corev1.Namespace) {
				n.Annotations = map[string]string{v1alpha1.AnnotationAllowedHosts: list}
			})
		}
		grant("elsewhere.example")
		Consistently(condition(ctx, acme, v1alpha1.ConditionAccepted)).Should(Equal("False/HostNotGranted"))
		grant("elsewhere.example, *." + w.namespace + ".example")
		expectReady(ctx, acme)
	})
})

var _ = Describe("A bound on the resources of a deployment", func() {
	It("refuses resources beyond it, keeps active ones, and affects no other deployment", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1), Limits: engine.Limits{Documents: 6}})
		key := w.tenant(ctx, "acme") // the deployment, an app and a key
		other := testkit.Deployment(w.namespace, "other")
		var schemes []*v1alpha1.RateLimitScheme
		for n := range 4 {
			schemes = append(schemes, testkit.Scheme(w.namespace, "acme", fmt.Sprint("scheme-", n)))
		}
		create(ctx, schemes[0], schemes[1], schemes[2])
		expectReady(ctx, schemes[0], schemes[1], schemes[2])
		create(ctx, schemes[3])
		last := schemes[3]
		Eventually(condition(ctx, last, v1alpha1.ConditionAccepted)).Should(Equal("False/TooMany"))
		Expect(lazyConditions{last}.String()).To(ContainSubstring("acme are at their bound of 6"))

		refused := w.ask("POST", schemesPath, key, `{"slug":"over-http","name":"x","rules":[{"unit":"minute","duration":1,"max_requests":5}]}`)
		Expect(refused.Status).To(Equal(409), string(refused.Raw))
		Expect(w.do("GET", schemesPath+"/scheme-0", key, "").Status).To(Equal(200))
		create(ctx, other)
		expectReady(ctx, other)

		Expect(cluster.Client.Delete(ctx, schemes[0])).To(Succeed())
		Eventually(func() bool { return w.held(ctx, v1alpha1.KindRateLimitScheme, "scheme-0").Found }).Should(BeFalse())
		update(ctx, last, func(r *v1alpha1.RateLimitScheme) {
			r.SetAnnotations(map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"})
		})
		expectReady(ctx, last)
	})
})
