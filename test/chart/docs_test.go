package chart

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	row    = regexp.MustCompile("(?m)^\\| `([a-zA-Z.{},]+)` \\| `([^`]*)` \\|")
	braces = regexp.MustCompile(`\{[^}]*\}`)
)

// docs/install.md lists every value with its default, and no other value.
func TestValuesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, match := range row.FindAllStringSubmatch(string(page), -1) {
		for _, path := range expand(match[1]) {
			if documented[path] != "" {
				t.Errorf("%s has two rows", path)
			}
			documented[path] = match[2]
		}
	}
	content, err := os.ReadFile(filepath.Join(chartPath, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var v values
	if err := yaml.Unmarshal(content, &v); err != nil {
		t.Fatal(err)
	}
	defaults := map[string]string{}
	leaves("", v, defaults)
	for path, value := range defaults {
		if documented[path] != value {
			t.Errorf("%s is %s, and documented as %q", path, value, documented[path])
		}
	}
	for path := range documented {
		if _, known := defaults[path]; !known {
			t.Errorf("%s is documented but is not a value of the chart", path)
		}
	}
	if len(defaults) < 50 {
		t.Errorf("%d values were found: the expression does not find them", len(defaults))
	}
}

// The Kubernetes version that docs/install.md calls tested is the version that the tests build.
func TestKubernetesVersionIsDocumented(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(root, "hack", "k8s", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "install.md"))
	if err != nil {
		t.Fatal(err)
	}
	built := regexp.MustCompile(`k8s\.io/kubernetes v(\d+\.\d+)`).FindStringSubmatch(string(module))
	tested := regexp.MustCompile(`\| Kubernetes \|[^|]*\| only (\d+\.\d+)`).FindStringSubmatch(string(page))
	if len(built) == 0 || len(tested) == 0 || built[1] != tested[1] {
		t.Errorf("built %v, documented %v", built, tested)
	}
}

// expand expands braces: a{b,c}d becomes abd and acd.
func expand(path string) []string {
	at := braces.FindStringIndex(path)
	if at == nil {
		return []string{path}
	}
	var paths []string
	for _, word := range strings.Split(path[at[0]+1:at[1]-1], ",") {
		paths = append(paths, expand(path[:at[0]]+word+path[at[1]:])...)
	}
	return paths
}

// leaves collects defaults by path. Leaves are values that are not objects, empty objects, and the objects resources
// and labels, whose members Kubernetes defines.
func leaves(path string, value any, into map[string]string) {
	name := path[strings.LastIndex(path, ".")+1:]
	if fields, ok := value.(map[string]any); ok && len(fields) > 0 && name != "resources" && name != "labels" {
		for key, field := range fields {
			leaves(strings.TrimPrefix(path+"."+key, "."), field, into)
		}
		return
	}
	if text, ok := value.(string); ok && text != "" {
		into[path] = text
		return
	}
	encoded, _ := json.Marshal(value) // it came from YAML
	into[path] = string(encoded)
}
