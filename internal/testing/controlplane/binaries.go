package controlplane

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/cardea-iam/cardea/internal/testing/repository"
)

type binaries struct {
	etcd, apiServer, controllerManager, kubectl string
}

var binaryNames = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubectl"}

// DefaultBinDir is $KUBEBUILDER_ASSETS when that holds all four binaries (the archives that tools download lack the
// controller manager), else bin/k8s of the repository that the working folder is in.
func DefaultBinDir() string {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" && missing(assets) == "" {
		return assets
	}
	return filepath.Join(repository.Root(), "bin", "k8s")
}

func findBinaries(dir string) (binaries, error) {
	if dir == "" {
		dir = DefaultBinDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return binaries{}, err
	}
	if name := missing(dir); name != "" {
		return binaries{}, fmt.Errorf("%s is missing; build it with `make k8s`", filepath.Join(dir, name))
	}
	return binaries{
		etcd:              filepath.Join(dir, "etcd"),
		apiServer:         filepath.Join(dir, "kube-apiserver"),
		controllerManager: filepath.Join(dir, "kube-controller-manager"),
		kubectl:           filepath.Join(dir, "kubectl"),
	}, nil
}

// missing names the first binary that dir lacks, "" when all are there.
func missing(dir string) string {
	for _, name := range binaryNames {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() {
			return name
		}
	}
	return ""
}
