package integration

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/test/testkit"
)

func (w *world) held(ctx context.Context, kind, name string) store.Stored {
	GinkgoHelper()
	held, err := w.store.Engine().Stored(ctx, store.Identity{Kind: kind, Namespace: w.namespace, Name: name})
	Expect(err).NotTo(HaveOccurred())
	return held
}

func slugged(namespace, name, slug string) *v1alpha1.RateLimitScheme {
	scheme := testkit.Scheme(namespace, "acme", slug)
	scheme.Name = name
	return scheme
}

// createByHTTP creates a resource as the management API does.
func createByHTTP(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	obj.SetLabels(map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByHTTP})
	Expect(cluster.Client.Create(ctx, obj, client.FieldOwner(v1alpha1.FieldManagerHTTP))).To(Succeed())
}

var _ = Describe("The reconcile engine", func() {
	var w *world
	var deployment *v1alpha1.IdentityDeployment
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		deployment = testkit.Deployment(w.namespace, "acme")
	})

	It("waits for a missing referenced object and continues when it appears", func(ctx context.Context) {
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, scheme)
		Eventually(condition(ctx, scheme, v1alpha1.ConditionReferencesResolved)).Should(Equal("False/NotFound"))
		Expect(condition(ctx, scheme, v1alpha1.ConditionReady)()).To(Equal("False/NotFound"))
		Expect(condition(ctx, scheme, v1alpha1.ConditionReconciling)()).To(Equal("True/NotFound"))
		Expect(condition(ctx, scheme, v1alpha1.ConditionStalled)()).To(BeEmpty())
		Expect(scheme.Finalizers).To(BeEmpty(), "a resource without effects has no finalizer")
		create(ctx, deployment)
		expectReady(ctx, scheme, deployment)
		Expect(condition(ctx, scheme, v1alpha1.ConditionReconciling)()).To(BeEmpty())
		Expect(scheme.Status.ID).To(Equal(ids.Format(ids.Derive("RateLimitScheme", w.namespace, "free"))))
		Expect(scheme.Status.ObservedGeneration).To(Equal(scheme.Generation))
	})

	It("gives a contested slug to the older resource, and to the other when the older is deleted", func(ctx context.Context) {
		create(ctx, deployment)
		first := slugged(w.namespace, "first", "free")
		create(ctx, first)
		expectReady(ctx, first)
		second := slugged(w.namespace, "second", "free")
		create(ctx, second)
		Eventually(condition(ctx, second, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(condition(ctx, second, v1alpha1.ConditionStalled)()).To(Equal("True/Conflict"))
		Expect(lazyConditions{second}.String()).To(ContainSubstring("slug free belongs to RateLimitScheme " + w.namespace + "/first"))
		Expect(second.Finalizers).To(BeEmpty())
		Expect(w.held(ctx, "RateLimitScheme", "second").Found).To(BeFalse())

		Expect(cluster.Client.Delete(ctx, second)).To(Succeed())
		expectGone(ctx, second)
		Expect(w.held(ctx, "RateLimitScheme", "first").Found).To(BeTrue(), "a loser's deletion deletes nothing of the winner's")

		third := slugged(w.namespace, "third", "free")
		create(ctx, third)
		Eventually(condition(ctx, third, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(cluster.Client.Delete(ctx, first)).To(Succeed())
		expectReady(ctx, third)
	})

	It("lets a host move between deployments of different namespaces", func(ctx context.Context) {
		other, err := cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		deployment.Spec.FrontendHosts = []v1alpha1.Hostname{"app.example.com", "www.example.com"}
		create(ctx, deployment)
		expectReady(ctx, deployment)
		rival := testkit.Deployment(other, "rival")
		rival.Spec.FrontendHosts = []v1alpha1.Hostname{"app.example.com"}
		create(ctx, rival)
		Eventually(condition(ctx, rival, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) { d.Spec.FrontendHosts = []v1alpha1.Hostname{"www.example.com"} })
		expectReady(ctx, deployment, rival)
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) {
			d.Spec.FrontendHosts = []v1alpha1.Hostname{"www.example.com", "app.example.com"}
		})
		Eventually(condition(ctx, deployment, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		Expect(w.held(ctx, "IdentityDeployment", "acme").Reservations).To(ContainElement("host/www.example.com"), "accepted content stays active")
	})

	It("refuses an id that is in use, from any resource", func(ctx context.Context) {
		create(ctx, deployment)
		expectReady(ctx, deployment)
		thief := testkit.Deployment(w.namespace, "thief")
		thief.Spec.ID = &deployment.Status.ID
		create(ctx, thief)
		Eventually(condition(ctx, thief, v1alpha1.ConditionAccepted)).Should(Equal("False/Conflict"))
		update(ctx, deployment, func(d *v1alpha1.IdentityDeployment) { d.Spec.ID = ptr.To(d.Status.ID) })
		expectReady(ctx, deployment)
	})

	It("lets a declared resource take over from one that HTTP created, and back", func(ctx context.Context) {
		create(ctx, deployment)
		byHTTP := slugged(w.namespace, "acme.free", "free")
		createByHTTP(ctx, byHTTP)
		expectReady(ctx, byHTTP)
		declared := slugged(w.namespace, "declared", "free")
		create(ctx, declared)
		expectReady(ctx, declared)
		Eventually(condition(ctx, byHTTP, v1alpha1.ConditionAccepted)).Should(Equal("False/Superseded"))
		Expect(w.held(ctx, "RateLimitScheme", "acme.free").Found).To(BeFalse())
		Expect(cluster.Client.Delete(ctx, declared)).To(Succeed())
		expectReady(ctx, byHTTP)
	})

	It("keeps a deleted resource active while another refers to it", func(ctx context.Context) {
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		app := testkit.App(w.namespace, "acme", "backend", "*")
		app.Spec.RateLimitSchemeRef = &v1alpha1.RateLimitSchemeReference{Name: "free"}
		create(ctx, deployment, scheme, app)
		expectReady(ctx, deployment, scheme, app)
		Expect(cluster.Client.Delete(ctx, scheme)).To(Succeed())
		Eventually(condition(ctx, scheme, v1alpha1.ConditionDeleting)).Should(Equal("True/InUse"))
		Expect(lazyConditions{scheme}.String()).To(ContainSubstring("APIAuthApp backend"))
		Expect(w.held(ctx, "RateLimitScheme", "free").Found).To(BeTrue())
		late := testkit.App(w.namespace, "acme", "late", "*")
		late.Spec.RateLimitSchemeRef = &v1alpha1.RateLimitSchemeReference{Name: "free"}
		create(ctx, late)
		Eventually(condition(ctx, late, v1alpha1.ConditionReferencesResolved)).Should(Equal("False/BeingDeleted"))
		update(ctx, app, func(a *v1alpha1.APIAuthApp) { a.Spec.RateLimitSchemeRef = nil })
		Consistently(condition(ctx, scheme, v1alpha1.ConditionDeleting)).Should(Equal("True/InUse"), "the refused app still refers to the scheme")
		Expect(cluster.Client.Delete(ctx, late)).To(Succeed())
		expectGone(ctx, scheme)
	})

	It("refuses a scheme of another deployment", func(ctx context.Context) {
		app := testkit.App(w.namespace, "acme", "backend", "*")
		app.Spec.RateLimitSchemeRef = &v1alpha1.RateLimitSchemeReference{Name: "free"}
		create(ctx, deployment, testkit.Deployment(w.namespace, "other"), testkit.Scheme(w.namespace, "other", "free"), app)
		Eventually(condition(ctx, app, v1alpha1.ConditionAccepted)).Should(Equal("False/Invalid"))
		Expect(lazyConditions{app}.String()).To(ContainSubstring(`belongs to deployment "other"`))
	})

	It("ends a namespace in any order of its kinds", func(ctx context.Context) {
		plain := w.tenant(ctx, "acme")
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, scheme)
		update(ctx, testkit.Deployment(w.namespace, "acme"), func(d *v1alpha1.IdentityDeployment) {
			d.Spec.DefaultRateLimitSchemeRef = &v1alpha1.RateLimitSchemeReference{Name: "free"}
		})
		expectReady(ctx, scheme)
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
		Expect(cluster.Client.Delete(ctx, namespace)).To(Succeed())
		expectGone(ctx, namespace)
		w.expectRefused(plain)
		owners, err := w.store.Owners(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(owners).To(BeEmpty())
	})

	It("hides a deployment's children while it is being deleted, and serves them when it is back", func(ctx context.Context) {
		plain := w.tenant(ctx, "acme")
		Expect(cluster.Client.Delete(ctx, testkit.Deployment(w.namespace, "acme"))).To(Succeed())
		w.expectRefused(plain)
		expectGone(ctx, testkit.Deployment(w.namespace, "acme"))
		create(ctx, testkit.Deployment(w.namespace, "acme"))
		w.expectAccepted(plain)
	})

	It("leaves a suspended resource alone, but deletes it", func(ctx context.Context) {
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, deployment, scheme)
		expectReady(ctx, scheme)
		before := w.held(ctx, "RateLimitScheme", "free").Document
		update(ctx, scheme, func(s *v1alpha1.RateLimitScheme) { s.Spec.Suspend, s.Spec.Rules[0].MaxRequests = testkit.Yes(), 5 })
		Consistently(func() store.Document { return w.held(ctx, "RateLimitScheme", "free").Document }).Should(Equal(before))
		update(ctx, scheme, func(s *v1alpha1.RateLimitScheme) { s.Spec.Suspend = nil })
		expectReady(ctx, scheme)
		Expect(w.held(ctx, "RateLimitScheme", "free").Document.Hash).NotTo(Equal(before.Hash))
		update(ctx, scheme, func(s *v1alpha1.RateLimitScheme) { s.Spec.Suspend = testkit.Yes() })
		Expect(cluster.Client.Delete(ctx, scheme)).To(Succeed())
		expectGone(ctx, scheme)
		Expect(w.held(ctx, "RateLimitScheme", "free").Found).To(BeFalse())
	})

	It("keeps the document of a retained resource and gives it back by name", func(ctx context.Context) {
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		scheme.Spec.DeletionPolicy = ptr.To(v1alpha1.DeletionPolicyRetain)
		create(ctx, deployment, scheme)
		expectReady(ctx, scheme)
		Expect(cluster.Client.Delete(ctx, scheme)).To(Succeed())
		expectGone(ctx, scheme)
		Expect(w.held(ctx, "RateLimitScheme", "free").Document.Retained).To(BeTrue())
		again := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, again)
		expectReady(ctx, again)
		Expect(w.held(ctx, "RateLimitScheme", "free").Document).To(And(HaveField("Retained", false), HaveField("UID", string(again.UID))))
	})

	It("answers a requested reconcile and writes nothing when nothing changed", func(ctx context.Context) {
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, deployment, scheme)
		expectReady(ctx, scheme)
		writes := w.store.Writes()
		update(ctx, scheme, func(s *v1alpha1.RateLimitScheme) {
			s.Annotations = map[string]string{v1alpha1.AnnotationReconcileRequestedAt: "now"}
		})
		Eventually(func() string {
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(scheme), scheme)).To(Succeed())
			return scheme.Status.LastHandledReconcileAt
		}).Should(Equal("now"))
		Expect(w.store.Writes()).To(Equal(writes))
	})

	It("reports an unavailable store, and continues by itself when it is back", func(ctx context.Context) {
		create(ctx, deployment)
		expectReady(ctx, deployment)
		w.store.Interrupt(true)
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, scheme)
		Eventually(condition(ctx, scheme, v1alpha1.ConditionSynced)).Should(Equal("False/StoreUnavailable"))
		Expect(condition(ctx, scheme, v1alpha1.ConditionReconciling)()).To(Equal("True/StoreUnavailable"))
		version := scheme.ResourceVersion
		Consistently(func() string {
			Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(scheme), scheme)).To(Succeed())
			return scheme.ResourceVersion
		}).Should(Equal(version), "retries write no status")
		w.store.Interrupt(false)
		expectReady(ctx, scheme)
	})

	It("activates declarations of a long outage within 2 s of the store's return", func(ctx context.Context) {
		create(ctx, deployment)
		expectReady(ctx, deployment)
		w.store.Interrupt(true)
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		before := w.store.Looks()
		create(ctx, scheme)
		Eventually(w.store.Looks).Should(BeNumerically(">=", before+11), "so many failed attempts that the next one is seconds later")
		w.store.Interrupt(false)
		Eventually(func() (bool, error) { return cluster.Ready(ctx, scheme) }).WithTimeout(2 * time.Second).Should(BeTrue())
	})

	It("activates nothing of a resource that is deleted during its reconcile", func(ctx context.Context) {
		var armed atomic.Bool
		reached, deleted := make(chan struct{}), make(chan struct{})
		w.stopOperator()
		w.startOperator(testkit.OperatorOptions{Hook: func(kind, step string) error {
			if kind == v1alpha1.KindRateLimitScheme && step == "add finalizer" && armed.CompareAndSwap(true, false) {
				close(reached)
				<-deleted
			}
			return nil
		}})
		create(ctx, deployment)
		expectReady(ctx, deployment)
		writes := w.store.Writes()
		armed.Store(true)
		ghost := testkit.Scheme(w.namespace, "acme", "ghost")
		create(ctx, ghost)
		Eventually(reached).Should(BeClosed())
		Expect(cluster.Client.Delete(ctx, ghost)).To(Succeed())
		expectGone(ctx, ghost)
		close(deleted)
		next := testkit.Scheme(w.namespace, "acme", "next")
		create(ctx, next)
		expectReady(ctx, next)
		Consistently(w.store.Writes).Should(Equal(writes+1), "only the put of scheme next, and no write of scheme ghost")
	})

	It("continues after the API server was restarted", func(ctx context.Context) {
		create(ctx, deployment)
		expectReady(ctx, deployment)
		Expect(cluster.StopAPIServer()).To(Succeed())
		Expect(cluster.StartAPIServer(ctx)).To(Succeed())
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		Eventually(func() error { return cluster.Client.Create(ctx, scheme) }).Should(Succeed())
		Eventually(func() (bool, error) { return cluster.Ready(ctx, scheme) }).WithTimeout(60 * time.Second).Should(BeTrue())
	})
})

