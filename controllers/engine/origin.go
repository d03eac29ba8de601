package engine

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// createdByHTTP reports that the management API created a resource, and that it alone says what its spec is: as soon as somebody
// else declares any of the spec, the resource is declared, whatever its label says.
func createdByHTTP(obj metav1.Object) bool {
	return obj.GetLabels()[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByHTTP && otherManager(obj) == ""
}

// disownAdopted drops the deployment as owner of a resource that the management API created and somebody else declares, and tells
// whether there was one: it goes with its declaration, not with the deployment, and Argo CD never prunes what has an owner.
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

// otherManager names a manager beside the management API that declares something of the spec, "" if there is none. What was
// declared by `kubectl apply` on the client's side owns no field that had the same value already: its annotation tells.
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

// declaresSpec reports whether a JSON object has a member with members of its own.
func declaresSpec(raw []byte, member string) bool {
	var object map[string]json.RawMessage
	var spec map[string]json.RawMessage
	return json.Unmarshal(raw, &object) == nil && json.Unmarshal(object[member], &spec) == nil && len(spec) > 0
}

// SlimOrigin drops what a cached object need not carry to tell where it came from: all managed fields, and the annotation of
// `kubectl apply`. Of a resource that the management API created it keeps one short entry, of whoever else declares its spec.
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
