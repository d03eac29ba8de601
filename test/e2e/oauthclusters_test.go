package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/test/testkit"
)

// trusting starts a cluster in a folder, with API server flags that name the trusted token issuers.
func trusting(ctx context.Context, folder string, flags ...string) *testkit.Cluster {
	GinkgoHelper()
	plane, err := controlplane.Start(ctx, controlplane.Options{
		BinDir: controlplane.DefaultBinDir(), Dir: folder, EtcdUnsafeNoFsync: true, NoControllerManager: true, APIServerArgs: flags,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(plane.Stop)
	return &testkit.Cluster{ControlPlane: plane, Dir: folder}
}

// authenticationConfiguration returns the AuthenticationConfiguration of docs/oauth/kubectl.md, for an issuer, a client
// and the CA certificate of the issuer.
func authenticationConfiguration(issuer, client, authority string) string {
	GinkgoHelper()
	page, err := os.ReadFile(filepath.Join(testkit.Root(), "docs", "oauth", "kubectl.md"))
	Expect(err).NotTo(HaveOccurred())
	var configuration map[string]any
	for part := range strings.SplitSeq(string(page), "```yaml\n") {
		block, _, _ := strings.Cut(part, "```")
		if strings.Contains(block, "kind: AuthenticationConfiguration") {
			Expect(yaml.Unmarshal([]byte(block), &configuration)).To(Succeed())
		}
	}
	entry := configuration["jwt"].([]any)[0].(map[string]any)["issuer"].(map[string]any)
	entry["url"], entry["audiences"], entry["certificateAuthority"] = issuer, []string{client}, authority
	raw, err := yaml.Marshal(configuration)
	Expect(err).NotTo(HaveOccurred())
	return string(raw)
}

// asVera runs kubectl in a cluster as vera; configure is the set-credentials flags of her credentials.
func asVera(ctx context.Context, target *testkit.Cluster, configure []string, args ...string) (string, error) {
	GinkgoHelper()
	kubeconfig := filepath.Join(GinkgoT().TempDir(), "kubeconfig")
	content, err := target.Kubectl(ctx, "", "config", "view", "--raw", "--minify", "-o", "json")
	Expect(err).NotTo(HaveOccurred(), content)
	Expect(os.WriteFile(kubeconfig, []byte(content), 0o600)).To(Succeed())
	for _, change := range [][]string{{"unset", "users"}, append([]string{"set-credentials", "vera"}, configure...), {"set-context", "--current", "--user=vera"}} {
		out, err := target.Kubectl(ctx, "", append([]string{"--kubeconfig", kubeconfig, "config"}, change...)...)
		Expect(err).NotTo(HaveOccurred(), out)
	}
	return target.Kubectl(ctx, "", append([]string{"--kubeconfig", kubeconfig}, args...)...)
}
