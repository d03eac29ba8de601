package backend

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

func entry(manager, subresource, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, Subresource: subresource, FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func applied(configuration string) map[string]string {
	return map[string]string{corev1.LastAppliedConfigAnnotation: configuration}
}

func TestConflicts(t *testing.T) {
	rename := change{field: "/name", path: "displayName", value: "x"}
	describe := change{field: "/description", path: "description"}
	rules := change{field: "/rules", path: "rules", value: "x"}
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		entries     []metav1.ManagedFieldsEntry
		changes     []change
		want        []string // field, path and manager of each item
	}{
		{"nobody owns anything", nil, nil, []change{rename}, nil},
		{"ours", nil, []metav1.ManagedFieldsEntry{entry("cardea-http", "", `{"f:spec":{"f:displayName":{}}}`)}, []change{rename}, nil},
		{"another field", nil, []metav1.ManagedFieldsEntry{entry("flux", "", `{"f:spec":{"f:description":{}}}`)}, []change{rename}, nil},
		{"the field", nil, []metav1.ManagedFieldsEntry{entry("flux", "", `{"f:spec":{"f:displayName":{}}}`)}, []change{rename}, []string{"/name spec.displayName flux"}},
		{"a null is under the same check", nil, []metav1.ManagedFieldsEntry{entry("flux", "", `{"f:spec":{"f:description":{}}}`)}, []change{describe}, []string{"/description spec.description flux"}},
		{"a list owned whole", nil, []metav1.ManagedFieldsEntry{entry("flux", "", `{"f:spec":{"f:rules":{}}}`)}, []change{rules}, []string{"/rules spec.rules flux"}},
		{"something inside a list", nil, []metav1.ManagedFieldsEntry{entry("flux", "", `{"f:spec":{"f:rules":{"i:0":{"f:unit":{}}}}}`)}, []change{rules}, []string{"/rules spec.rules flux"}},
		{"a subresource is no declaration", nil, []metav1.ManagedFieldsEntry{entry("flux", "status", `{"f:spec":{"f:displayName":{}}}`)}, []change{rename}, nil},
		{"metadata is no spec", nil, []metav1.ManagedFieldsEntry{entry("cardea-operator", "", `{"f:metadata":{"f:finalizers":{}}}`)}, []change{rename}, nil},
		{"without fields", nil, []metav1.ManagedFieldsEntry{{Manager: "flux"}}, []change{rename}, nil},
		{"each change is told once, all of them", nil, []metav1.ManagedFieldsEntry{
			entry("flux", "", `{"f:spec":{"f:displayName":{},"f:rules":{}}}`), entry("argo", "", `{"f:spec":{"f:displayName":{}}}`),
		}, []change{rename, describe, rules}, []string{"/name spec.displayName argo", "/rules spec.rules flux"}},
		{"last applied", applied(`{"spec":{"displayName":"x"}}`), nil, []change{rename, describe}, []string{"/name spec.displayName kubectl-client-side-apply"}},
		{"last applied with null", applied(`{"spec":{"displayName":null}}`), nil, []change{rename}, []string{"/name spec.displayName kubectl-client-side-apply"}},
		{"last applied beside managed fields", applied(`{"spec":{"displayName":"x"}}`), []metav1.ManagedFieldsEntry{entry("cardea-http", "", `{"f:spec":{"f:displayName":{}}}`)},
			[]change{rename}, []string{"/name spec.displayName kubectl-client-side-apply"}},
		{"last applied garbled", applied(`{`), nil, []change{rename}, nil},
		{"last applied without spec", applied(`{"metadata":{}}`), nil, []change{rename}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			items, err := conflicts(managed(tc.annotations, tc.entries...), tc.changes)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, item := range items {
				got = append(got, item.Pointer+" "+item.ResourcePath+" "+item.Manager)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("conflicts %q, want %q", got, tc.want)
			}
		})
	}
}

func TestUnreadableManagedFieldsAreAnError(t *testing.T) {
	if _, err := conflicts(managed(nil, entry("flux", "", `{"f:spec":7}`)), nil); err == nil {
		t.Error("no error")
	}
}

func TestRefuseForeign(t *testing.T) {
	for _, tc := range []struct {
		name string
		obj  metav1.Object
		want []string
	}{
		{"ours alone", managed(nil, entry("cardea-http", "", `{"f:spec":{"f:rules":{}}}`), entry("cardea-operator", "", `{"f:metadata":{"f:finalizers":{}}}`)), nil},
		{"two managers, each once", managed(applied(`{"spec":{"slug":"x"}}`), entry("kubectl-client-side-apply", "", `{"f:spec":{"f:slug":{}}}`), entry("argo", "", `{"f:spec":{"f:rules":{}}}`)),
			[]string{"argo", "kubectl-client-side-apply"}},
		{"all of spec at once", managed(nil, entry("flux", "", `{"f:spec":{}}`)), []string{"flux"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := refuseForeign(tc.obj)
			var p *apierror.Error
			if tc.want == nil {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if !errors.As(err, &p) || p.Status != http.StatusConflict {
				t.Fatalf("got %v, want a 409", err)
			}
			var got []string
			for _, item := range p.Faults {
				got = append(got, item.Manager)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("managers %q, want %q", got, tc.want)
			}
		})
	}
}
