package integration

import (
	"context"
	"fmt"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sync/errgroup"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("Tenants that come and go", Serial, func() {
	It("leave no watch, goroutine or memory behind", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		const tenants = 300
		// tenant creates a deployment with an app and a key in a new namespace, waits until the store has them, and
		// deletes them.
		tenant := func(ctx context.Context) error {
			namespace, err := cluster.Namespace(ctx)
			if err != nil {
				return err
			}
			objects := []v1alpha1.Resource{
				testkit.Deployment(namespace, "acme"), testkit.App(namespace, "acme", "app", "*"), testkit.Key(namespace, "app", "key", "*"),
			}
			for _, obj := range objects {
				if err := cluster.Client.Create(ctx, obj); err != nil {
					return err
				}
			}
			held := func(kind, name string, want bool) error {
				for {
					stored, err := w.store.Stored(ctx, store.Identity{Kind: kind, Namespace: namespace, Name: name})
					if err != nil || stored.Found == want {
						return err
					}
					select {
					case <-ctx.Done():
						return fmt.Errorf("%s %s/%s: presence in the store did not become %t", kind, namespace, name, want)
					case <-time.After(20 * time.Millisecond):
					}
				}
			}
			if err := held(v1alpha1.KindAPIKey, "key", true); err != nil {
				return err
			}
			for _, obj := range []client.Object{objects[2], objects[1], objects[0]} {
				if err := cluster.Client.Delete(ctx, obj); err != nil {
					return err
				}
			}
			return held(v1alpha1.KindIdentityDeployment, "acme", false)
		}
		run := func(count int) {
			GinkgoHelper()
			group, ctx := errgroup.WithContext(ctx)
			group.SetLimit(8)
			for range count {
				group.Go(func() error { return tenant(ctx) })
			}
			Expect(group.Wait()).To(Succeed())
		}
		heap := func() int64 {
			var m runtime.MemStats
			runtime.GC()
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		run(8) // connections and caches of the first tenants remain
		goroutines, before := runtime.NumGoroutine(), heap()
		run(tenants)
		Eventually(runtime.NumGoroutine).WithTimeout(time.Minute).Should(BeNumerically("<", goroutines+tenants/10), "each watch takes several")
		Eventually(func() int64 { return (heap() - before) / tenants }).WithTimeout(time.Minute).Should(BeNumerically("<", 32<<10), "bytes of each tenant that is gone")
	})
})
