package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AIToolType selects how a tool is called.
// +kubebuilder:validation:Enum=API;Function;Webhook
type AIToolType string

const (
	// AIToolTypeAPI is an HTTP API.
	AIToolTypeAPI AIToolType = "API"
	// AIToolTypeFunction is a function of the application, called by a signed request if it has an endpoint.
	AIToolTypeFunction AIToolType = "Function"
	// AIToolTypeWebhook is a signed request whose result may come later.
	AIToolTypeWebhook AIToolType = "Webhook"
)

// HTTPMethod is a method of HTTP.
// +kubebuilder:validation:Enum=GET;HEAD;POST;PUT;PATCH;DELETE;OPTIONS
type HTTPMethod string

// HeaderValueSource is the source of a header's value.
type HeaderValueSource struct {
	// secretKeyRef names the Secret and the key with the value: one line of at most 1024 visible ASCII characters, and
	// blanks between them. The value is stored only sealed, and never served. The Secret needs the label
	// iam.cardea.dev/deployment with the deployment's name. If it has the annotation iam.cardea.dev/hosts (names,
	// separated by commas), the value is sent only to these hosts.
	// +required
	SecretKeyRef SecretKeyReference `json:"secretKeyRef"`
}

// ToolHeader is a header sent with the request of a tool or of a webhook endpoint.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.valueFrom)",message="set exactly one of value and valueFrom"
type ToolHeader struct {
	// name of the header, unique in the resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`
	Name string `json:"name"`

	// value of the header, which is served. Absent: see valueFrom.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	Value *string `json:"value,omitempty"`

	// valueFrom refers to a secret value, which is served as `********`. Absent: see value.
	// +optional
	ValueFrom *HeaderValueSource `json:"valueFrom,omitempty"`
}

// ToolParameter is a parameter of a tool.
type ToolParameter struct {
	// name of the parameter, unique in the tool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name"`

	// type of the parameter's value, such as `string`.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Type string `json:"type"`

	// required is true if the parameter is required. Absent: false.
	// +optional
	Required *bool `json:"required,omitempty"`
}

// FieldType is the type of a schema field.
// +kubebuilder:validation:Enum=STRING;INTEGER;NUMBER;BOOLEAN;ARRAY;OBJECT
type FieldType string

const (
	// FieldTypeString is text.
	FieldTypeString FieldType = "STRING"
	// FieldTypeInteger is a whole number.
	FieldTypeInteger FieldType = "INTEGER"
	// FieldTypeNumber is a number.
	FieldTypeNumber FieldType = "NUMBER"
	// FieldTypeBoolean is true or false.
	FieldTypeBoolean FieldType = "BOOLEAN"
	// FieldTypeArray is a list; itemsType or itemsSchema describes its items.
	FieldTypeArray FieldType = "ARRAY"
	// FieldTypeObject has properties.
	FieldTypeObject FieldType = "OBJECT"
)

// SchemaField describes one field of a request. Fields nest, to a depth of 8: itemsSchema and properties have fields of
// the same form. The operator checks them, because a Kubernetes schema cannot be recursive.
type SchemaField struct {
	// name of the field.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name"`

	// fieldType is the type of the field. `STRING`: text. `INTEGER`: a whole number. `NUMBER`: a number. `BOOLEAN`: true
	// or false. `ARRAY`: a list. `OBJECT`: an object with properties.
	// +required
	FieldType FieldType `json:"fieldType"`

	// required is true if the field is required. Absent: false.
	// +optional
	Required *bool `json:"required,omitempty"`

	// title is the field's name for users. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Title *string `json:"title,omitempty"`

	// description says what the field is for. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=2000
	Description *string `json:"description,omitempty"`

	// enumValues is the list of the allowed values, any JSON each, at most 100. Absent: any value.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	EnumValues *JSON `json:"enumValues,omitempty"`

	// format refines the type, such as `date-time`. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	Format *string `json:"format,omitempty"`

	// minimum is the smallest allowed number, between -(2^53 - 1) and 2^53 - 1: in this range, every JSON reader keeps
	// integers exact. Absent: none.
	// +optional
	// +kubebuilder:validation:Minimum=-9007199254740991
	// +kubebuilder:validation:Maximum=9007199254740991
	Minimum *float64 `json:"minimum,omitempty"`

	// maximum is the largest allowed number, between -(2^53 - 1) and 2^53 - 1: in this range, every JSON reader keeps
	// integers exact. Absent: none.
	// +optional
	// +kubebuilder:validation:Minimum=-9007199254740991
	// +kubebuilder:validation:Maximum=9007199254740991
	Maximum *float64 `json:"maximum,omitempty"`

	// itemsType is the type of a list's items, with the values of fieldType. Absent: any.
	// +optional
	ItemsType *FieldType `json:"itemsType,omitempty"`

	// itemsSchema is a schema field that describes a list's items. Its name may be absent. Absent: none.
	// +optional
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	ItemsSchema *JSON `json:"itemsSchema,omitempty"`

	// minItems is the minimum number of a list's items, 0 to 2147483647. Absent: none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MinItems *int32 `json:"minItems,omitempty"`

	// maxItems is the maximum number of a list's items, 0 to 2147483647. Absent: none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	MaxItems *int32 `json:"maxItems,omitempty"`

	// properties are the schema fields of an object. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Properties []JSON `json:"properties,omitempty"`
}

