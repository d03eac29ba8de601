package chart

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v4/pkg/action"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/cli"
	"helm.sh/helm/v4/pkg/kube"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
)

// within bounds one action of Helm, on a loaded machine.
const within = 2 * time.Minute

// cluster is a control plane with the namespace that an install needs, which admits only restricted Pods.
type cluster struct {
	*controlplane.ControlPlane
	dir string
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	dir := t.TempDir()
	// These tests do not depend on any controller.
	plane, err := controlplane.Start(t.Context(), controlplane.Options{BinDir: binaries(), Dir: dir, EtcdUnsafeNoFsync: true, NoControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	c := &cluster{ControlPlane: plane, dir: dir}
	c.kubectl(t, "", "apply", "--server-side", "-k", filepath.Join(root, "config", "namespace"))
	return c
}

// try runs kubectl as the administrator, with input as its standard input.
func (c *cluster) try(t *testing.T, input string, arguments ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), c.Kubectl(), append([]string{"--kubeconfig=" + c.AdminKubeconfig()}, arguments...)...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir}
	command.Stdin = strings.NewReader(input)
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	err := command.Run()
	return output.String(), err
}

// kubectl runs try, and ends the test on failure.
func (c *cluster) kubectl(t *testing.T, input string, arguments ...string) string {
	t.Helper()
	output, err := c.try(t, input, arguments...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(arguments, " "), err, output)
	}
	return output
}

// field reads one field of an object, which is given as kind/name.
func (c *cluster) field(t *testing.T, object, path string, flags ...string) string {
	t.Helper()
	return c.kubectl(t, "", append([]string{"get", object, "-o", "jsonpath=" + path}, flags...)...)
}

// there reports whether an object exists.
func (c *cluster) there(t *testing.T, object string, flags ...string) bool {
	t.Helper()
	return c.kubectl(t, "", append([]string{"get", object, "--ignore-not-found", "-o", "name"}, flags...)...) != ""
}

func (c *cluster) configuration(t *testing.T) *action.Configuration {
	t.Helper()
	settings := cli.New()
	settings.KubeConfig = c.AdminKubeconfig()
	settings.QPS, settings.BurstLimit = 1000, 1000
	settings.SetNamespace(system)
	configuration := action.NewConfiguration(action.ConfigurationSetLogger(slog.DiscardHandler))
	if err := configuration.Init(settings.RESTClientGetter(), system, "secret"); err != nil {
		t.Fatal(err)
	}
	return configuration
}

// install runs `helm install`; options replace its flags.
func (c *cluster) install(t *testing.T, chart *chartv2.Chart, v values, options ...func(*action.Install)) error {
	t.Helper()
	install := action.NewInstall(c.configuration(t))
	install.ReleaseName, install.Namespace, install.Timeout, install.WaitStrategy = name, system, within, kube.HookOnlyStrategy
	for _, option := range options {
		option(install)
	}
	_, err := install.RunWithContext(t.Context(), chart, v)
	return err
}

// upgrade runs `helm upgrade`.
func (c *cluster) upgrade(t *testing.T, chart *chartv2.Chart, v values, options ...func(*action.Upgrade)) {
	t.Helper()
	upgrade := action.NewUpgrade(c.configuration(t))
	upgrade.Namespace, upgrade.Timeout, upgrade.WaitStrategy, upgrade.ServerSideApply = system, within, kube.HookOnlyStrategy, "auto"
	for _, option := range options {
		option(upgrade)
	}
	if _, err := upgrade.RunWithContext(t.Context(), name, chart, v); err != nil {
		t.Fatal(err)
	}
}

// uninstall runs `helm uninstall --wait`.
func (c *cluster) uninstall(t *testing.T) {
	t.Helper()
	uninstall := action.NewUninstall(c.configuration(t))
	uninstall.Timeout, uninstall.WaitStrategy, uninstall.DeletionPropagation = within, kube.StatusWatcherStrategy, "background"
	if _, err := uninstall.Run(name); err != nil {
		t.Fatal(err)
	}
}
