package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/oauth2"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/test/testkit"
)

// clusters returns an app with the clients of these specs: kubectl, a web application, and a server for agents.
func clusters(namespace, agentsURL string) string {
	return fmt.Sprintf(`
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthApp
metadata: {name: clusters, namespace: %[1]s}
spec:
  deploymentRef: {name: people}
  slug: clusters
  displayName: Clusters
  allowDynamicClientRegistration: true
  resources: ["%[2]s"]
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthScope
metadata: {name: jobs-run, namespace: %[1]s}
spec: {oauthAppRef: {name: clusters}, scope: "jobs:run", displayName: Run jobs}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthScope
metadata: {name: jobs-read, namespace: %[1]s}
spec: {oauthAppRef: {name: clusters}, scope: "jobs:read", displayName: See jobs}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthClient
metadata: {name: kubectl, namespace: %[1]s}
spec:
  oauthAppRef: {name: clusters}
  displayName: kubectl
  authentication: None
  redirectURIs: ["http://127.0.0.1/callback", "http://localhost"]
  grantTypes: [AuthorizationCode, RefreshToken]
  idTokenSigningAlg: RS256
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthClient
metadata: {name: web, namespace: %[1]s}
spec:
  oauthAppRef: {name: clusters}
  displayName: Web
  redirectURIs: ["http://127.0.0.1/callback", "http://127.0.0.1/oauth2/callback"]
  grantTypes: [AuthorizationCode, RefreshToken, ClientCredentials, DeviceCode]
  secretTemplate: {name: web}
---
apiVersion: iam.cardea.dev/v1alpha1
kind: OAuthClient
metadata: {name: agents, namespace: %[1]s}
spec:
  oauthAppRef: {name: clusters}
  displayName: Server for agents
  grantTypes: [ClientCredentials]
  resources: ["%[2]s"]
  secretTemplate: {name: agents}
`, namespace, agentsURL)
}

// backAt is the redirect URI of the clients in these specs.
const backAt = "http://127.0.0.1:8000/callback"

