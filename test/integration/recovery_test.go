package integration

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/test/testkit"
)

// served returns the status and the body that the server returns for a scheme.
func (w *world) served(key, slug string) func() string {
	return func() string {
		answer := w.do("GET", schemesPath+"/"+slug, key, "")
		return fmt.Sprint(answer.Status, " ", string(answer.Raw))
	}
}

var _ = Describe("A lost store", func() {
	It("is filled again with the same ids, keys and times", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		create(ctx, testkit.Scheme(w.namespace, "acme", "free"))
		expectReady(ctx, testkit.Scheme(w.namespace, "acme", "free"))
		Eventually(w.served(key, "free")).Should(HavePrefix("200 "))
		before := w.served(key, "free")()

		w.server.Stop()
		w.stopOperator()
		Expect(w.store.Close()).To(Succeed())
		files, err := os.ReadDir(w.dir)
		Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			Expect(os.RemoveAll(w.dir + "/" + file.Name())).To(Succeed())
		}
		w.openStore(ctx)
		w.startServer()
		Expect(w.status(key)()).To(BeElementOf(401, 503))
		w.startOperator(testkit.OperatorOptions{})
		Eventually(w.served(key, "free")).Should(Equal(before))
	})

	It("is refilled while the operator runs, once the operator detects the replacement", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		replacement, err := testkit.OpenSQLite(ctx, GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		old := w.store.Engine()
		w.store.Interrupt(true) // no call uses the old store while it is replaced
		w.store.Swap(replacement)
		w.store.Interrupt(false)
		Expect(old.Close()).To(Succeed())
		w.server.Stop()
		w.startServer()
		w.expectAccepted(key)
	})
})

var _ = Describe("A cluster rebuilt over a surviving store", func() {
	It("takes over its documents", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		scheme := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, scheme)
		expectReady(ctx, scheme)
		Eventually(w.served(key, "free")).Should(HavePrefix("200 "))
		w.stopOperator()

		// The cluster is lost: every resource vanishes without a finalized deletion, and is created again with another
		// UID. A backup would restore Secrets. Here the Secret survives, because no resource owns it.
		update(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "acme-key"}}, func(s *corev1.Secret) { s.OwnerReferences = nil })
		lost := []client.Object{
			testkit.Deployment(w.namespace, "acme"), testkit.App(w.namespace, "acme", "acme-app", "*"), testkit.Key(w.namespace, "acme-app", "acme-key", "*"), scheme,
		}
		for _, obj := range lost {
			removeFinalizers(ctx, obj)
			Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, obj))).To(Succeed())
			expectGone(ctx, obj)
		}
		Expect(w.served(key, "free")()).To(HavePrefix("200 "), "serving goes on")
		again := testkit.Scheme(w.namespace, "acme", "free")
		apiKey := testkit.Key(w.namespace, "acme-app", "acme-key", "*")
		create(ctx, testkit.Deployment(w.namespace, "acme"), testkit.App(w.namespace, "acme", "acme-app", "*"), apiKey, again)
		w.startOperator(testkit.OperatorOptions{})
		expectReady(ctx, again, apiKey)
		Expect(w.held(ctx, "RateLimitScheme", "free").Document.UID).To(Equal(string(again.UID)))
		Expect(cluster.APIKey(ctx, w.namespace, "acme-key")).To(Equal(key), "the Secret survived, and so does its key")
		w.expectAccepted(key)
	})
})

var _ = Describe("A crash", func() {
	for _, step := range engine.Steps() {
		It("before the step "+step+" converges", func(ctx context.Context) {
			var armed atomic.Bool
			crashed := make(chan struct{}, 1)
			hook := func(kind, at string) error {
				if at == step && kind == v1alpha1.KindAPIKey && armed.CompareAndSwap(true, false) {
					crashed <- struct{}{}
				}
				select {
				case <-crashed:
					crashed <- struct{}{} // after the crash, every reconcile of this operator fails at its next step
					return engine.ErrCrash
				default:
					return nil
				}
			}
			w := newWorld(ctx, testkit.OperatorOptions{Hook: hook})
			deployment, app := testkit.Deployment(w.namespace, "acme"), testkit.App(w.namespace, "acme", "backend", "*")
			create(ctx, deployment, app)
			expectReady(ctx, deployment, app)
			key := testkit.Key(w.namespace, "backend", "k", "*")
			if !isDeletionStep(step) {
				armed.Store(true)
			}
			create(ctx, key)
			if isDeletionStep(step) {
				expectReady(ctx, key)
				armed.Store(true)
				Expect(cluster.Client.Delete(ctx, key)).To(Succeed())
			}
			Eventually(crashed).Should(HaveLen(1))
			before := cluster.APIKey(ctx, w.namespace, "k")
			w.stopOperator()
			w.startOperator(testkit.OperatorOptions{})
			if isDeletionStep(step) {
				expectGone(ctx, key)
				Expect(w.held(ctx, "APIKey", "k").Found).To(BeFalse())
				Eventually(func() string { return cluster.APIKey(ctx, w.namespace, "k") }).Should(BeEmpty())
				return
			}
			expectReady(ctx, key)
			now := cluster.APIKey(ctx, w.namespace, "k")
			if before != "" {
				Expect(now).To(Equal(before), "a key that was written is neither lost nor doubled")
			}
			w.expectAccepted(now)
		})
	}
})

func isDeletionStep(step string) bool {
	switch step {
	case "unused", "withdraw", "clean up", "remove finalizer":
		return true
	}
	return false
}
