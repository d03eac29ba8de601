package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

// samples is the folder config/samples, which the specs apply unchanged.
var samples = filepath.Join(testkit.Root(), "config", "samples")

var _ = Describe("cardea standalone over SQLite", Ordered, func() {
	var cardea *testkit.Cardea
	var key string
	var seen []string // the secret part of every key that the specs saw
	launch := testkit.Launch{Role: "standalone"}

	remember := func(ctx context.Context) {
		for _, secret := range []string{"acme-backend-key", "globex-tracking-key"} {
			seen = append(seen, secretPart(cluster.APIKey(ctx, "acme", secret)))
		}
	}
	restart := func(ctx context.Context) {
		GinkgoHelper()
		expectOrderlyEnd(cardea)
		cardea = start(ctx, launch)
	}

	BeforeAll(func(ctx context.Context) {
		launch.Store = "sqlite://" + processes.Path("cardea.db")
		cardea = start(ctx, launch)
		kubectl(ctx, "apply", "-k", samples)
	})
	AfterAll(func() { processes.KillAll() })

	It("activates the samples and delivers a key that works", func(ctx context.Context) {
		expectAllReady(ctx, "acme")
		key = cluster.APIKey(ctx, "acme", "acme-backend-key")
		remember(ctx)
		Eventually(get(cardea, schemesPath, key)).Should(haveMember("total", 3.0))
		answer := do(cardea, "GET", schemesPath, key, "")
		Expect(answer.JSON).To(HaveKey("data"))
		Expect(answer.JSON["data"]).To(ConsistOf(HaveKeyWithValue("slug", "free"), HaveKeyWithValue("slug", "partner"), HaveKeyWithValue("slug", "internal")))
		Expect(kubectl(ctx, "get", "cardea", "-A")).To(ContainSubstring("acme-backend"))
	})

	It("accepts a scheme over HTTP by the contract's names, which kubectl then shows", func(ctx context.Context) {
		answer := do(cardea, "POST", schemesPath, key,
			`{"slug":"burst","name":"Burst","rules":[{"unit":"second","duration":1,"max_requests":5,"mode":"per_ip"}]}`)
		Expect(answer.Status).To(Equal(200), string(answer.Raw))
		Expect(answer.Header.Get("Cardea-Synced")).To(Equal("true"))
		Expect(kubectl(ctx, "get", "ratelimitschemes", "-n", "acme")).To(ContainSubstring("acme.burst"))

		Expect(do(cardea, "PATCH", schemesPath+"/burst", key, `{"name":"Short bursts"}`)).To(haveStatus(200))
		Expect(do(cardea, "PATCH", schemesPath+"/burst", key, `{"description":"For crawlers."}`)).To(haveStatus(200))
		Expect(do(cardea, "GET", schemesPath+"/burst", key, "")).To(And(haveMember("name", "Short bursts"), haveMember("description", "For crawlers.")))
		Expect(kubectl(ctx, "get", "ratelimitscheme", "acme.burst", "-n", "acme", "-o", "jsonpath={.spec.displayName}|{.spec.description}")).
			To(Equal("Short bursts|For crawlers."))
	})

	It("keeps fields that YAML declares, and lets HTTP change the others", func(ctx context.Context) {
		refused := do(cardea, "PATCH", schemesPath+"/free", key, `{"name":"Gratis"}`)
		Expect(refused.Status).To(Equal(409), string(refused.Raw))
		Expect(refused.JSON["errors"]).To(ConsistOf(And(
			HaveKeyWithValue("manager", "kubectl-client-side-apply"), HaveKeyWithValue("resource_path", "spec.displayName"), HaveKeyWithValue("field", "/name"))))

		Expect(do(cardea, "PATCH", schemesPath+"/free", key, `{"description":"Without a contract."}`)).To(haveMember("description", "Without a contract."))
		Expect(kubectl(ctx, "diff", "-k", samples)).To(BeEmpty())

		kubectl(ctx, "apply", "-k", samples)
		expectAllReady(ctx, "acme")
		Expect(do(cardea, "GET", schemesPath+"/free", key, "")).To(haveMember("description", "Without a contract."))
	})

	It("hands a field over to YAML that begins to declare it", func(ctx context.Context) {
		folder := copyFolder(samples)
		file := filepath.Join(folder, "ratelimitschemes.yaml")
		content, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		declared := strings.Replace(string(content), "  displayName: Free\n", "  displayName: Free\n  description: By contract.\n", 1)
		Expect(declared).NotTo(Equal(string(content)))
		Expect(os.WriteFile(file, []byte(declared), 0o600)).To(Succeed())
		kubectl(ctx, "apply", "-k", folder)
		Eventually(get(cardea, schemesPath+"/free", key)).Should(haveMember("description", "By contract."))
		refused := do(cardea, "PATCH", schemesPath+"/free", key, `{"description":"Mine"}`)
		Expect(refused.Status).To(Equal(409), string(refused.Raw))
		Expect(string(refused.Raw)).To(ContainSubstring("kubectl-client-side-apply"))
		kubectl(ctx, "apply", "-k", samples)
	})

	It("refuses a deleted APIKey's key within a second", func(ctx context.Context) {
		doomed := cluster.APIKey(ctx, "acme", "globex-tracking-key")
		Expect(do(cardea, "GET", schemesPath, doomed, "")).To(haveStatus(200))
		kubectl(ctx, "delete", "apikey", "globex-tracking-key", "-n", "acme", "--wait=false")
		Eventually(get(cardea, schemesPath, doomed)).WithTimeout(time.Second).Should(haveStatus(401))
		kubectl(ctx, "apply", "-k", samples)
		expectAllReady(ctx, "acme")
		fresh := cluster.APIKey(ctx, "acme", "globex-tracking-key")
		Expect(fresh).NotTo(Equal(doomed))
		Eventually(get(cardea, schemesPath, fresh)).Should(haveStatus(200))
		remember(ctx)
	})

	It("loses no acknowledged write to kill -9 under load", func(ctx context.Context) {
		const writers = 6
		var acknowledged [writers]int
		var written atomic.Int64
		var group sync.WaitGroup
		for n := range writers {
			path := fmt.Sprintf("%s/load-%d", schemesPath, n)
			created := do(cardea, "POST", schemesPath, key, fmt.Sprintf(`{"slug":"load-%d","name":"Load","rules":[{"unit":"minute","duration":1,"max_requests":1}]}`, n))
			Expect(created.Status).To(Equal(200), string(created.Raw))
			group.Go(func() {
				for value := 2; ; value++ {
					answer, err := testkit.Do("PATCH", cardea.Backend+path, key, fmt.Sprintf(`{"rules":[{"unit":"minute","duration":1,"max_requests":%d}]}`, value))
					if err != nil || answer.Status != 200 {
						return // killed
					}
					acknowledged[n] = value
					written.Add(1)
				}
			})
		}
		Eventually(written.Load).Should(BeNumerically(">", 100))
		cardea.Kill()
		group.Wait()
		cardea = start(ctx, launch)
		for n := range writers {
			// The server may have committed a last write without acknowledging it.
			Eventually(func() (float64, error) {
				answer, err := testkit.Do("GET", fmt.Sprintf("%s%s/load-%d", cardea.Backend, schemesPath, n), key, "")
				if err != nil || answer.Status != 200 {
					return 0, fmt.Errorf("%d: %w", answer.Status, err)
				}
				return answer.JSON["rules"].([]any)[0].(map[string]any)["max_requests"].(float64), nil
			}).Should(BeNumerically("~", float64(acknowledged[n])+0.5, 0.5))
		}
		expectAllReady(ctx, "acme")
	})

	It("refuses a second process over the same file", func(ctx context.Context) {
		second, err := processes.Start(ctx, launch)
		Expect(err).NotTo(HaveOccurred())
		Eventually(second.Done()).Should(BeClosed())
		Expect(second.ExitError()).To(MatchError(And(ContainSubstring("exit status 1"), ContainSubstring("is in use by another process: stop that one"))))
		Expect(do(cardea, "GET", schemesPath, key, "")).To(haveStatus(200))
	})

	It("restores everything after its file was deleted: the same ids, keys and times", func(ctx context.Context) {
		before := do(cardea, "GET", schemesPath, key, "")
		partner := cluster.APIKey(ctx, "acme", "globex-tracking-key")
		expectOrderlyEnd(cardea)
		files, err := filepath.Glob(processes.Path("cardea.db*"))
		Expect(err).NotTo(HaveOccurred())
		Expect(files).NotTo(BeEmpty())
		for _, file := range files {
			Expect(os.Remove(file)).To(Succeed())
		}
		cardea = start(ctx, launch)
		// The response contains the deployment's id, each slug and each updated_at.
		Eventually(func() (string, error) {
			answer, err := get(cardea, schemesPath, key)()
			return string(answer.Raw), err
		}).Should(Equal(string(before.Raw)))
		Eventually(get(cardea, schemesPath, partner)).Should(haveStatus(200))
		expectAllReady(ctx, "acme")
	})

	It("takes its flags from the environment", func(ctx context.Context) {
		expectOrderlyEnd(cardea)
		launch.FromEnv = true
		cardea = start(ctx, launch)
		Expect(do(cardea, "GET", schemesPath, key, "")).To(haveStatus(200))
		launch.FromEnv = false
	})

	It("keeps serving while the API server is down, also after a cold start, and continues when it returns", func(ctx context.Context) {
		Expect(cluster.StopAPIServer()).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			_ = cluster.StartAPIServer(ctx) // the spec may fail before it restarts the API server itself
		})
		expectReadsAndNoWrites := func() {
			GinkgoHelper()
			Expect(do(cardea, "GET", schemesPath+"/free", key, "")).To(haveMember("slug", "free"))
			for _, refused := range []testkit.Answer{
				do(cardea, "PATCH", schemesPath+"/burst", key, `{"name":"Never"}`),
				do(cardea, "POST", schemesPath, key, `{"slug":"never","name":"Never","rules":[{"unit":"second","duration":1,"max_requests":5}]}`),
				do(cardea, "DELETE", schemesPath+"/burst", key, ""),
			} {
				Expect(refused.Status).To(Equal(503), string(refused.Raw))
				Expect(refused.Header.Get("Retry-After")).NotTo(BeEmpty())
				Expect(refused.JSON["message"]).To(ContainSubstring("read before retrying"))
			}
		}
		expectReadsAndNoWrites()
		By("ending in time, and starting cold")
		restart(ctx)
		expectReadsAndNoWrites()
		By("ending at once when it never saw the API server: no pass can be under way, so no grace is due")
		Expect(cardea.Stop(5 * time.Second)).To(Succeed())
		restart(ctx)
		expectReadsAndNoWrites()
		By("going on when the API server returns")
		Expect(cluster.StartAPIServer(ctx)).To(Succeed())
		Eventually(func() (testkit.Answer, error) {
			return testkit.Do("PATCH", cardea.Backend+schemesPath+"/burst", key, `{"name":"After the pause"}`)
		}).Should(haveMember("name", "After the pause"))
		kubectl(ctx, "patch", "ratelimitscheme", "acme.burst", "-n", "acme", "--type=merge", "-p", `{"spec":{"displayName":"By kubectl"}}`)
		kubectl(ctx, "annotate", "cardea", "--all", "-n", "acme", v1alpha1.AnnotationReconcileRequestedAt+"=now")
		// Each watch of client-go reconnects by itself, after up to 30 s plus as much jitter.
		Eventually(func() (string, error) {
			return cluster.Kubectl(ctx, "", "get", "cardea", "-n", "acme", "-o", `jsonpath={range .items[?(@.status.lastHandledReconcileAt!="now")]}{.kind} {.metadata.name},{end}`)
		}).WithTimeout(90 * time.Second).WithPolling(250 * time.Millisecond).Should(BeEmpty())
		Eventually(get(cardea, schemesPath+"/burst", key)).Should(haveMember("name", "By kubectl"))
		expectAllReady(ctx, "acme")
	})

	It("shows no secret in logs, resources or events", func(ctx context.Context) {
		remember(ctx)
		before := cluster.APIKey(ctx, "acme", "globex-tracking-key")
		kubectl(ctx, "annotate", "apikey", "globex-tracking-key", "-n", "acme", "--overwrite", "iam.cardea.dev/rotate-at="+time.Now().Add(-time.Second).UTC().Format(time.RFC3339))
		Eventually(func() string { return cluster.APIKey(ctx, "acme", "globex-tracking-key") }).ShouldNot(Equal(before))
		remember(ctx)
		expectNoTraceOf(ctx, seen...)
	})

	It("ends in time with exit status 0", func() { expectOrderlyEnd(cardea) })
})
