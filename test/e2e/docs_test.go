package e2e

import (
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
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/process"
	"github.com/cardea-iam/cardea/test/testkit"
)

// shellBlocks returns the sh blocks of a page, unchanged.
func shellBlocks(page string) (blocks []string) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", page))
	Expect(err).NotTo(HaveOccurred())
	for _, found := range regexp.MustCompile("(?ms)^```sh\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
		blocks = append(blocks, found[1])
	}
	return blocks
}

// besideLocalRun returns a script that runs in a folder with the repository's docs, and with a local run's folder as
// .dev.
func besideLocalRun(dir, script string) string {
	GinkgoHelper()
	folder := GinkgoT().TempDir()
	for _, name := range []string{"docs", "go.mod", "go.sum"} {
		Expect(os.Symlink(filepath.Join(testkit.Root(), name), filepath.Join(folder, name))).To(Succeed())
	}
	Expect(os.Symlink(dir, filepath.Join(folder, ".dev"))).To(Succeed())
	return "cd '" + folder + "'\n" + script
}

// expectLimitsByPlan follows docs/limit-by-plan.md.
func expectLimitsByPlan(ctx context.Context, dir string) {
	GinkgoHelper()
	blocks := shellBlocks("limit-by-plan.md")
	Expect(len(blocks)).To(Equal(4))
	shown := runShell(ctx, besideLocalRun(dir, strings.Join(blocks, "\n")))
	answers := regexp.MustCompile(`(?m)^{.*"allowed":(true|false).*$`).FindAllStringSubmatch(shown, -1)
	Expect(len(answers)).To(BeNumerically(">=", 7), shown)
	for i, answer := range answers[:5] {
		Expect(answer[1]).To(Equal("true"), "request %d: %s", i+1, answer[0])
	}
	Expect(answers[5][0]).To(And(ContainSubstring(`"allowed":false`), ContainSubstring(`"reason":"rate_limited"`), MatchRegexp(`"retry_after":[1-9]`)))
	Expect(answers[0][0]).To(ContainSubstring(`"customer":"initech"`))
	Expect(answers[len(answers)-1][1]).To(Equal("true"), "after the plan was changed")
}

// goCaches are the variables with which go run finds the modules and the compiled packages of these tests. With another
// HOME, it would fetch and compile all of them.
func goCaches() (environment []string) {
	GinkgoHelper()
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPROXY", "GOFLAGS"} {
		value, err := exec.Command("go", "env", name).Output()
		Expect(err).NotTo(HaveOccurred())
		environment = append(environment, name+"="+strings.TrimSpace(string(value)))
	}
	return append(environment, "CGO_ENABLED=0")
}

