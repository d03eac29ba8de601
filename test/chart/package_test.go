package chart

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The chart that a release packs is readable by Helm, and installs the release's image.
func TestPackagedChart(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds hack/release")
	}
	repository, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	pack := exec.CommandContext(t.Context(), "go", "run", ".", "-root", repository, "-out", folder, "-version", "v9.8.7-rc.1", "-image", "registry.example/team/cardea", "chart")
	pack.Dir = filepath.Join(repository, "hack", "release")
	if output, err := pack.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", pack, err, output)
	}
	chart := load(t, filepath.Join(folder, "cardea-9.8.7-rc.1.tgz"))
	if err := chart.Validate(); err != nil {
		t.Error(err)
	}
	if chart.Metadata.Version != "9.8.7-rc.1" || len(chart.Schema) == 0 || len(chart.Templates) != len(load(t, chartPath).Templates) {
		t.Errorf("version %s, %d templates, a schema of %d bytes", chart.Metadata.Version, len(chart.Templates), len(chart.Schema))
	}
	manifest, err := templateOf(t, chart, system, values{})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(manifest, "image: registry.example/team/cardea:v9.8.7-rc.1\n") != 2 {
		t.Error("it does not install the release's image")
	}
}
