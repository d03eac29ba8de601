package transport

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is a response of any listener that refuses a request.
type Error struct {
	// Status is the HTTP status.
	Status int
	// Code is the first fault's upper-case code on the end-user listener, such as INVALID_CODE; "" on other listeners,
	// which have no codes beyond the status.
	Code string
	// Message says what is wrong, why, and how to fix it.
	Message string
	// Faults are all faults of the request, such as one for each faulty member of its body.
	Faults []Fault
	// RequestID is the request's id in the server's log; "" if the response has none.
	RequestID string
	// RetryAfter is how long to wait before the same request may succeed: the longest wait in the response; 0: the
	// response has none.
	RetryAfter time.Duration
	// Method and Path are those of the operation. The path has {name} in place of values.
	Method, Path string
}

// Fault is one fault of a request.
type Fault struct {
	Message string
	// Code is an upper-case code on the end-user listener, "" elsewhere.
	Code string
	// Field is a JSON pointer into the body, ?name for a parameter of the query, or :name for a parameter of the path;
	// "": the fault concerns the whole request.
	Field string
	// Manager and ResourcePath of a 409 name the field manager that owns a field of the resource, and the field.
	Manager, ResourcePath string
	// AttemptsRemaining is how many tries of a code are left; nil: the fault does not concern a code.
	AttemptsRemaining *int
}

// Error returns the operation, the status, and the server's code, message and request id.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s %s: %d", e.Method, e.Path, e.Status)
	if e.Code != "" {
		text += " " + e.Code
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	return text
}

// maxMessage bounds the request id that an error has, in bytes.
const maxMessage = 200

// newError returns the error of a response that refuses a call. A response that is not in Cardea's form may come from a
// proxy, so the error has its status but no text of its body.
func newError(call Call, response *http.Response, raw []byte) *Error {
	e := &Error{Status: response.StatusCode, Method: call.Method, Path: call.Path, RetryAfter: retryAfter(response.Header), RequestID: short(response.Header.Get("X-Request-Id"))}
	var body struct {
		Message   *string `json:"message"`
		RequestID string  `json:"request_id"`
		Errors    []struct {
			Message           string          `json:"message"`
			Code              json.RawMessage `json:"code"` // a number, or a text on the end-user listener
			Field             string          `json:"field"`
			Manager           string          `json:"manager"`
			ResourcePath      string          `json:"resource_path"`
			AttemptsRemaining *int            `json:"attempts_remaining"`
			RetryAfterSeconds int             `json:"retry_after_seconds"`
		} `json:"errors"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.Message == nil {
		e.Message = "the answer is not in Cardea's form: it may come from a proxy, or the base URL is another server's"
		if response.StatusCode >= 300 && response.StatusCode < 400 {
			e.Message = "the server answered with a redirect, which is not followed: give the final base URL"
		}
		return e
	}
	e.Message = *body.Message
	if body.RequestID != "" {
		e.RequestID = short(body.RequestID)
	}
	for _, fault := range body.Errors {
		var code string
		_ = json.Unmarshal(fault.Code, &code) // a number stays ""
		e.Faults = append(e.Faults, Fault{
			Message: fault.Message, Code: code, Field: fault.Field, Manager: fault.Manager, ResourcePath: fault.ResourcePath, AttemptsRemaining: fault.AttemptsRemaining,
		})
		if e.Code == "" {
			e.Code = code
		}
		e.RetryAfter = max(e.RetryAfter, time.Duration(fault.RetryAfterSeconds)*time.Second)
	}
	return e
}

// retryAfter reads Retry-After in either of its forms (RFC 9110 10.2.3).
func retryAfter(header http.Header) time.Duration {
	text := header.Get("Retry-After")
	if seconds, err := strconv.ParseInt(text, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	now := time.Now()
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		now = sent // the server's own clock
	}
	return max(0, at.Sub(now))
}

// short returns a server's id without control characters, of at most maxMessage bytes.
func short(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, text)
	return text[:min(len(text), maxMessage)]
}
