// Package aiagent is the kind AIAgent: an AI agent and the tools it may use.
package aiagent

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aiagents,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aiagents/status,verbs=patch

const (
	schemeField = "spec.rateLimitSchemeRef"
	appField    = "spec.access.oauthAppRef"
)

// Options are the kind's dependencies other than the engine.
type Options struct {
	// Local is the scheme and port under which clients reach hosts of this machine.
	Local translation.LocalFrontend
}

// Kind returns how an AIAgent is reconciled.
func Kind(opts Options) engine.Kind[*v1alpha1.AIAgent] {
	return engine.Kind[*v1alpha1.AIAgent]{
		Name:       v1alpha1.KindAIAgent,
		RefersTo:   []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindAITool, v1alpha1.KindOAuthApp, v1alpha1.KindRateLimitScheme},
		References: references,
		Check:      check,
		Prepare:    opts.prepare,
		Translate: func(a *v1alpha1.AIAgent, _ engine.ResolvedRefs, prepared engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(a, a.Spec.DeploymentRef), Value: prepared.Value.(document.AIAgent)}
		},
	}
}

// references returns the references to the deployment, the tools, the app and the scheme. A missing tool or app does
// not hold back the agent: servers leave it out.
func references(a *v1alpha1.AIAgent) []engine.Reference {
	refs := []engine.Reference{engine.CatalogReference(a.Spec.DeploymentRef)} // its first host makes the agent's URL
	for i, ref := range a.Spec.ToolRefs {
		refs = append(refs, engine.Reference{Field: toolField(i), Kind: v1alpha1.KindAITool, Name: ref.Name, Protects: true, LeftOut: true, Content: true})
	}
	if a.Spec.Access != nil && a.Spec.Access.OAuthAppRef != nil {
		refs = append(refs, engine.Reference{Field: appField, Kind: v1alpha1.KindOAuthApp, Name: a.Spec.Access.OAuthAppRef.Name, Protects: true, LeftOut: true, Content: true})
	}
	return append(refs, engine.SchemeReference(schemeField, a.Spec.RateLimitSchemeRef)...)
}

func toolField(i int) string { return fmt.Sprintf("spec.toolRefs[%d]", i) }

// check refuses a tool, an app or a scheme of another deployment.
func check(a *v1alpha1.AIAgent, refs engine.ResolvedRefs) error {
	own := a.Spec.DeploymentRef.Name
	for i := range a.Spec.ToolRefs {
		tool, found := refs[toolField(i)].(*v1alpha1.AITool)
		if found && tool.Spec.DeploymentRef.Name != own {
			return engine.Terminal(v1alpha1.ReasonInvalid, "%s: AITool %q belongs to deployment %q: refer to a tool of %q",
				toolField(i), tool.Name, tool.Spec.DeploymentRef.Name, own)
		}
	}
	if app, found := refs[appField].(*v1alpha1.OAuthApp); found && app.Spec.DeploymentRef.Name != own {
		return engine.Terminal(v1alpha1.ReasonInvalid, "%s: OAuthApp %q belongs to deployment %q: refer to an app of %q", appField, app.Name, app.Spec.DeploymentRef.Name, own)
	}
	return engine.CheckScheme(schemeField, own, refs)
}

// prepare determines the agent's URL and whether it is served.
func (opts Options) prepare(_ context.Context, p engine.Preparation[*v1alpha1.AIAgent]) (engine.Prepared, error) {
	frontend := ""
	if deployment, found := engine.DeploymentIn(p.Refs); found {
		frontend = opts.Local.URL(deployment)
	}
	content := translation.AIAgent(p.Object, frontend)
	return engine.Prepared{
		Value: content, Conditions: []metav1.Condition{served(p.Object, p.Refs, &content, frontend)},
		Committed: func(context.Context) error {
			p.Object.Status.MCPURL = content.URL
			return nil
		},
	}, nil
}

// served returns the condition Served.
func served(a *v1alpha1.AIAgent, refs engine.ResolvedRefs, content *document.AIAgent, frontend string) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionServed, Status: metav1.ConditionFalse}
	first, second, name, twice := duplicate(a, refs)
	switch app, found := refs[appField].(*v1alpha1.OAuthApp); {
	case !content.Active:
		c.Reason, c.Message = v1alpha1.ReasonInactive, "spec.active is false"
	case content.URL == "":
		c.Reason, c.Message = v1alpha1.ReasonNoFrontendHost, "the deployment has no frontend host: add one to its spec.frontendHosts"
	case content.OAuthApp != "" && (!found || translation.OAuthIssuer(app, frontend) == ""):
		c.Reason, c.Message = v1alpha1.ReasonAppNotReady, fmt.Sprintf("%s: OAuthApp %q does not exist or has no issuer yet: until it has, no OAuth tokens are accepted", appField, content.OAuthApp)
	case twice:
		c.Reason = v1alpha1.ReasonDuplicateToolName
		c.Message = fmt.Sprintf("AITools %q and %q have the name %q for models, so that %q is left out: set spec.toolName of one", first, second, name, second)
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonServing, "MCP clients can call the agent's tools at "+content.URL
	}
	return c
}

// duplicate returns the first two tools of an agent that have one name for models, and reports whether there are any.
func duplicate(a *v1alpha1.AIAgent, refs engine.ResolvedRefs) (first, second, name string, found bool) {
	seen := map[string]string{}
	for i := range a.Spec.ToolRefs {
		tool, exists := refs[toolField(i)].(*v1alpha1.AITool)
		if !exists {
			continue
		}
		name := (&document.AITool{ToolName: ptr.Deref(tool.Spec.ToolName, "")}).NameFor(tool.Name)
		if before, taken := seen[name]; taken {
			return before, tool.Name, name, true
		}
		seen[name] = tool.Name
	}
	return "", "", "", false
}
