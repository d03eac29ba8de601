package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/test/testkit"
)

// observed is a real Prometheus that scrapes the processes every two seconds. It evaluates the alerts that
// config/observability ships, with their minutes of waiting shortened to seconds.
type observed struct{ url string }

func observe(targets ...*testkit.Cardea) *observed {
	GinkgoHelper()
	program, err := exec.LookPath("prometheus")
	Expect(err).NotTo(HaveOccurred(), "hack/install-deps.sh installs it")
	folder := GinkgoT().TempDir()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(), "config", "observability", "prometheus_rule.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var shipped struct {
		Spec json.RawMessage `json:"spec"`
	}
	Expect(yaml.Unmarshal(raw, &shipped)).To(Succeed())
	rules, err := yaml.JSONToYAML(shipped.Spec)
	Expect(err).NotTo(HaveOccurred())
	rules = regexp.MustCompile(`(?m)^( *for: ).*$`).ReplaceAll(rules, []byte("${1}6s"))
	var hosts []string
	for _, target := range targets {
		hosts = append(hosts, strings.TrimPrefix(target.Metrics, "http://"))
	}
	scraped, err := json.Marshal(map[string]any{
		"global":         map[string]any{"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "1s"},
		"rule_files":     []string{"rules.yaml"},
		"scrape_configs": []any{map[string]any{"job_name": "cardea", "static_configs": []any{map[string]any{"targets": hosts}}}},
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(folder, "rules.yaml"), rules, 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(folder, "prometheus.yaml"), scraped, 0o600)).To(Succeed())
	address := fmt.Sprintf("127.0.0.1:%d", freePort())
	run, err := processes.Group().Start(process.Spec{
		Name: "prometheus", Path: program,
		Args: []string{"--config.file=" + filepath.Join(folder, "prometheus.yaml"), "--storage.tsdb.path=" + filepath.Join(folder, "data"), "--web.listen-address=" + address},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(run.Kill)
	return &observed{"http://" + address}
}

// query returns a function that counts the series of a query's result.
func (o *observed) query(expression string) func() (int, error) {
	return func() (int, error) {
		response, err := http.Get(o.url + "/api/v1/query?query=" + url.QueryEscape(expression))
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		var answer struct {
			Status, Error string
			Data          struct{ Result []json.RawMessage }
		}
		if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
			return 0, err
		}
		if answer.Status != "success" {
			return 0, fmt.Errorf("%s: %s", expression, answer.Error)
		}
		return len(answer.Data.Result), nil
	}
}

// firing returns a function that counts how often an alert fires.
func (o *observed) firing(alert string) func() (int, error) {
	return o.query(`ALERTS{alertstate="firing",alertname="` + alert + `"}`)
}

// evaluated returns the time of the last evaluation of the alerts.
func (o *observed) evaluated() (time.Time, error) {
	response, err := http.Get(o.url + "/api/v1/rules")
	if err != nil {
		return time.Time{}, err
	}
	defer response.Body.Close()
	var answer struct {
		Data struct {
			Groups []struct{ LastEvaluation time.Time }
		}
	}
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		return time.Time{}, err
	}
	if len(answer.Data.Groups) != 1 {
		return time.Time{}, fmt.Errorf("%d groups of rules", len(answer.Data.Groups))
	}
	return answer.Data.Groups[0].LastEvaluation, nil
}

// dashboardQueries returns the queries of the shipped dashboard, by the titles of its panels.
func dashboardQueries() map[string][]string {
	GinkgoHelper()
	raw, err := os.ReadFile(filepath.Join(testkit.Root(), "config", "observability", "dashboards", "cardea.json"))
	Expect(err).NotTo(HaveOccurred())
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	Expect(json.Unmarshal(raw, &dashboard)).To(Succeed())
	queries := map[string][]string{}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries[panel.Title] = append(queries[panel.Title], strings.ReplaceAll(target.Expr, "$__rate_interval", "1m"))
		}
	}
	Expect(queries).NotTo(BeEmpty())
	return queries
}

// observedConnection is a Connection to a provider, with its Secret.
func observedConnection(namespace string, p *identityprovider.Provider) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: provider, namespace: %[1]s, labels: {iam.cardea.dev/deployment: people}}
stringData: {client-secret: %[2]s}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: Connection
metadata: {name: provider, namespace: %[1]s}
spec:
  deploymentRef: {name: people}
  slug: provider
  type: OIDC
  domains: [provider.example]
  client: {clientID: %[3]s, clientSecretRef: {name: provider, key: client-secret}}
  oidc: {issuer: "%[4]s"}
---`, namespace, identityprovider.ClientSecret, identityprovider.ClientID, p.URL)
}

// observedDirectory is a Directory of an organization that does not exist. It describes itself to its identity
// provider.
func observedDirectory(namespace string) string {
	return fmt.Sprintf(`
apiVersion: iam.cardea.dev/v1alpha1
kind: Directory
metadata: {name: globex, namespace: %s}
spec:
  deploymentRef: {name: people}
  slug: globex
  organization: {slug: globex}
  secretTemplate: {name: globex-scim}
