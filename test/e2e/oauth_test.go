package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/oauth2"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

// portal returns an app with a client that signs users in and gets its own tokens.
func portal(namespace string) string {
	return fmt.Sprintf(`
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthApp
metadata: {name: portal, namespace: %[1]s}
spec: {deploymentRef: {name: people}, slug: portal}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthClient
metadata: {name: web, namespace: %[1]s}
spec:
  oauthAppRef: {name: portal}
  redirectURIs: ["https://client.example/callback"]
  grantTypes: [AuthorizationCode, RefreshToken, ClientCredentials]
  consent: Skip
  secretTemplate: {name: web}
`, namespace)
}

// party is a client of an app with one user. It refreshes, introspects and requests tokens for as long as it works.
type party struct {
	host, clientID, secret string
	person                 *visitor
	// servers are the live servers, as a load balancer knows them with a delay.
	servers *atomic.Pointer[[]*testkit.Cardea]
	refresh string
	done    *atomic.Int64
	// faults are requests that failed even after a retry; seen collects secrets that no log may hold.
	faults, seen []string
	retried      int
}

// post posts a form as the client to one server. After an error it is unknown whether the request was served.
func (c *party) post(server *testkit.Cardea, path string, form url.Values) (int, map[string]any, error) {
	r, err := http.NewRequest(http.MethodPost, server.Frontend+"/oauth/portal"+path, strings.NewReader(form.Encode()))
	if err != nil {
		return 0, nil, err
	}
	r.Host = c.host
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.SetBasicAuth(url.QueryEscape(c.clientID), url.QueryEscape(c.secret))
	response, err := (&http.Client{Timeout: 10 * time.Second}).Do(r)
	if err != nil {
		return 0, nil, err
	}
	raw, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return 0, nil, err
	}
	var answer map[string]any
	return response.StatusCode, answer, json.Unmarshal(raw, &answer)
}

// ask posts to the servers in turn. If a server does not answer or fails with a 5xx, ask tries the next server once.
func (c *party) ask(turn int, path string, form url.Values) map[string]any {
	for try := range 2 {
		servers := *c.servers.Load()
		status, answer, err := c.post(servers[(turn+try)%len(servers)], path, form)
		if err == nil && status == http.StatusOK {
			c.done.Add(1)
			return answer
		}
		if err == nil && status < http.StatusInternalServerError || try == 1 {
			c.faults = append(c.faults, fmt.Sprintf("%s %s, try %d: %d %v %v", path, form.Get("grant_type"), try+1, status, answer, err))
			return nil
		}
		c.retried++
	}
	return nil
}

// keep stores the refresh token of a response and returns its access token.
func (c *party) keep(answer map[string]any) (access string) {
	access, _ = answer["access_token"].(string)
	if refresh, _ := answer["refresh_token"].(string); refresh != "" {
		c.refresh = refresh
	}
	for _, secret := range []string{access, c.refresh} {
		if len(c.seen) < 20 && secret != "" {
			c.seen = append(c.seen, secret)
		}
	}
	return access
}

// signIn signs the user in through the browser and redeems the code.
func (c *party) signIn() {
	GinkgoHelper()
	verifier := oauth2.GenerateVerifier()
	config := oauth2.Config{ClientID: c.clientID, RedirectURL: "https://client.example/callback", Scopes: []string{"openid", "email", "offline_access"}, Endpoint: oauth2.Endpoint{AuthURL: "http://" + c.host + "/oauth/portal/authorize"}}
	code := c.person.allow(config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier))).Query().Get("code")
	answer := c.ask(0, "/token", url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {config.RedirectURL}, "code_verifier": {verifier}})
	Expect(c.keep(answer)).NotTo(BeEmpty(), "%v", c.faults)
}

