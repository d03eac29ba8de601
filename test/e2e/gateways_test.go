package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/test/testkit"
)

// A gateway is a program in front of an application, with its configuration from docs/gateways.
type gateway struct {
	// folder is the folder below docs/gateways whose files are copied into the program's working directory.
	folder string
	// program is the name of the program in bin/gateways or in PATH.
	program string
	args    []string
	// away lists the statuses that clients may get while the decision server is unavailable. No request may reach the
	// application then.
	away []int
}

var gateways = []gateway{
	{"nginx", "nginx", []string{"-p", ".", "-c", "nginx.conf", "-g", "daemon off;"}, []int{500}},
	{"haproxy", "haproxy", []string{"-f", "haproxy.cfg"}, []int{503}},
	{"caddy", "caddy", []string{"run", "--config", "Caddyfile", "--adapter", "caddyfile"}, []int{502, 503}},
	{"traefik", "traefik", []string{"--configfile=traefik.yaml"}, []int{500, 502, 503}},
}

// posts returns rules that limit the POSTs of each key: five in a number of seconds, a hundred in a day.
func posts(seconds int) []string {
	const to = `endpoints: ["POST /v1/*"]`
	return []string{fmt.Sprintf("{unit: second, duration: %d, maxRequests: 5, %s}", seconds, to), "{unit: calendar_day, duration: 1, maxRequests: 100, " + to + "}"}
}

// manager is an app whose key creates runtime keys.
const manager = `
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: manager, namespace: %[1]s}
spec: {deploymentRef: {name: acme}, slug: manager, permissions: ["api_keys:write"]}
---`

// application starts an application that responds with the request headers it received.
func application() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(r.Header)
	}))
}

// path returns the path of the gateway's program.
func (g gateway) path() (string, error) {
	built := filepath.Join(testkit.Root(), "bin", "gateways", g.program)
	if _, err := os.Stat(built); err == nil {
		return built, nil
	}
	return exec.LookPath(g.program)
}

// launch starts a gateway in front of an application, and returns the gateway's URL. It changes only the three
// addresses and the deployment in the files of docs.
func (g gateway) launch(ctx context.Context, decision, application, deployment string) string {
	GinkgoHelper()
	program, err := g.path()
	if err != nil {
		Skip(g.program + " is not here: `make gateways` builds Traefik and the newest Caddy, hack/install-deps.sh installs the others")
	}
	port, err := controlplane.FreePort()
	Expect(err).NotTo(HaveOccurred())
	own := fmt.Sprintf("127.0.0.1:%d", port)
	folder := GinkgoT().TempDir()
	Expect(os.Chmod(folder, 0o755)).To(Succeed())
	files, err := os.ReadDir(filepath.Join(testkit.Root(), "docs", "gateways", g.folder))
	Expect(err).NotTo(HaveOccurred())
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "gateways", g.folder, file.Name()))
		Expect(err).NotTo(HaveOccurred())
		text := strings.NewReplacer("127.0.0.1:8000", own, "127.0.0.1:8082", strings.TrimPrefix(decision, "http://"), "127.0.0.1:9000", strings.TrimPrefix(application, "http://"), "acme/acme", deployment).Replace(string(content))
		Expect(os.WriteFile(filepath.Join(folder, file.Name()), []byte(text), 0o644)).To(Succeed())
	}
	started, err := processes.Group().Start(process.Spec{
		Name: "gateway-" + g.folder, Path: program, Args: g.args, Dir: folder, Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + folder},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return started.Stop(stopsWithin) }) // a killed nginx leaves its workers behind
	Eventually(ctx, func() error {
		conn, err := net.Dial("tcp", own)
		if err != nil {
			return err
		}
		return conn.Close()
	}).Should(Succeed())
	return "http://" + own
}

