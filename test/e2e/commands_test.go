package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/test/testkit"
)

// run runs cardea to its end with only PATH and env in its environment.
func run(ctx context.Context, env []string, args ...string) (stdout, stderr string, err error) {
	cmd := exec.CommandContext(ctx, processes.Binary(), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	var out, problems strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &problems
	err = cmd.Run()
	return out.String(), problems.String(), err
}

var _ = Describe("The command line", func() {
	It("prints the version", func(ctx context.Context) {
		out, _, err := run(ctx, nil, "version")
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.TrimSpace(out)).NotTo(BeEmpty())
	})

	It("mints keys, with the default prefix or a given one", func(ctx context.Context) {
		for prefix, args := range map[string][]string{"ck": nil, "acme_live": {"--prefix=acme_live"}} {
			out, problems, err := run(ctx, nil, append([]string{"key", "new"}, args...)...)
			Expect(err).NotTo(HaveOccurred(), problems)
			key, err := apikey.Parse(strings.TrimSpace(out))
			Expect(err).NotTo(HaveOccurred())
			Expect(key.Prefix()).To(Equal(prefix))
			Expect(problems).To(BeEmpty())
		}
		out, problems, err := run(ctx, []string{"CARDEA_PREFIX=from_env"}, "key", "new")
		Expect(err).NotTo(HaveOccurred(), problems)
		Expect(out).To(HavePrefix("from_env_"))
	})

	DescribeTable("refuses invalid settings in one sentence, without the password",
		func(ctx context.Context, env []string, args []string, says string) {
			out, problems, err := run(ctx, env, args...)
			Expect(err).To(HaveOccurred())
			Expect(problems).To(HavePrefix("cardea: "))
			Expect(problems).To(ContainSubstring(says))
			Expect(out + problems).NotTo(ContainSubstring("hunter2"))
		},
		Entry("no store", nil, []string{"migrate"}, "--store (or CARDEA_STORE) is missing"),
		Entry("no such command", nil, []string{"serve"}, "unknown command"),
		Entry("a bad duration in the environment", []string{"CARDEA_RESYNC=often"}, []string{"operator"}, "CARDEA_RESYNC in the environment is not a value of --resync"),
		Entry("a bad prefix", nil, []string{"key", "new", "--prefix=No"}, "--prefix"),
		Entry("a URL that cannot be parsed", []string{"CARDEA_STORE=postgres://cardea:hunter2@127.0.0.1:port/db"}, []string{"migrate"}, "cannot be parsed"),
		Entry("a database that is unavailable", []string{"CARDEA_STORE=postgres://cardea:hunter2@127.0.0.1:1/db?connect_timeout=1"}, []string{"migrate"}, "127.0.0.1"),
	)

	It("allows one process for a SQLite file", func(ctx context.Context) {
		kubeconfig := GinkgoT().TempDir() + "/kubeconfig"
		Expect(cluster.ServiceAccountKubeconfig(ctx, testkit.System, "cardea-operator", kubeconfig, time.Hour)).To(Succeed())
		_, problems, err := run(ctx, []string{"CARDEA_KUBECONFIG=" + kubeconfig}, "operator", "--lease-namespace=cardea-system", "--store=sqlite:///tmp/never.db")
		Expect(err).To(HaveOccurred())
		Expect(problems).To(ContainSubstring("SQLite is for `cardea standalone` only"))
	})
})
