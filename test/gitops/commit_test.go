package gitops

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/test/testkit"
)

// samples returns the tenant of config/samples in a namespace, with hosts that are unique to it.
func samples(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testkit.Root(), "config", "samples", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var commit []*unstructured.Unstructured
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		commit = append(commit, parse(t, namespace, string(content))...)
	}
	for _, object := range commit {
		switch object.GetKind() {
		case v1alpha1.KindIdentityDeployment:
			set(t, object, []any{namespace + ".localhost"}, "spec", "frontendHosts")
		case v1alpha1.KindOAuthApp:
			if _, found, _ := unstructured.NestedString(object.Object, "spec", "fqdn"); found {
				set(t, object, "portal."+namespace+".example", "spec", "fqdn")
			}
		}
	}
	return commit
}

// backend returns the samples that Acme's own backend needs: the deployment, its schemes, apps and keys.
func backend(t *testing.T, namespace string) []*unstructured.Unstructured {
	t.Helper()
	kinds := []string{"Namespace", "RoleBinding", v1alpha1.KindIdentityDeployment, v1alpha1.KindRateLimitScheme, v1alpha1.KindAPIAuthApp, v1alpha1.KindAPIKey}
	return slices.DeleteFunc(samples(t, namespace), func(o *unstructured.Unstructured) bool {
		return !slices.Contains(kinds, o.GetKind()) && o.GetName() != "acme-carrier"
	})
}

// parse parses YAML and moves all objects to a namespace; it renames Namespace objects to that namespace.
func parse(t *testing.T, namespace, text string) []*unstructured.Unstructured {
	t.Helper()
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	var objects []*unstructured.Unstructured
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if object.Object == nil {
			continue
		}
		if object.GetKind() == "Namespace" {
			object.SetName(namespace)
		} else {
			object.SetNamespace(namespace)
		}
		objects = append(objects, object)
	}
}

// set changes one field of an object in Git; nil removes it.
func set(t testing.TB, object *unstructured.Unstructured, value any, path ...string) {
	t.Helper()
	if value == nil {
		unstructured.RemoveNestedField(object.Object, path...)
		return
	}
	if err := unstructured.SetNestedField(object.Object, value, path...); err != nil {
		t.Fatal(err)
	}
}

// scheme returns a RateLimitScheme in Git.
func scheme(namespace, name, slug string) *unstructured.Unstructured {
	object := of(v1alpha1.KindRateLimitScheme, namespace, name)
	object.Object["spec"] = map[string]any{
		"deploymentRef": map[string]any{"name": "acme"}, "slug": slug,
		"rules": []any{map[string]any{"unit": "minute", "duration": int64(1), "maxRequests": int64(60)}},
	}
	return object
}

// declare changes fields of one object of the commit; nil removes one.
func (n *tenant) declare(t testing.TB, kind, name string, value any, path ...string) {
	set(t, n.git(kind, name), value, path...)
}

// git returns an object of the commit.
func (n *tenant) git(kind, name string) *unstructured.Unstructured {
	found := find(n.commit, kind, name)
	n.Expect(found).NotTo(BeNil(), "%s %s in Git", kind, name)
	return found
}

// find returns an object of a commit, nil if there is none.
func find(commit []*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	at := slices.IndexFunc(commit, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	if at < 0 {
		return nil
	}
	return commit[at]
}

// remove removes an object from the commit.
func (n *tenant) remove(kind, name string) {
	gone := n.git(kind, name)
	n.commit = slices.DeleteFunc(slices.Clone(n.commit), func(o *unstructured.Unstructured) bool { return o == gone })
}

// copies returns copies of objects, which an engine may change.
func copies(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	copied := make([]*unstructured.Unstructured, len(objects))
	for i, object := range objects {
		copied[i] = object.DeepCopy()
	}
	return copied
}
