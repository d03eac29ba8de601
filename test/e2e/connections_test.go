package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/internal/testing/messagegateway"
	"github.com/cardea-iam/cardea/test/testkit"
)

// globexConnection is a Connection of an organization to a provider, with its Secret.
func globexConnection(namespace, organization, secret string, p *identityprovider.Provider) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: globex, namespace: %[1]s, labels: {iam.cardea.dev/deployment: people}}
stringData: {client-secret: %[3]s}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: Connection
metadata: {name: globex, namespace: %[1]s}
spec:
  deploymentRef: {name: people}
  slug: globex
  type: OIDC
  organization: {slug: %[2]s}
  domains: [globex.example]
  client: {clientID: %[4]s, clientSecretRef: {name: globex, key: client-secret}}
  oidc: {issuer: "%[5]s"}
`, namespace, organization, secret, identityprovider.ClientID, p.URL)
}

// globexDirectory is a Directory of the organization, whose users sign in by the Connection.
func globexDirectory(namespace, organization string) string {
	return fmt.Sprintf(`
apiVersion: iam.cardea.dev/v1alpha1
kind: Directory
metadata: {name: globex, namespace: %[1]s}
spec:
  deploymentRef: {name: people}
  slug: globex
  organization: {slug: %[2]s}
  connectionRef: {name: globex}
  secretTemplate: {name: globex-scim}
