// Package testkit holds what the test suites share: a real control plane with Cardea's CRDs, operators and servers over
// real stores, and short helpers to declare resources and send requests.
package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/testing/controlplane"
	"github.com/cardea-iam/cardea/internal/testing/repository"
)

// Cluster is a real API server, etcd and controller-manager with Cardea's CRDs.
type Cluster struct {
	*controlplane.ControlPlane
	// Client acts as the administrator and reads without a cache.
	Client client.Client
	Dir    string
	serial atomic.Int64
}

// Root returns the repository's root folder.
func Root() string { return repository.Root() }

// StartCluster starts a control plane in a new temporary folder and installs the CRDs.
func StartCluster(ctx context.Context) (*Cluster, error) {
	return StartClusterWith(ctx, controlplane.Options{})
}

// StartClusterWith is StartCluster with options. It sets BinDir, Dir and EtcdUnsafeNoFsync itself.
func StartClusterWith(ctx context.Context, options controlplane.Options) (*Cluster, error) {
	dir, err := os.MkdirTemp("", "cardea-test-")
	if err != nil {
		return nil, err
	}
	options.BinDir, options.Dir, options.EtcdUnsafeNoFsync = controlplane.DefaultBinDir(), dir, true
	plane, err := controlplane.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config := rest.CopyConfig(plane.RESTConfig())
	admin, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	c := &Cluster{ControlPlane: plane, Client: admin, Dir: dir}
	if out, err := c.Kubectl(ctx, "", "apply", "--server-side", "-k", filepath.Join(Root(), "config", "crd")); err != nil {
		return nil, fmt.Errorf("install CRDs: %w: %s", err, out)
	}
	if out, err := c.Kubectl(ctx, "", "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"); err != nil {
		return nil, fmt.Errorf("wait for CRDs: %w: %s", err, out)
	}
	return c, nil
}

// Stop ends the control plane and removes its folder.
func (c *Cluster) Stop() error {
	return errors.Join(c.ControlPlane.Stop(), os.RemoveAll(c.Dir))
}

// Kubectl runs kubectl as the administrator with an input and returns what it printed.
func (c *Cluster) Kubectl(ctx context.Context, input string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, c.ControlPlane.Kubectl(), append([]string{"--kubeconfig", c.AdminKubeconfig(), "--cache-dir", filepath.Join(c.Dir, "kubectl")}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// Namespace creates a namespace with a unique name.
func (c *Cluster) Namespace(ctx context.Context) (string, error) {
	name := fmt.Sprintf("test-%d", c.serial.Add(1))
	return name, c.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}
