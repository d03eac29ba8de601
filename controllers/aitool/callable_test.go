package aitool

import (
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestSignedToolsAreCallableWithAKeyAndAHost(t *testing.T) {
	hosts := []string{"id.acme.example"}
	function := document.AITool{Type: document.ToolTypeFunction, Active: true, Method: "GET", Endpoint: "https://hooks.acme.example"}
	with := func(change func(*document.AITool)) document.AITool {
		tool := function
		change(&tool)
		return tool
	}
	for name, tc := range map[string]struct {
		tool   document.AITool
		hosts  []string
		sealed bool
		want   string
	}{
		"a function":                        {function, hosts, true, v1alpha1.ReasonCallable},
		"a function of the application":     {with(func(t *document.AITool) { t.Endpoint = "" }), hosts, true, v1alpha1.ReasonNoEndpoint},
		"a function without a host":         {function, nil, true, v1alpha1.ReasonNoFrontendHost},
		"its own secret needs no host":      {with(func(t *document.AITool) { t.SigningSecret = true }), nil, true, v1alpha1.ReasonCallable},
		"a function without a root key":     {function, hosts, false, v1alpha1.ReasonCredentialsMissing},
		"a webhook":                         {with(func(t *document.AITool) { t.Type = document.ToolTypeWebhook }), hosts, true, v1alpha1.ReasonCallable},
		"a webhook without a host":          {with(func(t *document.AITool) { t.Type = document.ToolTypeWebhook; t.SigningSecret = true }), nil, true, v1alpha1.ReasonNoFrontendHost},
		"a function that is inactive":       {with(func(t *document.AITool) { t.Active = false }), hosts, true, v1alpha1.ReasonInactive},
		"a function with a faulty endpoint": {with(func(t *document.AITool) { t.Endpoint = "ftp://x" }), hosts, true, v1alpha1.ReasonInvalid},
		"an API tool needs neither":         {with(func(t *document.AITool) { t.Type = document.ToolTypeAPI }), nil, false, v1alpha1.ReasonCallable},
		"an API tool without an endpoint":   {with(func(t *document.AITool) { t.Type, t.Endpoint = document.ToolTypeAPI, "" }), hosts, true, v1alpha1.ReasonNoEndpoint},
		"a template of the application":     {with(func(t *document.AITool) { t.Authorization.JWTTemplateID = "of-the-app" }), hosts, true, v1alpha1.ReasonNotPerformed},
		"a token without a host":            {with(func(t *document.AITool) { t.Type, t.Authorization.AuthorizeAsUser = document.ToolTypeAPI, true }), nil, true, v1alpha1.ReasonNoFrontendHost},
		"an audience of the deployment": {with(func(t *document.AITool) {
			t.Authorization.AuthorizeAsUser, t.Authorization.Audience = true, "https://id.acme.example/mcp/x"
		}), hosts, true, v1alpha1.ReasonInvalid},
	} {
		c := callable(&tc.tool, nil, tc.hosts, tc.sealed)
		if c.Reason != tc.want || (c.Status == "True") != (tc.want == v1alpha1.ReasonCallable) {
			t.Errorf("%s: %s %s: %s", name, c.Status, c.Reason, c.Message)
		}
	}
}
