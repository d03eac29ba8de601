package integration

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/cmd/kubectl-cardea/toolimport"
	"github.com/cardea-iam/cardea/test/testkit"
)

var _ = Describe("Tools of OpenAPI documents", func() {
	It("are accepted by the API server and the operator, served, and unchanged when they are applied again", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{})
		key := w.tenant(ctx, "acme")
		documents, err := filepath.Glob(filepath.Join(testkit.Root(), "cmd/kubectl-cardea/toolimport/testdata/*"))
		Expect(err).NotTo(HaveOccurred())
		documents = slices.DeleteFunc(documents, func(file string) bool { return strings.HasSuffix(file, ".golden") })
		Expect(len(documents)).To(BeNumerically(">", 3))
		for i, file := range documents {
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			document, err := toolimport.Read(text)
			Expect(err).NotTo(HaveOccurred(), file)
			result, err := document.Tools(toolimport.Options{
				Namespace: w.namespace, Deployment: "acme", Agent: fmt.Sprint("agent-", i), Prefix: fmt.Sprintf("d%d-", i), Base: "https://api.acme.example/v1", Approve: toolimport.ApproveNone,
			})
			Expect(err).NotTo(HaveOccurred(), file)
			written, err := result.YAML()
			Expect(err).NotTo(HaveOccurred())

			_, err = cluster.Kubectl(ctx, string(written), "apply", "--validate=strict", "-f", "-")
			Expect(err).NotTo(HaveOccurred(), file)
			expectReady(ctx, result.Agent)
			for _, tool := range result.Tools {
				expectReady(ctx, tool.AITool)
			}
			again, err := cluster.Kubectl(ctx, string(written), "apply", "-f", "-")
			Expect(err).NotTo(HaveOccurred())
			Expect(again).NotTo(Or(ContainSubstring("configured"), ContainSubstring("created")), "another apply of %s changes resources", file)

			path := "/ai/agents/" + result.Agent.Status.ID + "/tool-definitions"
			Eventually(func() any { return w.do("GET", path, key, "").JSON["tools"] }).Should(HaveLen(len(result.Tools)), file)
		}
	})

	It("are accepted with the header of a Secret, a token of the user, and approvals", func(ctx context.Context) {
		w := newWorld(ctx, testkit.OperatorOptions{Keyring: rootKey(1)})
		w.tenant(ctx, "acme")
		shared := secret(w.namespace, "order-service-token", "token", "Bearer canary")
		shared.Labels = map[string]string{v1alpha1.LabelDeployment: "acme"}
		create(ctx, shared)
		text, err := os.ReadFile(filepath.Join(testkit.Root(), "cmd/kubectl-cardea/toolimport/testdata/orders.yaml"))
		Expect(err).NotTo(HaveOccurred())
		document, err := toolimport.Read(text)
		Expect(err).NotTo(HaveOccurred())
		for i, opts := range []toolimport.Options{
			{Headers: []toolimport.Header{{Name: "Authorization", Secret: "order-service-token", Key: "token"}}, Approve: toolimport.ApproveUnsafe},
			{AsUser: true, Approve: toolimport.ApproveSafe},
		} {
			opts.Namespace, opts.Deployment, opts.Prefix = w.namespace, "acme", fmt.Sprintf("d%d-", i)
			result, err := document.Tools(opts)
			Expect(err).NotTo(HaveOccurred())
			written, err := result.YAML()
			Expect(err).NotTo(HaveOccurred())
			_, err = cluster.Kubectl(ctx, string(written), "apply", "--validate=strict", "-f", "-")
			Expect(err).NotTo(HaveOccurred())
			for _, tool := range result.Tools {
				expectReady(ctx, tool.AITool)
			}
		}
	})
})
