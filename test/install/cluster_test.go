// Package install tests config/: a cluster accepts the manifests, admits the Pods under the restricted Pod Security
// standard, and gives each ServiceAccount the rights that it needs and no others.
package install

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
)

const (
	system = "cardea-system"
	root   = "../.."
)

// cluster is a control plane, with kubectl and a client as its administrator.
type cluster struct {
	*controlplane.ControlPlane
	dir   string
	admin *kubernetes.Clientset
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	dir := t.TempDir()
	plane, err := controlplane.Start(t.Context(), controlplane.Options{
		Dir: dir, EtcdUnsafeNoFsync: true,
		// Many distributions enable this plugin: then an ownerReference that blocks a deletion needs additional rights.
		APIServerArgs: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := plane.Stop(); err != nil {
			t.Error(err)
		}
	})
	admin, err := kubernetes.NewForConfig(plane.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return &cluster{ControlPlane: plane, dir: dir, admin: admin}
}

// kubectl runs kubectl as the administrator, ends the test on failure, and returns the output.
func (c *cluster) kubectl(t *testing.T, arguments ...string) string {
	t.Helper()
	return kubectl(t, c.Kubectl(), c.dir, append([]string{"--kubeconfig=" + c.AdminKubeconfig()}, arguments...)...)
}

// apply applies a folder of config/ server-side, as the Makefile does. A warning is a failure.
func (c *cluster) apply(t *testing.T, folder string, flags ...string) {
	t.Helper()
	c.kubectl(t, append([]string{"apply", "--server-side", "--warnings-as-errors", "-k", config(folder)}, flags...)...)
}

// as returns a client with the token of one of Cardea's ServiceAccounts.
func (c *cluster) as(t *testing.T, serviceAccount string) *kubernetes.Clientset {
	t.Helper()
	file := filepath.Join(c.dir, serviceAccount+".kubeconfig")
	if err := c.ServiceAccountKubeconfig(t.Context(), system, serviceAccount, file, time.Hour); err != nil {
		t.Fatal(err)
	}
	restConfig, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(restConfig)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func config(folder string) string { return filepath.Join(root, "config", folder) }

// render returns the objects of a folder of config/.
func render(t *testing.T, folder string) []unstructured.Unstructured {
	t.Helper()
	if testing.Short() {
		t.Skip("needs kubectl")
	}
	output := kubectl(t, filepath.Join(controlplane.DefaultBinDir(), "kubectl"), t.TempDir(), "kustomize", config(folder))
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(output), 4096)
	var objects []unstructured.Unstructured
	for {
		var object unstructured.Unstructured
		err := decoder.Decode(&object)
		if err == io.EOF {
			return objects
		}
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		objects = append(objects, object)
	}
}

func kubectl(t *testing.T, binary, home string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, arguments...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("kubectl %s: %v\n%s%s", strings.Join(arguments, " "), err, output.String(), problems.String())
	}
	return output.String()
}

// eventually waits until try succeeds, because changes reach the API server's authorizer and admission by watches, with
// a delay.
func eventually(t *testing.T, try func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}
