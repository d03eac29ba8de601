package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/cardea-iam/cardea/internal/testing/controlplane"
)

// The kustomizations that every run installs: the kinds, and the namespace, ServiceAccounts and roles that Cardea
// needs.
const (
	crdPath   = "config/crd"
	localPath = "config/local"
)

func (r *localRun) startCluster(ctx context.Context) (err error) {
	if r.ports, err = choosePorts(r.path("ports.json"), r.reserved.takeSoon); err != nil {
		return err
	}
	if r.clusterName != "" {
		return r.useCurrent(ctx)
	}
	plane, err := controlplane.Start(ctx, controlplane.Options{
		BinDir:        r.binDir,
		Dir:           r.path("cluster"),
		Group:         r.group,
		APIServerPort: r.ports.APIServer,
		EtcdPort:      r.ports.Etcd,
	})
	if err != nil {
		return err
	}
	r.cluster = plane
	kubeconfig, err := os.ReadFile(r.cluster.AdminKubeconfig())
	if err != nil {
		return err
	}
	if err := os.WriteFile(r.kubeconfig(), kubeconfig, 0o600); err != nil {
		return err
	}
	r.step("control plane ready")
	return nil
}

func (r *localRun) useCurrent(ctx context.Context) error {
	c, err := openCurrent(r.kubectlPath, r.kubeconfig())
	if err != nil {
		return err
	}
	r.cluster = c
	if err := r.refuseInstalled(ctx); err != nil {
		return err
	}
	r.step("context %s, cluster %s", c.config.CurrentContext, c.URL())
	return nil
}

// kubeconfig returns the path of the user's kubeconfig, with admin rights.
func (r *localRun) kubeconfig() string { return r.path("kubeconfig") }

func (r *localRun) installManifests(ctx context.Context) error {
	if _, err := r.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", crdPath); err != nil {
		return err
	}
	if _, err := r.kubectl(ctx, "wait", "crd", "--all", "--for=condition=Established", "--timeout=60s"); err != nil {
		return err
	}
	if _, err := r.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "-k", localPath); err != nil {
		return err
	}
	r.step("%s and %s installed", crdPath, localPath)
	return nil
}

// kubectl runs kubectl as admin and returns its standard output.
func (r *localRun) kubectl(ctx context.Context, arguments ...string) ([]byte, error) {
	// The discovery cache is in the run's folder, so that kubectl writes nothing to the user's home.
	arguments = append([]string{"--kubeconfig=" + r.kubeconfig(), "--cache-dir=" + r.path("kubectl-cache")}, arguments...)
	command := exec.CommandContext(ctx, r.cluster.Kubectl(), arguments...)
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", filepath.Base(command.Path), strings.Join(arguments[2:], " "), err, problems.Bytes())
	}
	return output.Bytes(), nil
}