// work sends all requests that need no browser until stop is closed.
func (c *party) work(stop <-chan struct{}) {
	for turn := 0; ; turn++ {
		select {
		case <-stop:
			return
		default:
		}
		access := c.keep(c.ask(turn, "/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {c.refresh}}))
		if access == "" {
			return
		}
		if told := c.ask(turn+1, "/introspect", url.Values{"token": {access}}); told["active"] != true {
			c.faults = append(c.faults, fmt.Sprintf("a fresh token is reported as %v", told))
		}
		c.keep(c.ask(turn, "/token", url.Values{"grant_type": {"client_credentials"}}))
	}
}

var _ = Describe("an authorization server of two processes", Ordered, func() {
	const host = "portal.localhost"
	var (
		living   atomic.Pointer[[]*testkit.Cardea]
		done     atomic.Int64
		parties  []*party
		operator *testkit.Cardea
	)
	// under runs the parties' load while until runs, and expects no faults.
	under := func(until func()) {
		GinkgoHelper()
		stop := make(chan struct{})
		var group sync.WaitGroup
		end := sync.OnceFunc(func() { close(stop); group.Wait() })
		defer end()
		for _, c := range parties {
			group.Go(func() { c.work(stop) })
		}
		until()
		end()
		for _, c := range parties {
			Expect(c.faults).To(BeEmpty())
		}
	}

	BeforeAll(func(ctx context.Context) {
		database, texts := startDatabase(ctx), startCarrier()
		operator = start(ctx, testkit.Launch{Role: "operator", Store: database.url})
		namespace, err := cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace)+"\n---\n"+staging(namespace, host, texts, "")+"---"+portal(namespace))
		expectAllReady(ctx, namespace)
		servers := []*testkit.Cardea{}
		for range 2 {
			servers = append(servers, start(ctx, testkit.Launch{Role: "server", Store: database.url, Flags: serving}))
		}
		living.Store(&servers)
		clientID := kubectl(ctx, "get", "oauthclient", "web", "-n", namespace, "-o", "jsonpath={.status.clientID}")
		secret := kubectl(ctx, "get", "secret", "web", "-n", namespace, "-o", `go-template={{index .data "client-secret" | base64decode}}`)
		for range 3 {
			c := &party{host: host, clientID: clientID, secret: secret, person: newVisitor(host, texts, servers[0]), servers: &living, done: &done}
			c.person.signUp()
			c.signIn()
			parties = append(parties, c)
		}
	})
	AfterAll(func() { processes.KillAll() })

	It("issues every token while the Kubernetes API is unavailable", func(ctx context.Context) {
		away := 5 * time.Second
		if told := os.Getenv("CARDEA_TEST_OUTAGE"); told != "" {
			var err error
			away, err = time.ParseDuration(told)
			Expect(err).NotTo(HaveOccurred())
		}
		Expect(cluster.StopAPIServer()).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(cluster.StartAPIServer(ctx)).To(Succeed()) })
		begun, before := time.Now(), done.Load()
		under(func() {
			Eventually(func() bool { return time.Since(begun) > away && done.Load() > before+300 }).WithTimeout(away + time.Minute).Should(BeTrue())
		})
		parties[0].signIn() // users can sign in too
		for _, c := range parties {
			Expect(c.retried).To(BeZero())
		}
		AddReportEntry("while the API was away", fmt.Sprintf("%d requests in %s, none failed", done.Load()-before, time.Since(begun).Round(time.Second)))
	})

	It("fails no request after a retry when one of two is killed", func() {
		before := done.Load()
		under(func() {
			Eventually(done.Load).WithPolling(time.Millisecond).Should(BeNumerically(">", before+60))
			servers := *living.Load()
			servers[0].Kill()
			killed := done.Load()
			Eventually(done.Load).Should(BeNumerically(">", killed+30), "with a dead server in the list")
			rest := servers[1:]
			living.Store(&rest)
			killed = done.Load()
			Eventually(done.Load).Should(BeNumerically(">", killed+100))
		})
		retried := 0
		for _, c := range parties {
			retried += c.retried
		}
		Expect(retried).To(BeNumerically(">", 0), "no request reached the dead server")
	})

	It("logs no secret, and ends in time with exit status 0", func(ctx context.Context) {
		var seen []string
		for _, c := range parties {
			seen = append(seen, append(c.seen, c.secret)...)
		}
		expectNoTraceOf(ctx, append(seen, visitorPassword, messagegateway.DefaultAuthToken)...)
		for _, c := range append(*living.Load(), operator) {
			expectOrderlyEnd(c)
		}
	})
})