// startOrders runs the block of a page that starts the example API, on an unused port. It returns what adapts further
// blocks of the page to the port and to the repository.
func startOrders(name, block string) *strings.Replacer {
	GinkgoHelper()
	port, err := controlplane.FreePort()
	Expect(err).NotTo(HaveOccurred())
	address := fmt.Sprintf("127.0.0.1:%d", port)
	inRepository := strings.NewReplacer("go run ./docs", "go -C '"+testkit.Root()+"' run ./docs", "127.0.0.1:9000", address)
	api, err := processes.Group().Start(process.Spec{
		Name: name, Path: "/bin/sh", Args: []string{"-eu", "-c", "export LISTEN=" + address + "\n" + inRepository.Replace(block)},
		Env: append(goCaches(), "PATH="+os.Getenv("PATH"), "HOME="+processes.Path("")),
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(api.KillGroup)
	Eventually(func() error {
		response, err := http.Get("http://" + address + "/openapi.yaml")
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}).WithTimeout(3*time.Minute).Should(Succeed(), func() string { return process.Tail(api.LogPath, 20) })
	return inRepository
}

// expectAgentTools follows docs/agents-quickstart.md.
func expectAgentTools(ctx context.Context, dir string) {
	GinkgoHelper()
	blocks := shellBlocks("agents-quickstart.md")
	Expect(blocks).To(HaveLen(7))
	inRepository := startOrders("orders", blocks[0])
	script := "export PATH='" + filepath.Dir(processes.Binary()) + "':\"$PATH\"\n" + inRepository.Replace(strings.Join(blocks[1:], "\n"))
	shown := runShell(ctx, besideLocalRun(dir, script))
	for _, part := range []string{
		"3 of 3 operations are tools", "name: shop-cancel-order", "requiresUserApproval: true", "aitool.iam.cardea.dev/shop-find-order condition met",
		"shop-find-order", `{"number":"1007","state":"open"}`, "shop-list-orders: Lists the orders of a shop, by number.", `[{"number":"1007","state":"open"}]`,
		`{"type":"function","name":"shop-list-orders"`,
	} {
		Expect(shown).To(ContainSubstring(part))
	}
	Expect(shown).NotTo(ContainSubstring("left out"))
}

// expectSignIn follows docs/sign-in.md, as a browser does.
func expectSignIn(ctx context.Context, dir string) {
	GinkgoHelper()
	blocks := shellBlocks("sign-in.md")
	Expect(blocks).To(HaveLen(2))
	runShell(ctx, besideLocalRun(dir, blocks[0]))
	port, err := controlplane.FreePort()
	Expect(err).NotTo(HaveOccurred())
	address := fmt.Sprintf("127.0.0.1:%d", port)
	script := besideLocalRun(dir, "export LISTEN="+address+"\n"+strings.Replace(blocks[1], "go run ./docs", "go -C '"+testkit.Root()+"' run ./docs", 1))
	app, err := processes.Group().Start(process.Spec{Name: "sign-in", Path: "/bin/sh", Args: []string{"-eu", "-c", script}})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(app.KillGroup)

	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	browser := &http.Client{Jar: jar, Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	open := func(at string) (location, text string) {
		GinkgoHelper()
		response, err := browser.Get(at)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(response.StatusCode).To(BeNumerically("<", 400), "%s: %s", at, body)
		return response.Header.Get("Location"), string(body)
	}
	Eventually(func() error {
		response, err := browser.Get("http://" + address + "/callback")
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}).WithTimeout(3*time.Minute).Should(Succeed(), func() string { return process.Tail(app.LogPath, 20) })

	frontend := strings.TrimSpace(sourced(ctx, dir, `echo "$CARDEA_FRONTEND_URL"`))
	email := fmt.Sprintf("grace-%d@people.example", time.Now().UnixNano())
	asks := func(path, body string) (answer struct{ Data, Session map[string]any }) {
		GinkgoHelper()
		response, err := browser.Post(frontend+path, "application/json", strings.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		Expect(response.StatusCode).To(Equal(200), path)
		Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
		return answer
	}
	attempt := asks("/auth/signup", fmt.Sprintf(`{"email": %q, "first_name": "Grace", "last_name": "Hopper"}`, email)).Session["signup_attempts"].([]any)[0].(map[string]any)["id"]
	var code string
	Eventually(func() string {
		_, text := open(strings.TrimSpace(sourced(ctx, dir, `echo "$CARDEA_INBOX_URL"`)) + "/_inbox?to=" + url.QueryEscape(email))
		var inbox struct{ Messages []struct{ Body string } }
		Expect(json.Unmarshal([]byte(text), &inbox)).To(Succeed())
		for _, message := range inbox.Messages {
			code = sixDigits.FindString(message.Body)
		}
		return code
	}).Should(HaveLen(6))
	asks("/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id": %q, "code": %q}`, attempt, code))

	issuer, _ := open("http://" + address + "/")
	page, _ := open(issuer)
	_, request, found := strings.Cut(page, "/authorize/")
	Expect(found).To(BeTrue(), page)
	back := asks("/session/authorizations/"+request, `{"decision": "allow"}`).Data["redirect_to"].(string)
	home, _ := open(back)
	Expect(home).To(Equal("/"))
	_, greeting := open("http://" + address + "/")
	Expect(greeting).To(Equal("Hello Grace Hopper\n"))
	again, err := browser.Get(back)
	Expect(err).NotTo(HaveOccurred())
	Expect(again.StatusCode).To(Equal(http.StatusBadRequest), "an authorization code is accepted only once")
	Expect(again.Body.Close()).To(Succeed())
}
