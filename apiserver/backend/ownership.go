package backend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

// clientSideApply is the field manager of kubectl's client-side apply.
const clientSideApply = "kubectl-client-side-apply"

// change is one field of spec that a request sets.
type change struct {
	// field is the JSON pointer of the member in the request.
	field string
	// path is the field below spec.
	path string
	// value is the value to set, nil to delete.
	value any
}

// refuseOwned returns a 409 if other managers declare any of the fields that are to be changed.
func refuseOwned(obj metav1.Object, changes []change) error {
	items, err := conflicts(obj, changes)
	if err != nil || len(items) == 0 {
		return err
	}
	return &apierror.Error{Status: http.StatusConflict, Faults: items}
}

// conflicts returns a fault for each change of a field that another manager declares. It names one such manager.
func conflicts(obj metav1.Object, changes []change) ([]apierror.Fault, error) {
	owners, err := specOwners(obj)
	if err != nil {
		return nil, err
	}
	var items []apierror.Fault
	for _, c := range changes {
		for _, owner := range owners {
			if !owner.owns(c.path) {
				continue
			}
			items = append(items, apierror.Fault{
				Pointer: c.field, Manager: owner.manager, ResourcePath: "spec." + c.path,
				Message: fmt.Sprintf("is declared as spec.%s by field manager %q: change it there, or set spec.management.fieldConflicts: Override in the IdentityDeployment", c.path, owner.manager),
			})
			break
		}
	}
	return items, nil
}

// owner is a field manager other than ours, and the fields of spec it declares.
type owner struct {
	manager string
	fields  *fieldpath.Set
}

// owns reports whether the manager declares a field of spec or anything below it.
func (o owner) owns(path string) bool {
	at := fieldpath.MakePathOrDie("spec", path)
	if o.fields.Has(at) {
		return true
	}
	name := at[1]
	return !o.fields.WithPrefix(at[0]).WithPrefix(name).Empty()
}

// specOwners returns every manager but ours that owns a field of spec. For kubectl's client-side apply, the fields in
// the annotation with the last applied configuration also count as owned. If YAML adds a field with the value that it
// already has, only the annotation shows the declaration: managedFields does not change.
func specOwners(obj metav1.Object) ([]owner, error) {
	var owners []owner
	for _, entry := range obj.GetManagedFields() {
		if entry.Manager == v1alpha1.FieldManagerHTTP || entry.Subresource != "" || entry.FieldsV1 == nil {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("managed fields of %q: %w", entry.Manager, err)
		}
		if ownsSpec(set) {
			owners = append(owners, owner{manager: entry.Manager, fields: set})
		}
	}
	if applied := lastApplied(obj); applied != nil {
		owners = append(owners, owner{manager: applier(obj), fields: applied})
	}
	slices.SortStableFunc(owners, func(a, b owner) int { return strings.Compare(a.manager, b.manager) })
	return owners, nil
}

// applier returns the manager behind the annotation of the last applied configuration: the owner of the annotation.
// Argo CD writes the same annotation as kubectl, under a name of its own.
func applier(obj metav1.Object) string {
	annotation := fieldpath.MakePathOrDie("metadata", "annotations", corev1.LastAppliedConfigAnnotation)
	for _, entry := range obj.GetManagedFields() {
		set := &fieldpath.Set{}
		if entry.FieldsV1 != nil && set.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes())) == nil && set.Has(annotation) {
			return entry.Manager
		}
	}
	return clientSideApply
}

func ownsSpec(set *fieldpath.Set) bool {
	spec := fieldpath.MakePathOrDie("spec")
	return set.Has(spec) || !set.WithPrefix(spec[0]).Empty()
}

// lastApplied returns the fields of spec in kubectl's annotation, nil if there are none.
func lastApplied(obj metav1.Object) *fieldpath.Set {
	raw, found := obj.GetAnnotations()[corev1.LastAppliedConfigAnnotation]
	if !found {
		return nil
	}
	var applied struct {
		Spec map[string]json.RawMessage `json:"spec"`
	}
	if json.Unmarshal([]byte(raw), &applied) != nil || len(applied.Spec) == 0 {
		return nil
	}
	set := &fieldpath.Set{}
	for name := range applied.Spec {
		set.Insert(fieldpath.MakePathOrDie("spec", name))
	}
	return set
}

// refuseForeign refuses the deletion of a resource with a 409 if a manager other than ours owns a field of its spec:
// the deletion would undo that manager's declaration.
func refuseForeign(obj metav1.Object) error {
	owners, err := specOwners(obj)
	if err != nil || len(owners) == 0 {
		return err
	}
	p := &apierror.Error{Status: http.StatusConflict}
	for _, manager := range slices.Compact(managers(owners)) {
		p.Faults = append(p.Faults, apierror.Fault{
			Manager: manager, ResourcePath: "spec",
			Message: fmt.Sprintf("this resource is declared by field manager %q: delete it there, or set spec.management.fieldConflicts: Override in the IdentityDeployment", manager),
		})
	}
	return p
}

func managers(owners []owner) []string {
	names := make([]string, len(owners))
	for i, o := range owners {
		names[i] = o.manager
	}
	return names
}