var _ = Describe("published clients, over TLS", Ordered, ContinueOnFailure, func() {
	var (
		front             *encrypted
		own, target       *testkit.Cluster
		running           *testkit.Processes
		vera              *visitor
		veraID, namespace string
		owners            string // the group of the owners of vera's organization
		issuer, agentsURL string
	)

	client := func(ctx context.Context, name, path string) string {
		GinkgoHelper()
		out, err := own.Kubectl(ctx, "", "get", "oauthclient", name, "-n", namespace, "-o", "jsonpath="+path)
		Expect(err).NotTo(HaveOccurred(), out)
		return out
	}
	secret := func(ctx context.Context, name string) string {
		GinkgoHelper()
		out, err := own.Kubectl(ctx, "", "get", "secret", name, "-n", namespace, "-o", `go-template={{index .data "client-secret" | base64decode}}`)
		Expect(err).NotTo(HaveOccurred(), out)
		return out
	}

	BeforeAll(func(ctx context.Context) {
		front = encrypt()
		issuer = fmt.Sprintf("https://localhost:%d/oauth/clusters", front.port)
		port, err := controlplane.FreePort(front.port)
		Expect(err).NotTo(HaveOccurred())
		agentsURL = fmt.Sprintf("http://127.0.0.1:%d/mcp", port)
		texts := startCarrier()
		// These specs need the host localhost, which is taken in the suite's cluster, so they start their own.
		own, err = testkit.StartCluster(ctx)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return own.Stop() })
		running, err = testkit.NewProcesses(ctx, own)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() error { return running.Close() })
		namespace, err = own.Namespace(ctx)
		Expect(err).NotTo(HaveOccurred())
		cardea, err := running.Start(ctx, testkit.Launch{
			Role: "standalone", Store: "sqlite://" + running.Path("cardea.db"), Env: []string{"SSL_CERT_FILE=" + front.authority},
			Flags: append([]string{fmt.Sprintf("--frontend-url=https://localhost:%d", front.port)}, serving...),
		})
		Expect(err).NotTo(HaveOccurred())
		Expect(cardea.AwaitReady(ctx)).To(Succeed())
		front.serve(cardea.Frontend)
		out, err := own.Kubectl(ctx, secretsRoleBinding(namespace)+"\n---\n"+staging(namespace, "localhost", texts, "")+"---"+clusters(namespace, agentsURL), "apply", "-f", "-")
		Expect(err).NotTo(HaveOccurred(), out)
		out, err = own.Kubectl(ctx, "", "wait", "oauthclients,oauthapps,oauthscopes", "--all", "-n", namespace, "--for=condition=Ready", "--timeout=60s")
		Expect(err).NotTo(HaveOccurred(), out)
		told, err := own.Kubectl(ctx, "", "get", "oauthapp", "clusters", "-n", namespace, "-o", "jsonpath={.status.issuer}")
		Expect(err).NotTo(HaveOccurred())
		Expect(told).To(Equal(issuer))
		vera = newVisitor("localhost", texts, cardea)
		veraID = vera.signUp()
		_, slug := vera.namedOrganization("Harbour")
		owners = slug + ":owner"
		target = trusting(ctx, filepath.Join(own.Dir, "target"),
			"--oidc-issuer-url="+issuer, "--oidc-client-id="+client(ctx, "kubectl", "{.status.clientID}"), "--oidc-username-claim=email", "--oidc-groups-claim=groups",
			"--oidc-groups-prefix=cardea:", "--oidc-ca-file="+front.authority)
	})

	// as runs kubectl as vera in the cluster that trusts the issuer's ID tokens; configure is her credentials' flags.
	as := func(ctx context.Context, configure []string, args ...string) (string, error) {
		GinkgoHelper()
		return asVera(ctx, target, configure, args...)
	}

	It("sign a user in to a cluster by an ID token: kubectl has the rights of the user's groups", func(ctx context.Context) {
		identity := vera.idToken(front, issuer, client(ctx, "kubectl", "{.status.clientID}"))
		Eventually(func() (string, error) {
			return as(ctx, []string{"--token=" + identity}, "auth", "whoami", "-o", "json")
		}).WithTimeout(time.Minute).WithPolling(time.Second).
			Should(And(ContainSubstring(`"username": "`+vera.email+`"`), ContainSubstring(`"cardea:`+owners+`"`)))

		out, err := as(ctx, []string{"--token=" + identity}, "get", "namespaces")
		Expect(err).To(HaveOccurred())
		Expect(out).To(ContainSubstring("Forbidden"))
		out, err = target.Kubectl(ctx, "", "create", "clusterrolebinding", "harbour", "--clusterrole=cluster-admin", "--group=cardea:"+owners)
		Expect(err).NotTo(HaveOccurred(), out)
		Eventually(func() (string, error) { return as(ctx, []string{"--token=" + identity}, "get", "namespaces") }).Should(ContainSubstring("kube-system"))

		parts := strings.Split(identity, ".")
		Expect(parts).To(HaveLen(3))
		for _, bad := range []string{parts[0] + ".e30." + parts[2], identity[:len(identity)-20]} {
			out, err = as(ctx, []string{"--token=" + bad}, "auth", "whoami")
			Expect(err).To(HaveOccurred(), out)
		}
	})

	It("sign a user in to a cluster that has the documented AuthenticationConfiguration", func(ctx context.Context) {
		folder := GinkgoT().TempDir()
		authority, err := os.ReadFile(front.authority)
		Expect(err).NotTo(HaveOccurred())
		configuration := filepath.Join(folder, "authentication.yaml")
		written := authenticationConfiguration(issuer, client(ctx, "kubectl", "{.status.clientID}"), string(authority))
		Expect(os.WriteFile(configuration, []byte(written), 0o600)).To(Succeed())
		other := trusting(ctx, filepath.Join(own.Dir, "structured"), "--authentication-config="+configuration)
		identity := vera.idToken(front, issuer, client(ctx, "kubectl", "{.status.clientID}"))
		Eventually(func() (string, error) {
			return asVera(ctx, other, []string{"--token=" + identity}, "auth", "whoami", "-o", "json")
		}).WithTimeout(time.Minute).WithPolling(time.Second).
			Should(And(ContainSubstring(`"username": "`+vera.email+`"`), ContainSubstring(`"cardea:`+owners+`"`)))
	})

	It("are kubelogin, the plugin that signs in for kubectl", func(ctx context.Context) {
		login := published("kubelogin")
		port, err := controlplane.FreePort()
		Expect(err).NotTo(HaveOccurred())
		args := []string{
			"get-token", "--oidc-issuer-url=" + issuer, "--oidc-client-id=" + client(ctx, "kubectl", "{.status.clientID}"), "--oidc-extra-scope=email", "--oidc-extra-scope=groups", "--certificate-authority=" + front.authority,
			"--skip-open-browser", fmt.Sprintf("--listen-address=127.0.0.1:%d", port), "--token-cache-dir=" + GinkgoT().TempDir(),
		}
		vera.accompany(front, exec.CommandContext(ctx, login, args...))
		plugin := []string{"--exec-api-version=client.authentication.k8s.io/v1beta1", "--exec-interactive-mode=Never", "--exec-command=" + login}
		for _, arg := range args {
			plugin = append(plugin, "--exec-arg="+arg)
		}
		out, err := as(ctx, plugin, "get", "namespaces") // with the cached token
		Expect(err).NotTo(HaveOccurred(), out)
		Expect(out).To(ContainSubstring("kube-system"))
	})

	// script runs a program of test/oauthclients for a user, and returns the program's result.
	script := func(ctx context.Context, user *visitor, name, as string, env ...string) map[string]any {
		GinkgoHelper()
		folder := filepath.Join(testkit.Root(), "test", "oauthclients")
		if _, err := os.Stat(filepath.Join(folder, "node_modules", ".installed")); err != nil {
			Skip("the clients of npm are not here: make oauth-clients brings them")
		}
		cmd := exec.CommandContext(ctx, "node", name)
		cmd.Dir = folder
		cmd.Env = append([]string{
			"PATH=" + os.Getenv("PATH"), "NODE_EXTRA_CA_CERTS=" + front.authority, "ISSUER=" + issuer, "REDIRECT_URI=" + backAt,
			"CLIENT_ID=" + client(ctx, as, "{.status.clientID}"), "CLIENT_SECRET=" + secret(ctx, as),
		}, env...)
		return user.accompany(front, cmd)
	}

	It("are openid-client and oauth4webapi", func(ctx context.Context) {
		Expect(script(ctx, vera, "openid-client.js", "web")).To(Equal(map[string]any{"sub": veraID, "email": vera.email, "before": true, "after": false, "own": "jobs:run"}))
		Expect(script(ctx, vera, "oauth4webapi.js", "web")).To(Equal(map[string]any{"sub": veraID, "device": veraID}))
	})

	It("are openid-client and oauth4webapi, which ask for the proof that an API requires", func(ctx context.Context) {
		records, recent := requireProofs(front, issuer)
		for _, program := range []string{"openid-client-proof.js", "oauth4webapi-proof.js"} {
			user := newVisitor("localhost", vera.inbox, vera.server)
			user.signUp()
			user.enrollApp()
			Expect(script(ctx, user, program, "web", "RECORDS_URL="+records, "RECENT_URL="+recent)).To(Equal(map[string]any{
				"first": "1", "asked": map[string]any{"acr_values": "2"}, "acr": "2",
				"older": map[string]any{"acr_values": "2", "max_age": "10"}, "again": true,
			}), program)
			Expect(user.app.proofs).To(Equal(2), program)
		}
	})

	It("are undeclared agents: by the address of their metadata, and by registration", func(ctx context.Context) {
		address := front.document("/agent.json", map[string]any{
			"client_name": "Agent", "redirect_uris": []string{backAt}, "token_endpoint_auth_method": "none", "grant_types": []string{"authorization_code", "refresh_token"},
		})
		known := script(ctx, vera, "mcp.js", "agents", "MCP_URL="+agentsURL, "CLIENT_METADATA_URL="+address)
		Expect(known).To(Equal(map[string]any{"sub": veraID, "again": veraID, "client": address}))
		registered := script(ctx, vera, "mcp.js", "agents", "MCP_URL="+agentsURL)
		Expect(registered).To(And(HaveKeyWithValue("sub", veraID), HaveKeyWithValue("again", veraID), HaveKeyWithValue("client", MatchRegexp(`^\d+$`))))
	})

	It("are oauth2-proxy, before an unmodified application", func(ctx context.Context) {
		behind := newProxied(front, running.Group(), issuer, client(ctx, "web", "{.status.clientID}"), secret(ctx, "web"))
		vera.signsInAt(owners, behind.signIn(ctx, ""))
	})

	It("are oauth2-proxy, which nginx asks", func(ctx context.Context) {
		behind := newProxied(front, running.Group(), issuer, client(ctx, "web", "{.status.clientID}"), secret(ctx, "web"))
		vera.signsInAt(owners, behind.behindNginx(ctx))
	})
})

