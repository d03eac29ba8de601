package document

import (
	"cmp"
	"encoding/json"
	"net/url"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"github.com/cardea-iam/cardea/internal/schemafield"
)

// SealedToolHeader is the kind under which the value of a tool's header is sealed, for ToolHeaderID.
const SealedToolHeader = "ai-tool-header"

// ToolSigningSecret stands for the name of a header in ToolHeaderID, for the signing secret of a tool. No tool can
// declare such a header.
const ToolSigningSecret = "webhook-signature"

// SealedResultToken is the kind under which the token for the late result of a call is sealed, for the deployment and
// the call's id.
const SealedResultToken = "tool-result-token"

// SealedCallState is the kind under which the state of a call that waits for an approval is sealed.
const SealedCallState = "tool-call-state"

// ToolHeaderID returns the id to which the sealed value of a header is bound, of the tool's id in the API.
func ToolHeaderID(tool, header string) string { return tool + "/" + header }

// AITool is the content of an AITool. Header values that come from Secrets are part of it only sealed.
type AITool struct {
	Name                 string `json:"name"`
	Description          string `json:"description,omitempty"`
	Type                 string `json:"type"`
	Active               bool   `json:"active"`
	RequiresUserApproval bool   `json:"requires_user_approval,omitempty"`
	Endpoint             string `json:"endpoint,omitempty"`
	Method               string `json:"method"`
	TimeoutSeconds       int64  `json:"timeout_seconds"`
	// ToolName is the declared name for models, "" if it is that of the resource.
	ToolName string `json:"tool_name,omitempty"`
	// Permissions are what callers need, all of them.
	Permissions []string `json:"permissions,omitempty"`
	// Scheme is the name of the RateLimitScheme resource, "" if none.
	Scheme string `json:"scheme,omitempty"`
	// MaxConcurrentCalls is as declared, 0 if absent.
	MaxConcurrentCalls int64 `json:"max_concurrent_calls,omitempty"`
	// Annotations are as declared, nil if absent.
	Annotations *ToolAnnotations `json:"annotations,omitempty"`
	// Approval is nil if its defaults apply.
	Approval *ToolApproval `json:"approval,omitempty"`
	// Response is nil if its defaults apply.
	Response *ToolResponse `json:"response,omitempty"`
	// Record is what of a call's content is kept: RecordArguments, RecordAll, or "" for nothing.
	Record            string              `json:"record,omitempty"`
	Headers           []ToolHeader        `json:"headers,omitempty"`
	Parameters        []ToolParameter     `json:"parameters,omitempty"`
	Authorization     ToolAuthorization   `json:"authorization"`
	RequestBodySchema []schemafield.Field `json:"request_body_schema,omitempty"`
	URLParamsSchema   []schemafield.Field `json:"url_params_schema,omitempty"`
	// SigningSecret reports that calls are signed with a secret of the tool, and SealedSigningSecret is that secret,
	// sealed for kind SealedToolHeader; "" while it may not be used. It is never served.
	SigningSecret       bool   `json:"signing_secret,omitempty"`
	SealedSigningSecret string `json:"sealed_signing_secret,omitempty"`
	// ResultSeconds is as declared, 0 if absent.
	ResultSeconds int64 `json:"result_seconds,omitempty"`
}

// Signed reports whether calls of the tool are signed POST requests with the arguments in an envelope.
func (t *AITool) Signed() bool { return t.Type == ToolTypeFunction || t.Type == ToolTypeWebhook }

// ResultLifetime returns how long a result that comes later is accepted.
func (t *AITool) ResultLifetime() time.Duration {
	return time.Duration(cmp.Or(t.ResultSeconds, 600)) * time.Second
}

// ToolHeader is a header of a tool.
type ToolHeader struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	// Secret reports that the value comes from a Secret.
	Secret bool `json:"secret,omitempty"`
	// Sealed is the value of the Secret, sealed for kind SealedToolHeader; "" while it may not be used, and in documents
	// of earlier versions. It is never served.
	Sealed string `json:"sealed,omitempty"`
}

