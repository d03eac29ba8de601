package e2e

import (
	"context"
	"encoding/json"
	"fmt"
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

var _ = Describe("make run", func() {
	It("reaches its banner, whose commands work, ends on SIGTERM, and starts again in seconds", func(ctx context.Context) {
		binary := filepath.Join(GinkgoT().TempDir(), "localrun")
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", binary, "./hack/localrun")
		build.Dir, build.Env = testkit.Root(), append(os.Environ(), "CGO_ENABLED=0")
		out, err := build.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		// The folder is in the group's folder, so that a later run can end leftovers of a killed one; localrun ends its
		// children.
		dir := processes.Path("localrun")

		run := startLocalRun(binary, dir)
		awaitEnvironment(run, dir, 2*time.Minute)
		firstID := sourced(ctx, dir, `echo "$CARDEA_DEPLOYMENT_ID $CARDEA_API_KEY"`)
		commands := bannerCommands(run)
		Expect(commands).To(HaveLen(3))
		shown := runShell(ctx, strings.Join(commands, "\n"))
		Expect(shown).To(ContainSubstring("acme-backend"))
		Expect(shown).To(MatchRegexp(`"total": ?3`))
		expectPeople(ctx, dir)
		expectPages(ctx, dir)
		expectTour(ctx, dir)
		Expect(sourced(ctx, dir, `kubectl auth whoami -o jsonpath={.status.userInfo.groups}`)).To(ContainSubstring("system:masters"))
		endLocalRun(run, dir)

		begin := time.Now()
		run = startLocalRun(binary, dir)
		awaitEnvironment(run, dir, time.Minute)
		AddReportEntry("second start", time.Since(begin).Round(100*time.Millisecond).String())
		Expect(sourced(ctx, dir, `echo "$CARDEA_DEPLOYMENT_ID $CARDEA_API_KEY"`)).To(Equal(firstID))
		Expect(runShell(ctx, strings.Join(bannerCommands(run), "\n"))).To(MatchRegexp(`"total": ?3`))
		expectPeople(ctx, dir)
		expectLimitsByPlan(ctx, dir)
		expectSignIn(ctx, dir)
		expectAgentTools(ctx, dir)
		expectWebhooks(ctx, dir)
		endLocalRun(run, dir)
	})
})

// expectPeople follows an end user: sign-up, the code from the inbox, a phone number and its code. Then it reads the
// account as the tenant's backend does.
func expectPeople(ctx context.Context, dir string) {
	GinkgoHelper()
	exported := strings.Fields(sourced(ctx, dir, `echo "$CARDEA_FRONTEND_URL $CARDEA_INBOX_URL $CARDEA_BASE_URL $CARDEA_API_KEY"`))
	Expect(exported).To(HaveLen(4))
	frontend, inbox, backend, key := exported[0], exported[1], exported[2], exported[3]
	Expect(frontend).To(HavePrefix("http://localhost:"))
	jar, err := cookiejar.New(nil)
	Expect(err).NotTo(HaveOccurred())
	browser := &http.Client{Jar: jar, Timeout: 10 * time.Second}
	ask := func(method, url, body string) (answer map[string]any) {
		GinkgoHelper()
		request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
		Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Authorization", "Bearer "+key) // only the backend reads it
		response, err := browser.Do(request)
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		Expect(json.NewDecoder(response.Body).Decode(&answer)).To(Succeed())
		Expect(response.StatusCode).To(Equal(200), "%s %s: %v", method, url, answer)
		return answer
	}
	codeOf := func(to string) (code string) {
		GinkgoHelper()
		Eventually(func() string {
			for _, message := range ask("GET", inbox+"/_inbox?to="+url.QueryEscape(to), "")["messages"].([]any) {
				code = regexp.MustCompile(`\b[0-9]{6}\b`).FindString(message.(map[string]any)["body"].(string))
			}
			return code
		}).Should(HaveLen(6), "nothing came for %s", to)
		return code
	}

	now := time.Now().UnixNano()
	email, number := fmt.Sprintf("ada-%d@people.example", now), fmt.Sprintf("+1202555%04d", now/1000%10000)
	session := ask("POST", frontend+"/auth/signup", `{"email": "`+email+`"}`)["session"].(map[string]any)
	attempt := session["signup_attempts"].([]any)[0].(map[string]any)["id"].(string)
	ask("POST", frontend+"/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id": %q, "code": %q}`, attempt, codeOf(email)))
	phone := frontend + "/me/phone-numbers/" + ask("POST", frontend+"/me/phone-numbers", `{"phone_number": "`+number+`"}`)["data"].(map[string]any)["id"].(string)
	ask("POST", phone+"/prepare-verification", `{}`)
	Expect(ask("POST", phone+"/attempt-verification", `{"code": "`+codeOf(number)+`"}`)["data"]).To(HaveKeyWithValue("verified", true))
	Expect(ask("GET", backend+"/users?search="+url.QueryEscape(email), "")["data"]).To(ConsistOf(HaveKeyWithValue("primary_phone_number", number)))
}

// expectPages runs the walk through the pages in a real browser.
func expectPages(ctx context.Context, dir string) {
	GinkgoHelper()
	walk := exec.CommandContext(ctx, "/bin/sh", "-c", `. "$0" && exec go test ./test/browser -count=1 -v -run '^TestBrowserWalkThroughLocalRun$'`, filepath.Join(dir, "env"))
	walk.Dir = testkit.Root()
	out, err := walk.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	Expect(string(out)).To(ContainSubstring("--- PASS: TestBrowserWalkThroughLocalRun"))
}

// expectTour runs commands of docs/tour.md: those of its agents with the example API on an unused port, and unchanged
// those from an end user's sign-up to the apps' tokens.
func expectTour(ctx context.Context, dir string) {
	GinkgoHelper()
	tour, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "tour.md"))
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	Expect(os.Symlink(dir, filepath.Join(folder, ".dev"))).To(Succeed())
	block := func(beginning string) string {
		GinkgoHelper()
		_, after, found := strings.Cut(string(tour), "```sh\n"+beginning)
		Expect(found).To(BeTrue(), "docs/tour.md has no block that begins with %s", beginning)
		rest, _, _ := strings.Cut(after, "```\n")
		return beginning + rest
	}
	withOrders := startOrders("tour-orders", block("ORDERS_TOKEN="))
	script := "cd '" + folder + "'\n. .dev/env\nexport PATH='" + filepath.Dir(processes.Binary()) + "':\"$PATH\"\n" +
		block("api=") + withOrders.Replace(block("export PATH=")+block("sleep 1")) + block("frontend=") + block("hooks=") + block("verifier=")
	shown := runShell(ctx, script)
	Expect(shown).To(SatisfyAll(MatchRegexp("tour-find-order +number"), ContainSubstring(`{"number":"1007","state":"open"}`), MatchRegexp(`"outcome": ?"succeeded"`)))
	Expect(shown).To(SatisfyAll(ContainSubstring(`"type": "user.created"`), ContainSubstring(`"verified": true`), Not(ContainSubstring(`"verified": false`))))
	Expect(shown).To(SatisfyAll(ContainSubstring(`"name":"Report terminal"`), ContainSubstring(`"scope":"openid email read:reports"`), ContainSubstring(`"scope":"read:reports"`)))
}

