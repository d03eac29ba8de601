package testkit

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/cardea-iam/cardea/api/v1alpha1"
)

// Deployment returns an IdentityDeployment.
func Deployment(namespace, name string) *v1alpha1.IdentityDeployment {
	return &v1alpha1.IdentityDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// Scheme returns a RateLimitScheme with one rule, named after its slug.
func Scheme(namespace, deployment, slug string) *v1alpha1.RateLimitScheme {
	return &v1alpha1.RateLimitScheme{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slug},
		Spec: v1alpha1.RateLimitSchemeSpec{
			DeploymentRef: v1alpha1.DeploymentReference{Name: deployment},
			Slug:          v1alpha1.Slug(slug),
			Rules:         []v1alpha1.RateLimitRule{{Unit: v1alpha1.RateLimitUnitMinute, Duration: 1, MaxRequests: 60}},
		},
	}
}

// App returns an APIAuthApp, named after its slug, whose keys can have at most the permissions.
func App(namespace, deployment, slug string, permissions ...v1alpha1.Permission) *v1alpha1.APIAuthApp {
	return &v1alpha1.APIAuthApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slug},
		Spec: v1alpha1.APIAuthAppSpec{
			DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}, Slug: v1alpha1.Slug(slug), Permissions: permissions,
		},
	}
}

// Key returns an APIKey that is generated into a Secret with the same name.
func Key(namespace, app, name string, permissions ...v1alpha1.Permission) *v1alpha1.APIKey {
	return &v1alpha1.APIKey{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.APIKeySpec{
			AppRef: v1alpha1.APIAuthAppReference{Name: app}, Permissions: permissions, SecretTemplate: &v1alpha1.SecretTemplate{},
		},
	}
}

// Role returns a MembershipRole.
func Role(namespace, deployment, name string, level v1alpha1.RoleLevel, permissions ...v1alpha1.CatalogPermission) *v1alpha1.MembershipRole {
	return &v1alpha1.MembershipRole{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1alpha1.MembershipRoleSpec{
			DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}, Level: level, Permissions: permissions,
		},
	}
}

// Settings returns B2BSettings.
func Settings(namespace, deployment, name string) *v1alpha1.B2BSettings {
	return &v1alpha1.B2BSettings{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.B2BSettingsSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}},
	}
}

// OAuthApp returns an OAuthApp, named after its slug.
func OAuthApp(namespace, deployment, slug string) *v1alpha1.OAuthApp {
	return &v1alpha1.OAuthApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slug},
		Spec:       v1alpha1.OAuthAppSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}, Slug: v1alpha1.Slug(slug)},
	}
}

// OAuthScope returns an OAuthScope of an app.
func OAuthScope(namespace, app, name, scope string) *v1alpha1.OAuthScope {
	return &v1alpha1.OAuthScope{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.OAuthScopeSpec{OAuthAppRef: v1alpha1.OAuthAppReference{Name: app}, Scope: scope},
	}
}

// Tool returns an AITool of type API.
func Tool(namespace, deployment, name string) *v1alpha1.AITool {
	return &v1alpha1.AITool{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.AIToolSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}, Type: v1alpha1.AIToolTypeAPI},
	}
}

// Connection returns a Connection of type OIDC, named after its slug. Its client secret is the key client-secret of the
// Secret with its name.
func Connection(namespace, deployment, slug, issuer string) *v1alpha1.Connection {
	return &v1alpha1.Connection{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slug},
		Spec: v1alpha1.ConnectionSpec{
			DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}, Slug: v1alpha1.Slug(slug), Type: v1alpha1.ConnectionTypeOIDC,
			Client: v1alpha1.UpstreamClient{ClientID: "cardea", ClientSecretRef: &v1alpha1.SecretKeyReference{Name: slug, Key: "client-secret"}},
			OIDC:   &v1alpha1.OIDCProvider{Issuer: v1alpha1.UpstreamURL(issuer)},
		},
	}
}

// Directory returns a Directory of an organization whose token is generated.
func Directory(namespace, deployment, slug, organization string) *v1alpha1.Directory {
	return &v1alpha1.Directory{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: slug},
		Spec: v1alpha1.DirectorySpec{
			DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}, Slug: v1alpha1.Slug(slug), Organization: v1alpha1.DirectoryOrganization{Slug: organization},
			SecretTemplate: &v1alpha1.SecretTemplate{},
		},
	}
}

// Agent returns an AIAgent with tools.
func Agent(namespace, deployment, name string, tools ...string) *v1alpha1.AIAgent {
	agent := &v1alpha1.AIAgent{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.AIAgentSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}},
	}
	for _, tool := range tools {
		agent.Spec.ToolRefs = append(agent.Spec.ToolRefs, v1alpha1.AIToolReference{Name: tool})
	}
	return agent
}

// Adopting returns an APIKey that adopts an existing Secret.
func Adopting(namespace, app, name, secret string) *v1alpha1.APIKey {
	key := Key(namespace, app, name, "*")
	key.Spec.SecretTemplate = nil
	key.Spec.ExistingSecretRef = &v1alpha1.ExistingSecretReference{Name: secret}
	return key
}

// Condition returns "Status/Reason" of a condition of a live object, "" if it has none.
func (c *Cluster) Condition(ctx context.Context, obj v1alpha1.Resource, kind string) (string, error) {
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return "", err
	}
	condition := meta.FindStatusCondition(obj.CommonStatus().Conditions, kind)
	if condition == nil {
		return "", nil
	}
	return string(condition.Status) + "/" + condition.Reason, nil
}

// Ready reports whether a live object is Ready for its current generation.
func (c *Cluster) Ready(ctx context.Context, obj v1alpha1.Resource) (bool, error) {
	ready, err := c.Condition(ctx, obj, v1alpha1.ConditionReady)
	return ready == "True/Ready" && obj.CommonStatus().ObservedGeneration == obj.GetGeneration(), err
}

// APIKey returns the key in a Secret, "" if the Secret cannot be read or has no key.
func (c *Cluster) APIKey(ctx context.Context, namespace, secret string) string {
	var s corev1.Secret
	if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: secret}, &s); err != nil {
		return ""
	}
	return string(s.Data[v1alpha1.SecretKeyAPIKey])
}

// Yes is a pointer to true, for optional switches.
func Yes() *bool { return ptr.To(true) }

// WebhookEndpoint returns a WebhookEndpoint whose signing secret is generated.
func WebhookEndpoint(namespace, deployment, name, url string) *v1alpha1.WebhookEndpoint {
	return &v1alpha1.WebhookEndpoint{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.WebhookEndpointSpec{DeploymentRef: v1alpha1.DeploymentReference{Name: deployment}, URL: v1alpha1.URL(url)},
	}
}