`, namespace, organization)
}

// deprovisionings is how many users are deactivated in a row: CARDEA_DEPROVISIONINGS, or a few.
func deprovisionings() int {
	GinkgoHelper()
	text := os.Getenv("CARDEA_DEPROVISIONINGS")
	if text == "" {
		return 5
	}
	n, err := strconv.Atoi(text)
	Expect(err).NotTo(HaveOccurred())
	return n
}

var _ = Describe("Connections and directories of two servers", Ordered, func() {
	const host = "sso.localhost"
	var (
		servers                       []*testkit.Cardea
		inbox                         *messagegateway.Gateway
		provider                      *identityprovider.Provider
		launch                        testkit.Launch
		namespace, organization, conn string
	)
	// signIn signs a new visitor in at a server, as a user of the provider, and returns the response to the callback.
	signIn := func(server *testkit.Cardea, email string) (*visitor, reply, error) {
		GinkgoHelper()
		v := newVisitor(host, inbox, server)
		begun, err := v.send("POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q}`, conn))
		if err != nil || begun.Status != http.StatusOK {
			return v, begun, err
		}
		values, err := provider.Authorize(begun.Data["authorization_url"].(string), identityprovider.User{"sub": email, "email": email})
		Expect(err).NotTo(HaveOccurred())
		r, err := v.send("GET", "/sso/"+conn+"/callback?"+values.Encode(), "")
		return v, r, err
	}
	// expectIn expects that a sign-in succeeds, and that both servers know it.
	expectIn := func(server *testkit.Cardea, email string) *visitor {
		GinkgoHelper()
		v, r, err := signIn(server, email)
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).To(Equal(http.StatusOK), "%+v", r)
		for _, one := range servers {
			Expect(v.at(one).do("GET", "/me", "").Data).To(HaveKeyWithValue("email", email))
		}
		return v
	}
	BeforeAll(func(ctx context.Context) {
		db := startDatabase(ctx)
		inbox = startCarrier()
		provider = identityprovider.Start(time.Now)
		DeferCleanup(provider.Close)
		start(ctx, testkit.Launch{Role: "operator", Store: db.url})
		launch = testkit.Launch{Role: "server", Store: db.url, Flags: serving}
		for range 2 {
			servers = append(servers, start(ctx, launch))
		}
		var err error
		namespace, err = cluster.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		apply(ctx, secretsRoleBinding(namespace)+"\n---\n"+staging(namespace, host, inbox, ""))
		expectAllReady(ctx, namespace)
		owner := newVisitor(host, inbox, servers[0])
		Eventually(owner.poll("/auth/config")).Should(HaveField("Status", http.StatusOK))
		owner.signUp()
		_, organization = owner.namedOrganization("Globex")
	})
	AfterAll(func() { processes.KillAll() })

	It("sign users in once the Connection is Ready", func(ctx context.Context) {
		apply(ctx, globexConnection(namespace, organization, identityprovider.ClientSecret, provider))
		expectAllReady(ctx, namespace)
		began := time.Now()
		for _, server := range servers {
			Eventually(func() ([]any, error) {
				r, err := newVisitor(host, inbox, server).send("POST", "/auth/sso/discover", `{"email":"ann@globex.example"}`)
				found, _ := r.Data["connections"].([]any)
				return found, err
			}).WithPolling(10 * time.Millisecond).Should(HaveLen(1))
		}
		AddReportEntry("readiness", "both servers offered the Connection "+time.Since(began).Round(time.Millisecond).String()+" after it was seen to be Ready")
		r := newVisitor(host, inbox, servers[0]).do("POST", "/auth/sso/discover", `{"email":"ann@globex.example"}`)
		conn = r.Data["connections"].([]any)[0].(map[string]any)["id"].(string)
		expectIn(servers[1], "ann@globex.example")
	})

	It("use a client secret that was replaced in its Secret", func(ctx context.Context) {
		const replaced = "the-next-secret-of-the-client"
		provider.SetSecret(replaced)
		_, r, err := signIn(servers[0], "ann@globex.example")
		Expect(err).NotTo(HaveOccurred())
		Expect(r.Status).NotTo(Equal(http.StatusOK), "%+v", r)
		apply(ctx, globexConnection(namespace, organization, replaced, provider))
		for _, server := range servers {
			Eventually(func() (int, error) {
				_, r, err := signIn(server, "ann@globex.example")
				return r.Status, err
			}).Should(Equal(http.StatusOK))
		}
		expectNoTraceOf(ctx, replaced)
	})

	It("sign users in at a server that starts while the provider's metadata are unavailable", func(ctx context.Context) {
		provider.SetSilent(true)
		defer provider.SetSilent(false)
		expectOrderlyEnd(servers[0])
		servers[0] = start(ctx, launch)
		expectIn(servers[0], "ann@globex.example")
	})

	It("end the access of deactivated users at both servers within a second", func(ctx context.Context) {
		apply(ctx, globexDirectory(namespace, organization))
		expectAllReady(ctx, namespace)
		d, err := cluster.Provisioned(ctx, namespace, "globex-scim")
		Expect(err).NotTo(HaveOccurred())
		for _, server := range servers {
			Eventually(func() (testkit.Answer, error) { return d.Send(server, "GET", "/ServiceProviderConfig", "") }).Should(haveStatus(http.StatusOK))
		}
		var slowest time.Duration
		for n := range deprovisionings() {
			email := fmt.Sprintf("user-%d@globex.example", n)
			user, err := d.Send(servers[n%2], "POST", "/Users", fmt.Sprintf(`{"userName":%q}`, email))
			Expect(err).NotTo(HaveOccurred())
			Expect(user).To(haveStatus(http.StatusCreated))
			v := expectIn(servers[0], email)
			cookies := v.cookies()
			Expect(d.Send(servers[n%2], "PATCH", "/Users/"+user.JSON["id"].(string), `{"Operations":[{"op":"replace","value":{"active":false}}]}`)).To(haveStatus(http.StatusOK))
			began := time.Now()
			for _, server := range servers {
				Eventually(func() (reply, error) {
					tab := newVisitor(host, inbox, server)
					tab.keep(cookies) // a server clears the cookie of an ended session
					return tab.send("GET", "/me", "")
				}).WithTimeout(time.Second).WithPolling(10 * time.Millisecond).Should(refuse(http.StatusUnauthorized, "NOT_AUTHENTICATED"))
			}
			slowest = max(slowest, time.Since(began))
			_, r, err := signIn(servers[1], email)
			Expect(err).NotTo(HaveOccurred())
			Expect(r.Status).NotTo(Equal(http.StatusOK), "%+v", r)
		}
		AddReportEntry("deprovisionings", fmt.Sprintf("%d in a row; the slowest was effective at both servers after %s", deprovisionings(), slowest.Round(time.Millisecond)))
		expectNoTraceOf(ctx, d.Token)
	})

	// The operator ends if the API is away for longer than its lease, so nothing that needs it follows.
	It("sign users in while the Kubernetes API is unavailable", func(ctx context.Context) {
		Expect(cluster.StopAPIServer()).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(cluster.StartAPIServer(ctx)).To(Succeed()) })
		for i, server := range servers {
			expectIn(server, "ann@globex.example")
			expectIn(server, fmt.Sprintf("new-%d@globex.example", i))
		}
	})
})