// expectWebhooks runs the commands of docs/webhooks.md: they rotate the secret, and make the receiver refuse each event
// once. Then an event arrives twice, verified by either secret.
func expectWebhooks(ctx context.Context, dir string) {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "webhooks.md"))
	Expect(err).NotTo(HaveOccurred())
	_, after, found := strings.Cut(string(page), "```sh\n. .dev/env\n")
	Expect(found).To(BeTrue(), "docs/webhooks.md has no block for make run")
	commands, _, _ := strings.Cut(after, "```\n")
	hooks := strings.TrimSpace(sourced(ctx, dir, commands+`echo "$CARDEA_INBOX_URL/_webhooks"`))
	hooks = hooks[strings.LastIndex(hooks, "\n")+1:]
	Eventually(func() string {
		return sourced(ctx, dir, `kubectl get secret local-inbox -n acme -o 'jsonpath={.data.previous-signing-secret}'`)
	}).ShouldNot(BeEmpty())
	type request struct {
		Attempt, Status int
		Verified        bool
		Headers         map[string]string
		Body            struct{ Subject struct{ ID string } }
	}
	about := func(user string) (requests []request) {
		GinkgoHelper()
		response, err := http.Get(hooks + "?type=user.created")
		Expect(err).NotTo(HaveOccurred())
		defer response.Body.Close()
		var list struct{ Requests []request }
		Expect(json.NewDecoder(response.Body).Decode(&list)).To(Succeed())
		for _, one := range list.Requests {
			if one.Body.Subject.ID == user {
				requests = append(requests, one)
			}
		}
		return requests
	}
	twice := HaveField("Headers", HaveKeyWithValue("webhook-signature", MatchRegexp(`^v1,\S+ v1,\S+$`)))
	Eventually(func() (requests []request) { // until the server has the URL and both secrets
		var user struct{ ID string }
		body := fmt.Sprintf(`{"email": "hooks-%d@people.example"}`, time.Now().UnixNano())
		created := sourced(ctx, dir, `curl -sf -H "Authorization: Bearer $CARDEA_API_KEY" -H 'Content-Type: application/json' "$CARDEA_BASE_URL/users" -d '`+body+`'`)
		Expect(json.Unmarshal([]byte(created), &user)).To(Succeed())
		Eventually(func() []request {
			requests = about(user.ID)
			return requests
		}).WithTimeout(time.Minute).Should(ContainElement(HaveField("Status", 204)))
		return requests
	}).WithTimeout(2 * time.Minute).Should(ConsistOf(
		SatisfyAll(HaveField("Attempt", 1), HaveField("Status", 500), HaveField("Verified", true), twice),
		SatisfyAll(HaveField("Attempt", 2), HaveField("Status", 204), HaveField("Verified", true), twice),
	))
}

