package management

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	"github.com/cardea-iam/cardea/apiserver/apierror"
	"github.com/cardea-iam/cardea/apiserver/openapi"
)

// refuse answers with an error and logs what is the server's own fault.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	refused, id := apierror.Of(err), callOf(r).id[0]
	if refused.Status >= 500 && !errors.Is(r.Context().Err(), context.Canceled) {
		a.Log.Error(refused, "A request failed", "method", r.Method, "route", r.Pattern, "request_id", id)
	}
	header := w.Header()
	for name, values := range refused.Header {
		header[name] = values
	}
	if refused.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(refused.RetrySeconds()))
	}
	raw, _ := json.Marshal(errorBody(refused, id)) // strings and integers: cannot fail
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(refused.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(raw) // the client is gone
	}
}

// errorBody is the documented form of an error.
func errorBody(refused *apierror.Error, requestID string) openapi.Error {
	body := openapi.Error{Message: refused.Text(), Errors: []openapi.ErrorItem{}, RequestId: requestID}
	faults := refused.Faults
	if len(faults) == 0 {
		faults = []apierror.Fault{{Message: refused.Text()}}
	}
	for _, fault := range faults {
		body.Errors = append(body.Errors, openapi.ErrorItem{
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

// answerJSON sends a value as JSON with status 200.
func (a *API) answerJSON(w http.ResponseWriter, r *http.Request, value any) {
	raw, err := json.Marshal(value)
	if err != nil {
		a.refuse(w, r, err)
		return
	}
	answer(w, raw)
}

func setSynced(w http.ResponseWriter, synced bool) {
	w.Header()["Cardea-Synced"] = []string{strconv.FormatBool(synced)}
}

// unchunked is how long an answer, in bytes, may be for net/http to count it itself; a longer one of unsaid length goes out in
// chunks.
const unchunked = 2048

var contentTypeJSON = []string{"application/json"}

// answer sends a JSON body, whole or in parts, with status 200.
func answer(w http.ResponseWriter, parts ...[]byte) {
	w.Header()["Content-Type"] = contentTypeJSON
	size := 0
	for _, part := range parts {
		size += len(part)
	}
	if size > unchunked {
		w.Header()["Content-Length"] = []string{strconv.Itoa(size)}
	}
	for _, part := range parts {
		_, _ = w.Write(part) // the client is gone
	}
}
