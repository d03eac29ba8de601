package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/hack/controlplane"
	"github.com/cardea-iam/cardea/hack/process"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("make run", func() {
	It("reaches its banner, whose commands work, ends on SIGTERM, and starts again in seconds", func(ctx context.Context) {
		binary := filepath.Join(GinkgoT().TempDir(), "localrun")
		build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", binary, "./hack/localrun")
		build.Dir, build.Env = testkit.Root(), append(os.Environ(), "CGO_ENABLED=0")
		out, err := build.CombinedOutput()
		Expect(err).NotTo(HaveOccurred(), string(out))
		// In the group's folder, so that the group of a killed run's successor ends it; it ends its own children itself.
		dir := processes.Path("localrun")

		run := startLocalRun(binary, dir)
		awaitEnvironment(run, dir, 2*time.Minute)
		firstID := sourced(ctx, dir, `echo "$CARDEA_DEPLOYMENT_ID $CARDEA_API_KEY"`)
		commands := bannerCommands(run)
		Expect(commands).To(HaveLen(3))
		shown := runShell(ctx, strings.Join(commands, "\n"))
		Expect(shown).To(ContainSubstring("acme-backend"))
		Expect(shown).To(MatchRegexp(`"total": ?2`))
		Expect(sourced(ctx, dir, `kubectl auth whoami -o jsonpath={.status.userInfo.groups}`)).To(ContainSubstring("system:masters"))
		endLocalRun(run, dir)

		begin := time.Now()
		run = startLocalRun(binary, dir)
		awaitEnvironment(run, dir, time.Minute)
		AddReportEntry("second start", time.Since(begin).Round(100*time.Millisecond).String())
		Expect(sourced(ctx, dir, `echo "$CARDEA_DEPLOYMENT_ID $CARDEA_API_KEY"`)).To(Equal(firstID))
		Expect(runShell(ctx, strings.Join(bannerCommands(run), "\n"))).To(MatchRegexp(`"total": ?2`))
		endLocalRun(run, dir)
	})
})

// startLocalRun runs localrun from the repository's root, as make does.
func startLocalRun(binary, dir string) *process.Process {
	GinkgoHelper()
	run, err := processes.Group().Start(process.Spec{
		Name: "localrun", Path: "/bin/sh",
		Args: []string{"-c", `cd "$0" && exec "$@"`, testkit.Root(), binary, "--dir=" + dir, "--bin-dir=" + controlplane.DefaultBinDir()},
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = run.Stop(40 * time.Second) }) // ended already, unless the spec failed
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

// bannerCommands returns what the newest banner says to try.
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

// sourced runs a script of sh after sourcing env.
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