// startLocalRun runs localrun from the repository's root, as make does.
func startLocalRun(binary, dir string) *process.Process {
	GinkgoHelper()
	run, err := processes.Group().Start(process.Spec{
		Name: "localrun", Path: "/bin/sh",
		Args: []string{"-c", `cd "$0" && exec "$@"`, testkit.Root(), binary, "--dir=" + dir, "--bin-dir=" + controlplane.DefaultBinDir()},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = run.Stop(40 * time.Second) }) // already ended, unless the spec failed
	return run
}

func awaitEnvironment(run *process.Process, dir string, within time.Duration) {
	GinkgoHelper()
	Eventually(func() error {
		select {
		case <-run.Done():
			return StopTrying("it ended").Wrap(run.ExitError())
		default:
		}
		_, err := os.Stat(filepath.Join(dir, "env"))
		return err
	}).WithTimeout(within).Should(Succeed())
	Eventually(func() string { return process.Tail(run.LogPath, 40) }).Should(ContainSubstring("Ctrl-C stops everything"))
}

// bannerCommands returns the commands that the newest banner suggests.
func bannerCommands(run *process.Process) []string {
	GinkgoHelper()
	_, after, found := strings.Cut(process.Tail(run.LogPath, 20), "Try it, in another terminal:\n")
	Expect(found).To(BeTrue())
	var commands []string
	for _, line := range regexp.MustCompile(`(?m)^  (\S.*)$`).FindAllStringSubmatch(after, -1) {
		commands = append(commands, line[1])
	}
	return commands
}

func endLocalRun(run *process.Process, dir string) {
	GinkgoHelper()
	Expect(run.Stop(40 * time.Second)).To(Succeed())
	Expect(run.ExitError()).To(MatchError(ContainSubstring("(exit status 0)")))
	Expect(filepath.Join(dir, "env")).NotTo(BeAnExistingFile())
}

// sourced runs a shell script after sourcing env.
func sourced(ctx context.Context, dir, script string) string {
	GinkgoHelper()
	return runShell(ctx, ". '"+filepath.Join(dir, "env")+"'\n"+script)
}

func runShell(ctx context.Context, script string) string {
	GinkgoHelper()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-eu", "-c", script)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + processes.Path("")}
	out, err := cmd.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), string(out))
	return string(out)
}
