package e2e

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

// serving are flags for servers whose end users come through a proxy and whose message gateway is local.
var serving = []string{"--egress-allowed-cidrs=127.0.0.0/8", "--trusted-proxies=127.0.0.0/8"}

func startCarrier() *messagegateway.Gateway {
	GinkgoHelper()
	c, err := messagegateway.Start(messagegateway.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(c.Close)
	return c
}

// staging returns a deployment with its own host that sends messages through a gateway stand-in, and an API key for its
// backend. more is added to the deployment's spec.
func staging(namespace, host string, c *messagegateway.Gateway, more string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: carrier, namespace: %[1]s, labels: {iam.cardea.dev/deployment: people}}
data: {auth-token: %[2]s}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: IdentityDeployment
metadata: {name: people, namespace: %[1]s}
spec:
  mode: Staging
  frontendHosts: [%[3]s]
  email:
    from: no-reply@acme.example
    smtp: {host: 127.0.0.1, port: %[4]d, security: None}
  sms:
    provider: Twilio
    twilio:
      accountSID: %[5]s
      authTokenSecretRef: {name: carrier, key: auth-token}
      from: "+15005550006"
      baseURL: %[6]s
    allowedCountries: [US]
    dailyBudget: 1000
%[7]s
---
apiVersion: iam.cardea.dev/v1alpha1
kind: B2BSettings
metadata: {name: people, namespace: %[1]s}
spec:
  deploymentRef: {name: people}
  enabled: true
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIAuthApp
metadata: {name: people, namespace: %[1]s}
spec:
  deploymentRef: {name: people}
  slug: backend
  permissions: ["*"]
---
apiVersion: iam.cardea.dev/v1alpha1
kind: APIKey
metadata: {name: people-key, namespace: %[1]s}
spec:
  appRef: {name: people}
  permissions: ["*"]
  secretTemplate: {name: people-key}
`, namespace, base64.StdEncoding.EncodeToString([]byte(messagegateway.DefaultAuthToken)), host, c.SMTPPort(), messagegateway.DefaultAccountSID, c.URL(), more)
}

// peopleTables are the tables that hold users' data.
var peopleTables = []string{
	"users", "emails", "phones", "credentials", "sessions", "session_tokens", "signins", "attempts", "challenges", "failures", "outbox",
	"organizations", "workspaces", "organization_memberships", "workspace_memberships", "invitations", "events", "audit",
	"oauth_requests", "oauth_grants", "oauth_families", "oauth_codes", "oauth_refresh_tokens", "oauth_devices", "oauth_clients", "oauth_logouts",
}

var _ = Describe("end users of two servers on PostgreSQL", Ordered, func() {
	const host = "people.localhost"
	var (
		db                 *database
		rows               *sql.DB
		texts              *messagegateway.Gateway
		servers, operators []*testkit.Cardea
		namespace, key     string
		vera               *visitor
		veraID             string
		organizations      []string
		seen               []string // every cookie value that a server set
	)
	count := func(ctx context.Context, query string) (n int) {
		GinkgoHelper()
		Expect(rows.QueryRowContext(ctx, strings.ReplaceAll(query, "$home", "'"+namespace+"/people'")).Scan(&n)).To(Succeed())
		return n
	}
	// left returns the number of rows in each table that has any.
	left := func(ctx context.Context) map[string]int {
		GinkgoHelper()
		left := map[string]int{}
		for _, table := range peopleTables {
			if n := count(ctx, "SELECT COUNT(*) FROM "+table+" WHERE deployment = $home"); n > 0 {
				left[table] = n
			}
		}
		return left
	}
	remember := func(v *visitor) {
		for _, cookie := range v.cookies() {
			seen = append(seen, cookie.Value)
		}
	}

	BeforeAll(func(ctx context.Context) {
		db, texts = startDatabase(ctx), startCarrier()
		config, err := pgx.ParseConfig(db.url)
		Expect(err).NotTo(HaveOccurred())
		rows = stdlib.OpenDB(*config)
		DeferCleanup(rows.Close)
		for range 2 {
			operators = append(operators, start(ctx, testkit.Launch{Role: "operator", Store: db.url}))
		}
		for range 2 {
			servers = append(servers, start(ctx, testkit.Launch{Role: "server", Store: db.url, Flags: serving}))
		}
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace))
		apply(ctx, staging(namespace, host, texts, ""))
		expectAllReady(ctx, namespace)
		key = cluster.APIKey(ctx, namespace, "people-key")
		for _, server := range servers {
			Eventually(get(server, schemesPath, key)).Should(haveStatus(200))
		}
	})
	AfterAll(func() { processes.KillAll() })

	It("signs a user up, verifies a phone, and switches between two organizations", func(ctx context.Context) {
		vera = newVisitor(host, texts, servers[0])
		veraID = vera.signUp()
		vera.verifyPhone("+12025550100")
		Expect(vera.do("GET", "/me", "").Data).To(HaveKeyWithValue("primary_phone_number", "+12025550100"))
		for _, name := range []string{"First", "Second"} {
			organizations = append(organizations, vera.organization(name))
			remember(vera)
		}
		Expect(active(vera.do("GET", "/session", ""))).To(Equal(organizations[1]))
		path, body := switchTo(organizations[0])
		vera.do("POST", path, body)
		remember(vera)
		vera.server = servers[1]
		session := vera.do("GET", "/session", "")
		Expect(active(session)).To(Equal(organizations[0]))
		Expect(session.Data["workspace"]).To(HaveKeyWithValue("name", "Default"))
	})

	It("counts what happened", func(ctx context.Context) {
		period := url.Values{"from": {time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)}, "to": {time.Now().Add(time.Hour).UTC().Format(time.RFC3339)}}
		for _, server := range servers {
			summary := do(server, "GET", "/analytics?"+period.Encode(), key, "")
			for name, want := range map[string]float64{"signups": 1, "total_signups": 1, "unique_signins": 1, "organizations_created": 2, "workspaces_created": 2} {
				Expect(summary).To(haveMember(name, want))
			}
			Expect(summary.JSON["recent_signups"]).To(ConsistOf(And(HaveKeyWithValue("user_id", veraID), HaveKeyWithValue("method", "password"))))
			Expect(summary.JSON["recent_signins"]).To(ConsistOf(And(HaveKeyWithValue("user_email", vera.email), HaveKeyWithValue("ip_address", vera.address))))
		}
	})

	It("signs a user out of both servers at the same time", func(ctx context.Context) {
		copied, cookies := newVisitor(host, texts, servers[1]), vera.cookies()
		copied.keep(cookies)
		copied.do("GET", "/me", "")
		vera.server = servers[0]
		vera.do("POST", "/session/sign-out", `{}`)
		Eventually(func() (reply, error) {
			copied.keep(cookies) // the server clears the cookie of an ended session
			return copied.send("GET", "/me", "")
		}).WithTimeout(time.Second).Should(refuse(401, "NOT_AUTHENTICATED"))
	})

	It("loses and doubles nothing when a server is killed under load", func(ctx context.Context) {
		const users = 8
		var crowd []*customer
		for n := range users {
			c := &customer{visitor: newVisitor(host, texts, servers[n%2]), servers: servers, number: func(i int) string { return fmt.Sprintf("+1202555%02d%02d", n+2, i) }}
			c.signUp()
			c.organizations = []string{c.organization(fmt.Sprintf("Red %d", n)), c.organization(fmt.Sprintf("Blue %d", n))}
			c.last = c.organizations[1]
			crowd = append(crowd, c)
		}
		var done atomic.Int64
		stop := make(chan struct{})
		var group sync.WaitGroup
		for _, c := range crowd {
			group.Go(func() {
				defer GinkgoRecover()
				c.work(stop, &done)
			})
		}
		Eventually(done.Load).WithPolling(time.Millisecond).Should(BeNumerically(">", 30*users))
		servers[0].Kill()
		killed := done.Load()
		Eventually(done.Load).Should(BeNumerically(">", killed+60*users))
		close(stop)
		group.Wait()
		servers = servers[1:]

		for _, c := range crowd {
			Expect(c.faults).To(BeEmpty())
			c.server = servers[0]
			Expect(append(c.unknown, c.last)).To(ContainElement(active(c.do("GET", "/session", ""))), "the last switch that was acknowledged, or one under way since")
			remember(c.visitor)
		}
		expectTrue(ctx, rows, namespace, crowd)
		for what, query := range map[string]string{
			"sign-ins whose workspace is of another organization": `SELECT COUNT(*) FROM signins s LEFT JOIN workspaces w ON w.deployment = s.deployment AND w.id = s.workspace_id
				WHERE s.deployment = $home AND s.workspace_id <> 0 AND w.organization_id IS DISTINCT FROM s.organization_id`,
			"sign-ins in an organization of somebody else": `SELECT COUNT(*) FROM signins s LEFT JOIN organization_memberships m
				ON m.deployment = s.deployment AND m.organization_id = s.organization_id AND m.user_id = s.user_id WHERE s.deployment = $home AND s.organization_id <> 0 AND m.id IS NULL`,
			"phones that are verified without a code that was used, or with more than one": `SELECT COUNT(*) FROM phones p WHERE p.deployment = $home AND p.verified_at > 0 AND
				(SELECT COUNT(*) FROM challenges c WHERE c.deployment = p.deployment AND c.subject_id = p.id AND c.purpose = 'phone' AND c.consumed_at > 0) <> 1`,
			"codes that were used without a phone that is verified": `SELECT COUNT(*) FROM challenges c LEFT JOIN phones p ON p.deployment = c.deployment AND p.id = c.subject_id
				WHERE c.deployment = $home AND c.purpose = 'phone' AND c.consumed_at > 0 AND COALESCE(p.verified_at, 0) = 0`,
			"codes that were tried too often": `SELECT COUNT(*) FROM challenges WHERE deployment = $home AND tries > 5`,
		} {
			Expect(count(ctx, query)).To(BeZero(), what)
		}
		unanswered := 0
		for _, c := range crowd {
			unanswered += len(c.unknown) + len(c.underway)
		}
		AddReportEntry("under load", fmt.Sprintf("%d acknowledged, of which %d before the kill; %d open at the end", done.Load(), killed, unanswered))
	})

	It("keeps users when their deployment is deleted, and serves them when it is created again", func(ctx context.Context) {
		declared := staging(namespace, host, texts, "")
		// Wait until the load's messages are sent.
		Eventually(func() int {
			return count(ctx, "SELECT COUNT(*) FROM outbox WHERE state = 'pending' AND deployment = $home")
		}).Should(BeZero())
		before := left(ctx)
		out, err := cluster.Kubectl(ctx, declared, "delete", "-f", "-", "--timeout=30s")
		Expect(err).NotTo(HaveOccurred(), out)
		vera.server = servers[0]
		Eventually(vera.poll("/session")).Should(refuse(404, "DEPLOYMENT_NOT_FOUND"))
		Expect(left(ctx)).To(Equal(before))

		apply(ctx, staging(namespace, host, texts, "  deletionPolicy: Delete"))
		expectAllReady(ctx, namespace)
		Eventually(vera.poll("/session")).Should(HaveField("Status", 200))
		vera.signIn()
		remember(vera)
		Expect(vera.do("GET", "/me", "").Data).To(And(HaveKeyWithValue("id", veraID), HaveKeyWithValue("primary_phone_number", "+12025550100")))
		Expect(active(vera.do("GET", "/session", ""))).To(Equal(organizations[0]), "the new session has the organization of the last one")
	})

	It("erases users with a deployment whose deletion policy says so", func(ctx context.Context) {
		Expect(left(ctx)).To(HaveKey("users"))
		out, err := cluster.Kubectl(ctx, staging(namespace, host, texts, ""), "delete", "-f", "-", "--timeout=30s")
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(left(ctx)).To(BeEmpty())
		Eventually(vera.poll("/session")).Should(refuse(404, "DEPLOYMENT_NOT_FOUND"))
	})

	It("logs no secret, and ends in time with exit status 0", func(ctx context.Context) {
		expectNoTraceOf(ctx, append(seen, visitorPassword, messagegateway.DefaultAuthToken, secretPart(key))...)
		for _, c := range append(servers, operators...) {
			expectOrderlyEnd(c)
		}
	})
})

// customer is a visitor who verifies phones and switches organizations as fast as the servers answer.
type customer struct {
	*visitor
	servers       []*testkit.Cardea
	organizations []string
	number        func(i int) string
	// acknowledged are numbers whose code the server accepted with 200; underway are numbers whose code got no
	// response.
	acknowledged, underway []string
	// last is the last acknowledged switch; unknown are later switches that got no response.
	last    string
	unknown []string
	// faults are unexpected responses.
	faults []string
}

// phones is how many numbers a customer verifies, as many as a user may have.
const phones = 10

func (c *customer) work(stop <-chan struct{}, done *atomic.Int64) {
	for i := 0; ; i++ {
		select {
		case <-stop:
			return
		default:
		}
		if i%8 == 0 && i/8 < phones {
			c.verify(c.number(i/8), done)
			continue
		}
		organization := c.organizations[i%2]
		path, body := switchTo(organization)
		r, known := c.ask("POST", path, body)
		switch {
		case !known:
			c.unknown = append(c.unknown, organization)
		case r.Status == 200:
			c.last, c.unknown = organization, nil
			done.Add(1)
		default:
			c.faults = append(c.faults, fmt.Sprintf("switch: %+v", r))
			return
		}
	}
}

// ask sends a request to the servers in turn and skips servers that refuse the connection. It reports whether there was
// a response.
func (c *customer) ask(method, path, body string) (reply, bool) {
	for range c.servers {
		c.server = c.servers[(slices.Index(c.servers, c.server)+1)%len(c.servers)]
		r, err := c.send(method, path, body)
		if !unserved(err) {
			return r, err == nil
		}
	}
	return reply{}, false
}

// unserved reports whether a request was certainly not handled, because no process listened.
func unserved(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }

// insist repeats a request until there is a response, and returns the response.
func (c *customer) insist(method, path, body string) reply {
	for range 2 * len(c.servers) {
		if r, known := c.ask(method, path, body); known {
			return r
		}
	}
	return reply{}
}

// verify adds a number and sends a wrong code, then the right code through two servers concurrently.
func (c *customer) verify(number string, done *atomic.Int64) {
	added := c.insist("POST", "/me/phone-numbers", fmt.Sprintf(`{"phone_number":%q}`, number))
	id, _ := added.Data["id"].(string)
	if id == "" {
		if added.code() != "PHONE_EXISTS" { // an earlier request without a response added it
			c.faults = append(c.faults, fmt.Sprintf("%s: %+v", number, added))
		}
		return
	}
	if r := c.insist("POST", "/me/phone-numbers/"+id+"/prepare-verification", `{}`); r.Status != 200 && r.code() != "RATE_LIMITED" {
		c.faults = append(c.faults, fmt.Sprintf("prepare %s: %+v", number, r))
		return
	}
	code := ""
	Eventually(func() string { code = sent(c.inbox, number); return code }).WithTimeout(40 * time.Second).ShouldNot(BeEmpty())
	path := "/me/phone-numbers/" + id + "/attempt-verification"
	wrong := fmt.Sprintf("%c%s", '0'+(code[0]-'0'+1)%10, code[1:])
	if r, known := c.ask("POST", path, fmt.Sprintf(`{"code":%q}`, wrong)); known && r.code() != "INVALID_CODE" {
		c.faults = append(c.faults, fmt.Sprintf("wrong code: %+v", r))
	}
	var answers [2]reply
	var failed [2]error
	var both sync.WaitGroup
	for i, server := range []*testkit.Cardea{c.servers[0], c.servers[len(c.servers)-1]} {
		tab := c.at(server)
		both.Go(func() { answers[i], failed[i] = tab.send("POST", path, fmt.Sprintf(`{"code":%q}`, code)) })
	}
	both.Wait()
	successes := 0
	for i, r := range answers {
		switch {
		case failed[i] != nil:
		case r.Status == 200:
			successes++
		case r.code() != "ALREADY_VERIFIED" && r.code() != "EXPIRED_CODE":
			c.faults = append(c.faults, fmt.Sprintf("right code: %+v", r))
		}
	}
	switch {
	case successes > 1:
		c.faults = append(c.faults, number+" was verified twice")
	case successes == 1:
		c.acknowledged = append(c.acknowledged, number)
		done.Add(1)
	case failed[0] != nil && !unserved(failed[0]) || failed[1] != nil && !unserved(failed[1]):
		c.underway = append(c.underway, number)
	default:
		c.faults = append(c.faults, fmt.Sprintf("%s: the right code was refused twice: %+v", number, answers))
	}
}

// expectTrue compares the verified phones in the database with the responses that the customers received.
func expectTrue(ctx context.Context, db *sql.DB, namespace string, crowd []*customer) {
	GinkgoHelper()
	verified := map[string]bool{}
	found, err := db.QueryContext(ctx, "SELECT number FROM phones WHERE verified_at > 0 AND deployment = '"+namespace+"/people'")
	Expect(err).NotTo(HaveOccurred())
	defer found.Close()
	for found.Next() {
		var number string
		Expect(found.Scan(&number)).To(Succeed())
		Expect(verified).NotTo(HaveKey(number), "a number has one verified owner")
		verified[number] = true
	}
	Expect(found.Err()).NotTo(HaveOccurred())
	told, open := map[string]bool{"+12025550100": true}, map[string]bool{}
	for _, c := range crowd {
		Expect(c.acknowledged).NotTo(BeEmpty())
		for _, number := range c.acknowledged {
			told[number] = true
			Expect(verified).To(HaveKey(number), "an acknowledged verification was lost")
		}
		for _, number := range c.underway {
			open[number] = true
		}
	}
	for number := range verified {
		Expect(told[number] || open[number]).To(BeTrue(), "%s is verified, but no customer sent its code", number)
	}
}

var _ = Describe("end users of cardea standalone over SQLite", Ordered, func() {
	It("signs a user up, verifies a phone, and switches between two organizations", func(ctx context.Context) {
		const host = "standalone.localhost"
		texts := startCarrier()
		cardea := start(ctx, testkit.Launch{Role: "standalone", Store: "sqlite://" + processes.Path("people.db"), Flags: serving})
		DeferCleanup(func() { cardea.Kill() })
		namespace, err := cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace))
		apply(ctx, staging(namespace, host, texts, "  deletionPolicy: Delete"))
		expectAllReady(ctx, namespace)
		v := newVisitor(host, texts, cardea)
		Eventually(v.poll("/session")).Should(HaveField("Status", 200))
		v.signUp()
		v.verifyPhone("+12025550100")
		first := v.organization("First")
		Expect(v.organization("Second")).NotTo(Equal(first))
		path, body := switchTo(first)
		v.do("POST", path, body)
		Expect(active(v.do("GET", "/session", ""))).To(Equal(first))
		out, err := cluster.Kubectl(ctx, staging(namespace, host, texts, ""), "delete", "-f", "-", "--timeout=30s")
		Expect(err).NotTo(HaveOccurred(), out)
		expectOrderlyEnd(cardea)
	})
})
