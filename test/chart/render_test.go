// Package chart tests config/chart: the chart renders what config/ holds, refuses invalid values, and is installed,
// upgraded and uninstalled on a real API server by Helm's own code.
package chart

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/chart/common"
	chartv2 "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	release "helm.sh/helm/v4/pkg/release/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

const (
	root      = "../.."
	chartPath = root + "/config/chart/cardea"
	system    = "cardea-system"
	name      = "cardea"
)

// oldest is the oldest Kubernetes version that the chart must render for.
var oldest = &common.KubeVersion{Version: "v1.30.0", Major: "1", Minor: "30"}

type values = map[string]any

func load(t *testing.T, path string) *chartv2.Chart {
	t.Helper()
	chart, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return chart
}

// template renders the chart without a cluster, as `helm template` does.
func template(t *testing.T, namespace string, v values) (string, error) {
	t.Helper()
	return templateOf(t, load(t, chartPath), namespace, v)
}

func templateOf(t *testing.T, chart *chartv2.Chart, namespace string, v values) (string, error) {
	t.Helper()
	install := action.NewInstall(action.NewConfiguration())
	install.DryRunStrategy = action.DryRunClient
	install.ReleaseName, install.Namespace = name, namespace
	install.KubeVersion = oldest
	answer, err := install.RunWithContext(t.Context(), chart, v)
	if err != nil {
		return "", err
	}
	return answer.(*release.Release).Manifest, nil
}

// rendered returns the chart's objects by kind, namespace and name.
func rendered(t *testing.T, v values) map[string]*unstructured.Unstructured {
	t.Helper()
	manifest, err := template(t, system, v)
	if err != nil {
		t.Fatal(err)
	}
	return objects(t, manifest)
}

// objects parses YAML, and fails the test if an object occurs twice.
func objects(t *testing.T, text string) map[string]*unstructured.Unstructured {
	t.Helper()
	found := map[string]*unstructured.Unstructured{}
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if len(object.Object) == 0 {
			continue
		}
		key := fmt.Sprintf("%s %s/%s", object.GetKind(), object.GetNamespace(), object.GetName())
		if found[key] != nil {
			t.Errorf("%s is there twice", key)
		}
		found[key] = object
	}
}

// kustomized returns the objects of a folder of config/.
func kustomized(t *testing.T, folder string) map[string]*unstructured.Unstructured {
	t.Helper()
	if testing.Short() {
		t.Skip("needs kubectl")
	}
	command := exec.CommandContext(t.Context(), filepath.Join(binaries(), "kubectl"), "kustomize", filepath.Join(root, "config", folder))
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	var output, problems bytes.Buffer
	command.Stdout, command.Stderr = &output, &problems
	if err := command.Run(); err != nil {
		t.Fatalf("%v\n%s", err, problems.String())
	}
	return objects(t, output.String())
}

// binaries returns the folder of kubectl and the control plane.
func binaries() string {
	if assets := os.Getenv("KUBEBUILDER_ASSETS"); assets != "" {
		return assets
	}
	return filepath.Join(root, "bin", "k8s") // this module's own folder has no built programs
}

// helms are the labels and annotations that Helm's charts add, including the version of the installed release.
var helms = []string{"app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version", "helm.sh/chart", "helm.sh/resource-policy"}

// withoutHelm removes Helm's labels and annotations from an object's own metadata, and from nothing below.
func withoutHelm(object *unstructured.Unstructured) map[string]any {
	plain := object.DeepCopy()
	for _, field := range []string{"labels", "annotations"} {
		texts, _, _ := unstructured.NestedStringMap(plain.Object, "metadata", field)
		maps.DeleteFunc(texts, func(key, _ string) bool { return slices.Contains(helms, key) })
		if len(texts) == 0 {
			unstructured.RemoveNestedField(plain.Object, "metadata", field)
		} else if err := unstructured.SetNestedStringMap(plain.Object, texts, "metadata", field); err != nil {
			panic(err) // texts came from there
		}
	}
	return plain.Object
}