var _ = Describe("The resync", func() {
	It("is silent when nothing changed, and keeps another install off the store", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Resync: time.Second})
		plain := w.tenant(ctx, "acme")
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, scheme)
		expectReady(ctx, scheme)

		versions := func() map[string]string {
			seen := map[string]string{}
			for _, list := range everyList() {
				Expect(cluster.Client.List(ctx, list)).To(Succeed())
				for _, obj := range items(list) {
					seen[fmt.Sprintf("%T %s", obj, obj.GetName())] = obj.GetResourceVersion()
				}
			}
			return seen
		}
		before, writes := versions(), w.store.Writes()
		Consistently(versions).WithTimeout(3 * time.Second).Should(Equal(before))
		Expect(w.store.Writes()).To(Equal(writes))

		term, err := w.store.Engine().Acquire(ctx, "somebody else", time.Minute)
		Expect(err).To(MatchError(store.ErrForeignInstall), "a live install is not displaced")
		Expect(term).To(BeZero())
		w.expectAccepted(plain)
	})

	It("compares with the store's content, not with what it once wrote, and fixes it", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Resync: time.Second})
		deployment, scheme := testkit.Deployment(w.namespace, "acme"), testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, deployment, scheme)
		expectReady(ctx, scheme)
		before := w.held(ctx, "RateLimitScheme", "free")
		Expect(w.store.Engine().Delete(ctx, w.store.Term(), before.Document.Owner)).To(Succeed())
		Eventually(func() bool { return w.held(ctx, "RateLimitScheme", "free").Found }).Should(BeTrue())
		after := w.held(ctx, "RateLimitScheme", "free")
		after.Document.Revision = before.Document.Revision
		Expect(after).To(Equal(before), "the same content, id, claims and times")
	})

	It("is not needed when an operator takes over: documents of vanished resources are removed at once", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		deployment, scheme := testkit.Deployment(w.namespace, "acme"), testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, deployment, scheme)
		expectReady(ctx, scheme)
		w.stopOperator()
		removeFinalizers(ctx, scheme)
		Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, scheme))).To(Succeed())
		expectGone(ctx, scheme)
		Expect(w.held(ctx, "RateLimitScheme", "free").Found).To(BeTrue())
		w.startOperator(testkit.OperatorOptions{})
		Eventually(func() bool { return w.held(ctx, "RateLimitScheme", "free").Found }).Should(BeFalse())
	})
})
