// Package manifest turns the objects of a cluster into declarations: YAML without the additions of servers and tools,
// in an order that applies cleanly.
package manifest

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// requests are annotations that request one action, or accept the users of one cluster. They are not part of the
// declared state. In another cluster they would act again, and accept its users unseen.
var requests = []string{v1alpha1.AnnotationReconcileRequestedAt, v1alpha1.AnnotationRotateAt, v1alpha1.AnnotationFormerPeopleAccepted}

// traces are prefixes of the labels and annotations of deployment tools. In another cluster they would be wrong, and
// such a tool could delete the object.
var traces = []string{
	"kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/", "meta.helm.sh/", "helm.sh/chart",
	"app.kubernetes.io/instance", // Argo CD finds objects to prune by this label; Helm writes its release's name
	"helm.toolkit.fluxcd.io/", "kustomize.toolkit.fluxcd.io/", "argocd.argoproj.io/", "config.kubernetes.io/", "applyset.kubernetes.io/",
}

// Clean returns an object as a declaration: name, namespace, the user's labels and annotations, and the spec.
func Clean(obj *unstructured.Unstructured) *unstructured.Unstructured {
	metadata := map[string]any{"name": obj.GetName(), "namespace": obj.GetNamespace()}
	labels := kept(obj.GetLabels(), func(name, value string) bool {
		// The exported object is a declared one. Its manager is neither the management API, whose resources declared
		// ones replace, nor Helm.
		return name == v1alpha1.LabelManagedBy && (value == v1alpha1.ManagedByHTTP || value == "Helm") || trace(name)
	})
	annotations := kept(obj.GetAnnotations(), func(name, _ string) bool { return slices.Contains(requests, name) || trace(name) })
	if len(labels) > 0 {
		metadata["labels"] = labels
	}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	clean := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": obj.GetAPIVersion(), "kind": obj.GetKind(), "metadata": metadata,
	}}
	if spec, found := obj.Object["spec"]; found {
		clean.Object["spec"] = spec
	}
	return clean
}

func trace(name string) bool {
	return slices.ContainsFunc(traces, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

func kept(from map[string]string, drop func(name, value string) bool) map[string]any {
	left := map[string]any{}
	for name, value := range from {
		if !drop(name, value) {
			left[name] = value
		}
	}
	return left
}

// parents are the fields by which a resource belongs to another, and the kinds they name.
var parents = []struct{ field, kind string }{
	{"deploymentRef", v1alpha1.KindIdentityDeployment}, {"appRef", v1alpha1.KindAPIAuthApp}, {"oauthAppRef", v1alpha1.KindOAuthApp},
}

// Of returns the resources that belong to a deployment, itself included, in the order they came in.
func Of(deployment string, resources []*unstructured.Unstructured) []*unstructured.Unstructured {
	belongs := map[string]bool{v1alpha1.KindIdentityDeployment + "/" + deployment: true}
	// Repeat until no resource is added.
	for before := 0; before < len(belongs); {
		before = len(belongs)
		for _, obj := range resources {
			if parent := parentOf(obj); parent != "" && belongs[parent] {
				belongs[obj.GetKind()+"/"+obj.GetName()] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(resources), func(obj *unstructured.Unstructured) bool { return !belongs[obj.GetKind()+"/"+obj.GetName()] })
}

func parentOf(obj *unstructured.Unstructured) string {
	for _, parent := range parents {
		if name, found, _ := unstructured.NestedString(obj.Object, "spec", parent.field, "name"); found {
			return parent.kind + "/" + name
		}
	}
	return ""
}

// Sort orders objects by kind, referenced kinds first, and then by name.
func Sort(resources []*unstructured.Unstructured) {
	rank := map[string]int{}
	for i, info := range v1alpha1.Kinds {
		rank[info.Kind] = i
	}
	slices.SortStableFunc(resources, func(a, b *unstructured.Unstructured) int {
		if byKind := rank[a.GetKind()] - rank[b.GetKind()]; byKind != 0 {
			return byKind
		}
		return strings.Compare(a.GetName(), b.GetName())
	})
}

// Needs returns the names of the Secrets and ConfigMaps that specs refer to and that an export does not contain, each
// with the resources that need it. The name of the referring field distinguishes the two kinds: fields for ConfigMaps
// end with ConfigMapRef.
func Needs(resources []*unstructured.Unstructured) (secrets, configMaps map[string][]string) {
	secrets, configMaps = map[string][]string{}, map[string][]string{}
	for _, obj := range resources {
		note := func(to map[string][]string, name string) {
			if who := obj.GetKind() + "/" + obj.GetName(); !slices.Contains(to[name], who) {
				to[name] = append(to[name], who)
			}
		}
		walk(obj.Object["spec"], "", func(field, name string) {
			switch {
			case strings.HasSuffix(field, "ConfigMapRef"):
				note(configMaps, name)
			case strings.HasSuffix(field, "SecretRef"), field == "secretKeyRef":
				note(secrets, name)
			}
		})
	}
	return secrets, configMaps
}

// walk calls found for every JSON object with a member name: with the field that contains the object, and the name.
func walk(value any, field string, found func(field, name string)) {
	switch v := value.(type) {
	case map[string]any:
		if name, isText := v["name"].(string); isText {
			found(field, name)
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			walk(v[key], key, found)
		}
	case []any:
		for _, item := range v {
			walk(item, field, found)
		}
	}
}
