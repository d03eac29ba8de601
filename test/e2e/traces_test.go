package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/testing/collector"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("traces over OTLP", Ordered, func() {
	const (
		host   = "traces.localhost"
		header = "canary-of-the-collector"
	)
	var (
		spans          *collector.Collector
		inbox          *messagegateway.Gateway
		cardea         *testkit.Cardea
		namespace, key string
		ada            *visitor
	)
	// having returns the spans with a name and an attribute.
	having := func(name, attribute, value string) []collector.Span {
		return slices.DeleteFunc(spans.Named(name), func(s collector.Span) bool { return s.Attribute(attribute) != value })
	}
	within := func(of collector.Span) (names []string) {
		for _, s := range spans.Spans() {
			if s.Parent() == of.ID() && s.Trace() == of.Trace() {
				names = append(names, s.Name)
			}
		}
		return names
	}

	BeforeAll(func(ctx context.Context) {
		var err error
		spans, err = collector.Start()
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(spans.Close)
		inbox = startCarrier()
		cardea = start(ctx, testkit.Launch{
			Role: "standalone", Store: "sqlite://" + processes.Path("traces.db"), Flags: serving,
			Env: []string{
				"OTEL_EXPORTER_OTLP_ENDPOINT=" + spans.GRPC(), "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20" + header,
				"OTEL_SERVICE_NAME=iam", "OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test", "OTEL_BSP_SCHEDULE_DELAY=100",
			},
		})
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace))
		apply(ctx, staging(namespace, host, inbox, ""))
		expectAllReady(ctx, namespace)
		key = cluster.APIKey(ctx, namespace, "people-key")
		ada = newVisitor(host, inbox, cardea)
	})
	AfterAll(func() { processes.KillAll() })

	It("trace each reconcile, step by step", func() {
		var reconciled collector.Span
		Eventually(func() []collector.Span {
			return having("reconcile IdentityDeployment", "k8s.namespace.name", namespace)
		}).ShouldNot(BeEmpty())
		reconciled = having("reconcile IdentityDeployment", "k8s.namespace.name", namespace)[0]
		Expect(reconciled.Attribute("cardea.resource.name")).To(Equal("people"))
		Expect(reconciled.Parent()).To(BeEmpty())
		Expect(reconciled.Resource).To(And(HaveKeyWithValue("service.name", "iam"), HaveKeyWithValue("deployment.environment.name", "test")))
		Eventually(func() []string { return within(reconciled) }).Should(ContainElements("resolve", "check", "observe", "reserve", "report"))
		Expect(spans.Authorizations()).To(HaveEach("Bearer " + header))
		put := func() (inside []string) {
			for _, s := range spans.Named("put") {
				inside = append(inside, within(s)...)
			}
			return inside
		}
		Eventually(put).Should(ContainElement("store write"))
		finalized := func() (inside []string) {
			for _, s := range spans.Named("add finalizer") {
				inside = append(inside, within(s)...)
			}
			return inside
		}
		Eventually(finalized).Should(ContainElement("PATCH Kubernetes API"))
	})

	It("trace an HTTP write with its transactions, in the trace of the proxy before it", func() {
		const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
		answer, err := testkit.Do("POST", cardea.Backend+"/users", key, `{"email":"grace@example.com"}`, [2]string{"traceparent", "00-" + trace + "-" + parent + "-01"})
		Expect(err).NotTo(HaveOccurred())
		Expect(answer.Status).To(Equal(200), string(answer.Raw))
		Eventually(func() []collector.Span { return spans.Named("POST /users") }).Should(HaveLen(1))
		request := spans.Named("POST /users")[0]
		Expect(request.Trace()).To(Equal(trace))
		Expect(request.Parent()).To(Equal(parent))
		Eventually(func() []string { return within(request) }).Should(ContainElement("store write"))
	})

	It("trace a mail, with a link to the request that enqueued it", func() {
		ada.signUp()
		Eventually(func() []collector.Span { return spans.Named("outbox send") }).ShouldNot(BeEmpty())
		Eventually(func() []collector.Span { return spans.Named("POST /auth/signup") }).ShouldNot(BeEmpty())
		sent := spans.Named("outbox send")[0]
		Expect(sent.Attribute("cardea.message.state")).To(Equal("sent"))
		Expect(sent.Links).To(HaveLen(1))
		Expect(sent.Links[0].TraceId).To(Equal(spans.Named("POST /auth/signup")[0].TraceId))
	})

	It("names the span in the lines that are logged within it", func(ctx context.Context) {
		apply(ctx, `
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: waiting, namespace: `+namespace+`}
spec: {deploymentRef: {name: nowhere}, slug: waiting}`)
		named := func() (found bool) {
			for line := range strings.Lines(logOf(cardea)) {
				var fields struct {
					Trace string `json:"trace_id"`
					Span  string `json:"span_id"`
					Name  string
				}
				if !strings.Contains(line, "Resource is not ready") || json.Unmarshal([]byte(line), &fields) != nil || fields.Name != "waiting" {
					continue
				}
				found = found || slices.ContainsFunc(spans.Named("report"), func(s collector.Span) bool { return s.Trace() == fields.Trace && s.ID() == fields.Span })
			}
			return found
		}
		Eventually(named).Should(BeTrue())
	})

	It("are flushed at the end, and contain no secrets or personal data", func() {
		before := len(spans.Named("GET /users"))
		Expect(do(cardea, "GET", "/users?search=grace", key, "")).To(haveStatus(200))
		expectOrderlyEnd(cardea)
		Expect(len(spans.Named("GET /users"))).To(BeNumerically(">", before))
		for _, secret := range []string{key, ada.email, ada.address, visitorPassword, "grace@", header, host, messagegateway.DefaultAuthToken} {
			Expect(strings.Contains(string(spans.Raw()), secret)).To(BeFalse(), secret)
		}
	})

	It("refuse an invalid OpenTelemetry setting at the start, and name the variable", func(ctx context.Context) {
		refused, err := processes.Start(ctx, testkit.Launch{
			Role: "standalone", Store: "sqlite://" + processes.Path("traces.db"), Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317", "OTEL_EXPORTER_OTLP_PROTOCOL=thrift"},
		})
		Expect(err).NotTo(HaveOccurred())
		Eventually(refused.Done()).Should(BeClosed())
		Expect(refused.ExitError()).To(MatchError(And(ContainSubstring("OTEL_EXPORTER_OTLP_PROTOCOL"), ContainSubstring("http/protobuf, grpc"))))
	})

	It("may lack their collector, which one line reports", func(ctx context.Context) {
		alone := start(ctx, testkit.Launch{
			Role: "standalone", Store: "sqlite://" + processes.Path("traces.db"), Env: []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_BSP_SCHEDULE_DELAY=50", "OTEL_EXPORTER_OTLP_TIMEOUT=100", "OTEL_BSP_EXPORT_TIMEOUT=100"},
		})
		lines := func() int {
			Expect(do(alone, "GET", "/users", key, "")).To(haveStatus(200))
			return strings.Count(logOf(alone), "The collector of traces")
		}
		Eventually(lines).Should(Equal(1))
		expectOrderlyEnd(alone)
		Expect(strings.Count(logOf(alone), "The collector of traces")).To(Equal(1))
	})
})

// logOf returns the log of a process so far.
func logOf(c *testkit.Cardea) string {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(processes.Group().LogDir(), c.Name+".log"))
	Expect(err).NotTo(HaveOccurred())
	return string(raw)
}
