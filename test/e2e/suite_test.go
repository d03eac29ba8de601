// Package e2e drives the built cardea as its users do, with kubectl and HTTP, against a real control plane. Each
// process uses the token of its own ServiceAccount.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/cardea-iam/cardea/internal/apikey"
	"github.com/cardea-iam/cardea/test/testkit"
)

const (
	schemesPath = "/api-auth/rate-limit-schemes"
	// stopsWithin is the longest a process may take to end after SIGTERM.
	stopsWithin = 15 * time.Second
)

// cluster and processes are shared by the suite, because starting a control plane takes most of the time of a spec.
var (
	cluster   *testkit.Cluster
	processes *testkit.Processes
)

func TestEndToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	RegisterFailHandler(Fail)
	RunSpecs(t, "End to end")
}

var _ = BeforeSuite(func(ctx context.Context) {
	log.SetLogger(GinkgoLogr)
	SetDefaultEventuallyTimeout(time.Minute) // bounds a spec that hangs
	SetDefaultEventuallyPollingInterval(25 * time.Millisecond)
	var err error
	cluster, err = testkit.StartCluster(ctx)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return cluster.Stop() })
	processes, err = testkit.NewProcesses(ctx, cluster)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return processes.Close() })
})

var _ = ReportAfterEach(func(report SpecReport) {
	if !report.Failed() || processes == nil {
		return
	}
	for name, tail := range processes.LogTails(15) {
		AddReportEntry(name, tail)
	}
})

// start runs a role and waits until it is ready. The process runs until AfterAll of its container ends it. A cleanup of
// the spec that started it would end it before the following specs.
func start(ctx context.Context, launch testkit.Launch) *testkit.Cardea {
	GinkgoHelper()
	c, err := processes.Start(ctx, launch)
	Expect(err).NotTo(HaveOccurred())
	Expect(c.AwaitReady(ctx)).To(Succeed())
	return c
}

// kubectl runs kubectl as the administrator, expects success, and returns the output.
func kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	out, err := cluster.Kubectl(ctx, "", args...)
	Expect(err).NotTo(HaveOccurred(), "kubectl %s: %s", strings.Join(args, " "), out)
	return out
}

// apply applies YAML client-side, as most users do.
func apply(ctx context.Context, yaml string) {
	GinkgoHelper()
	out, err := cluster.Kubectl(ctx, yaml, "apply", "-f", "-")
	Expect(err).NotTo(HaveOccurred(), out)
}

// expectAllReady waits until every Cardea resource in a namespace is Ready for its current generation.
func expectAllReady(ctx context.Context, namespace string) {
	GinkgoHelper()
	Eventually(func() ([]string, error) { return unready(ctx, namespace) }).WithTimeout(time.Minute).WithPolling(200 * time.Millisecond).Should(BeEmpty())
}

func unready(ctx context.Context, namespace string) ([]string, error) {
	out, err := cluster.Kubectl(ctx, "", "get", "cardea", "-n", namespace, "-o", "json")
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	var list struct {
		Items []struct {
			Kind     string
			Metadata struct {
				Name       string
				Generation int64
			}
			Status struct {
				ObservedGeneration int64
				Conditions         []struct{ Type, Status, Reason, Message string }
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, err
	}
	if len(list.Items) == 0 {
		return []string{"there is nothing in namespace " + namespace}, nil
	}
	var faults []string
	for _, item := range list.Items {
		ready := false
		for _, c := range item.Status.Conditions {
			ready = ready || c.Type == "Ready" && c.Status == "True"
		}
		if !ready || item.Status.ObservedGeneration != item.Metadata.Generation {
			faults = append(faults, fmt.Sprintf("%s %s: %v", item.Kind, item.Metadata.Name, item.Status.Conditions))
		}
	}
	return faults, nil
}

// do sends a request to a server with a key and returns the response.
func do(server *testkit.Cardea, method, path, key, body string) testkit.Answer {
	GinkgoHelper()
	answer, err := testkit.Do(method, server.Backend+path, key, body)
	Expect(err).NotTo(HaveOccurred())
	return answer
}

// get returns a function for Eventually that requests a path.
func get(server *testkit.Cardea, path, key string) func() (testkit.Answer, error) {
	return func() (testkit.Answer, error) { return testkit.Do("GET", server.Backend+path, key, "") }
}

// haveStatus matches a response by its HTTP status.
func haveStatus(status int) types.GomegaMatcher { return HaveField("Status", status) }

// haveMember matches a 200 by a member of its JSON.
func haveMember(name string, value any) types.GomegaMatcher {
	return And(haveStatus(200), HaveField("JSON", HaveKeyWithValue(name, value)))
}

// expectOrderlyEnd sends SIGTERM to a process and expects exit status 0 in time.
func expectOrderlyEnd(c *testkit.Cardea) {
	GinkgoHelper()
	Expect(c.Stop(stopsWithin)).To(Succeed())
	Expect(c.ExitError()).To(MatchError(ContainSubstring("(exit status 0)")))
}

// expectNoTraceOf expects no secret in the logs of all processes so far, in Cardea's resources, in events or in Leases.
func expectNoTraceOf(ctx context.Context, secrets ...string) {
	GinkgoHelper()
	readable := map[string]string{
		"resources": kubectl(ctx, "get", "cardea", "-A", "-o", "yaml", "--show-managed-fields"),
		"described": kubectl(ctx, "describe", "cardea", "-A"),
		"events":    kubectl(ctx, "get", "events.events.k8s.io", "-A", "-o", "yaml"),
		"leases":    kubectl(ctx, "get", "leases", "-A", "-o", "yaml"),
	}
	err := filepath.WalkDir(processes.Group().LogDir(), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		readable[filepath.Base(path)] = string(content)
		return err
	})
	Expect(err).NotTo(HaveOccurred())
	for _, secret := range secrets {
		Expect(secret).NotTo(BeEmpty())
		for where, text := range readable {
			Expect(strings.Contains(text, secret)).To(BeFalse(), "a secret is in %s", where)
		}
	}
}

// secretPart returns the part of a key that proves its possession. The rest of the key is not secret.
func secretPart(key string) string {
	GinkgoHelper()
	parsed, err := apikey.Parse(key)
	Expect(err).NotTo(HaveOccurred())
	_, tail, _ := strings.Cut(key, parsed.ID())
	return tail[:len(tail)-6]
}

// copyFolder copies the files of a folder into a new one that ends with the spec.
func copyFolder(from string) string {
	GinkgoHelper()
	to := GinkgoT().TempDir()
	Expect(os.CopyFS(to, os.DirFS(from))).To(Succeed())
	return to
}