// ToolAuthorization configures how a tool's requests are authorized.
// +kubebuilder:validation:XValidation:rule="!(has(self.jwtTemplateRef) && has(self.jwtTemplateID))",message="set jwtTemplateRef or jwtTemplateID, not both",fieldPath=".jwtTemplateRef"
type ToolAuthorization struct {
	// authorizeAsUser sends the user's own authorization. Absent: false.
	// +optional
	AuthorizeAsUser *bool `json:"authorizeAsUser,omitempty"`

	// jwtTemplateID names the template of the token that is sent by its id over HTTP. Only its form is checked: without
	// such a template, calls end with the code not_configured. Absent: none.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	JWTTemplateID *string `json:"jwtTemplateID,omitempty"`

	// jwtTemplateRef names the JWTTemplate of the token that is sent. Not together with jwtTemplateID. Absent: none.
	// +optional
	JWTTemplateRef *JWTTemplateReference `json:"jwtTemplateRef,omitempty"`

	// audience of the token that is sent: an absolute URL without a fragment. Absent: scheme and authority of endpoint.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9+.-]*:[!"$-~]+$`
	Audience *string `json:"audience,omitempty"`

	// customHeaders describe further headers. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	CustomHeaders []SchemaField `json:"customHeaders,omitempty"`
}

