package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
)

// output collects the output of a run, and can be read at the same time. The channel there is closed when the run has
// printed the last line of its banner.
type output struct {
	mutex sync.Mutex
	text  bytes.Buffer
	there chan struct{}
}

func (o *output) Write(content []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	before := strings.Contains(o.text.String(), "Ctrl-C stops everything")
	o.text.Write(content)
	if !before && strings.Contains(o.text.String(), "Ctrl-C stops everything") {
		close(o.there)
	}
	return len(content), nil
}

func (o *output) String() string {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.String()
}

// With --cluster=current, Cardea runs on an existing cluster. The run prints the same banner and writes the same env
// file as any run, and leaves the cluster running at the end. It refuses a cluster where Cardea is installed.
func TestRunOnTheCurrentCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	plane, err := controlplane.Start(t.Context(), controlplane.Options{Dir: t.TempDir(), EtcdUnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("KUBECONFIG", plane.AdminKubeconfig())
	binDir := controlplane.DefaultBinDir()
	t.Chdir(filepath.Join("..", ".."))
	binary := buildCardea(t)
	dir := filepath.Join(t.TempDir(), "run")
	o, err := parse([]string{"--dir=" + dir, "--bin-dir=" + binDir, "--cardea=" + binary, "--cluster=current", "--kubectl=" + plane.Kubectl()})
	if err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	printed := &output{there: make(chan struct{})}
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, o, printed) }()
	select {
	case <-printed.there:
	case err := <-ended:
		t.Fatalf("%v\n%s", err, printed)
	}
	if text := printed.String(); !strings.Contains(text, plane.URL()) {
		t.Errorf("the banner does not name %s:\n%s", plane.URL(), text)
	}
	env, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil || !strings.Contains(string(env), "export CARDEA_API_KEY='") {
		t.Errorf("env: %v", err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("%v\n%s", err, printed)
	}
	kubectl := func(arguments ...string) string {
		t.Helper()
		output, err := exec.CommandContext(t.Context(), plane.Kubectl(), arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", arguments, err, output)
		}
		return string(output)
	}
	if ready := kubectl("get", "apikey", "acme-backend-key", "-n", "acme", "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].status}`); ready != "True" {
		t.Errorf("the cluster is left with Ready=%s", ready)
	}

	kubectl("apply", "--server-side", "-k", "config/operator")
	refused := &output{there: make(chan struct{})}
	if err := run(t.Context(), o, refused); err == nil || !strings.Contains(err.Error(), "runs Cardea already (Deployment/cardea-operator in ") {
		t.Errorf("%v, want a refusal\n%s", err, refused)
	}
}

// buildCardea builds cardea from the repository's root. The flags are those of make build, so that Go's build cache
// usually has the packages.
func buildCardea(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "cardea")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-gcflags=all=-dwarf=false", "-ldflags", "-s -w", "-o", binary, "./cmd/cardea")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if log, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
	return binary
}

func TestCurrentNeedsAContext(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	if _, err := openCurrent("kubectl", filepath.Join(t.TempDir(), "kubeconfig")); err == nil || !strings.Contains(err.Error(), "no current context") {
		t.Errorf("%v, want a refusal", err)
	}
	if _, err := parse([]string{"--cluster=kind"}); err == nil || !strings.Contains(err.Error(), "say current") {
		t.Errorf("%v, want a refusal", err)
	}
}
