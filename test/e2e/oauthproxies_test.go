package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/test/testkit"
)

// proxied is an application without its own sign-in behind a proxy, with the programs and the files of
// docs/oauth/proxy.
type proxied struct {
	front       *encrypted
	group       *process.Group
	issuer      string
	application *httptest.Server
	// client and secret are the credentials of oauth2-proxy.
	client, secret string
}

// newProxied starts an application that responds with the user that the proxy forwards.
func newProxied(front *encrypted, group *process.Group, issuer, client, secret string) *proxied {
	p := &proxied{front: front, group: group, issuer: issuer, client: client, secret: secret}
	p.application = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "for ", strings.Join(r.Header["X-Forwarded-Email"], "+"), " in ", strings.Join(r.Header["X-Forwarded-Groups"], "+"))
	}))
	DeferCleanup(p.application.Close)
	return p
}

// configure copies a file of docs/oauth/proxy into a folder and replaces addresses.
func (p *proxied) configure(folder, name string, addresses ...string) string {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "oauth", "proxy", name))
	Expect(err).NotTo(HaveOccurred())
	for i := 0; i < len(addresses); i += 2 {
		Expect(string(content)).To(ContainSubstring(addresses[i]), name)
	}
	path := filepath.Join(folder, name)
	Expect(os.WriteFile(path, []byte(strings.NewReplacer(addresses...).Replace(string(content))), 0o644)).To(Succeed())
	return path
}

// signIn starts oauth2-proxy for a public address, by default its own, and returns the address where it listens.
func (p *proxied) signIn(ctx context.Context, public string, flags ...string) string {
	GinkgoHelper()
	own, folder := freeAddress(p.front.port), GinkgoT().TempDir()
	if public == "" {
		public = own
	}
	config := p.configure(folder, "oauth2-proxy.cfg", "https://app.acme.example/oauth/clusters", p.issuer, "https://reports.acme.example", "http://"+public,
		"127.0.0.1:4180", own, "http://127.0.0.1:9000", p.application.URL)
	_, err := p.group.Start(process.Spec{
		Name: "oauth2-proxy-" + own, Path: published("oauth2-proxy"), Args: append([]string{"--config=" + config, "--provider-ca-file=" + p.front.authority, "--cookie-secure=false"}, flags...),
		Env: []string{"PATH=" + os.Getenv("PATH"), "OAUTH2_PROXY_CLIENT_ID=" + p.client, "OAUTH2_PROXY_CLIENT_SECRET=" + p.secret, "OAUTH2_PROXY_COOKIE_SECRET=0123456789abcdef0123456789abcdef"},
	})
	Expect(err).NotTo(HaveOccurred())
	awaitListener(ctx, own)
	return own
}

// behindNginx starts nginx in front of the application, and oauth2-proxy, which nginx asks. It returns the address of
// nginx.
func (p *proxied) behindNginx(ctx context.Context) string {
	GinkgoHelper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		Skip("nginx is not here: hack/install-deps.sh installs it")
	}
	own, folder := freeAddress(p.front.port), GinkgoT().TempDir()
	Expect(os.Chmod(folder, 0o755)).To(Succeed())
	beside := p.signIn(ctx, own, "--upstream=static://202", "--reverse-proxy", "--set-xauthrequest")
	p.configure(folder, "nginx.conf", "127.0.0.1:8000", own, "127.0.0.1:4180", beside, "127.0.0.1:9000", strings.TrimPrefix(p.application.URL, "http://"))
	started, err := p.group.Start(process.Spec{
		Name: "nginx-oauth", Path: program, Dir: folder, Env: []string{"PATH=" + os.Getenv("PATH")}, Args: []string{"-p", ".", "-c", "nginx.conf", "-g", "daemon off;"},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return started.Stop(stopsWithin) }) // a killed nginx leaves its workers behind
	awaitListener(ctx, own)
	return own
}

// signsInAt has the visitor open a page of an application and authorize the application. It expects the requested page
// with the visitor's groups.
func (v *visitor) signsInAt(groups, address string) {
	GinkgoHelper()
	const page = "/reports?year=2026&month=11"
	browser := newBrowser()
	asked := visitPage(browser, "http://"+address+page)
	Expect(asked.status).To(Equal(http.StatusFound), asked.body)
	answered := visitPage(browser, v.allow(asked.to).String())
	Expect(answered.status).To(Equal(http.StatusFound), answered.body)
	Expect(answered.to).To(HaveSuffix(page))
	request, err := http.NewRequest("GET", "http://"+address+page, nil)
	Expect(err).NotTo(HaveOccurred())
	request.Header.Set("X-Forwarded-Email", "root@acme.example")
	request.Header.Set("X-Forwarded-Groups", "system:masters")
	Expect(sendAs(browser, request).body).To(Equal("for " + v.email + " in " + groups))
	Expect(visitPage(newBrowser(), "http://"+address+page).status).To(Equal(http.StatusFound), "a browser without a session is redirected to the sign-in")
}

// freeAddress returns an unused address of this machine.
func freeAddress(taken ...int) string {
	GinkgoHelper()
	port, err := controlplane.FreePort(taken...)
	Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func awaitListener(ctx context.Context, address string) {
	GinkgoHelper()
	Eventually(ctx, func() error {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			return err
		}
		return conn.Close()
	}).Should(Succeed())
}
