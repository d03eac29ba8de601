// Package apierror is the error type of checks and rules for all listeners. Each listener writes it in its own form:
// the backend API as an error body, the end-user API in its envelope.
package apierror

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Error is a response other than success. It is an error, so that handlers can return it.
type Error struct {
	// Status is the HTTP status, 400 to 599.
	Status int
	// Code is the error code of the end-user API, in upper case; "" means the code of the status (DefaultCode).
	Code string
	// Message is one sentence: what is wrong, why, and how to fix it. If it is empty, the messages of the faults are
	// joined.
	Message string
	// Faults are listed in order, each with its position.
	Faults []Fault
	// RetryAfter is sent as Retry-After in whole seconds, rounded up; 0 is not sent.
	RetryAfter time.Duration
	// AttemptsLeft is how many codes may still be tried; nil is not sent.
	AttemptsLeft *int
	// RequiredAssurance is the level that the operation requires, "" if it is not sent. Strategies are the strategies of a
	// reauthentication that help, and Enroll the kinds of factors of which one must be added; nil is not sent.
	RequiredAssurance  string
	Strategies, Enroll []string
	// Reason is a further code of the failure, "" if it is not sent.
	Reason string
	// Connections are those by which the user must sign in; nil is not sent.
	Connections []Connection
	// Seen are the records that a lookup of a domain returned, and LookedUpAt its time; a zero time means that neither is
	// sent.
	Seen       []string
	LookedUpAt time.Time
	// Header is added to the response.
	Header http.Header
	// Cause is logged, and never sent.
	Cause error
}

// Connection is a connection by which a user can sign in.
type Connection struct{ ID, Slug, Type, Name, LogoURL string }

// Fault is one fault of a request.
type Fault struct {
	// Pointer is a JSON pointer into the body, ?name for a query parameter, :name for a path one, "" for neither.
	Pointer string
	// Message says what is wrong and how to fix it. It follows the pointer in a sentence: "/name is required: send it".
	Message string
	// ResourcePath is a field that was not written, and Manager is the field manager that owns it.
	Manager, ResourcePath string
	// EarliestCursor is the place with which a list of events can continue.
	EarliestCursor string
}

// Error returns the message and the cause, for logs.
func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s: %s", e.Status, e.EffectiveCode(), e.Text())
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Text returns the message, or else the joined messages of the faults.
func (e *Error) Text() string {
	if e.Message != "" || len(e.Faults) == 0 {
		return e.Message
	}
	parts := make([]string, len(e.Faults))
	for i, fault := range e.Faults {
		parts[i] = fault.Message
		if fault.Pointer != "" {
			parts[i] = fault.Pointer + " " + fault.Message
		}
	}
	return strings.Join(parts, "; ")
}

// EffectiveCode returns the code, or else that of the status.
func (e *Error) EffectiveCode() string {
	if e.Code != "" {
		return e.Code
	}
	return DefaultCode(e.Status)
}

// RetrySeconds returns RetryAfter in whole seconds, rounded up.
func (e *Error) RetrySeconds() int {
	return int((e.RetryAfter + time.Second - 1) / time.Second)
}

// DefaultCode returns the code of a status.
func DefaultCode(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "VALIDATION_ERROR"
	case http.StatusUnauthorized:
		return "NOT_AUTHENTICATED"
	case http.StatusForbidden:
		return "FORBIDDEN"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusMethodNotAllowed:
		return "METHOD_NOT_ALLOWED"
	case http.StatusConflict:
		return "CONFLICT"
	case http.StatusRequestEntityTooLarge:
		return "PAYLOAD_TOO_LARGE"
	case http.StatusUnsupportedMediaType:
		return "UNSUPPORTED_MEDIA_TYPE"
	case http.StatusTooManyRequests:
		return "RATE_LIMITED"
	case http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	}
	return "INTERNAL_ERROR"
}

// New returns an error with the code of the status.
func New(status int, format string, args ...any) *Error {
	return &Error{Status: status, Message: fmt.Sprintf(format, args...)}
}

// Coded returns an error with its own code.
func Coded(status int, code, format string, args ...any) *Error {
	e := New(status, format, args...)
	e.Code = code
	return e
}

// Bad returns a 400 with its own code.
func Bad(code, format string, args ...any) *Error {
	return Coded(http.StatusBadRequest, code, format, args...)
}

// Invalid returns a 400 with every fault.
func Invalid(faults ...Fault) *Error {
	return &Error{Status: http.StatusBadRequest, Faults: faults}
}

// Later returns a 429: the same request may succeed after a wait, at least a second.
func Later(code string, wait time.Duration, format string, args ...any) *Error {
	e := Coded(http.StatusTooManyRequests, code, format, args...)
	e.RetryAfter = max(wait, time.Second)
	return e
}

// Unavailable returns a 503 with Retry-After.
func Unavailable(cause error, format string, args ...any) *Error {
	e := New(http.StatusServiceUnavailable, format, args...)
	e.RetryAfter, e.Cause = 5*time.Second, cause
	return e
}

// Unauthorized returns the backend's response to a request without a credential.
func Unauthorized() *Error { return unauthorized("Bearer") }

// InvalidToken returns the backend's response to every credential that is not accepted, for any reason. Its body is
// that of Unauthorized.
func InvalidToken() *Error { return unauthorized(`Bearer error="invalid_token"`) } // RFC 6750, 3.1

func unauthorized(challenge string) *Error {
	e := New(http.StatusUnauthorized, "no accepted credential: send `Authorization: Bearer <API key>` with a key that is known, active and not expired")
	e.Header = http.Header{"Www-Authenticate": {challenge}}
	return e
}

// NotAuthenticated returns the end-user API's response to a request that needs a signed-in user and has none.
func NotAuthenticated() *Error {
	return New(http.StatusUnauthorized, "you are not signed in: sign in, and send the session cookie")
}

// Of returns the response to an error: the Error that it contains, or else a plain 500. The text of other errors is
// only logged.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	e = New(http.StatusInternalServerError, "the server failed on this request: try again, and report the request id if it happens again")
	e.Cause = err
	return e
}

// Is reports whether an error contains an Error, which is a response already.
func Is(err error) bool {
	var e *Error
	return errors.As(err, &e)
}

// MethodNotAllowed refuses a method that a path does not take; allow lists the methods that it takes.
func MethodNotAllowed(method, allow string) *Error {
	e := New(http.StatusMethodNotAllowed, "this path does not support %s: use %s", method, allow)
	e.Header = http.Header{"Allow": {allow}}
	return e
}

// NoSuchPath refuses a path without a handler; hint says where the paths are, "" for nothing.
func NoSuchPath(hint string) *Error {
	if hint != "" {
		hint = ": " + hint
	}
	return New(http.StatusNotFound, "there is no such path%s", hint)
}