// The chart and the manifests are equal, object by object. The one exception is the namespace, which Helm needs before
// it has read the chart.
func TestChartRendersWhatKustomizeDoes(t *testing.T) {
	t.Parallel()
	for folder, v := range map[string]values{
		"default":            {},
		"default-standalone": {"standalone": values{"enabled": true}},
	} {
		t.Run(folder, func(t *testing.T) {
			want := kustomized(t, folder)
			if got := rendered(t, v); got["Namespace /"+system] != nil || len(got) != len(want)-1 {
				t.Errorf("%d objects, want the %d of config/%s but for the namespace", len(got), len(want), folder)
			}
			v["namespace"] = values{"create": true}
			got := rendered(t, v)
			for _, key := range slices.Sorted(maps.Keys(want)) {
				if got[key] == nil {
					t.Errorf("the chart lacks %s", key)
					continue
				}
				if difference := differ("", want[key].Object, withoutHelm(got[key])); difference != "" {
					t.Errorf("%s: %s", key, difference)
				}
			}
			for key, object := range got {
				if want[key] == nil {
					t.Errorf("config/%s has no %s", folder, key)
				}
				if object.GetLabels()["helm.sh/chart"] == "" || object.GetLabels()["app.kubernetes.io/managed-by"] != "Helm" {
					t.Errorf("%s: labels %v, want Helm's too", key, object.GetLabels())
				}
			}
		})
	}
}

// The chart's monitoring objects equal config/observability.
func TestChartRendersMonitoring(t *testing.T) {
	t.Parallel()
	want := kustomized(t, "observability")
	got := rendered(t, values{"monitoring": values{
		"serviceMonitor": values{"enabled": true}, "prometheusRule": values{"enabled": true}, "dashboards": values{"enabled": true},
	}})
	without := rendered(t, values{})
	if len(got)-len(without) != len(want) {
		t.Errorf("%d objects, want %d", len(got)-len(without), len(want))
	}
	for key, object := range want {
		if got[key] == nil {
			t.Errorf("the chart lacks %s", key)
		} else if difference := differ("", object.Object, withoutHelm(got[key])); difference != "" {
			t.Errorf("%s: %s", key, difference)
		}
	}
}

// differ returns the first difference of two values with its path, or "".
func differ(path string, want, got any) string {
	switch wanted := want.(type) {
	case map[string]any:
		if found, ok := got.(map[string]any); ok {
			keys := slices.Sorted(maps.Keys(wanted))
			for key := range found {
				if _, known := wanted[key]; !known {
					keys = append(keys, key)
				}
			}
			for _, key := range keys {
				if difference := differ(path+"."+key, wanted[key], found[key]); difference != "" {
					return difference
				}
			}
			return ""
		}
	case []any:
		if found, ok := got.([]any); ok && len(found) == len(wanted) {
			for i := range wanted {
				if difference := differ(fmt.Sprintf("%s[%d]", path, i), wanted[i], found[i]); difference != "" {
					return difference
				}
			}
			return ""
		}
	}
	one, _ := json.Marshal(want)
	other, _ := json.Marshal(got)
	if bytes.Equal(one, other) {
		return ""
	}
	return fmt.Sprintf("%s is %s, want %s", path, other, one)
}

func TestDifferFindsDifferences(t *testing.T) {
	one := map[string]any{"a": []any{map[string]any{"b": int64(1)}}}
	for _, other := range []map[string]any{
		{}, {"a": []any{}}, {"a": []any{map[string]any{"b": int64(2)}}}, {"a": []any{map[string]any{"b": int64(1), "c": "x"}}}, {"a": "b"},
	} {
		if differ("", one, other) == "" || differ("", other, one) == "" {
			t.Errorf("%v passes for %v", other, one)
		}
	}
	if difference := differ("", one, map[string]any{"a": []any{map[string]any{"b": int64(1)}}}); difference != "" {
		t.Error(difference)
	}
}
