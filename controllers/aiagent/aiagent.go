// Package aiagent is the kind AIAgent: an AI agent and the tools it may use.
package aiagent

import (
	"fmt"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/controllers/engine"
	"github.com/cardea-iam/cardea/internal/translation"
)

// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aiagents,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=iam.cardea.dev,resources=aiagents/status,verbs=patch

// Kind returns how an AIAgent is reconciled.
func Kind() engine.Kind[*v1alpha1.AIAgent] {
	return engine.Kind[*v1alpha1.AIAgent]{
		Name:       v1alpha1.KindAIAgent,
		RefersTo:   []string{v1alpha1.KindIdentityDeployment, v1alpha1.KindAITool},
		References: references,
		Check:      check,
		Translate: func(a *v1alpha1.AIAgent, _ engine.ResolvedRefs, _ engine.Prepared) engine.Content {
			return engine.Content{Deployment: engine.DeploymentOf(a, a.Spec.DeploymentRef), Value: translation.AIAgent(a)}
		},
	}
}

// references returns the references to the deployment and to the tools. A missing tool does not hold back the agent:
// servers leave the tool out.
func references(a *v1alpha1.AIAgent) []engine.Reference {
	refs := []engine.Reference{engine.DeploymentReference(a.Spec.DeploymentRef)}
	for i, ref := range a.Spec.ToolRefs {
		refs = append(refs, engine.Reference{Field: toolField(i), Kind: v1alpha1.KindAITool, Name: ref.Name, Protects: true, LeftOut: true})
	}
	return refs
}

func toolField(i int) string { return fmt.Sprintf("spec.toolRefs[%d]", i) }

// check refuses a tool of another deployment.
func check(a *v1alpha1.AIAgent, refs engine.ResolvedRefs) error {
	for i := range a.Spec.ToolRefs {
		tool, found := refs[toolField(i)].(*v1alpha1.AITool)
		if found && tool.Spec.DeploymentRef.Name != a.Spec.DeploymentRef.Name {
			return engine.Terminal(v1alpha1.ReasonInvalid, "%s: AITool %q belongs to deployment %q: refer to a tool of %q",
				toolField(i), tool.Name, tool.Spec.DeploymentRef.Name, a.Spec.DeploymentRef.Name)
		}
	}
	return nil
}
