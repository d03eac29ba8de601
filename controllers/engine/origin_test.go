package engine

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

func TestWhatAnotherManagerDeclaresIsDeclared(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	byHTTP := entry(v1alpha1.FieldManagerHTTP, "", `{"f:spec":{"f:slug":{}},"f:metadata":{"f:labels":{}}}`)
	operator := []metav1.ManagedFieldsEntry{entry("cardea-operator", "", `{"f:metadata":{"f:finalizers":{}}}`), entry("cardea-operator", "status", `{"f:status":{"f:id":{}}}`)}
	for name, tc := range map[string]struct {
		label   string
		entries []metav1.ManagedFieldsEntry
		applied string
		want    bool
	}{
		"HTTP alone":                               {v1alpha1.ManagedByHTTP, append(operator, byHTTP), "", true},
		"no label":                                 {"", []metav1.ManagedFieldsEntry{byHTTP}, "", false},
		"Git too":                                  {v1alpha1.ManagedByHTTP, append(operator, byHTTP, entry("kustomize-controller", "", `{"f:spec":{"f:slug":{}}}`)), "", false},
		"Git, of the labels alone":                 {v1alpha1.ManagedByHTTP, []metav1.ManagedFieldsEntry{byHTTP, entry("kustomize-controller", "", `{"f:metadata":{"f:labels":{}}}`)}, "", true},
		"Git, of an empty spec":                    {v1alpha1.ManagedByHTTP, []metav1.ManagedFieldsEntry{byHTTP, entry("kustomize-controller", "", `{"f:spec":{}}`)}, "", true},
		"kubectl apply of the same values":         {v1alpha1.ManagedByHTTP, []metav1.ManagedFieldsEntry{byHTTP}, `{"kind":"RateLimitScheme","spec":{"slug":"free"}}`, false},
		"kubectl apply of an object without spec":  {v1alpha1.ManagedByHTTP, []metav1.ManagedFieldsEntry{byHTTP}, `{"kind":"RateLimitScheme"}`, true},
		"kubectl apply with an invalid annotation": {v1alpha1.ManagedByHTTP, []metav1.ManagedFieldsEntry{byHTTP}, `{`, true},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &v1alpha1.RateLimitScheme{}
			obj.ManagedFields, obj.Labels, obj.Annotations = tc.entries, map[string]string{v1alpha1.LabelManagedBy: tc.label}, map[string]string{}
			if tc.applied != "" {
				obj.Annotations[corev1.LastAppliedConfigAnnotation] = tc.applied
			}
			if got := createdByHTTP(obj); got != tc.want {
				t.Errorf("live: got %v, want %v", got, tc.want)
			}
			SlimOrigin(obj)
			if got := createdByHTTP(obj); got != tc.want {
				t.Errorf("cached: got %v, want %v", got, tc.want)
			}
			if len(obj.Annotations) > 0 || len(obj.ManagedFields) > 1 {
				t.Errorf("kept %v, %v", obj.Annotations, obj.ManagedFields)
			}
		})
	}
}

func TestAdoptedResourcesLoseTheDeploymentAsOwner(t *testing.T) {
	deployment := metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.KindIdentityDeployment, Name: "acme", UID: "1"}
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "acme", UID: "2"}
	byGit := []metav1.ManagedFieldsEntry{{Manager: "argocd-controller", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:slug":{}}}`)}}
	for name, tc := range map[string]struct {
		label   string
		entries []metav1.ManagedFieldsEntry
		owners  []metav1.OwnerReference
		kept    int
	}{
		"HTTP's alone":                   {v1alpha1.ManagedByHTTP, nil, []metav1.OwnerReference{deployment}, 1},
		"adopted":                        {v1alpha1.ManagedByHTTP, byGit, []metav1.OwnerReference{deployment}, 0},
		"adopted, with an owner besides": {v1alpha1.ManagedByHTTP, byGit, []metav1.OwnerReference{other, deployment}, 1},
		"adopted before":                 {v1alpha1.ManagedByHTTP, byGit, nil, 0},
		"declared from the first":        {"", byGit, []metav1.OwnerReference{deployment}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			obj := &v1alpha1.RateLimitScheme{}
			obj.ManagedFields, obj.OwnerReferences, obj.Labels = tc.entries, tc.owners, map[string]string{v1alpha1.LabelManagedBy: tc.label}
			if changed := disownAdopted(obj); changed != (len(tc.owners) != tc.kept) || len(obj.OwnerReferences) != tc.kept {
				t.Errorf("changed %v, kept %v", changed, obj.OwnerReferences)
			}
		})
	}
}
