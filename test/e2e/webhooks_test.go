package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

// leaseEnds is within what time another server goes on after one was killed, on a slow machine.
const leaseEnds = time.Minute

// hooks is a receiver of webhooks. It accepts only requests whose signature verifies.
type hooks struct {
	mu     sync.Mutex
	secret string
	// types has the type of each event, by its number.
	types   map[int64]string
	refused int
	// tests and replays count the requests of tests and of replays. With down, every request is refused.
	tests, replays int
	down           bool
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.secret == "" { // the story has not read it yet: the events of the first resources come again
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, err := io.ReadAll(r.Body)
	var event struct{ Type, Sequence string }
	var library *standardwebhooks.Webhook
	if err == nil {
		library, err = standardwebhooks.NewWebhook(h.secret)
	}
	if err == nil {
		err = library.Verify(body, r.Header)
	}
	if err == nil {
		err = json.Unmarshal(body, &event)
	}
	if err == nil && h.down {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	if err == nil && r.Header.Get("Cardea-Test") != "" {
		h.tests++
		return
	}
	if err == nil && r.Header.Get("Cardea-Replay") != "" {
		h.replays++
	}
	number, numberErr := strconv.ParseInt(event.Sequence, 10, 64)
	if err != nil || numberErr != nil {
		h.refused++
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	h.types[number] = event.Type
}

// count returns a function that counts the events of a type.
func (h *hooks) count(of string) func() int {
	return func() (n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, one := range h.types {
			if one == of {
				n++
			}
		}
		return n
	}
}

// missing returns the numbers that were not received, up to the last one that was.
func (h *hooks) missing() (numbers []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := int64(0)
	for number := range h.types {
		last = max(last, number)
	}
	for number := range last {
		if h.types[number+1] == "" {
			numbers = append(numbers, number+1)
		}
	}
	return numbers
}

var _ = Describe("A WebhookEndpoint of two servers", Ordered, func() {
	const host = "hooks.localhost"
	var (
		operator  *testkit.Cardea
		servers   []*testkit.Cardea
		inbox     *messagegateway.Gateway
		received  *hooks
		namespace string
		store     string
	)
	BeforeAll(func(ctx context.Context) {
		store = startDatabase(ctx).url
		inbox = startCarrier()
		received = &hooks{types: map[int64]string{}}
		receiver := httptest.NewServer(received)
		DeferCleanup(receiver.Close)
		operator = start(ctx, testkit.Launch{Role: "operator", Store: store})
		for range 2 {
			servers = append(servers, start(ctx, testkit.Launch{Role: "server", Store: store, Flags: serving}))
		}
		var err error
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace)+"\n---\n"+staging(namespace, host, inbox, "")+fmt.Sprintf(`
---
apiVersion: iam.cardea.dev/v1alpha1
kind: WebhookEndpoint
metadata: {name: crm, namespace: %s}
spec:
  deploymentRef: {name: people}
  url: %s/hooks
`, namespace, receiver.URL))
		expectAllReady(ctx, namespace)
		secret, err := cluster.Kubectl(ctx, "", "get", "secret", "crm", "-n", namespace, "-o", "go-template={{index .data \"signing-secret\" | base64decode}}")
		Expect(err).NotTo(HaveOccurred(), secret)
		received.mu.Lock()
		received.secret = secret
		received.mu.Unlock()
	})
	AfterAll(func() { processes.KillAll() })

	// signUp signs new users up at a server.
	signUp := func(server *testkit.Cardea, users int) {
		GinkgoHelper()
		for range users {
			visitor := newVisitor(host, inbox, server)
			Eventually(visitor.poll("/auth/config")).Should(HaveField("Status", http.StatusOK))
			visitor.signUp()
		}
	}

	It("gets the signed events of changes at either server", func() {
		signUp(servers[0], 2)
		signUp(servers[1], 2)
		Eventually(received.count("user.created")).Should(Equal(4))
	})

	It("is listed, tested and sent events again with the plugin", func(ctx context.Context) {
		keyFile := processes.Path("hooks.key")
		Expect(os.WriteFile(keyFile, []byte(cluster.APIKey(ctx, namespace, "people-key")), 0o600)).To(Succeed())
		webhooks := func(args ...string) said {
			GinkgoHelper()
			return admin(ctx, append([]string{"webhooks", "--server", servers[1].Backend, "--api-key-file", keyFile, "-n", namespace}, args...)...)
		}
		set := func(down bool) { received.mu.Lock(); received.down = down; received.mu.Unlock() }
		Eventually(func() said { return webhooks("list") }).Should(And(HaveField("Code", 0), HaveField("Out", MatchRegexp(`(?m)^crm +\d+ +delivering +- +(\d+)/\d+ +20\S+ \S+ +http://`))))

		Expect(webhooks("test", "crm", "--type", "user.created")).To(And(HaveField("Code", 0), HaveField("Out", ContainSubstring("accepted the example of user.created: status 200"))))
		set(true)
		Expect(webhooks("test", "crm", "--type", "user.created")).To(And(HaveField("Code", 1), HaveField("Out", ContainSubstring("did not accept the example of user.created: status 503"))))
		set(false)
		received.mu.Lock()
		Expect(received.tests).To(Equal(1))
		received.mu.Unlock()

		Eventually(func() string {
			return webhooks("deliveries", "crm", "--type", "user.created", "--status", "delivered").Out
		}).Should(HaveSuffix("\n4 deliveries.\n"))
		listed := webhooks("deliveries", "crm", "--type", "user.created", "--limit", "1").Out
		id := strings.Fields(strings.Split(listed, "\n")[1])[0]
		Expect(webhooks("delivery", id)).To(And(HaveField("Code", 0), HaveField("Out", And(ContainSubstring("user.created, number "), ContainSubstring(`"type": "user.created"`)))))

		Expect(webhooks("replay", "crm", "--all", "--since", "1h", "--type", "user.created", "--wait")).To(
			And(HaveField("Code", 0), HaveField("Out", MatchRegexp(`(?m)^\d+ +completed +\d+ +\d+ +4 +0 `))))
		again := webhooks("replay", "crm", "--delivery", id, "--wait")
		Expect(again).To(And(HaveField("Code", 0), HaveField("Out", MatchRegexp(`(?m)^\d+ +completed +1 +1 +1 +0 `))))
		received.mu.Lock()
		Expect(received.replays).To(Equal(5))
		received.mu.Unlock()
		Expect(webhooks("replays", "crm").Out).To(MatchRegexp(`(?m)\A.*\n\d+ +completed +1 .*\n\d+ +completed `))
		task := strings.Fields(strings.Split(again.Out, "\n")[1])[0]
		Expect(webhooks("cancel", "crm", task)).To(HaveField("Code", 0), "a replay that has ended stays as it is")
		Expect(webhooks("reactivate", "crm")).To(And(HaveField("Code", 0), HaveField("Out", ContainSubstring("WebhookEndpoint crm is enabled"))))
		Expect(webhooks("deliveries", "unknown")).To(refuses(1, "no webhook endpoint of the deployment has the name unknown"))
		Expect(admin(ctx, "key", "reveal", "whe/crm", "-n", namespace).Out).To(Equal(received.secret + "\n"))
		// The next specs verify with the previous secret, in the overlap.
		Expect(admin(ctx, "key", "rotate", "whe/crm", "-n", namespace)).To(And(HaveField("Code", 0), HaveField("Out", ContainSubstring("requests are also signed with the previous one"))))
		Expect(admin(ctx, "key", "reveal", "whe/crm", "-n", namespace).Out).NotTo(Equal(received.secret + "\n"))
		for _, metric := range []string{"cardea_webhook_backlog", "cardea_webhook_oldest_seconds"} {
			Eventually(func() error {
				_, err := operator.Metric(metric, `endpoint="crm"`, `deployment="`+namespace+`/people"`)
				return err
			}).Should(Succeed())
		}
	})

	It("gets every event although a server is killed", func() {
		signUp(servers[0], 2)
		servers[0].Kill()
		signUp(servers[1], 3)
		Eventually(received.count("user.created")).WithTimeout(leaseEnds).Should(Equal(9))
		Eventually(received.missing).Should(BeEmpty(), "numbers are dense")
		received.mu.Lock()
		defer received.mu.Unlock()
		Expect(received.refused).To(BeZero())
	})

	// The operator ends if the API is unavailable for longer than its lease, so nothing that needs it follows.
	It("gets every event while the Kubernetes API is unavailable, also from a server that starts meanwhile", func(ctx context.Context) {
		Expect(cluster.StopAPIServer()).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(cluster.StartAPIServer(ctx)).To(Succeed()) })
		signUp(servers[1], 2)
		Eventually(received.count("user.created")).Should(Equal(11))

		started := start(ctx, testkit.Launch{Role: "server", Store: store, Flags: serving})
		expectOrderlyEnd(servers[1])
		signUp(started, 2)
		Eventually(received.count("user.created")).WithTimeout(leaseEnds).Should(Equal(13))
		Eventually(received.missing).Should(BeEmpty(), "numbers are dense")
		received.mu.Lock()
		defer received.mu.Unlock()
		Expect(received.refused).To(BeZero())
	})
})
