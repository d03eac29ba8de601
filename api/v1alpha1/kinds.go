package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Names of the kinds of this package.
const (
	KindIdentityDeployment = "IdentityDeployment"
	KindRateLimitScheme    = "RateLimitScheme"
	KindAPIAuthApp         = "APIAuthApp"
	KindAPIKey             = "APIKey"
	KindB2BSettings        = "B2BSettings"
	KindMembershipRole     = "MembershipRole"
	KindOAuthApp           = "OAuthApp"
	KindOAuthScope         = "OAuthScope"
	KindOAuthClient        = "OAuthClient"
	KindAITool             = "AITool"
	KindAIAgent            = "AIAgent"
)

// Kinds is the only table of the kinds of this package. A kind comes before the kinds that refer to it. Scheme, mapper,
// operator, rights and test lists are derived from it; tests compare hand-written lists with it.
var Kinds = []KindInfo{
	{KindIdentityDeployment, "identitydeployments", empty[IdentityDeployment], emptyList[IdentityDeploymentList]},
	{KindRateLimitScheme, "ratelimitschemes", empty[RateLimitScheme], emptyList[RateLimitSchemeList]},
	{KindAPIAuthApp, "apiauthapps", empty[APIAuthApp], emptyList[APIAuthAppList]},
	{KindAPIKey, "apikeys", empty[APIKey], emptyList[APIKeyList]},
	{KindMembershipRole, "membershiproles", empty[MembershipRole], emptyList[MembershipRoleList]},
	{KindB2BSettings, "b2bsettings", empty[B2BSettings], emptyList[B2BSettingsList]},
	{KindOAuthApp, "oauthapps", empty[OAuthApp], emptyList[OAuthAppList]},
	{KindOAuthScope, "oauthscopes", empty[OAuthScope], emptyList[OAuthScopeList]},
	{KindOAuthClient, "oauthclients", empty[OAuthClient], emptyList[OAuthClientList]},
	{KindAITool, "aitools", empty[AITool], emptyList[AIToolList]},
	{KindAIAgent, "aiagents", empty[AIAgent], emptyList[AIAgentList]},
}

// KindInfo describes a kind.
// +kubebuilder:object:generate=false
type KindInfo struct {
	// Kind is the kind's name.
	Kind string
	// Resource is the plural of its resource, as in its CRD.
	Resource string
	// New and NewList return empty objects.
	New     func() Resource
	NewList func() ResourceList
}

// ResourceList is a list of resources of one kind.
// +kubebuilder:object:generate=false
type ResourceList interface {
	metav1.ListInterface
	runtime.Object
}

// InfoOf returns the entry of a kind, and whether there is one.
func InfoOf(kind string) (KindInfo, bool) {
	for _, info := range Kinds {
		if info.Kind == kind {
			return info, true
		}
	}
	return KindInfo{}, false
}

func empty[T any, P interface {
	*T
	Resource
}]() Resource {
	return P(new(T))
}

func emptyList[T any, P interface {
	*T
	ResourceList
}]() ResourceList {
	return P(new(T))
}
