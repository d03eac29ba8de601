package v1alpha1

// ToolAnnotations are hints about a tool to MCP clients, and Cardea's own rule for retries and records.
type ToolAnnotations struct {
	// readOnly says that a call changes nothing. Absent: true for GET, HEAD and OPTIONS, false for other methods.
	// +optional
	ReadOnly *bool `json:"readOnly,omitempty"`

	// destructive says that a call may delete or overwrite. Absent: true for DELETE, PUT and PATCH, false for other
	// methods.
	// +optional
	Destructive *bool `json:"destructive,omitempty"`

	// idempotent says that a repeated call has no further effect. Absent: false for POST and PATCH, true for other
	// methods.
	// +optional
	Idempotent *bool `json:"idempotent,omitempty"`

	// openWorld says that a call reaches systems beyond the tool's own. Absent: true.
	// +optional
	OpenWorld *bool `json:"openWorld,omitempty"`
}

// ToolApprover selects who approves the calls of a tool.
// +kubebuilder:validation:Enum=Caller;Permission
type ToolApprover string

const (
	// ToolApproverCaller is the user of the call.
	ToolApproverCaller ToolApprover = "Caller"
	// ToolApproverPermission is a member of the organization with a permission.
	ToolApproverPermission ToolApprover = "Permission"
)

// ToolApproval configures the approval that each call needs.
// +kubebuilder:validation:XValidation:rule="has(self.permission) == (has(self.approver) && self.approver == 'Permission')",message="permission is needed with approver Permission, and only then: add or remove it",fieldPath=".permission"
type ToolApproval struct {
	// approver selects who approves. `Caller`: the user of the call. `Permission`: a member of the call's
	// organization with the permission. Absent: Caller.
	// +optional
	Approver *ToolApprover `json:"approver,omitempty"`

	// permission is what the approver needs in the call's organization. Absent: see approver.
	// +optional
	Permission *NeededPermission `json:"permission,omitempty"`

	// lifetimeSeconds is how long an approval can be given after it was requested, 60 to 86400 seconds. Absent: 600.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=86400
	LifetimeSeconds *int32 `json:"lifetimeSeconds,omitempty"`

	// fresh asks the approver to prove the sign-in again, if it is older than 10 minutes. Absent: false.
	// +optional
	Fresh *bool `json:"fresh,omitempty"`
}

// ToolResponseType is the type of the JSON value in a tool's response.
// +kubebuilder:validation:Enum=Object;Array
type ToolResponseType string

const (
	// ToolResponseTypeObject is a JSON object.
	ToolResponseTypeObject ToolResponseType = "Object"
	// ToolResponseTypeArray is a list of JSON objects.
	ToolResponseTypeArray ToolResponseType = "Array"
)

// ToolResponse describes the response of a tool.
type ToolResponse struct {
	// select is the JSON pointer (RFC 6901) of the part of the response that agents get. Absent: all of it.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:Pattern=`^(/([^/~]|~[01])*)*$`
	Select *string `json:"select,omitempty"`

	// type of the selected part. `Object`: an object. `Array`: a list of objects. Absent: Object.
	// +optional
	Type *ToolResponseType `json:"type,omitempty"`

	// schema describes the members of the object, or of each object of the list. Members that it does not name are
	// dropped. Absent: nothing is checked or dropped.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	Schema []SchemaField `json:"schema,omitempty"`

	// maxBytes bounds the response after decompression, 1024 to 1048576 bytes. Absent: 262144.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=1048576
	MaxBytes *int32 `json:"maxBytes,omitempty"`
}

// ToolRecord selects what of a call's content is kept with its record.
// +kubebuilder:validation:Enum=None;Arguments;All
type ToolRecord string

const (
	// ToolRecordNone keeps no content, except a webhook's result that came later and that no caller waited for.
	ToolRecordNone ToolRecord = "None"
	// ToolRecordArguments keeps the arguments, and such a result.
	ToolRecordArguments ToolRecord = "Arguments"
	// ToolRecordAll keeps the arguments and the result.
	ToolRecordAll ToolRecord = "All"
)
