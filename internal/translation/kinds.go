package translation

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/schemafield"
)

// B2BSettings translates B2BSettings.
func B2BSettings(b *v1alpha1.B2BSettings) document.B2BSettings {
	content := document.DefaultB2BSettings()
	content.Enabled = ptr.Deref(b.Spec.Enabled, content.Enabled)
	content.AllowWorkspaceCreation = ptr.Deref(b.Spec.AllowWorkspaceCreation, content.AllowWorkspaceCreation)
	content.DefaultWorkspaceLimit = int64(ptr.Deref(b.Spec.DefaultWorkspaceLimit, int32(content.DefaultWorkspaceLimit)))
	if most := b.Spec.MaxOrganizationsPerUser; most != nil {
		content.MaxOrganizationsPerUser = ptr.To(int64(*most))
	}
	content.RequireOrgForSignup = ptr.Deref(b.Spec.RequireOrgForSignup, content.RequireOrgForSignup)
	content.OrgRole = roleName(b.Spec.AutoAssignOrgRoleRef)
	content.WorkspaceRole = roleName(b.Spec.AutoAssignWorkspaceRoleRef)
	content.OwnerAssurance = memberRequirement(b.Spec.OwnerAssurance)
	content.OrganizationAssuranceOff = word(b.Spec.OrganizationAssurance) == string(v1alpha1.OrganizationAssuranceDisabled)
	return content
}

func roleName(ref *v1alpha1.MembershipRoleReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// MembershipRole translates a MembershipRole.
func MembershipRole(m *v1alpha1.MembershipRole) document.MembershipRole {
	return document.MembershipRole{
		Level: string(m.Spec.Level), Name: named(m.Spec.DisplayName, m.Name), Permissions: words(m.Spec.Permissions), Assurance: memberRequirement(m.Spec.Assurance),
	}
}

// AIAgent translates an AIAgent.
func AIAgent(a *v1alpha1.AIAgent) document.AIAgent {
	content := document.AIAgent{
		Name:           named(a.Spec.DisplayName, a.Name),
		Description:    ptr.Deref(described(a.Spec.Description), ""),
		Model:          ptr.Deref(a.Spec.Model, ""),
		SystemPrompt:   ptr.Deref(a.Spec.SystemPrompt, ""),
		Temperature:    ptr.Deref(a.Spec.Temperature, ""),
		KnowledgeBases: a.Spec.KnowledgeBases,
		Active:         ptr.Deref(a.Spec.Active, true),
	}
	if a.Spec.MaxTokens != nil {
		content.MaxTokens = ptr.To(int64(*a.Spec.MaxTokens))
	}
	for _, ref := range a.Spec.ToolRefs {
		content.Tools = append(content.Tools, ref.Name)
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
	var err error
	if a := t.Spec.Authorization; a != nil {
		content.Authorization.AuthorizeAsUser = ptr.Deref(a.AuthorizeAsUser, false)
		content.Authorization.JWTTemplateID = ptr.Deref(a.JWTTemplateID, "")
		if content.Authorization.CustomHeaders, err = fields("spec.authorization.customHeaders", a.CustomHeaders); err != nil {
			return document.AITool{}, err
		}
	}
	if content.RequestBodySchema, err = fields("spec.requestBodySchema", t.Spec.RequestBodySchema); err != nil {
		return document.AITool{}, err
	}
	content.URLParamsSchema, err = fields("spec.urlParamsSchema", t.Spec.URLParamsSchema)
	return content, err
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
