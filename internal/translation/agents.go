package translation

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
	"github.com/cardea-iam/cardea/internal/text"
)

// AIAgent translates an AIAgent. frontend is the URL of the deployment's first frontend host, "" if it has none.
func AIAgent(a *v1alpha1.AIAgent, frontend string) document.AIAgent {
	content := document.AIAgent{
		Name:               named(a.Spec.DisplayName, a.Name),
		Description:        ptr.Deref(described(a.Spec.Description), ""),
		Model:              ptr.Deref(a.Spec.Model, ""),
		SystemPrompt:       ptr.Deref(a.Spec.SystemPrompt, ""),
		Temperature:        ptr.Deref(a.Spec.Temperature, ""),
		KnowledgeBases:     a.Spec.KnowledgeBases,
		Active:             ptr.Deref(a.Spec.Active, true),
		Instructions:       text.Normal(ptr.Deref(a.Spec.Instructions, "")),
		Scheme:             schemeName(a.Spec.RateLimitSchemeRef),
		MaxConcurrentCalls: int64(ptr.Deref(a.Spec.MaxConcurrentCalls, 0)),
	}
	if frontend != "" {
		content.URL = frontend + "/mcp/" + a.Name
	}
	if a.Spec.MaxTokens != nil {
		content.MaxTokens = ptr.To(int64(*a.Spec.MaxTokens))
	}
	for _, ref := range a.Spec.ToolRefs {
		content.Tools = append(content.Tools, ref.Name)
	}
	if access := a.Spec.Access; access != nil {
		content.Sessions = ptr.Deref(access.Sessions, v1alpha1.AgentSessionsDenied) == v1alpha1.AgentSessionsAllowed
		content.Permissions = words(access.Permissions)
		if access.OAuthAppRef != nil {
			content.OAuthApp = access.OAuthAppRef.Name
		}
	}
	return content
}

// JWTTemplate translates a JWTTemplate.
func JWTTemplate(t *v1alpha1.JWTTemplate) document.JWTTemplate {
	content := document.JWTTemplate{
		Name: named(t.Spec.DisplayName, t.Name), LifetimeSeconds: int64(ptr.Deref(t.Spec.LifetimeSeconds, 60)), Audiences: t.Spec.Audiences,
	}
	for _, claim := range t.Spec.Claims {
		one := document.TemplateClaim{Name: claim.Name, Expression: ptr.Deref(claim.Expression, "")}
		if claim.Value != nil {
			one.Value = json.RawMessage(claim.Value.Raw)
		}
		content.Claims = append(content.Claims, one)
	}
	return content
}

// AITool translates an AITool. The error names the path of a schema field that does not hold.
func AITool(t *v1alpha1.AITool) (document.AITool, error) {
	content := document.AITool{
		Name:                 named(t.Spec.DisplayName, t.Name),
		Description:          ptr.Deref(described(t.Spec.Description), ""),
		Type:                 strings.ToLower(string(t.Spec.Type)),
		Active:               ptr.Deref(t.Spec.Active, true),
		RequiresUserApproval: ptr.Deref(t.Spec.RequiresUserApproval, false),
		Endpoint:             string(ptr.Deref(t.Spec.Endpoint, "")),
		Method:               string(ptr.Deref(t.Spec.Method, "GET")),
		TimeoutSeconds:       int64(ptr.Deref(t.Spec.TimeoutSeconds, 30)),
		ToolName:             ptr.Deref(t.Spec.ToolName, ""),
		Permissions:          words(t.Spec.Permissions),
		Scheme:               schemeName(t.Spec.RateLimitSchemeRef),
		MaxConcurrentCalls:   int64(ptr.Deref(t.Spec.MaxConcurrentCalls, 0)),
		Approval:             toolApproval(t.Spec.Approval),
		Record:               records[ptr.Deref(t.Spec.Record, v1alpha1.ToolRecordNone)],
		SigningSecret:        t.Spec.SigningSecretRef != nil,
		ResultSeconds:        int64(ptr.Deref(t.Spec.ResultSeconds, 0)),
	}
	if a := t.Spec.Annotations; a != nil {
		content.Annotations = &document.ToolAnnotations{ReadOnly: a.ReadOnly, Destructive: a.Destructive, Idempotent: a.Idempotent, OpenWorld: a.OpenWorld}
	}
	for _, header := range t.Spec.Headers {
		content.Headers = append(content.Headers, document.ToolHeader{
			Name: header.Name, Value: ptr.Deref(header.Value, ""), Secret: header.ValueFrom != nil,
		})
	}
	for _, parameter := range t.Spec.Parameters {
		content.Parameters = append(content.Parameters, document.ToolParameter{
			Name: parameter.Name, Type: parameter.Type, Required: ptr.Deref(parameter.Required, false),
		})
	}
	return content, toolSchemas(t, &content)
}

// toolSchemas puts the declared schema fields of a tool into its content.
func toolSchemas(t *v1alpha1.AITool, content *document.AITool) (err error) {
	if a := t.Spec.Authorization; a != nil {
		content.Authorization.AuthorizeAsUser = ptr.Deref(a.AuthorizeAsUser, false)
		content.Authorization.JWTTemplateID = ptr.Deref(a.JWTTemplateID, "")
		if a.JWTTemplateRef != nil {
			content.Authorization.JWTTemplate = a.JWTTemplateRef.Name
		}
		content.Authorization.Audience = ptr.Deref(a.Audience, "")
		if content.Authorization.CustomHeaders, err = fields("spec.authorization.customHeaders", a.CustomHeaders); err != nil {
			return err
		}
	}
	if r := t.Spec.Response; r != nil {
		content.Response = &document.ToolResponse{
			Select: ptr.Deref(r.Select, ""), Array: ptr.Deref(r.Type, v1alpha1.ToolResponseTypeObject) == v1alpha1.ToolResponseTypeArray, MaxBytes: int64(ptr.Deref(r.MaxBytes, 0)),
		}
		if content.Response.Schema, err = fields("spec.response.schema", r.Schema); err != nil {
			return err
		}
	}
	if content.RequestBodySchema, err = fields("spec.requestBodySchema", t.Spec.RequestBodySchema); err != nil {
		return err
	}
	content.URLParamsSchema, err = fields("spec.urlParamsSchema", t.Spec.URLParamsSchema)
	return err
}

// records are the words of documents for what is kept of a call's content.
var records = map[v1alpha1.ToolRecord]string{v1alpha1.ToolRecordArguments: document.RecordArguments, v1alpha1.ToolRecordAll: document.RecordAll}

func toolApproval(a *v1alpha1.ToolApproval) *document.ToolApproval {
	if a == nil {
		return nil
	}
	return &document.ToolApproval{
		Permission: string(ptr.Deref(a.Permission, "")), LifetimeSeconds: int64(ptr.Deref(a.LifetimeSeconds, 0)), Fresh: ptr.Deref(a.Fresh, false),
	}
}

// fields reads declared schema fields through their JSON, so that a field is read alike at every depth.
func fields(path string, declared []v1alpha1.SchemaField) ([]schemafield.Field, error) {
	var out []schemafield.Field
	for i, field := range declared {
		raw, err := json.Marshal(field)
		if err != nil {
			return nil, err
		}
		parsed, err := schemafield.Parse(fmt.Sprintf("%s[%d]", path, i), raw)
		if err != nil {
			return nil, err
		}
		out = append(out, parsed)
	}
	return out, nil
}