// published returns the path of a published client program, and skips the spec if the program is not built.
func published(program string) string {
	GinkgoHelper()
	path := filepath.Join(testkit.Root(), "bin", "oauth-clients", program)
	if _, err := os.Stat(path); err != nil {
		Skip(program + " is not here: make oauth-clients builds it")
	}
	return path
}

// shownPage is a response that a browser received, without following a redirect.
type shownPage struct {
	status int
	to     string
	body   string
}

// newBrowser returns a browser that follows no redirect by itself.
func newBrowser() *http.Client {
	GinkgoHelper()
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	return &http.Client{Jar: jar, Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func visitPage(browser *http.Client, address string) shownPage {
	GinkgoHelper()
	request, err := http.NewRequest("GET", address, nil)
	Expect(err).NotTo(HaveOccurred())
	return sendAs(browser, request)
}

func sendAs(browser *http.Client, request *http.Request) shownPage {
	GinkgoHelper()
	resp, err := browser.Do(request)
	Expect(err).NotTo(HaveOccurred())
	raw, err := io.ReadAll(resp.Body)
	Expect(err).NotTo(HaveOccurred())
	Expect(resp.Body.Close()).To(Succeed())
	return shownPage{resp.StatusCode, resp.Header.Get("Location"), string(raw)}
}

// accompany runs a client and acts as its user. For a line "visit URL" it visits the URL and writes the URL of the last
// redirect to the client's input. It also visits the URL of a listener on this machine. It returns the client's result,
// if the client prints one.
func (v *visitor) accompany(front *encrypted, cmd *exec.Cmd) (told map[string]any) {
	GinkgoHelper()
	var errors strings.Builder
	reader, writer := io.Pipe()
	cmd.Stdout, cmd.Stderr = writer, io.MultiWriter(&errors, writer)
	in, err := cmd.StdinPipe()
	Expect(err).NotTo(HaveOccurred())
	Expect(cmd.Start()).To(Succeed())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait(); _ = writer.Close() }()
	for lines := bufio.NewScanner(reader); lines.Scan(); {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "visit "):
			fmt.Fprintln(in, v.visit(strings.TrimPrefix(line, "visit ")))
		case strings.HasPrefix(line, "told "):
			Expect(json.Unmarshal([]byte(strings.TrimPrefix(line, "told ")), &told)).To(Succeed())
		case strings.Contains(line, "http://localhost:"):
			browser := newBrowser()
			asked := visitPage(browser, line[strings.Index(line, "http://localhost:"):])
			Expect(visitPage(browser, v.allow(asked.to).String()).status).To(BeNumerically("<", 400))
		}
	}
	Expect(<-ended).To(Succeed(), errors.String())
	return told
}

