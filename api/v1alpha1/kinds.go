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
	KindJWTTemplate        = "JWTTemplate"
	KindAITool             = "AITool"
	KindAIAgent            = "AIAgent"
	KindConnection         = "Connection"
	KindDirectory          = "Directory"
	KindWebhookEndpoint    = "WebhookEndpoint"
)

// Kinds is the only table of the kinds of this package. A kind comes before the kinds that refer to it. Scheme, mapper,
// operator, rights and test lists are derived from it; tests compare hand-written lists with it.
var Kinds = []KindInfo{
	{KindIdentityDeployment, "identitydeployments", mayGet, empty[IdentityDeployment], emptyList[IdentityDeploymentList]},
	{KindRateLimitScheme, "ratelimitschemes", mayChange, empty[RateLimitScheme], emptyList[RateLimitSchemeList]},
	{KindAPIAuthApp, "apiauthapps", mayChange, empty[APIAuthApp], emptyList[APIAuthAppList]},
	{KindAPIKey, "apikeys", mayGet, empty[APIKey], emptyList[APIKeyList]},
	{KindMembershipRole, "membershiproles", mayGet, empty[MembershipRole], emptyList[MembershipRoleList]},
	{KindB2BSettings, "b2bsettings", mayChange, empty[B2BSettings], emptyList[B2BSettingsList]},
	{KindOAuthApp, "oauthapps", mayPatch, empty[OAuthApp], emptyList[OAuthAppList]},
	{KindOAuthScope, "oauthscopes", mayPatch, empty[OAuthScope], emptyList[OAuthScopeList]},
	{KindOAuthClient, "oauthclients", mayGet, empty[OAuthClient], emptyList[OAuthClientList]},
	{KindJWTTemplate, "jwttemplates", mayGet, empty[JWTTemplate], emptyList[JWTTemplateList]},
	{KindAITool, "aitools", mayGet, empty[AITool], emptyList[AIToolList]},
	{KindAIAgent, "aiagents", mayGet, empty[AIAgent], emptyList[AIAgentList]},
	{KindConnection, "connections", mayGet, empty[Connection], emptyList[ConnectionList]},
	{KindDirectory, "directories", mayGet, empty[Directory], emptyList[DirectoryList]},
	{KindWebhookEndpoint, "webhookendpoints", mayGet, empty[WebhookEndpoint], emptyList[WebhookEndpointList]},
}

// The rights of the HTTP server on a kind. It reads the conditions of every kind. It also patches some kinds whose
// objects only manifests create, and creates, patches and deletes objects of the kinds that its interface creates.
var (
	mayGet    = []string{"get"}
	mayPatch  = []string{"get", "patch"}
	mayChange = []string{"get", "create", "patch", "delete"}
)

// KindInfo describes a kind.
// +kubebuilder:object:generate=false
type KindInfo struct {
	// Kind is the kind's name.
	Kind string
	// Resource is the plural of its resource, as in its CRD.
	Resource string
	// ServerVerbs are the verbs that the HTTP server may use on the resource in the Kubernetes API.
	ServerVerbs []string
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
