package integration

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/test/testkit"
)

// gate is a feed that a test can make unavailable.
type gate struct {
	store.Store
	away atomic.Bool
}

func (g *gate) err() error { return fmt.Errorf("%w: the test closed it", store.ErrUnavailable) }

func (g *gate) Load(ctx context.Context) ([]store.Document, store.Position, error) {
	if g.away.Load() {
		return nil, store.Position{}, g.err()
	}
	return g.Store.Load(ctx)
}

func (g *gate) Changes(ctx context.Context, after store.Position) ([]store.Change, store.Position, error) {
	if g.away.Load() {
		return nil, store.Position{}, g.err()
	}
	return g.Store.Changes(ctx, after)
}

var _ = Describe("The management API", func() {
	var w *world
	var key string
	BeforeEach(func(ctx context.Context) {
		w = newWorld(ctx, testkit.OperatorOptions{})
		key = w.tenant(ctx, "acme")
		w.post(key, "free", `,"description":"d"`)
	})

	It("answers writes from the API server's response while the operator is unavailable", func(ctx context.Context) {
		w.post(key, "whole", `,"description":"d"`)
		w.expectPatched(key, "whole", `{"rules":[{"unit":"day","duration":1,"max_requests":1,"mode":"per_ip","endpoints":["/a"],"priority":3}]}`)
		w.stopOperator()
		unsynced := func(method, path, body string) testkit.Answer {
			GinkgoHelper()
			answer := w.ask(method, path, key, body)
			Expect(answer.Header.Get("Cardea-Synced")).To(Equal("false"), string(answer.Raw))
			return answer
		}
		patched := unsynced("PATCH", schemesPath+"/whole", `{"description":null,"rules":[{"unit":"hour","duration":2,"max_requests":3}]}`)
		Expect(patched.Status).To(Equal(200))
		Expect(patched.JSON).To(HaveKeyWithValue("description", BeNil()))
		Expect(patched.JSON["rules"]).To(ConsistOf(BeEquivalentTo(map[string]any{
			"unit": "hour", "duration": 2.0, "max_requests": 3.0, "mode": "per_key", "endpoints": []any{"*"}, "priority": 0.0,
		})))
		Expect(w.ask("GET", schemesPath+"/whole", key, "").JSON).To(HaveKeyWithValue("description", "d"), "the active content stays until the operator has reconciled")

		created := unsynced("POST", schemesPath, free("late", ""))
		Expect(created.Status).To(Equal(200))
		expectScheme(created.Raw)
		Expect(w.ask("GET", schemesPath+"/late", key, "").Status).To(Equal(404))
		Expect(w.ask("POST", schemesPath, key, free("late", "")).Status).To(Equal(409))
		found := unsynced("PATCH", schemesPath+"/late", `{"name":"Found live"}`)
		Expect(found.Status).To(Equal(200))
		Expect(found.JSON).To(And(HaveKeyWithValue("name", "Found live"), HaveKeyWithValue("created_at", created.JSON["created_at"])))

		w.startOperator(testkit.OperatorOptions{})
		w.expectMember(key, "late", "name", "Found live")
		w.expectMember(key, "whole", "description", nil)
		w.expectPatched(key, "late", `{}`)
	})

	It("serves reads and refuses writes while the API server is unavailable", Serial, func(ctx context.Context) {
		Expect(cluster.StopAPIServer()).To(Succeed())
		running := false
		restart := func(ctx context.Context) {
			if !running {
				Expect(cluster.StartAPIServer(ctx)).To(Succeed())
				running = true
			}
		}
		DeferCleanup(restart)
		Expect(w.ask("GET", schemesPath, key, "").JSON).To(HaveKeyWithValue("total", 1.0))
		Expect(w.ask("GET", schemesPath+"/free", key, "").Status).To(Equal(200))
		for _, write := range [][3]string{{"POST", "", free("other", "")}, {"PATCH", "/free", `{"name":"x"}`}, {"DELETE", "/free", ""}} {
			answer := w.ask(write[0], schemesPath+write[1], key, write[2])
			Expect(answer.Status).To(Equal(503), write[0])
			Expect(answer.Header.Get("Retry-After")).To(MatchRegexp("^[1-9][0-9]*$"))
			Expect(answer.JSON["message"]).To(And(ContainSubstring("the change may still be applied"), ContainSubstring("read before retrying")))
			Expect(string(answer.Raw)).NotTo(Or(ContainSubstring("127.0.0.1"), ContainSubstring("dial")))
		}
		Expect(w.ask("POST", schemesPath, key, `{}`).Status).To(Equal(400), "invalid requests are rejected anyway")
		restart(ctx)
		Eventually(func() int { return w.do("PATCH", schemesPath+"/free", key, `{"name":"back"}`).Status }).Should(Equal(200))
		w.expectMember(key, "free", "name", "back")
	})

	It("refuses to authenticate with a configuration that is too old or was never loaded", func(ctx context.Context) {
		feed := &gate{Store: w.store}
		feed.away.Store(true)
		server, err := testkit.StartServer(cluster.RESTConfig(), feed, testkit.ServerOptions{MaxStaleness: time.Second})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(server.Stop)
		bounded := *w
		bounded.server = server
		expectUnavailable := func() {
			GinkgoHelper()
			answer := bounded.ask("GET", schemesPath, key, "")
			Expect(answer.Status).To(Equal(503), string(answer.Raw))
			Expect(answer.Header.Get("Retry-After")).NotTo(BeEmpty())
			Expect(bounded.ask("GET", schemesPath, "", "").Status).To(Equal(503), "credentials cannot be verified")
			Expect(bounded.ask("GET", "/nowhere", "", "").Status).To(Equal(404))
			Expect(bounded.do("GET", "/docs", "", "").Status).To(Equal(200))
		}
		expectUnavailable()
		feed.away.Store(false)
		Eventually(bounded.status(key)).Should(Equal(200))
		Consistently(bounded.status(key)).WithTimeout(1500 * time.Millisecond).Should(Equal(200))
		feed.away.Store(true)
		Eventually(bounded.status(key)).Should(Equal(503))
		expectUnavailable()
		Expect(w.status(key)()).To(Equal(200), "a server without a staleness bound keeps serving its configuration")
		feed.away.Store(false)
		Eventually(bounded.status(key)).Should(Equal(200))
	})

	It("finds a scheme again that was recreated under another name", func(ctx context.Context) {
		Expect(cluster.Client.Delete(ctx, w.live(ctx, "acme.free"))).To(Succeed())
		expectGone(ctx, testkit.Scheme(w.namespace, "acme", "acme.free"))
		again := testkit.Scheme(w.namespace, "acme", "free")
		create(ctx, again)
		expectReady(ctx, again)
		w.expectMember(key, "free", "name", "free")
		Expect(cluster.Client.Get(ctx, client.ObjectKeyFromObject(again), again)).To(Succeed())
		answer := w.expectPatched(key, "free", `{"name":"Undeclared"}`)
		Expect(answer.JSON["created_at"]).To(Equal(again.CreationTimestamp.UTC().Format(time.RFC3339)))
	})
})
