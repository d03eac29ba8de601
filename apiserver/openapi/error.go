package openapi

import "github.com/cardea-iam/cardea/apiserver/apierror"

// NewError is the documented form of an error on the backend's and the decisions' listener.
func NewError(refused *apierror.Error, requestID string) Error {
	body := Error{Message: refused.Text(), Errors: []ErrorItem{}, RequestId: requestID}
	faults := refused.Faults
	if len(faults) == 0 {
		faults = []apierror.Fault{{Message: refused.Text()}}
	}
	for _, fault := range faults {
		body.Errors = append(body.Errors, ErrorItem{
			Message: fault.Message, Code: refused.Status, Field: optional(fault.Pointer), Manager: optional(fault.Manager), ResourcePath: optional(fault.ResourcePath),
		})
	}
	return body
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