// AIToolSpec declares an AI tool.
// +kubebuilder:validation:XValidation:rule="!has(self.signingSecretRef) || self.type != 'API'",message="calls of type API are not signed: remove signingSecretRef, or set type to Function or Webhook",fieldPath=".signingSecretRef"
// +kubebuilder:validation:XValidation:rule="!has(self.resultSeconds) || self.type == 'Webhook'",message="resultSeconds is only for type Webhook: remove it or set type to Webhook",fieldPath=".resultSeconds"
// +kubebuilder:validation:XValidation:rule="!has(self.approval) || (has(self.requiresUserApproval) && self.requiresUserApproval)",message="approval is only for tools with requiresUserApproval: set that to true or remove approval",fieldPath=".approval"
type AIToolSpec struct {
	CommonSpec `json:",inline"`

	// deploymentRef names the IdentityDeployment to which this tool belongs. Immutable.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="deploymentRef is immutable: create another resource for the other deployment"
	DeploymentRef DeploymentReference `json:"deploymentRef"`

	// displayName is the tool's name for users and models. Absent: the resource's name.
	// +optional
	DisplayName *DisplayName `json:"displayName,omitempty"`

	// description says what the tool does. Absent: none.
	// +optional
	Description *Description `json:"description,omitempty"`

	// toolName is the tool's name for models: a letter or `_`, then letters, digits, `_` and `-`, at most 64 characters.
	// Absent: the resource's name, with `.` as `_` and `t_` before a leading digit.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_-]{0,63}$`
	ToolName *string `json:"toolName,omitempty"`

	// permissions are what a caller needs to list and call the tool, all of them. Absent: none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	Permissions []NeededPermission `json:"permissions,omitempty"`

	// rateLimitSchemeRef names the scheme that limits the calls of the tool. Absent: none.
	// +optional
	RateLimitSchemeRef *RateLimitSchemeReference `json:"rateLimitSchemeRef,omitempty"`

	// maxConcurrentCalls bounds the calls of the tool that run at the same time on one server, 1 to 256. Absent: 16.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=256
	MaxConcurrentCalls *int32 `json:"maxConcurrentCalls,omitempty"`

	// annotations are hints to MCP clients, and decide about retries and records. Absent: those of the method.
	// +optional
	Annotations *ToolAnnotations `json:"annotations,omitempty"`

	// type selects how the tool is called. `API`: an HTTP API. `Function`: a function of the application, called by a
	// signed POST request; without an endpoint, the application calls it itself. `Webhook`: a signed POST request whose
	// result may come later.
	// +required
	Type AIToolType `json:"type"`

	// active lets the tool be used. Absent: true.
	// +optional
	Active *bool `json:"active,omitempty"`

	// requiresUserApproval asks the user before each call. Absent: false.
	// +optional
	RequiresUserApproval *bool `json:"requiresUserApproval,omitempty"`

	// approval configures the approval of calls. Only with requiresUserApproval. Absent: its defaults.
	// +optional
	Approval *ToolApproval `json:"approval,omitempty"`

	// response describes the response. Absent: all of it, at most 262144 bytes.
	// +optional
	Response *ToolResponse `json:"response,omitempty"`

	// record selects what of a call's content is kept, sealed, for 7 days. `None`: nothing. `Arguments`: the arguments.
	// `All`: arguments and result. A result of a webhook that came later, and that no caller waited for, is kept with
	// None too. Absent: None.
	// +optional
	Record *ToolRecord `json:"record,omitempty"`

	// endpoint is the URL that is called. Absent: none.
	// +optional
	Endpoint *URL `json:"endpoint,omitempty"`

	// method of the call. Calls of the types Function and Webhook are POST requests, whatever it says. Absent: GET.
	// +optional
	Method *HTTPMethod `json:"method,omitempty"`

	// timeoutSeconds bounds the call, 1 to 600 seconds. Absent: 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=600
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// signingSecretRef names the Secret and the key with the signing secret of Standard Webhooks, `whsec_` and the base64
	// of 24 to 64 bytes, under the rules of headers[].valueFrom. Only for the types Function and Webhook. Absent: calls
	// are signed with the deployment's Ed25519 key, of status.webhookPublicKeys.
	// +optional
	SigningSecretRef *SecretKeyReference `json:"signingSecretRef,omitempty"`

	// resultSeconds is how long a result that comes later is accepted, from the call on, 1 to 86400 seconds. Only for the
	// type Webhook. Absent: 600.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	ResultSeconds *int32 `json:"resultSeconds,omitempty"`

	// headers are sent with the call. Absent: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	Headers []ToolHeader `json:"headers,omitempty"`

	// parameters are the parameters of the call. Absent: none.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	Parameters []ToolParameter `json:"parameters,omitempty"`

	// authorization configures how the call is authorized. Absent: no authorization.
	// +optional
	Authorization *ToolAuthorization `json:"authorization,omitempty"`

	// requestBodySchema describes the body of the call. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	RequestBodySchema []SchemaField `json:"requestBodySchema,omitempty"`

	// urlParamsSchema describes the parameters in the URL. Absent: none.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	URLParamsSchema []SchemaField `json:"urlParamsSchema,omitempty"`
}

// AIToolStatus is what the operator observed.
type AIToolStatus struct {
	CommonStatus `json:",inline"`
}

// AITool is a tool that AI agents may use.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=aitool,categories=cardea
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`,description="The tool's id over HTTP"
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`,description="How it is called"
// +kubebuilder:printcolumn:name="Deployment",type=string,JSONPath=`.spec.deploymentRef.name`,description="The IdentityDeployment to which it belongs"
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="Whether the declared state is active"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why it is, or is not, ready"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`,description="Time since creation"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.spec) || !has(oldSelf.spec.id) || (has(self.spec) && has(self.spec.id) && self.spec.id == oldSelf.spec.id)",message="spec.id is never changed or removed: restore the old value",fieldPath=".spec.id"
// +kubebuilder:validation:XValidation:rule="(has(oldSelf.spec) && has(oldSelf.spec.id)) || !has(self.spec) || !has(self.spec.id) || (has(oldSelf.status) && has(oldSelf.status.id) && self.spec.id == oldSelf.status.id)",message="spec.id can be added to an existing resource only with the value of its status.id: copy that value",fieldPath=".spec.id"
type AITool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec declares the tool.
	// +required
	Spec AIToolSpec `json:"spec"`

	// status is what the operator observed; written by the operator only.
	// +optional
	// +kubebuilder:default={"observedGeneration":-1}
	Status AIToolStatus `json:"status,omitzero"`
}

// AIToolList is a list of AITools.
// +kubebuilder:object:root=true
type AIToolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	// items are the AITools.
	Items []AITool `json:"items"`
}

// CommonSpec implements Resource.
func (a *AITool) CommonSpec() *CommonSpec { return &a.Spec.CommonSpec }

// CommonStatus implements Resource.
func (a *AITool) CommonStatus() *CommonStatus { return &a.Status.CommonStatus }