// visit opens a client's link and allows the request, or authorizes a device.
func (v *visitor) visit(link string) string {
	GinkgoHelper()
	asked, err := url.Parse(link)
	Expect(err).NotTo(HaveOccurred())
	if asked.Path != "/device" {
		return v.allow(link).String()
	}
	code, err := json.Marshal(map[string]string{"user_code": asked.Query().Get("user_code")})
	Expect(err).NotTo(HaveOccurred())
	v.decide(v.do("POST", "/session/devices", string(code)).Data["request"].(string))
	return link
}

// idToken lets the visitor authorize a command-line client for OpenID Connect, and returns the ID token that the client
// gets.
func (v *visitor) idToken(front *encrypted, issuer, clientID string) string {
	GinkgoHelper()
	config := oauth2.Config{
		ClientID: clientID, RedirectURL: backAt, Scopes: []string{"openid", "email", "groups"},
		Endpoint: oauth2.Endpoint{AuthURL: issuer + "/authorize", TokenURL: issuer + "/token", AuthStyle: oauth2.AuthStyleInParams},
	}
	verifier := oauth2.GenerateVerifier()
	code := v.allow(config.AuthCodeURL("state", oauth2.S256ChallengeOption(verifier))).Query().Get("code")
	token, err := config.Exchange(context.WithValue(context.Background(), oauth2.HTTPClient, front.client), code, oauth2.VerifierOption(verifier))
	Expect(err).NotTo(HaveOccurred())
	raw, _ := token.Extra("id_token").(string)
	Expect(raw).NotTo(BeEmpty())
	return raw
}

// allow opens a client's authorization link, allows the request, and returns the URL to which the browser is
// redirected.
func (v *visitor) allow(link string) *url.URL {
	GinkgoHelper()
	asked, err := url.Parse(link)
	Expect(err).NotTo(HaveOccurred())
	browser := *v.client
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	page, err := url.Parse(visitPage(&browser, "http://"+v.host+asked.RequestURI()).to)
	Expect(err).NotTo(HaveOccurred())
	request, is := strings.CutPrefix(page.Path, "/authorize/")
	Expect(is).To(BeTrue(), "led from %s to %s", link, page)
	back := v.decide(request)
	Expect(back.Query().Get("code")).NotTo(BeEmpty(), "led to %s", back)
	return back
}

// decide allows an authorization request, after a proof if the request needs one. If it needs an organization, decide
// chooses the first one offered.
func (v *visitor) decide(request string) *url.URL {
	GinkgoHelper()
	path := "/session/authorizations/" + request
	decision := map[string]string{"decision": "allow"}
	asked := v.do("GET", path, "").Data
	if asked["step"] == "step_up" || asked["step"] == "reauthenticate" {
		v.proveByApp()
	}
	if places, _ := asked["places"].([]any); len(places) > 0 {
		decision["organization_id"] = places[0].(map[string]any)["organization_id"].(string)
	}
	raw, err := json.Marshal(decision)
	Expect(err).NotTo(HaveOccurred())
	back, err := url.Parse(fmt.Sprint(v.do("POST", path, string(raw)).Data["redirect_to"]))
	Expect(err).NotTo(HaveOccurred())
	return back
}
