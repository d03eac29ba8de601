// Package v1alpha1 holds Cardea's custom resources: group iam.cardea.dev, version v1alpha1.
//
// Spec fields carry no schema defaults: an absent field has the meaning its comment states, resolved in code and
// shown in what is served, so that GitOps tools never see drift.
//
// +kubebuilder:object:generate=true
// +kubebuilder:ac:generate=true
// +groupName=iam.cardea.dev
package v1alpha1

import (
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
	s.AddKnownTypes(GroupVersion,
		&IdentityDeployment{}, &IdentityDeploymentList{},
		&RateLimitScheme{}, &RateLimitSchemeList{},
		&APIAuthApp{}, &APIAuthAppList{},
		&APIKey{}, &APIKeyList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Kinds are the names of every kind of this package, as in PROJECT.
const (
	KindIdentityDeployment = "IdentityDeployment"
	KindRateLimitScheme    = "RateLimitScheme"
	KindAPIAuthApp         = "APIAuthApp"
	KindAPIKey             = "APIKey"
)
