package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

// password is the password of the database's role: a canary that no log may hold.
const password = "canary-dsn-password"

const (
	// afterKill and afterEnd bound the time until another operator activates declared changes after the leader was
	// killed or ended cleanly. The lease lasts 7 s, another operator sees it up to 2.2 s late, and tries again every 1
	// to 2.2 s.
	afterKill = 12 * time.Second
	afterEnd  = 4 * time.Second
	// takeover is the bound with hundreds of resources on a loaded machine.
	takeover = 45 * time.Second
)

// database is a private PostgreSQL that requires a password for Cardea's role.
type database struct {
	*pgtest.Server
	url string
	st  *sqlstore.Store
}

func startDatabase(ctx context.Context) *database {
	GinkgoHelper()
	access := filepath.Join(os.TempDir(), fmt.Sprintf("cardea-e2e-hba-%d", os.Getpid()))
	rules := "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
	Expect(os.WriteFile(access, []byte(rules), 0o644)).To(Succeed()) // PostgreSQL runs as another user
	DeferCleanup(os.Remove, access)
	server, err := pgtest.Start(ctx, "hba_file="+access)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(server.Stop)
	Expect(server.Do(ctx, "postgres", "CREATE ROLE cardea LOGIN PASSWORD '"+password+"'")).To(Succeed())
	Expect(server.Do(ctx, "postgres", "CREATE DATABASE cardea OWNER cardea")).To(Succeed())
	d := &database{Server: server, url: strings.Replace(server.URL("cardea"), "postgres@", "cardea:"+password+"@", 1)}
	d.st, err = sqlstore.Open(ctx, d.url, sqlstore.Options{Clock: time.Now, Logger: logr.Discard()})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(d.st.Close)
	return d
}

// limits returns the stored limit of each scheme of a namespace, by name. It fails if two schemes have the same id.
func (d *database) limits(ctx context.Context, namespace string) (map[string]int64, error) {
	documents, _, err := d.st.Load(ctx)
	if err != nil {
		return nil, err
	}
	limits, ids := map[string]int64{}, map[int64]string{}
	for _, doc := range documents {
		if doc.Kind != v1alpha1.KindRateLimitScheme || doc.Namespace != namespace {
			continue
		}
		if other, twice := ids[doc.ID]; twice {
			return nil, fmt.Errorf("%s and %s share an id", other, doc.Name)
		}
		ids[doc.ID] = doc.Name
		var content document.RateLimitScheme
		if _, err := document.Decode(doc.Payload, &content); err != nil {
			return nil, err
		}
		limits[doc.Name] = int64(content.Rules[0].MaxRequests)
	}
	return limits, nil
}

// kinds returns how many documents of each kind a namespace has.
func (d *database) kinds(ctx context.Context, namespace string) map[string]int {
	GinkgoHelper()
	documents, _, err := d.st.Load(ctx)
	Expect(err).NotTo(HaveOccurred())
	kinds := map[string]int{}
	for _, doc := range documents {
		if doc.Namespace == namespace {
			kinds[doc.Kind]++
		}
	}
	return kinds
}

func (d *database) position(ctx context.Context) store.Position {
	GinkgoHelper()
	_, position, err := d.st.Load(ctx)
	Expect(err).NotTo(HaveOccurred())
	return position
}

