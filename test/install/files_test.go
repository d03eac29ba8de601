package install

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// maxCRD keeps a CRD small enough for client-side apply, whose annotation is limited to 256 KiB.
const maxCRD = 200 << 10

func TestCRDFiles(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(config("crd"), "bases", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != len(kinds) {
		t.Errorf("%d files, want one a kind", len(files))
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() >= maxCRD {
			t.Errorf("%s has %d bytes, %d is the limit", file, info.Size(), maxCRD)
		}
	}
	if rendered := render(t, "crd"); len(rendered) != len(files) {
		t.Errorf("the kustomization names %d CRDs, there are %d", len(rendered), len(files))
	}
}

// PROJECT lists exactly the existing kinds.
func TestProject(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "PROJECT"))
	if err != nil {
		t.Fatal(err)
	}
	var project struct {
		Domain, Repo, Version string
		Layout                []string
		Resources             []struct {
			Group, Domain, Kind, Path, Version string
			Controller                         bool
		}
	}
	if err := yaml.Unmarshal(content, &project); err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, resource := range project.Resources {
		plural := strings.TrimSuffix(strings.ToLower(resource.Kind), "s") + "s" // B2BSettings is its own plural
		if stem, isY := strings.CutSuffix(plural, "ys"); isY && !strings.ContainsAny(stem[len(stem)-1:], "aeiou") {
			plural = stem + "ies"
		}
		named[plural+"."+resource.Group+"."+resource.Domain] = resource.Controller
		if folder := filepath.Join(root, strings.TrimPrefix(resource.Path, project.Repo)); !exists(folder) {
			t.Errorf("%s: no folder %s", resource.Kind, folder)
		}
	}
	for _, kind := range kinds {
		if name := kind + ".iam.cardea.dev"; !named[name] {
			t.Errorf("%s is missing, or without controller", name)
		}
	}
	if len(named) != len(kinds) || project.Version != "3" {
		t.Errorf("%d kinds, want %d; version %q", len(named), len(kinds), project.Version)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// goMemoryLimit returns a container's GOMEMLIMIT in bytes.
func goMemoryLimit(t *testing.T, container corev1.Container) int64 {
	t.Helper()
	for _, variable := range container.Env {
		if number, found := strings.CutSuffix(variable.Value, "MiB"); found && variable.Name == "GOMEMLIMIT" {
			mebibytes, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return mebibytes << 20
		}
	}
	t.Fatal("no GOMEMLIMIT in MiB")
	return 0
}
