// Package integration runs user stories against a real control plane, with the operator and the server in this process
// over a real store.
package integration

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/test/testkit"
)

var cluster *testkit.Cluster

func TestIntegration(t *testing.T) {
	RegisterFailHandler(Fail)
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(time.Minute) // bounds a spec that hangs
	SetDefaultEventuallyPollingInterval(20 * time.Millisecond)
	SetDefaultConsistentlyDuration(600 * time.Millisecond)
	RunSpecs(t, "Integration")
}

var _ = BeforeSuite(func(ctx context.Context) {
	var err error
	cluster, err = testkit.StartCluster(ctx)
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() {
	if cluster != nil {
		Expect(cluster.Stop()).To(Succeed())
	}
})

// world is an operator and a server over one store, and a namespace for the spec.
type world struct {
	store     *testkit.Interruptible
	operator  *testkit.Operator
	server    *testkit.Server
	namespace string
	dir       string
	keyring   *seal.Keyring // the operator's, also used by servers that start later
}

// newWorld starts a world that ends with the spec. The operator stops before the resources are deleted.
func newWorld(ctx context.Context, opts testkit.OperatorOptions) *world {
	GinkgoHelper()
	w := &world{dir: GinkgoT().TempDir()}
	var err error
	w.namespace, err = cluster.Namespace(ctx)
	Expect(err).NotTo(HaveOccurred())
	w.openStore(ctx)
	w.startOperator(opts)
	w.startServer()
	DeferCleanup(func(ctx context.Context) {
		w.server.Stop()
		w.stopOperator()
		Expect(w.store.Close()).To(Succeed())
		forceClean(ctx)
	})
	return w
}

func (w *world) openStore(ctx context.Context) {
	GinkgoHelper()
	opened, err := testkit.OpenSQLite(ctx, w.dir)
	Expect(err).NotTo(HaveOccurred())
	w.store = testkit.NewInterruptible(opened)
}

func (w *world) startOperator(opts testkit.OperatorOptions) {
	GinkgoHelper()
	var err error
	if os.Getenv("CARDEA_TEST_LOG") != "" {
		opts.Log = GinkgoLogr
	}
	w.keyring = opts.Keyring
	w.operator, err = testkit.StartOperator(cluster.RESTConfig(), w.store, opts)
	Expect(err).NotTo(HaveOccurred())
}

func (w *world) startServer() {
	GinkgoHelper()
	var err error
	w.server, err = testkit.StartServer(cluster.RESTConfig(), w.store, testkit.ServerOptions{Keyring: w.keyring})
	Expect(err).NotTo(HaveOccurred())
}

func (w *world) stopOperator() {
	GinkgoHelper()
	if w.operator != nil {
		Expect(w.operator.Stop()).To(Succeed())
		w.operator = nil
	}
}

// forceClean deletes every Cardea resource and its finalizers, so that specs do not see each other's resources.
func forceClean(ctx context.Context) {
	GinkgoHelper()
	for _, list := range everyList() {
		Expect(cluster.Client.List(ctx, list)).To(Succeed())
		for _, obj := range items(list) {
			Expect(client.IgnoreNotFound(cluster.Client.Delete(ctx, obj))).To(Succeed())
			removeFinalizers(ctx, obj)
		}
	}
}

func removeFinalizers(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	Expect(client.IgnoreNotFound(cluster.Client.Patch(ctx, obj, patch))).To(Succeed())
}

// everyList returns an empty list of every kind; a kind comes before the kinds it refers to.
func everyList() []client.ObjectList {
	var lists []client.ObjectList
	for _, info := range slices.Backward(v1alpha1.Kinds) {
		lists = append(lists, info.NewList())
	}
	return lists
}

func items(list client.ObjectList) []client.Object {
	GinkgoHelper()
	var out []client.Object
	Expect(meta.EachListItem(list, func(item runtime.Object) error {
		out = append(out, item.(client.Object))
		return nil
	})).To(Succeed())
	return out
}

// create creates objects as the administrator.
func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	for _, obj := range objects {
		Expect(cluster.Client.Create(ctx, obj)).To(Succeed())
	}
}

// update changes a live object, and retries if another writer was first.
func update[T client.Object](ctx context.Context, obj T, change func(T)) {
	GinkgoHelper()
	Eventually(func() error {
		if err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		change(obj)
		return cluster.Client.Update(ctx, obj)
	}).Should(Succeed())
}

// expectReady waits until every object is Ready for its current generation.
func expectReady(ctx context.Context, objects ...v1alpha1.Resource) {
	GinkgoHelper()
	for _, obj := range objects {
		Eventually(func() (bool, error) { return cluster.Ready(ctx, obj) }).Should(BeTrue(), "%T %s: %v", obj, obj.GetName(), lazyConditions{obj})
	}
}

type lazyConditions struct{ obj v1alpha1.Resource }

func (l lazyConditions) String() string {
	text := ""
	for _, c := range l.obj.CommonStatus().Conditions {
		text += "\n  " + c.Type + "=" + string(c.Status) + " " + c.Reason + ": " + c.Message
	}
	return text
}

// condition returns a function for Eventually that returns "Status/Reason" of a condition.
func condition(ctx context.Context, obj v1alpha1.Resource, kind string) func() (string, error) {
	return func() (string, error) { return cluster.Condition(ctx, obj, kind) }
}

// expectGone waits until an object no longer exists.
func expectGone(ctx context.Context, obj client.Object) {
	GinkgoHelper()
	Eventually(func() error {
		return cluster.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	}).Should(Satisfy(func(err error) bool { return err != nil && client.IgnoreNotFound(err) == nil }), "%T %s still exists", obj, obj.GetName())
}

// do sends a request with a key and returns the response.
func (w *world) do(method, path, key, body string, header ...[2]string) testkit.Answer {
	GinkgoHelper()
	answer, err := testkit.Do(method, w.server.URL+path, key, body, header...)
	Expect(err).NotTo(HaveOccurred())
	return answer
}