// ToolParameter is a parameter of a tool.
type ToolParameter struct {
	Name     string `json:"name"`
	Type     string `json:"type"`
	Required bool   `json:"required"`
}

// ToolAuthorization says how a tool's requests are authorized.
type ToolAuthorization struct {
	AuthorizeAsUser bool   `json:"authorize_as_user,omitempty"`
	JWTTemplateID   string `json:"jwt_template_id,omitempty"`
	// JWTTemplate is the name of the JWTTemplate resource, "" if none or if it is named by its id.
	JWTTemplate string `json:"jwt_template,omitempty"`
	// Audience is that of the token that is sent, "" for scheme and authority of the endpoint.
	Audience      string              `json:"audience,omitempty"`
	CustomHeaders []schemafield.Field `json:"custom_headers,omitempty"`
}

// Token reports whether calls of the tool carry a token.
func (a *ToolAuthorization) Token() bool {
	return a.AuthorizeAsUser || a.JWTTemplateID != "" || a.JWTTemplate != ""
}

// ToolAnnotations are hints about a tool; nil members are those of its method.
type ToolAnnotations struct {
	ReadOnly    *bool `json:"read_only,omitempty"`
	Destructive *bool `json:"destructive,omitempty"`
	Idempotent  *bool `json:"idempotent,omitempty"`
	OpenWorld   *bool `json:"open_world,omitempty"`
}

// ToolHints are the effective hints about a tool.
type ToolHints struct{ ReadOnly, Destructive, Idempotent, OpenWorld bool }

// Hints returns the declared hints, and those of the method for absent ones.
func (t *AITool) Hints() ToolHints {
	h := ToolHints{OpenWorld: true, Idempotent: true}
	switch t.RequestMethod() {
	case "GET", "HEAD", "OPTIONS":
		h.ReadOnly = true
	case "DELETE", "PUT":
		h.Destructive = true
	case "PATCH":
		h.Destructive, h.Idempotent = true, false
	default:
		h.Idempotent = false
	}
	if a := t.Annotations; a != nil {
		h = ToolHints{
			ptr.Deref(a.ReadOnly, h.ReadOnly), ptr.Deref(a.Destructive, h.Destructive), ptr.Deref(a.Idempotent, h.Idempotent), ptr.Deref(a.OpenWorld, h.OpenWorld),
		}
	}
	return h
}

// RequestMethod returns the HTTP method of the tool's requests. Calls of types function and webhook are POST requests.
func (t *AITool) RequestMethod() string {
	if t.Signed() {
		return "POST"
	}
	return t.Method
}

// Host returns the host of the tool's endpoint, with its port if it has one; "" without an endpoint. Placeholders are
// in path and query only.
func (t *AITool) Host() string {
	parsed, err := url.Parse(t.Endpoint)
	if err != nil {
		return ""
	}
	return parsed.Host
}

// Types of tools.
const (
	ToolTypeAPI      = "api"
	ToolTypeFunction = "function"
	ToolTypeWebhook  = "webhook"
)

// maxToolName is the longest name of a tool that models accept.
const maxToolName = 64

// NameFor returns the tool's name for models: the declared one, else that of its resource in the form that MCP and the
// APIs of models accept.
func (t *AITool) NameFor(resource string) string {
	if t.ToolName != "" {
		return t.ToolName
	}
	name := strings.ReplaceAll(resource, ".", "_")
	if name[0] >= '0' && name[0] <= '9' {
		name = "t_" + name
	}
	return name[:min(len(name), maxToolName)]
}

// ConcurrentCalls returns how many calls of the tool run at the same time on one server.
func (t *AITool) ConcurrentCalls() int { return int(cmp.Or(t.MaxConcurrentCalls, 16)) }

