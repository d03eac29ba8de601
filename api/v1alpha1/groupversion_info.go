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
	s.AddKnownTypes(GroupVersion,
		&IdentityDeployment{}, &IdentityDeploymentList{},
		&RateLimitScheme{}, &RateLimitSchemeList{},
		&APIAuthApp{}, &APIAuthAppList{},
		&APIKey{}, &APIKeyList{},
		&B2BSettings{}, &B2BSettingsList{},
		&MembershipRole{}, &MembershipRoleList{},
		&OAuthApp{}, &OAuthAppList{},
		&OAuthScope{}, &OAuthScopeList{},
		&AITool{}, &AIToolList{},
		&AIAgent{}, &AIAgentList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// AddToMapper maps every kind of this package to its resource, so that a client need not ask the API server, which may
// be away when a process starts.
func AddToMapper(mapper *meta.DefaultRESTMapper) {
	for kind, resource := range resources {
		// Spelled out: the mapper's own plural of APIKey would be "apikeies".
		mapper.AddSpecific(GroupVersion.WithKind(kind), GroupVersion.WithResource(resource), GroupVersion.WithResource(strings.ToLower(kind)), meta.RESTScopeNamespace)
	}
}

// resources are the plural names of the kinds, as in their CRDs.
var resources = map[string]string{
	KindIdentityDeployment: "identitydeployments",
	KindRateLimitScheme:    "ratelimitschemes",
	KindAPIAuthApp:         "apiauthapps",
	KindAPIKey:             "apikeys",
	KindB2BSettings:        "b2bsettings",
	KindMembershipRole:     "membershiproles",
	KindOAuthApp:           "oauthapps",
	KindOAuthScope:         "oauthscopes",
	KindAITool:             "aitools",
	KindAIAgent:            "aiagents",
}

// Kinds are the names of every kind of this package, as in PROJECT.
const (
	KindIdentityDeployment = "IdentityDeployment"
	KindRateLimitScheme    = "RateLimitScheme"
	KindAPIAuthApp         = "APIAuthApp"
	KindAPIKey             = "APIKey"
	KindB2BSettings        = "B2BSettings"
	KindMembershipRole     = "MembershipRole"
	KindOAuthApp           = "OAuthApp"
	KindOAuthScope         = "OAuthScope"
	KindAITool             = "AITool"
	KindAIAgent            = "AIAgent"
)