var _ = Describe("two operators and two servers on PostgreSQL", Ordered, func() {
	var db *database
	var operators, servers []*testkit.Cardea
	var namespace, key string

	startOperator := func(ctx context.Context) {
		GinkgoHelper()
		operators = append(operators, start(ctx, testkit.Launch{Role: "operator", Store: db.url}))
	}
	// leader returns the only operator that reports to lead.
	leader := func() (*testkit.Cardea, error) {
		var leaders []*testkit.Cardea
		for _, o := range operators {
			value, err := o.Metric("leader_election_master_status")
			if err == nil && value == 1 {
				leaders = append(leaders, o)
			}
		}
		if len(leaders) != 1 {
			return nil, fmt.Errorf("%d operators lead", len(leaders))
		}
		return leaders[0], nil
	}
	currentLeader := func() *testkit.Cardea {
		GinkgoHelper()
		var found *testkit.Cardea
		Eventually(func() (err error) { found, err = leader(); return err }).WithTimeout(takeover).Should(Succeed())
		return found
	}
	forget := func(gone *testkit.Cardea) {
		for i, o := range operators {
			if o == gone {
				operators = append(operators[:i:i], operators[i+1:]...)
			}
		}
	}
	setLimit := func(ctx context.Context, name string, limit int64) error {
		scheme := testkit.Scheme(namespace, "acme", name)
		patch := fmt.Sprintf(`{"spec":{"rules":[{"unit":"minute","duration":1,"maxRequests":%d}]}}`, limit)
		return cluster.Client.Patch(ctx, scheme, client.RawPatch(types.MergePatchType, []byte(patch)))
	}

	BeforeAll(func(ctx context.Context) {
		db = startDatabase(ctx)
		startOperator(ctx)
		startOperator(ctx)
		for range 2 {
			servers = append(servers, start(ctx, testkit.Launch{Role: "server", Store: db.url}))
		}
		var err error
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace))
		for _, obj := range []client.Object{
			testkit.Deployment(namespace, "acme"), testkit.App(namespace, "acme", "backend", "*"), testkit.Key(namespace, "backend", "key", "*"),
		} {
			Expect(cluster.Client.Create(ctx, obj)).To(Succeed())
		}
		expectAllReady(ctx, namespace)
		key = cluster.APIKey(ctx, namespace, "key")
	})
	AfterAll(func() { processes.KillAll() })

	It("has one leader, and both servers answer the same within a second", func(ctx context.Context) {
		first := currentLeader()
		Consistently(leader).WithTimeout(time.Second).Should(Equal(first))
		for _, server := range servers {
			Eventually(get(server, schemesPath, key)).Should(haveMember("total", 0.0))
		}
		created := do(servers[0], "POST", schemesPath, key, `{"slug":"s","name":"S","rules":[{"unit":"second","duration":1,"max_requests":5}]}`)
		Expect(created.Status).To(Equal(200), string(created.Raw))
		Eventually(func() (string, error) {
			answer, err := get(servers[1], schemesPath+"/s", key)()
			return string(answer.Raw), err
		}).WithTimeout(time.Second).Should(Equal(string(created.Raw)))

		changed := do(servers[1], "PATCH", schemesPath+"/s", key, `{"name":"Changed"}`)
		Expect(changed.Header.Get("Cardea-Synced")).To(Equal("true"))
		Eventually(get(servers[0], schemesPath+"/s", key)).WithTimeout(time.Second).Should(haveMember("name", "Changed"))

		kubectl(ctx, "patch", "ratelimitscheme", "acme.s", "-n", namespace, "--type=merge", "-p", `{"spec":{"displayName":"By kubectl"}}`)
		// Servers follow the commit, which precedes the operator's status report.
		byKubectl := testkit.Scheme(namespace, "acme", "s")
		byKubectl.Name = "acme.s"
		Eventually(func() (bool, error) { return cluster.Ready(ctx, byKubectl) }).Should(BeTrue())
		for _, server := range servers {
			Eventually(get(server, schemesPath+"/s", key)).WithTimeout(time.Second).Should(haveMember("name", "By kubectl"))
		}
		kubectl(ctx, "delete", "ratelimitscheme", "acme.s", "-n", namespace)
		for _, server := range servers {
			Eventually(get(server, schemesPath+"/s", key)).WithTimeout(time.Second).Should(haveStatus(404))
		}
	})

	It("is followed by another leader within seconds after a kill or a clean end", func(ctx context.Context) {
		Expect(cluster.Client.Create(ctx, testkit.Scheme(namespace, "acme", "followed"))).To(Succeed())
		expectAllReady(ctx, namespace)
		inForce := func() (int64, error) { limits, err := db.limits(ctx, namespace); return limits["followed"], err }
		for i, way := range []struct {
			end    func(*testkit.Cardea)
			within time.Duration
		}{{func(c *testkit.Cardea) { c.Kill() }, afterKill}, {expectOrderlyEnd, afterEnd}} {
			gone := currentLeader()
			way.end(gone)
			forget(gone)
			limit := int64(100 + i)
			Expect(setLimit(ctx, "followed", limit)).To(Succeed())
			Eventually(inForce).WithTimeout(way.within).Should(Equal(limit))
			startOperator(ctx)
		}
		kubectl(ctx, "delete", "ratelimitscheme", "followed", "-n", namespace, "--wait")
	})

	const schemes, workers = 300, 8
	name := func(i int) string { return fmt.Sprintf("scheme-%03d", i) }
	// everyScheme calls work for each scheme from several workers.
	everyScheme := func(work func(i int) error) error {
		var group errgroup.Group
		group.SetLimit(workers)
		for i := range schemes {
			group.Go(func() error { return work(i) })
		}
		return group.Wait()
	}
	expectInForce := func(ctx context.Context, want map[string]int64) {
		GinkgoHelper()
		Eventually(func() ([]string, error) { return unready(ctx, namespace) }).
			WithTimeout(takeover).WithPolling(500 * time.Millisecond).Should(BeEmpty())
		Expect(db.limits(ctx, namespace)).To(Equal(want))
		var answers []string
		for _, server := range servers {
			Eventually(func() (float64, error) {
				answer, err := get(server, fmt.Sprintf("%s/%s", schemesPath, name(schemes-1)), key)()
				if err != nil || answer.Status != 200 {
					return 0, fmt.Errorf("%d: %w", answer.Status, err)
				}
				return answer.JSON["rules"].([]any)[0].(map[string]any)["max_requests"].(float64), nil
			}).Should(Equal(float64(want[name(schemes-1)])))
			text := ""
			for offset := 0; offset < schemes; offset += 100 {
				page := do(server, "GET", fmt.Sprintf("%s?limit=100&offset=%d", schemesPath, offset), key, "")
				Expect(page).To(haveMember("total", float64(schemes)))
				text += string(page.Raw)
			}
			answers = append(answers, text)
		}
		Expect(answers[0]).To(Equal(answers[1]))
	}

	It("loses, doubles and overwrites nothing when the leader is killed under load", func(ctx context.Context) {
		doomed := currentLeader()
		var done atomic.Int64
		finished := make(chan error, 1)
		go func() {
			finished <- everyScheme(func(i int) error {
				if err := cluster.Client.Create(ctx, testkit.Scheme(namespace, "acme", name(i))); err != nil {
					return err
				}
				done.Add(1)
				return setLimit(ctx, name(i), int64(1000+i))
			})
		}()
		Eventually(done.Load).WithPolling(time.Millisecond).Should(BeNumerically(">=", schemes/2))
		doomed.Kill()
		Expect(<-finished).To(Succeed())
		forget(doomed)
		Expect(currentLeader()).NotTo(Equal(doomed))
		want := map[string]int64{}
		for i := range schemes {
			want[name(i)] = int64(1000 + i)
		}
		expectInForce(ctx, want)
		startOperator(ctx)
	})

	It("fences a leader that was frozen for longer than its lease, and that then ends", func(ctx context.Context) {
		sleeper := currentLeader()
		var done atomic.Int64
		finished := make(chan error, 1)
		go func() {
			finished <- everyScheme(func(i int) error {
				done.Add(1)
				return setLimit(ctx, name(i), int64(2000+i))
			})
		}()
		// Freeze the leader during its reconciles, with writes under way.
		Eventually(done.Load).WithPolling(time.Millisecond).Should(BeNumerically(">=", schemes/3))
		Expect(syscall.Kill(sleeper.PID(), syscall.SIGSTOP)).To(Succeed())
		Expect(<-finished).To(Succeed())
		forget(sleeper)
		Expect(currentLeader()).NotTo(Equal(sleeper))
		want := map[string]int64{}
		Expect(everyScheme(func(i int) error { return setLimit(ctx, name(i), int64(3000+i)) })).To(Succeed())
		for i := range schemes {
			want[name(i)] = int64(3000 + i)
		}
		expectInForce(ctx, want)

		position := db.position(ctx)
		Expect(syscall.Kill(sleeper.PID(), syscall.SIGCONT)).To(Succeed())
		Eventually(sleeper.Done()).Should(BeClosed())
		Expect(sleeper.ExitError()).To(MatchError(ContainSubstring("exit status 0")), "losing the lease is no fault")
		Expect(db.position(ctx)).To(Equal(position))
		expectInForce(ctx, want)
		startOperator(ctx)
	})

	It("keeps serving while PostgreSQL is unavailable, reports it, and converges afterwards", func(ctx context.Context) {
		leads := currentLeader()
		Expect(db.Halt()).To(Succeed())
		scheme := testkit.Scheme(namespace, "acme", name(0))
		Expect(setLimit(ctx, name(0), 4000)).To(Succeed())
		Eventually(func() (string, error) { return cluster.Condition(ctx, scheme, v1alpha1.ConditionSynced) }).
			Should(Equal("False/" + v1alpha1.ReasonStoreUnavailable))
		landed := do(servers[0], "PATCH", schemesPath+"/"+name(1), key, `{"description":"Written while the store was away."}`)
		Expect(landed.Status).To(Equal(200), string(landed.Raw))
		Expect(landed.Header.Get("Cardea-Synced")).To(Equal("false"))
		for _, server := range servers {
			for i := range 2 {
				Expect(do(server, "GET", schemesPath+"/"+name(i), key, "")).To(haveMember("description", BeNil()))
			}
			Expect(server.Ready()).To(Succeed())
		}
		Expect(db.Resume(ctx)).To(Succeed())
		for _, server := range servers {
			Eventually(get(server, schemesPath+"/"+name(1), key)).WithTimeout(time.Minute).Should(haveMember("description", "Written while the store was away."))
		}
		expectAllReady(ctx, namespace)
		Eventually(func() (int64, error) { limits, err := db.limits(ctx, namespace); return limits[name(0)], err }).Should(Equal(int64(4000)))

		// The log has one line when an outage begins, one when it ends, and no error for each resource.
		log, err := os.ReadFile(leads.LogPath)
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Count(string(log), "The store is unreachable; declared changes wait")).To(Equal(1), string(log))
		Expect(strings.Count(string(log), `"The store is reachable again"`)).To(Equal(1), string(log))
		Expect(string(log)).NotTo(ContainSubstring("Reconciler error"))
	})

	It("refuses a second cluster over the same store while the first lives", func(ctx context.Context) {
		other, err := testkit.StartCluster(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return other.Stop() })
		strangers, err := testkit.NewProcesses(ctx, other)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return strangers.Close() })
		before, err := db.limits(ctx, namespace)
		Expect(err).NotTo(HaveOccurred())

		deployment := testkit.Deployment("default", "intruder")
		Expect(other.Client.Create(ctx, deployment)).To(Succeed())
		stranger, err := strangers.Start(ctx, testkit.Launch{Role: "operator", Store: db.url})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() (string, error) { return other.Condition(ctx, deployment, v1alpha1.ConditionReady) }).
			WithTimeout(time.Minute).Should(Equal("False/" + v1alpha1.ReasonStoreUnavailable))
		raw, err := json.Marshal(deployment.Status.Conditions)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(raw)).To(ContainSubstring("belongs to another live install"))
		Expect(process.Tail(stranger.LogPath, 100)).To(ContainSubstring("give each cluster a store of its own"))

		By("ending the leader while the other cluster tries to acquire the store")
		ended := currentLeader()
		expectOrderlyEnd(ended)
		forget(ended)
		Expect(currentLeader()).NotTo(Equal(ended))
		Expect(setLimit(ctx, name(2), 5000)).To(Succeed())
		before[name(2)] = 5000
		Eventually(func() (map[string]int64, error) { return db.limits(ctx, namespace) }).WithTimeout(time.Minute).Should(Equal(before))
		Expect(other.Condition(ctx, deployment, v1alpha1.ConditionReady)).To(Equal("False/" + v1alpha1.ReasonStoreUnavailable))
		expectOrderlyEnd(stranger)

		documents, _, err := db.st.Load(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(documents).NotTo(ContainElement(HaveField("Identity", store.Identity{Kind: v1alpha1.KindIdentityDeployment, Namespace: "default", Name: "intruder"})))
		startOperator(ctx)
	})

	It("logs no secret, also when the password is refused", func(ctx context.Context) {
		wrong := strings.Replace(db.url, password, password+"-wrong", 1)
		refused, err := processes.Start(ctx, testkit.Launch{Role: "server", Store: wrong})
		Expect(err).NotTo(HaveOccurred())
		Eventually(func() string { return process.Tail(refused.LogPath, 100) }).Should(ContainSubstring("password authentication failed"))
		Expect(refused.Ready()).NotTo(Succeed())
		refused.Kill()
		expectNoTraceOf(ctx, password, secretPart(key))
	})

	It("ends in time with exit status 0", func() {
		for _, c := range append(servers, operators...) {
			expectOrderlyEnd(c)
		}
	})
})

// secretsRoleBinding returns the role binding of config/samples for another namespace.
func secretsRoleBinding(namespace string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(samples, "secrets_role_binding.yaml"))
	Expect(err).NotTo(HaveOccurred())
	return strings.Replace(string(content), "namespace: acme", "namespace: "+namespace, 1)
}
