package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"
)

// holdDir, when set, makes this test binary a process that runs a control plane over the folder until it is killed.
const holdDir = "CARDEA_TEST_HOLD_CONTROL_PLANE"

func TestMain(m *testing.M) {
	dir := os.Getenv(holdDir)
	if dir == "" {
		os.Exit(m.Run())
	}
	c, err := Start(context.Background(), testOptions(dir))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	line, _ := json.Marshal([]int{c.etcd.PID(), c.apiServer.PID(), c.controllerManager.PID()})
	fmt.Printf("%s\n", line)
	select {}
}

func testOptions(dir string) Options {
	return Options{Dir: dir, EtcdUnsafeNoFsync: true, AuditLog: true}
}

func start(t *testing.T, dir string) *ControlPlane {
	t.Helper()
	begin := time.Now()
	c, err := Start(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("started in %s", time.Since(begin).Round(10*time.Millisecond))
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func (c *ControlPlane) core(t *testing.T) typedcorev1.CoreV1Interface {
	t.Helper()
	client, err := typedcorev1.NewForConfig(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestLife(t *testing.T) {
	dir := t.TempDir()
	c := start(t, dir)
	namespaces := c.core(t).Namespaces()
	create(t, c, "kept")

	t.Run("a deleted namespace vanishes", func(t *testing.T) {
		create(t, c, "gone")
		begin := time.Now()
		if err := namespaces.Delete(t.Context(), "gone", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the namespace to vanish", func() bool {
			_, err := namespaces.Get(t.Context(), "gone", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		t.Logf("vanished in %s", time.Since(begin).Round(10*time.Millisecond))
	})

	t.Run("a process runs as its ServiceAccount", func(t *testing.T) { runsAsServiceAccount(t, c) })

	t.Run("the audit log records requests", func(t *testing.T) {
		log, err := os.ReadFile(c.AuditLog())
		if err != nil || !strings.Contains(string(log), `"name":"kept"`) {
			t.Errorf("no line about the namespace (%v)", err)
		}
	})

	t.Run("the API server restarts alone", func(t *testing.T) {
		url := c.URL()
		if err := c.StopAPIServer(); err != nil {
			t.Fatal(err)
		}
		if _, err := namespaces.Get(t.Context(), "kept", metav1.GetOptions{}); err == nil {
			t.Error("a stopped API server answers")
		}
		begin := time.Now()
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("restarted in %s", time.Since(begin).Round(10*time.Millisecond))
		if c.URL() != url {
			t.Errorf("URL changed from %s to %s", url, c.URL())
		}
		if _, err := namespaces.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})

	t.Run("the folder is one control plane's", func(t *testing.T) {
		if _, err := Start(t.Context(), testOptions(dir)); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("second start: %v", err)
		}
	})

	t.Run("a second start goes on", func(t *testing.T) {
		begin := time.Now()
		if err := c.Stop(); err != nil {
			t.Fatal(err)
		}
		t.Logf("stopped in %s", time.Since(begin).Round(10*time.Millisecond))
		if _, err := start(t, dir).core(t).Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
			t.Error(err)
		}
	})
}

func runsAsServiceAccount(t *testing.T, c *ControlPlane) {
	file := filepath.Join(t.TempDir(), "default.kubeconfig")
	eventually(t, "the ServiceAccount", func() bool {
		_, err := c.core(t).ServiceAccounts("kept").Get(t.Context(), "default", metav1.GetOptions{})
		return err == nil
	})
	if err := c.ServiceAccountKubeconfig(t.Context(), "kept", "default", file, 365*24*time.Hour); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	client, err := typedcorev1.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Secrets("kept").List(t.Context(), metav1.ListOptions{})
	if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "system:serviceaccount:kept:default") {
		t.Errorf("want a refusal that names the ServiceAccount, got: %v", err)
	}
	if err := c.ServiceAccountKubeconfig(t.Context(), "kept", "absent", file, time.Hour); !apierrors.IsNotFound(errors.Unwrap(err)) {
		t.Errorf("an absent ServiceAccount: %v", err)
	}
}

// A killed parent ends every child, and the next start over the folder finds every acknowledged write.
func TestKilledParent(t *testing.T) {
	dir := t.TempDir()
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holdDir+"="+dir)
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = holder.Process.Kill() })
	var pids []int
	if err := json.NewDecoder(output).Decode(&pids); err != nil {
		t.Fatalf("the holder did not start: %v", err)
	}
	createByKubectl(t, dir, "kept")
	if err := holder.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait()
	for _, pid := range pids {
		eventually(t, "a child to die with its parent", func() bool { return !lives(pid) })
	}

	if _, err := start(t, dir).core(t).Namespaces().Get(t.Context(), "kept", metav1.GetOptions{}); err != nil {
		t.Error(err)
	}
}

func TestMissingBinary(t *testing.T) {
	_, err := Start(t.Context(), Options{Dir: t.TempDir(), BinDir: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), "make k8s") {
		t.Errorf("the error does not mention `make k8s`: %v", err)
	}
}

func create(t *testing.T, c *ControlPlane, namespace string) {
	t.Helper()
	object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if _, err := c.core(t).Namespaces().Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func createByKubectl(t *testing.T, dir, namespace string) {
	t.Helper()
	binaries, err := findBinaries("")
	if err != nil {
		t.Fatal(err)
	}
	kubectl := exec.Command(binaries.kubectl, "--kubeconfig="+filepath.Join(dir, "admin.kubeconfig"),
		"--cache-dir="+filepath.Join(dir, "cache"), "create", "namespace", namespace)
	if output, err := kubectl.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
}

// lives is false for a zombie, which a container without an init process keeps forever.
func lives(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}
