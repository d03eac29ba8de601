package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AIToolReference names an AITool in the same namespace.
type AIToolReference struct {
	// name of the AITool resource, in this resource's namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
}

// AgentSessions selects whether users call an agent's tools with tokens of their sessions.
// +kubebuilder:validation:Enum=Allowed;Denied
type AgentSessions string

const (
	// AgentSessionsAllowed accepts session tokens that were issued for the agent.
	AgentSessionsAllowed AgentSessions = "Allowed"
	// AgentSessionsDenied refuses session tokens.
	AgentSessionsDenied AgentSessions = "Denied"
)

// AgentAccess configures which users may call an agent's tools.
type AgentAccess struct {
	// oauthAppRef names the OAuthApp whose access tokens are accepted, if they are issued for the agent's URL
	// (status.mcpURL). Absent: no OAuth tokens are accepted.
	// +optional
	OAuthAppRef *OAuthAppReference `json:"oauthAppRef,omitempty"`

	// sessions selects whether session tokens are accepted. `Allowed`: tokens that POST /session/token issued for the
	// agent's URL. `Denied`: none. Absent: Denied.
	// +optional
	Sessions *AgentSessions `json:"sessions,omitempty"`

	// permissions are what a caller needs, all of them, in addition to those of the called tool. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	Permissions []NeededPermission `json:"permissions,omitempty"`
}

// AIAgentSpec declares an AI agent.
type AIAgentSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment to which this agent belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another resource for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// displayName is the agent's name for users. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// description says what the agent does. Absent: none.
	// +optional
	Description *Description `json:"description,omitempty"`

	// instructions say how the agent's tools are used. MCP clients may give them to their model, at most 2000
	// characters. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=2000
	// +kubebuilder:validation:Pattern=`^([^\p{Cc}\x{202A}-\x{202E}\x{2066}-\x{2069}\x{200B}\x{2060}\x{FEFF}]|[\n\r\t])*$`
	Instructions *string `json:"instructions,omitempty"`

	// access configures which users may call the agent's tools over MCP, next to API keys with the permission
	// ai_agents:call. Absent: no users.
	// +optional
	Access *AgentAccess `json:"access,omitempty"`

	// rateLimitSchemeRef names the scheme that limits the calls of the agent's tools. Absent: none.
	// +optional
	RateLimitSchemeRef *RateLimitSchemeReference `json:"rateLimitSchemeRef,omitempty"`

	// maxConcurrentCalls bounds the calls of the agent's tools that run at the same time on one server, 1 to 1024.
	// Absent: 64.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1024
	MaxConcurrentCalls *int32 `json:"maxConcurrentCalls,omitempty"`

	// model is the language model's name, for the program that runs it. Absent: none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^[!-~]+$`
	Model *string `json:"model,omitempty"`

	// systemPrompt is the system prompt for the model, for the program that runs it, at most 65536 characters. Absent:
	// none.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	SystemPrompt *string `json:"systemPrompt,omitempty"`

	// temperature is the model's sampling temperature: a decimal number from 0 to 2, as a string (`"0.7"`). Absent: the
	// model's default.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^([01](\.[0-9]{1,6})?|2(\.0{1,6})?)$`
	Temperature *string `json:"temperature,omitempty"`

	// maxTokens is the maximum number of tokens of the model's response, 1 to 2147483647. Absent: the model's default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	MaxTokens *int32 `json:"maxTokens,omitempty"`

	// toolRefs name the tools that the agent may use, in order. A tool that does not exist is omitted until it exists.
	// Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.name == a.name))",message="each tool may be listed only once: remove the duplicate"
	ToolRefs []AIToolReference `json:"toolRefs,omitempty"`

	// knowledgeBases are the ids of the knowledge bases the agent may read. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=200
	KnowledgeBases []string `json:"knowledgeBases,omitempty"`

	// active lets the agent be used. Absent: true.
	// +optional
	Active *bool `json:"active,omitempty"`
}

// AIAgentStatus is what the operator observed.
type AIAgentStatus struct {
	CommonStatus `json:",inline"`

	// mcpURL is the URL at which MCP clients call the agent's tools, and the resource for which OAuth tokens are issued.
	// Empty: the deployment has no frontend host.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	MCPURL string `json:"mcpURL,omitempty"`
}

// AIAgent is an AI agent and the tools it may use.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=aiagent,categories=cardea
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`,description="The agent's id over HTTP"
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`,description="The language model"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`,description="The IdentityDeployment to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type AIAgent struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the agent.
	// +required
	Spec AIAgentSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status AIAgentStatus `json:"status,omitzero"`
}

// AIAgentList is a list of AIAgents.
// +kubebuilder:object:root=true
type AIAgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the AIAgents.
	Items []AIAgent `json:"items"`
}

// CommonSpec implements Resource.
func (a *AIAgent) CommonSpec() *CommonSpec { return &a.Spec.CommonSpec }

// CommonStatus implements Resource.
func (a *AIAgent) CommonStatus() *CommonStatus { return &a.Status.CommonStatus }