---`, namespace)
}

// byProvider signs in by the connection of the deployment, after a response that is refused.
func (v *visitor) byProvider(p *identityprovider.Provider) {
	GinkgoHelper()
	connections := v.do("GET", "/auth/config", "").Data["connections"].([]any)
	Expect(connections).To(HaveLen(1))
	id := connections[0].(map[string]any)["id"].(string)
	for _, refused := range []bool{true, false} {
		begun := v.do("POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q}`, id))
		values, err := p.Authorize(begun.Data["authorization_url"].(string), identityprovider.User{"sub": "1", "email": "ann@provider.example"})
		Expect(err).NotTo(HaveOccurred())
		if refused {
			values.Set("code", "unknown")
		}
		r, err := v.send("GET", "/sso/"+id+"/callback?"+values.Encode(), "")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status != 200).To(Equal(refused), "%+v", r)
	}
}

var _ = Describe("Prometheus", Ordered, func() {
	const host = "observed.localhost"
	var (
		operator, server, other *testkit.Cardea
		inbox                   *messagegateway.Gateway
		provider                *identityprovider.Provider
		prometheus              *observed
		namespace, key          string
	)
	BeforeAll(func(ctx context.Context) {
		db := startDatabase(ctx)
		inbox = startCarrier()
		provider = identityprovider.Start(time.Now)
		DeferCleanup(provider.Close)
		operator = start(ctx, testkit.Launch{Role: "operator", Store: db.url})
		server = start(ctx, testkit.Launch{Role: "server", Store: db.url, Flags: serving})
		other = start(ctx, testkit.Launch{Role: "server", Store: db.url, Flags: serving})
		var err error
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace)+"\n---\n"+staging(namespace, host, inbox, "")+"---"+
			strings.ReplaceAll(limitedApp(namespace, "tight", `"*"`, "{unit: hour, duration: 1, maxRequests: 1}"), "{name: acme}", "{name: people}")+
			appKey(namespace, "tight", "tight-key", `"*"`)+observedConnection(namespace, provider)+observedDirectory(namespace))
		expectAllReady(ctx, namespace)
		key = cluster.APIKey(ctx, namespace, "people-key")
		Eventually(get(server, schemesPath, key)).Should(haveStatus(200))
		prometheus = observe(operator, server, other)
		Eventually(prometheus.query(`up{job="cardea"} == 1`)).Should(Equal(3))
		for _, alert := range []string{"CardeaAbsent", "CardeaNoLeader"} { // these two fire for targets never scraped
			Eventually(prometheus.firing(alert)).Should(BeZero())
		}
	})
	AfterAll(func() { processes.KillAll() })

	It("has series for every query of the dashboard", func(ctx context.Context) {
		tight := cluster.APIKey(ctx, namespace, "tight-key")
		// A rate needs a sample of the counter before it increases and one after.
		for n := range 2 {
			person := newVisitor(host, inbox, server)
			person.signUp()
			person.verifyPhone(fmt.Sprintf("+1202555%04d", 100+n))
			for range 3 {
				do(server, "GET", schemesPath, tight, "")
				do(server, "GET", schemesPath, "ck_nonsense", "")
			}
			counted, err := server.Metric("cardea_phones_verified_total")
			Expect(err).NotTo(HaveOccurred())
			Eventually(prometheus.query(fmt.Sprintf(`sum(cardea_phones_verified_total) >= %v`, counted))).Should(Equal(1))
		}
		newVisitor(host, inbox, server).byProvider(provider)
		directory, err := cluster.Provisioned(ctx, namespace, "globex-scim")
		Expect(err).NotTo(HaveOccurred())
		Expect(directory.Send(server, "GET", "/ServiceProviderConfig", "")).To(haveStatus(http.StatusOK))
		for title, queries := range dashboardQueries() {
			for _, query := range queries {
				Eventually(prometheus.query(query)).Should(BeNumerically(">", 0), "%s: %s", title, query)
			}
		}
	})

	It("fires no alert for a healthy install", func() {
		begin := time.Now()
		Eventually(prometheus.evaluated).Should(BeTemporally(">", begin))
		for _, alert := range []string{"CardeaAbsent", "CardeaDown", "CardeaNoLeader", "CardeaStale", "CardeaErrors", "CardeaDecisionsUnavailable", "CardeaLimitsNotShared", "CardeaMessagesFail", "CardeaEventsNotNumbered"} {
			Expect(prometheus.firing(alert)()).To(BeZero(), alert)
		}
	})

	It("fires for a stopped server, a stopped operator, and a stopped install", func() {
		other.Kill()
		Eventually(prometheus.firing("CardeaDown")).Should(Equal(1))
		Expect(prometheus.firing("CardeaNoLeader")()).To(BeZero())
		operator.Kill()
		Eventually(prometheus.firing("CardeaNoLeader")).Should(Equal(1))
		Expect(prometheus.firing("CardeaAbsent")()).To(BeZero())
		server.Kill()
		Eventually(prometheus.firing("CardeaAbsent")).WithTimeout(time.Minute).Should(Equal(1))
	})
})
