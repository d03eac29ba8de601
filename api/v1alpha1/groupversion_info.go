// Package v1alpha1 holds Cardea's custom resources: group iam.cardea.dev, version v1alpha1.
//
// Spec fields have no schema defaults, so that GitOps tools never see drift: the comment of a field states what its
// absence means. The code applies that meaning, and the served content has the resulting value.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=iam.cardea.dev
package v1alpha1

import (
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "iam.cardea.dev", Version: "v1alpha1"}

// SchemeGroupVersion is GroupVersion under the name the generated apply configurations expect.
var SchemeGroupVersion = GroupVersion

// AddToScheme registers every kind of this package.
func AddToScheme(s *runtime.Scheme) error {
	for _, info := range Kinds {
		s.AddKnownTypes(GroupVersion, info.New(), info.NewList())
	}
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// AddToMapper maps every kind of this package to its resource, so that a client does not need the API server, which may
// be unavailable when a process starts.
func AddToMapper(mapper *meta.DefaultRESTMapper) {
	for _, info := range Kinds {
		// Explicit, because the mapper's own plural of APIKey would be "apikeies".
		mapper.AddSpecific(GroupVersion.WithKind(info.Kind), GroupVersion.WithResource(info.Resource),
			GroupVersion.WithResource(strings.ToLower(info.Kind)), meta.RESTScopeNamespace)
	}
}