// ToolApproval configures the approval of a tool's calls.
type ToolApproval struct {
	// Permission is what the approver needs in the call's organization; "": the user of the call approves.
	Permission string `json:"permission,omitempty"`
	// LifetimeSeconds is as declared, 0 if absent.
	LifetimeSeconds int64 `json:"lifetime_seconds,omitempty"`
	Fresh           bool  `json:"fresh,omitempty"`
}

// Lifetime returns how long an approval can be given.
func (a *ToolApproval) Lifetime() time.Duration {
	seconds := int64(600)
	if a != nil && a.LifetimeSeconds != 0 {
		seconds = a.LifetimeSeconds
	}
	return time.Duration(seconds) * time.Second
}

// ToolResponse describes the response of a tool.
type ToolResponse struct {
	// Select is a JSON pointer.
	Select string `json:"select,omitempty"`
	// Array reports that the selected part is a list.
	Array  bool                `json:"array,omitempty"`
	Schema []schemafield.Field `json:"schema,omitempty"`
	// MaxBytes is as declared, 0 if absent.
	MaxBytes int64 `json:"max_bytes,omitempty"`
}

// MostBytes returns the largest size of a response.
func (r *ToolResponse) MostBytes() int64 {
	if r == nil || r.MaxBytes == 0 {
		return 256 << 10
	}
	return r.MaxBytes
}

// The values of AITool.Record.
const (
	RecordArguments = "arguments"
	RecordAll       = "all"
)

// JWTTemplate is the content of a JWTTemplate.
type JWTTemplate struct {
	Name            string          `json:"name"`
	LifetimeSeconds int64           `json:"lifetime_seconds"`
	Audiences       []string        `json:"audiences,omitempty"`
	Claims          []TemplateClaim `json:"claims,omitempty"`
}

// TemplateClaim is a claim of a template: a value, or an expression that yields it.
type TemplateClaim struct {
	Name       string          `json:"name"`
	Value      json.RawMessage `json:"value,omitempty"`
	Expression string          `json:"expression,omitempty"`
}

// AIAgent is the content of an AIAgent.
type AIAgent struct {
	Name         string `json:"name"`
	Description  string `json:"description,omitempty"`
	Model        string `json:"model,omitempty"`
	SystemPrompt string `json:"system_prompt,omitempty"`
	// Temperature is a decimal number as declared, "" if absent.
	Temperature string `json:"temperature,omitempty"`
	MaxTokens   *int64 `json:"max_tokens,omitempty"`
	// Tools are the names of AITool resources, in declared order.
	Tools          []string `json:"tools,omitempty"`
	KnowledgeBases []string `json:"knowledge_bases,omitempty"`
	Active         bool     `json:"active"`
	// URL is the URL at which MCP clients call the agent's tools, "" if the deployment has no frontend host. Documents of
	// earlier versions lack it.
	URL string `json:"url,omitempty"`
	// Instructions are those for MCP clients.
	Instructions string `json:"instructions,omitempty"`
	// OAuthApp is the name of the OAuthApp resource whose tokens are accepted, "" if none.
	OAuthApp string `json:"oauth_app,omitempty"`
	// Sessions reports that session tokens for the agent's URL are accepted.
	Sessions bool `json:"sessions,omitempty"`
	// Permissions are what callers need, all of them.
	Permissions []string `json:"permissions,omitempty"`
	// Scheme is the name of the RateLimitScheme resource, "" if none.
	Scheme string `json:"scheme,omitempty"`
	// MaxConcurrentCalls is as declared, 0 if absent.
	MaxConcurrentCalls int64 `json:"max_concurrent_calls,omitempty"`
}

// ConcurrentCalls returns how many calls of the agent's tools run at the same time on one server.
func (a *AIAgent) ConcurrentCalls() int { return int(cmp.Or(a.MaxConcurrentCalls, 64)) }
