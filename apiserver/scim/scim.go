// Package scim is the protocol of SCIM 2.0 (RFC 7643 and RFC 7644): documents of users and groups, PATCH, filters,
// selections of attributes, responses and discovery. It is pure: values in, values out. The caller authenticates,
// stores and serves.
package scim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// The schemas of resources and messages.
const (
	UserSchema       = "urn:ietf:params:scim:schemas:core:2.0:User"
	GroupSchema      = "urn:ietf:params:scim:schemas:core:2.0:Group"
	EnterpriseSchema = "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"

	configSchema       = "urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig"
	schemaSchema       = "urn:ietf:params:scim:schemas:core:2.0:Schema"
	resourceTypeSchema = "urn:ietf:params:scim:schemas:core:2.0:ResourceType"
	errorSchema        = "urn:ietf:params:scim:api:messages:2.0:Error"
	listSchema         = "urn:ietf:params:scim:api:messages:2.0:ListResponse"
	patchSchema        = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
)

// Bounds of input. The caller bounds bodies, to 1 MiB.
const (
	// MaxUserBytes bounds the canonical document of a user.
	MaxUserBytes = 8 << 10
	// MaxNameBytes bounds userName, externalId, and the displayName of users and groups.
	MaxNameBytes = 512
	// MaxOperations bounds the operations of a PATCH.
	MaxOperations = 10_000
	// MaxFilterBytes bounds a filter, MaxPathBytes a path of a PATCH, and MaxSelectionBytes a list of attributes.
	MaxFilterBytes    = 1 << 10
	MaxPathBytes      = 1 << 10
	MaxSelectionBytes = 1 << 10
	// MaxResults is the number of resources in a list.
	MaxResults = 200

	// maxDepth bounds the nesting of JSON, and of parentheses in a filter.
	maxDepth = 32
	// maxValues bounds the values of a multi-valued attribute of a user.
	maxValues = 200
)

// The error types of RFC 7644, table 9.
const (
	InvalidFilter = "invalidFilter"
	InvalidPath   = "invalidPath"
	InvalidSyntax = "invalidSyntax"
	InvalidValue  = "invalidValue"
	Mutability    = "mutability"
	NoTarget      = "noTarget"
	TooMany       = "tooMany"
	Uniqueness    = "uniqueness"
)

// Error is an error of SCIM (RFC 7644, 3.12). Type is its scimType, empty if it has none.
type Error struct {
	Status int
	Type   string
	Detail string
}

// Error returns the type and the detail.
func (e *Error) Error() string {
	if e.Type == "" {
		return "scim: " + e.Detail
	}
	return "scim: " + e.Type + ": " + e.Detail
}

// Body returns the error as JSON.
func (e *Error) Body() []byte {
	return encode(struct {
		Schemas []string `json:"schemas"`
		Type    string   `json:"scimType,omitempty"`
		Detail  string   `json:"detail,omitempty"`
		Status  string   `json:"status"`
	}{[]string{errorSchema}, e.Type, e.Detail, strconv.Itoa(e.Status)})
}

// refuse returns an error with status 400.
func refuse(scimType, format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Type: scimType, Detail: fmt.Sprintf(format, args...)}
}

// encode returns v as JSON on one line, without the escapes of HTML. v consists of values that JSON can represent.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
