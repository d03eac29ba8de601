package openapi

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
	backendapi "github.com/cardea-iam/cardea/client/backend"
)

var contentTypeJSON = []string{"application/json"}

// SendError responds to a request with an error in the documented form.
func SendError(w http.ResponseWriter, r *http.Request, refused *apierror.Error, requestID string) {
	header := w.Header()
	for name, values := range refused.Header {
		header[name] = values
	}
	if refused.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(refused.RetrySeconds()))
	}
	raw, _ := json.Marshal(NewError(refused, requestID)) // strings and integers cannot fail
	header["Content-Type"] = contentTypeJSON
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(refused.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(raw) // fails only if the client is disconnected
	}
}

// NewError returns the documented form of an error of the backend and decision listeners.
func NewError(refused *apierror.Error, requestID string) backendapi.Error {
	body := backendapi.Error{Message: refused.Text(), Errors: []backendapi.ErrorItem{}, RequestId: requestID}
	faults := refused.Faults
	if len(faults) == 0 {
		faults = []apierror.Fault{{Message: refused.Text()}}
	}
	for _, fault := range faults {
		body.Errors = append(body.Errors, backendapi.ErrorItem{
			Message: fault.Message, Code: refused.Status, Field: optional(fault.Pointer), Manager: optional(fault.Manager), ResourcePath: optional(fault.ResourcePath),
			EarliestCursor: optional(fault.EarliestCursor),
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