// visit sends a request through a gateway.
func visit(method, url string, headers ...string) (*http.Response, http.Header) {
	GinkgoHelper()
	request, err := http.NewRequest(method, url, nil)
	Expect(err).NotTo(HaveOccurred())
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Add(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	Expect(err).NotTo(HaveOccurred())
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(answer.Body)
	Expect(err).NotTo(HaveOccurred())
	seen := http.Header{}
	if answer.StatusCode == http.StatusOK {
		Expect(json.Unmarshal(raw, &seen)).To(Succeed(), string(raw))
	}
	return answer, seen
}

var _ = Describe("A gateway", Ordered, func() {
	var namespace, intruder string
	var cardea *testkit.Cardea
	var behind *httptest.Server
	BeforeAll(func(ctx context.Context) {
		var err error
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		declared := tenant(namespace) + limitedApp(namespace, "shop", `"orders:read"`, posts(30)...)
		for _, g := range gateways {
			declared += appKey(namespace, "shop", g.folder, `"orders:read"`)
		}
		apply(ctx, declared)
		store := "sqlite://" + filepath.Join(GinkgoT().TempDir(), "cardea.db")
		cardea = start(ctx, testkit.Launch{Role: "standalone", Store: store, Flags: []string{"--trusted-proxies=127.0.0.1/32"}})
		DeferCleanup(func() { cardea.Kill() })
		expectAllReady(ctx, namespace)
		other, err := cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, tenant(other)+limitedApp(other, "shop", `"*"`, posts(30)...)+appKey(other, "shop", "intruder", `"*"`))
		expectAllReady(ctx, other)
		intruder = cluster.APIKey(ctx, other, "intruder")
		behind = application()
		DeferCleanup(behind.Close)
	})

	for _, g := range gateways {
		It("lets "+g.folder+" admit, refuse and limit as declared, whatever the client claims", func(ctx context.Context) {
			url := g.launch(ctx, cardea.Decision, behind.URL, namespace+"/acme")
			plain := cluster.APIKey(ctx, namespace, g.folder)
			key := "Authorization: Bearer " + plain
			Eventually(func() int { answer, _ := visit("GET", url+"/v1/orders", key); return answer.StatusCode }).Should(Equal(200))

			answer, _ := visit("GET", url+"/v1/orders")
			Expect(answer).To(HaveHTTPStatus(401))
			Expect(answer.Header).To(HaveKey("Www-Authenticate"))
			answer, _ = visit("GET", url+"/v1/orders", key+"x")
			Expect(answer).To(HaveHTTPStatus(401))
			answer, _ = visit("GET", url+"/v1/orders", "X-API-Key: "+plain, key)
			Expect(answer).To(HaveHTTPStatus(401), "a request with two credentials is unauthenticated")
			answer, _ = visit("GET", url+"/v1/orders", "Authorization: Bearer "+intruder)
			Expect(answer).To(HaveHTTPStatus(401), "another deployment's key, which has every permission")
			answer, _ = visit("GET", url+"/admin/", key)
			Expect(answer).To(HaveHTTPStatus(403), "the permission admin is missing")
			for _, path := range []string{"/%61dmin/x", "/.//admin/x", "/./admin/x", "/x/../admin/x", "/admin", "/x/%2e%2e/admin/x"} {
				answer = raw(url, "GET", path, key)
				Expect(answer.StatusCode).To(BeElementOf(403, 400, 301, 307, 308), "%s is below /admin/ as well", path)
			}

			forged := []string{
				key, "X-Cardea-Key-Id: forged", "X-Cardea-Owner-User-Id: 1", "X-Original-Method: GET", "X-Original-URI: /free", "X-Forwarded-Method: GET",
				"X-Forwarded-Uri: /free", "X-Auth-Status: 200", "X_Cardea_Key_Id: forged", "X_Cardea_Owner_User_Id: 1",
			}
			for i := range 5 {
				answer, seen := visit("POST", url+"/v1/orders", forged...)
				Expect(answer).To(HaveHTTPStatus(200), "request %d", i)
				for name := range seen {
					Expect(name).NotTo(HavePrefix("X_"), "frameworks treat the underscore form as the header with dashes")
				}
				Expect(seen["X-Cardea-App"]).To(Equal([]string{"shop"}))
				Expect(seen["X-Cardea-Permissions"]).To(Equal([]string{"orders:read"}))
				Expect(seen["X-Cardea-Key-Id"]).To(Equal([]string{strings.Split(plain, "_")[1][:12]}))
				Expect(strings.Join(seen["X-Cardea-Owner-User-Id"], "")).To(BeEmpty())
			}
			answer, _ = visit("POST", url+"/v1/orders", forged...)
			Expect(answer).To(HaveHTTPStatus(429))
			Expect(answer.Header.Get("Retry-After")).To(MatchRegexp(`^([1-9]|[12][0-9]|30)$`))
			Expect(answer.Header.Get("RateLimit")).To(HavePrefix(`"5/30s";r=0;t=`))
			answer, _ = visit("GET", url+"/v1/orders", key)
			Expect(answer).To(HaveHTTPStatus(200), "a GET is not limited")
			for _, path := range []string{"/v1/%6Frders", "/v1/./orders", "/v1//orders", "/x/../v1/orders"} {
				answer = raw(url, "POST", path, key)
				Expect(answer.StatusCode).To(BeElementOf(429, 400, 301, 308), "%s is the same path", path)
			}
		})
	}

	It("enforces five a second and a hundred a day on a real client, through changes of the scheme", func(ctx context.Context) {
		apply(ctx, limitedApp(namespace, "customers", "", posts(1)...)+fmt.Sprintf(manager, namespace)+appKey(namespace, "manager", "manager", `"api_keys:write"`))
		expectAllReady(ctx, namespace)
		url := gateways[0].launch(ctx, cardea.Decision, behind.URL, namespace+"/acme")
		manager := cluster.APIKey(ctx, namespace, "manager")
		var created testkit.Answer
		Eventually(func() int {
			created = do(cardea, "POST", "/api-auth/apps/customers/keys", manager, `{"name":"Globex"}`)
			return created.Status
		}).Should(Equal(200))
		customer := created.JSON["secret"].(string)
		id := created.JSON["key"].(map[string]any)["id"].(string)
		key := "Authorization: Bearer " + customer
		Eventually(func() int { answer, _ := visit("GET", url+"/v1/things", key); return answer.StatusCode }).Should(Equal(200))

		var admitted []time.Time
		post := func() *http.Response {
			before := time.Now()
			answer, _ := visit("POST", url+"/v1/things", key)
			Expect(answer.StatusCode).To(BeElementOf(200, 429))
			if answer.StatusCode == 200 {
				admitted = append(admitted, before)
			}
			return answer
		}
		began := time.Now()
		Eventually(func() bool { post(); return time.Since(began) > 3*time.Second }).WithPolling(time.Millisecond).WithTimeout(30 * time.Second).Should(BeTrue())
		for i := range admitted {
			if i >= 5 { // the sixth is admitted a second or more after the first; latency may shorten the difference
				Expect(admitted[i].Sub(admitted[i-5])).To(BeNumerically(">", 900*time.Millisecond), "six within a second")
			}
		}
		Expect(len(admitted)).To(BeNumerically(">=", 10), "at least what two seconds admit")

		used := len(admitted)
		kubectl(ctx, "patch", "ratelimitscheme", "customers", "-n", namespace, "--type=json", `-p=[{"op":"replace","path":"/spec/rules/0/maxRequests","value":1000}]`)
		Eventually(func() string { return post().Header.Get("RateLimit-Policy") }).WithTimeout(time.Second).WithPolling(20 * time.Millisecond).Should(HavePrefix(`"1000/1s"`))
		Expect(post().Header.Get("RateLimit")).To(ContainSubstring(fmt.Sprintf(`"100/calendar_day";r=%d`, 100-len(admitted))), "no counter was lost: %d were used before", used)
		var last *http.Response
		Eventually(func() int { last = post(); return last.StatusCode }).WithTimeout(20 * time.Second).WithPolling(time.Millisecond).Should(Equal(429))
		Expect(admitted).To(HaveLen(100), "a hundred a day, whatever the second's rule says")
		Expect(last.Header.Get("RateLimit")).To(ContainSubstring(`"100/calendar_day";r=0`))

		Expect(do(cardea, "POST", "/api-auth/apps/customers/keys/"+id+"/revoke", manager, `{}`).Status).To(Equal(200))
		Eventually(func() int { answer, _ := visit("GET", url+"/v1/things", key); return answer.StatusCode }).WithTimeout(time.Second).Should(Equal(401))
	})

	It("refuses everything while the decision server is unavailable", func(ctx context.Context) {
		cardea.Kill()
		for _, g := range gateways {
			if _, err := g.path(); err != nil {
				continue
			}
			url := g.launch(ctx, cardea.Decision, behind.URL, namespace+"/acme")
			key := "Authorization: Bearer " + cluster.APIKey(ctx, namespace, g.folder)
			Eventually(func() int { // Traefik listens before it has read its routes
				answer, _ := visit("GET", url+"/v1/orders", key)
				Expect(answer).NotTo(HaveHTTPStatus(200), g.folder)
				return answer.StatusCode
			}).Should(BeElementOf(g.away), g.folder)
		}
	})
})

// raw sends a path unchanged, and follows no redirect.
func raw(url, method, path, header string) *http.Response {
	GinkgoHelper()
	request, err := http.NewRequest(method, url, nil)
	Expect(err).NotTo(HaveOccurred())
	request.URL.Opaque = path
	name, value, _ := strings.Cut(header, ": ")
	request.Header.Set(name, value)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Timeout: 10 * time.Second}
	answer, err := client.Do(request)
	Expect(err).NotTo(HaveOccurred())
	_, _ = io.Copy(io.Discard, answer.Body)
	Expect(answer.Body.Close()).To(Succeed())
	return answer
}
