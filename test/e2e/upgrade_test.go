package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

// buildBefore builds the previous release and returns the path of its cardea. It returns errHistoryMissing if the clone
// is shallow.
func buildBefore(ctx context.Context) (string, error) {
	build := exec.CommandContext(ctx, filepath.Join(testkit.Root(), "hack", "build-before.sh"))
	out, err := build.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 3 {
		return "", fmt.Errorf("%w: %s", errHistoryMissing, out)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(testkit.Root(), "bin", "before", "cardea"), nil
}

var errHistoryMissing = errors.New("no history")

// TestPreviousReleaseIsBuilt is a separate test, so that the test summary shows that a clone without history skips the
// upgrade specs.
func TestPreviousReleaseIsBuilt(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the release before")
	}
	_, err := buildBefore(t.Context())
	if errors.Is(err, errHistoryMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// release is one of the two versions of the upgrade.
type release struct {
	binary  string
	without []string
}

func (r release) launch(role, store string, flags ...string) testkit.Launch {
	return testkit.Launch{Role: role, Store: store, Flags: flags, Binary: r.binary, Without: r.without}
}

var _ = Describe("An upgrade under load", Ordered, func() {
	const host = "drill.localhost"
	var (
		before, now        release
		db                 *database
		servers, operators []*testkit.Cardea
		namespace, key     string
		vera               *visitor
		inbox              *messagegateway.Gateway
		user               *enrolled
		late               *visitor // signed in to the user's account at a server of the previous release
		work               *load
		users              *creations
		end                context.CancelFunc
		pace               func()
	)
	BeforeAll(func(ctx context.Context) {
		binary, err := buildBefore(ctx)
		if errors.Is(err, errHistoryMissing) {
			Skip(err.Error())
		}
		Expect(err).NotTo(HaveOccurred())
		before, now = release{binary: binary, without: []string{"decision-address", "envoy-address"}}, release{}
		db = startDatabase(ctx)
		inbox = startCarrier()
		for range 2 {
			operators = append(operators, start(ctx, before.launch("operator", db.url)))
		}
		for range 2 {
			servers = append(servers, start(ctx, before.launch("server", db.url, serving...)))
		}
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace)+"\n---\n"+staging(namespace, host, inbox, ""))
		expectAllReady(ctx, namespace)
		key = cluster.APIKey(ctx, namespace, "people-key")
		for _, server := range servers {
			Eventually(get(server, schemesPath, key)).Should(haveStatus(200))
		}
		vera = newVisitor(host, inbox, servers[0])
		vera.signUp()
		vera.organization("First")

		work = &load{fleet: newFleet(servers...), journal: &journal{}, key: key}
		loading, cancel := context.WithCancel(context.Background())
		end = cancel
		DeferCleanup(cancel)
		work.backend(loading)
		work.session(loading, vera)
		first := servers[0] // the fleet chooses the server of each request
		work.signUps(loading, func() *visitor { return newVisitor(host, inbox, first) })
		users = newCreations()
		users.creates(loading, work, "upgraded")
		// pace waits until the load has progressed on the servers and operators that run now.
		pace = func() {
			GinkgoHelper()
			reads, writes := work.progress()
			Eventually(func(g Gomega) {
				r, w := work.progress()
				g.Expect(r).To(BeNumerically(">", reads+100))
				g.Expect(w).To(BeNumerically(">", writes+10))
				g.Expect(work.seen()).To(BeEmpty())
			}).Should(Succeed())
		}
		pace()
	})
	AfterAll(func() {
		if work != nil {
			end()
			work.group.Wait()
		}
		processes.KillAll()
	})

	roll := func(ctx context.Context, to release) {
		GinkgoHelper()
		for i, old := range servers {
			servers[i] = start(ctx, to.launch("server", db.url, serving...))
			users.add(servers[i], to.binary == now.binary)
			work.replace(old, servers[i])
			Eventually(work.idle(old)).Should(BeTrue())
			expectOrderlyEnd(old)
			pace()
		}
	}
	rollOperators := func(ctx context.Context, to release) {
		GinkgoHelper()
		for i, old := range operators {
			operators[i] = start(ctx, to.launch("operator", db.url))
			Expect(old.Stop(stopsWithin)).To(Succeed())
			pace()
		}
	}

	It("migrates while the previous release runs", func(ctx context.Context) {
		_, stderr, err := run(ctx, []string{"CARDEA_STORE=" + db.url}, "migrate")
		Expect(err).NotTo(HaveOccurred(), stderr)
		pace()
	})
	It("replaces one server after another", func(ctx context.Context) { roll(ctx, now) })
	It("takes no second factors before the operators are replaced", func() { expectNoEnrollment(host, inbox, servers[0]) })
	It("replaces one operator after another", func(ctx context.Context) { rollOperators(ctx, now) })
	It("takes second factors, and asks for them", func() {
		awaitApps(host, inbox, servers[0], true)
		user = enroll(host, inbox, servers[0])
		expectSecondStep(user.anew(inbox, servers[1]), "totp", user.appCode(1)) // the present step confirmed the app
	})
	It("accepts a kind that the previous release does not know", func(ctx context.Context) {
		apply(ctx, portal(namespace))
		kubectl(ctx, "wait", "oauthapp,oauthclient", "--all", "-n", namespace, "--for=condition=Ready", "--timeout=60s")
		Expect(db.kinds(ctx, namespace)).To(HaveKeyWithValue(v1alpha1.KindOAuthClient, 1))
	})
	It("sends the events of changes to a WebhookEndpoint", func(ctx context.Context) {
		users.subscribe(ctx, namespace)
		Eventually(users.received.count("user.created")).Should(BeNumerically(">", 10))
	})
	It("restarts one server after another", func(ctx context.Context) { roll(ctx, now) })
	It("goes back to the previous operators", func(ctx context.Context) { rollOperators(ctx, before) })
	It("asks for second factors under the previous operators, but takes none", func() {
		awaitApps(host, inbox, servers[0], false)
		expectNoEnrollment(host, inbox, servers[0])
		expectSecondStep(user.anew(inbox, servers[1]), "recovery_code", user.recoveryCode())
	})
	It("goes back to the previous servers", func(ctx context.Context) { roll(ctx, before) })
	It("asks for no second factor at a server of the previous release", func() {
		late = user.anew(inbox, servers[0])
		late.signIn()
		Expect(late.do("GET", "/me", "").Data).To(HaveKeyWithValue("email", user.email))
	})
	It("failed no read and lost no write, and the session lives", func(ctx context.Context) {
		end()
		work.group.Wait()
		Expect(work.faults).To(BeEmpty())
		AddReportEntry("under load", fmt.Sprintf("%d reads, %d writes", work.reads, work.writes))
		expectAllReady(ctx, namespace)
		Expect(db.kinds(ctx, namespace)).To(HaveKeyWithValue(v1alpha1.KindOAuthClient, 1), "the previous release keeps documents of kinds that it does not know")
		for _, server := range servers {
			for _, slug := range work.schemes {
				Eventually(get(server, schemesPath+"/"+slug, key)).Should(haveMember("slug", slug))
			}
			for _, email := range work.people {
				Expect(do(server, "GET", "/users?search="+url.QueryEscape(email), key, "").JSON["data"]).To(HaveLen(1), email)
			}
			Expect(vera.at(server).do("GET", "/me", "").Data).To(HaveKeyWithValue("email", vera.email))
		}
	})
	It("holds what the previous release signed in without a second factor, once this release returns", func(ctx context.Context) {
		server := start(ctx, now.launch("server", db.url, serving...))
		servers = append(servers, server)
		held := late.at(server)
		Expect(held.do("GET", "/session", "").Data["user"]).To(BeNil())
		refused, err := held.send("GET", "/me/signins", "")
		Expect(err).NotTo(HaveOccurred())
		Expect(refused.code()).To(Equal("STEP_UP_REQUIRED"))
		held.do("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"recovery_code","code":%q}`, user.recoveryCode()))
		Expect(held.do("GET", "/session", "").Data["user"]).To(HaveKeyWithValue("email", user.email))
	})
	It("lost no event of a server of this release, at the upgrade, the way back and the return", func(ctx context.Context) {
		returned := servers[len(servers)-1]
		users.add(returned, true)
		work.replace(servers[0], returned)
		with, without := users.counts()
		loading, stop := context.WithCancel(ctx)
		defer stop()
		users.creates(loading, work, "returned")
		Eventually(func(g Gomega) {
			w, o := users.counts()
			g.Expect(w).To(BeNumerically(">", with+10))
			g.Expect(o).To(BeNumerically(">", without+10))
		}).Should(Succeed())
		stop()
		work.group.Wait()
		users.expectDelivered(ctx, db, namespace+"/people")
	})
	It("ends in time with exit status 0", func() {
		for _, c := range append(servers, operators...) {
			expectOrderlyEnd(c)
		}
	})
})
