// Package aitool is the kind AITool: a tool that AI agents may use.
package aitool

import (
	"cmp"
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/controllers/shared/objectwatch"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/internal/toolform"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aitools,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aitools/status,verbs=patch

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Client reads Secrets from the API server, not from a cache.
	Client client.Reader
	// Secrets reports changes of Secrets in watched namespaces.
	Secrets *objectwatch.Watch
	// Keyring seals the values of headers; it may be empty.
	Keyring *seal.Keyring
}

const (
	schemeField   = "spec.rateLimitSchemeRef"
	templateField = "spec.authorization.jwtTemplateRef"
)

// Kind returns how an AITool is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.AITool] {
	return engine.Kind[*v1alpha1.AITool]{
		Name:       v1alpha1.KindAITool,
		RefersTo:   []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindJWTTemplate, v1alpha1.KindRateLimitScheme},
		References: references,
		Check: func(t *v1alpha1.AITool, refs engine.ResolvedRefs) error {
			if _, err := translation.AITool(t); err != nil {
				return engine.Terminal(v1alpha1.ReasonInvalid, "%v", err)
			}
			if template, found := refs[templateField].(*v1alpha1.JWTTemplate); found && template.Spec.DeploymentRef.Name != t.Spec.DeploymentRef.Name {
				return engine.Terminal(v1alpha1.ReasonInvalid, "%s: JWTTemplate %q belongs to deployment %q: refer to a template of %q",
					templateField, template.Name, template.Spec.DeploymentRef.Name, t.Spec.DeploymentRef.Name)
			}
			return engine.CheckScheme(schemeField, t.Spec.DeploymentRef.Name, refs)
		},
		Prepare: opts.prepare,
		Translate: func(t *v1alpha1.AITool, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(t, t.Spec.DeploymentRef), Value: prepared.Value.(document.AITool)}
		},
		Sources: []source.TypedSource[reconcile.Request]{opts.Secrets.Source()},
		Indexes: map[string]func(*v1alpha1.AITool) []string{objectwatch.Index: secretNames},
	}
}

// references returns the references to the deployment, whose first frontend host issues the tokens of users, to the
// template and to the scheme. A missing template does not hold back the tool: its calls end without being sent.
func references(t *v1alpha1.AITool) []engine.Reference {
	refs := []engine.Reference{engine.CatalogReference(t.Spec.DeploymentRef)}
	if a := t.Spec.Authorization; a != nil && a.JWTTemplateRef != nil {
		refs = append(refs, engine.Reference{Field: templateField, Kind: v1alpha1.KindJWTTemplate, Name: a.JWTTemplateRef.Name, Protects: true, LeftOut: true, Content: true})
	}
	return append(refs, engine.SchemeReference(schemeField, t.Spec.RateLimitSchemeRef)...)
}

// prepare seals the values of the headers, and determines whether the tool can be called. A tool that cannot be called
// is served anyway: the interface contract permits every schema field everywhere.
func (opts Options) prepare(ctx context.Context, p engine.Preparation[*v1alpha1.AITool]) (engine.Prepared, error) {
	content, err := translation.AITool(p.Object)
	if err != nil {
		return engine.Prepared{}, err
	}
	if template, found := p.Refs[templateField].(*v1alpha1.JWTTemplate); found {
		content.Authorization.JWTTemplateID = template.Status.ID
	}
	leftOut, err := sealHeaders(ctx, opts, p, &content)
	if err != nil {
		return engine.Prepared{}, err
	}
	unsigned, err := sealSigningSecret(ctx, opts, p, &content)
	if err != nil {
		return engine.Prepared{}, err
	}
	leftOut = cmp.Or(leftOut, unsigned)
	var hosts []string
	if deployment, found := engine.DeploymentIn(p.Refs); found {
		for _, host := range deployment.Spec.FrontendHosts {
			hosts = append(hosts, string(host))
		}
	}
	callable := callable(&content, leftOut, hosts, !opts.Keyring.Empty())
	return engine.Prepared{Value: content, LeftOut: leftOut, Conditions: []metav1.Condition{callable}}, nil
}

// callable returns the condition Callable. sealed reports whether the operator has a root key: without one, no
// deployment has keys.
func callable(t *document.AITool, leftOut *engine.WaitingError, hosts []string, sealed bool) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionCallable, Status: metav1.ConditionFalse}
	switch fault := toolform.Check(t); {
	case fault != nil:
		c.Reason, c.Message = v1alpha1.ReasonInvalid, fault.Error()
	case !t.Active:
		c.Reason, c.Message = v1alpha1.ReasonInactive, "spec.active is false: agents do not list the tool"
	case t.Endpoint == "" && t.Type == document.ToolTypeFunction:
		c.Reason, c.Message = v1alpha1.ReasonNoEndpoint, "spec.endpoint is absent, so the application calls the function itself: only the definition is served"
	case t.Endpoint == "":
		c.Reason, c.Message = v1alpha1.ReasonNoEndpoint, "spec.endpoint is absent: only the definition is served"
	case t.Authorization.JWTTemplateID != "" && !isID(t.Authorization.JWTTemplateID):
		c.Reason, c.Message = v1alpha1.ReasonNotPerformed, "spec.authorization.jwtTemplateID is no id of a JWTTemplate, but a name of the application: only the definition is served"
	case leftOut != nil:
		c.Reason, c.Message = v1alpha1.ReasonCredentialsMissing, leftOut.Message
	case toolform.OwnAudience(t.Authorization.Audience, hosts):
		c.Reason, c.Message = v1alpha1.ReasonInvalid, "spec.authorization.audience: is a URL of the deployment itself, which issues the token: write the URL of the API"
	case t.Authorization.Token() && len(hosts) == 0:
		c.Reason, c.Message = v1alpha1.ReasonNoFrontendHost, "the deployment has no frontend host, which issues the tokens of users: add one to its spec.frontendHosts"
	case t.Type == document.ToolTypeWebhook && len(hosts) == 0:
		c.Reason, c.Message = v1alpha1.ReasonNoFrontendHost, "the deployment has no frontend host, at which results that come later are received: add one to its spec.frontendHosts"
	case t.Signed() && !t.SigningSecret && len(hosts) == 0:
		c.Reason, c.Message = v1alpha1.ReasonNoFrontendHost, "the deployment has no frontend host, at which the public key of its signatures is served: add one to its spec.frontendHosts, or set spec.signingSecretRef"
	case t.Signed() && !sealed:
		c.Reason, c.Message = v1alpha1.ReasonCredentialsMissing, "calls are signed with a key that is stored sealed: start the operator with --root-key"
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonCallable, "agents that list the tool can call it"
	}
	return c
}

func isID(text string) bool {
	_, err := ids.Parse(text)
	return err == nil
}
