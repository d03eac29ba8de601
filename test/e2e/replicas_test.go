package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/test/testkit"
)

// redis is a private Redis without a disk.
type redis struct {
	port    int
	folder  string
	running *process.Process
}

func startRedis(ctx context.Context) *redis {
	GinkgoHelper()
	port, err := controlplane.FreePort()
	Expect(err).NotTo(HaveOccurred())
	r := &redis{port: port, folder: GinkgoT().TempDir()}
	r.start(ctx)
	return r
}

func (r *redis) start(ctx context.Context) {
	GinkgoHelper()
	program, err := exec.LookPath("redis-server")
	Expect(err).NotTo(HaveOccurred(), "hack/install-deps.sh installs it")
	r.running, err = processes.Group().Start(process.Spec{
		Name: "redis", Path: program, Env: []string{"PATH=" + os.Getenv("PATH")},
		Args: []string{"--port", fmt.Sprint(r.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", r.folder},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(r.running.Kill)
}

// asker sends decision requests for one key as fast as servers respond, and records the admitted requests.
type asker struct {
	sync.Mutex
	admitted []span
	// refused counts errors and responses that are neither allowed nor rate limited, by error or by status and reason.
	refused map[string]int
	slowest atomic.Int64
}

// span is the time from before a request was sent until its response arrived.
type span struct{ begun, ended time.Time }

// most returns the largest number of admitted requests that certainly lie within one window of a length.
func (a *asker) most(length time.Duration) (most int) {
	a.Lock()
	defer a.Unlock()
	for _, from := range a.admitted {
		n := 0
		for _, s := range a.admitted {
			if !s.begun.Before(from.begun) && s.ended.Before(from.begun.Add(length)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func (a *asker) count() int {
	a.Lock()
	defer a.Unlock()
	return len(a.admitted)
}

// load sends requests to all servers until the returned function is called.
func (a *asker) load(servers []*testkit.Cardea, key, deployment string) (stop func()) {
	done := make(chan struct{})
	var running sync.WaitGroup
	body := fmt.Sprintf(`{"principal":{"type":"api_key","value":%q},"method":"GET","resource":"/","deployment":%q}`, key, deployment)
	for _, server := range servers {
		for range 2 {
			running.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						a.ask(server, body)
					}
				}
			})
		}
	}
	return sync.OnceFunc(func() { close(done); running.Wait() })
}

func (a *asker) ask(server *testkit.Cardea, body string) {
	begun := time.Now()
	answer, err := testkit.Do("POST", server.Decision+"/v1/authz/check", "", body)
	ended := time.Now()
	a.slowest.Store(max(a.slowest.Load(), int64(ended.Sub(begun))))
	a.Lock()
	defer a.Unlock()
	switch {
	case err != nil:
		a.refused[err.Error()]++
	case answer.Status == http.StatusOK && answer.JSON["allowed"] == true:
		a.admitted = append(a.admitted, span{begun, ended})
	case answer.Status != http.StatusOK || answer.JSON["reason"] != "rate_limited":
		a.refused[fmt.Sprint(answer.Status, answer.JSON["reason"])]++
	}
}

var _ = Describe("Three servers on one Redis", Ordered, func() {
	const limit, window = 300, 3 * time.Second

	It("share one limit, continue without Redis, and share again within seconds", func(ctx context.Context) {
		namespace, err := cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		database, shared := startDatabase(ctx), startRedis(ctx)
		operator := start(ctx, testkit.Launch{Role: "operator", Store: database.url})
		DeferCleanup(operator.Kill)
		apply(ctx, tenant(namespace)+limitedApp(namespace, "hot", "", "{unit: second, duration: 3, maxRequests: 300}")+appKey(namespace, "hot", "hot", ""))
		expectAllReady(ctx, namespace)
		key := cluster.APIKey(ctx, namespace, "hot")
		var servers []*testkit.Cardea
		for range 3 {
			server := start(ctx, testkit.Launch{Role: "server", Store: database.url, Env: []string{fmt.Sprintf("CARDEA_REDIS=redis://127.0.0.1:%d", shared.port)}, Flags: []string{"--replicas=3"}})
			DeferCleanup(server.Kill)
			servers = append(servers, server)
		}
		sharing := func() (degraded float64, err error) {
			for _, server := range servers {
				one, err := server.Metric("cardea_ratelimit_shared_degraded")
				if err != nil {
					return 0, err
				}
				degraded += one
			}
			return degraded, nil
		}
		Eventually(sharing).Should(BeZero())

		asker := &asker{refused: map[string]int{}}
		stop := asker.load(servers, key, namespace+"/acme")
		defer stop()
		began := time.Now()
		Eventually(func() bool { return time.Since(began) > 3*window }).WithTimeout(time.Minute).Should(BeTrue())
		failed := 0.0
		for _, server := range servers {
			one, err := server.Metric("cardea_ratelimit_shared_calls_total", `outcome="failed"`)
			if err == nil {
				failed += one
			}
		}
		Expect(asker.most(window)).To(BeNumerically("<=", limit+int(failed)), "in any window; %v calls failed on this machine", failed)
		Expect(asker.count()).To(BeNumerically(">=", 3*limit*8/10), "and not much less than three windows allow")

		shared.running.Kill()
		Eventually(sharing).Should(Equal(3.0))
		began = time.Now()
		Eventually(func() bool { return time.Since(began) > 2*window }).WithTimeout(time.Minute).Should(BeTrue())
		shared.start(ctx)
		returned := time.Now()
		Eventually(sharing).Should(BeZero())
		took := time.Since(returned)
		began = time.Now()
		Eventually(func() bool { return time.Since(began) > window }).WithTimeout(time.Minute).Should(BeTrue())
		stop()
		most := asker.most(window)
		AddReportEntry("figures", fmt.Sprintf("at most %d in a window of %d; shared again after %v; slowest answer %v", most, limit, took, time.Duration(asker.slowest.Load())))
		Expect(asker.refused).To(BeEmpty(), "no answer but allowed and limited")
		Expect(most).To(BeNumerically("<=", limit*13/10), "bounded without Redis too")
		Expect(took).To(BeNumerically("<", 10*time.Second), "2 s on a machine that is not busy, and the start of Redis")
	})
})
