package engine

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// createdByHTTP reports whether the management API created a resource, and is the only owner of its spec. As soon as
// another manager declares any of the spec, the resource is declared, whatever its label says.
func createdByHTTP(obj metav1.Object) bool {
	return obj.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByHTTP && otherManager(obj) == ""
}

// disownAdopted removes the deployment as owner of a resource that the management API created and another manager
// declares, and reports whether there was one. Such a resource is deleted with its declaration, not with the
// deployment, and Argo CD never prunes a resource that has an owner.
func disownAdopted(obj metav1.Object) bool {
	if obj.GetLabels()[v1alpha1.LabelManagedBy] != v1alpha1.ManagedByHTTP || createdByHTTP(obj) {
		return false
	}
	owners := obj.GetOwnerReferences()
	kept := slices.DeleteFunc(slices.Clone(owners), func(owner metav1.OwnerReference) bool {
		return owner.APIVersion == v1alpha1.GroupVersion.String() && owner.Kind == v1alpha1.KindIdentityDeployment && owner.Controller == nil
	})
	if len(kept) == len(owners) {
		return false
	}
	obj.SetOwnerReferences(kept)
	return true
}

// otherManager names a manager other than the management API that declares part of the spec, "" if there is none. A
// client-side `kubectl apply` does not become the manager of a field that already has the declared value, so its
// annotation counts too.
func otherManager(obj metav1.Object) string {
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager != v1alpha1.FieldManagerHTTP && entry.Subresource == "" && entry.FieldsV1 != nil && declaresSpec(entry.FieldsV1.GetRawBytes(), "f:spec") {
			return entry.Manager
		}
	}
	if applied := obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; declaresSpec([]byte(applied), "spec") {
		return "kubectl-client-side-apply"
	}
	return ""
}

// declaresSpec reports whether the named member of a JSON object is an object that is not empty.
func declaresSpec(raw []byte, member string) bool {
	var object map[string]json.RawMessage
	var spec map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && json.Unmarshal(object[member], &spec) == nil && len(spec) > 0
}

// SlimOrigin removes fields that a cached object does not need to show its origin: all managed fields, and the
// annotation of `kubectl apply`. If the management API created the resource and another manager declares its spec,
// SlimOrigin keeps one short entry for that manager.
func SlimOrigin(obj metav1.Object) {
	manager := ""
	if obj.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByHTTP {
		manager = otherManager(obj)
	}
	obj.SetManagedFields(nil)
	if manager != "" {
		obj.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:declared":{}}}`)}})
	}
	if annotations := obj.GetAnnotations(); annotations[corev1.LastAppliedConfigAnnotation] != "" {
		delete(annotations, corev1.LastAppliedConfigAnnotation)
		obj.SetAnnotations(annotations)
	}
}
