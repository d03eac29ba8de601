// Package refusal is how the end-user API says no: an upper-case code that programs read and a sentence that people read.
package refusal

import (
	"fmt"
	"net/http"
	"time"
)

// Refusal is an answer other than success. It is an error, so that rules return it.
type Refusal struct {
	// Status is the HTTP status, 400 to 599.
	Status int
	// Faults are told in order, at least one.
	Faults []Fault
	// RetryAfter is sent as Retry-After and retry_after_seconds in whole seconds, rounded up; 0: not sent.
	RetryAfter time.Duration
	// AttemptsLeft is how many codes may still be tried, sent where HasAttempts.
	AttemptsLeft int
	HasAttempts  bool
	// Cause is logged, never sent.
	Cause error
}

// Fault is one thing that is wrong.
type Fault struct{ Code, Message string }

// Error returns the faults and the cause, for logs.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("%d", r.Status)
	for _, f := range r.Faults {
		text += " " + f.Code + ": " + f.Message
	}
	if r.Cause != nil {
		text += ": " + r.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Cause }

// Code returns the first fault's code.
func (r *Refusal) Code() string { return r.Faults[0].Code }

// New returns a refusal with one fault.
func New(status int, code, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Faults: []Fault{{code, fmt.Sprintf(format, args...)}}}
}

// Bad returns a 400 with one fault.
func Bad(code, format string, args ...any) *Refusal {
	return New(http.StatusBadRequest, code, format, args...)
}

// Later returns a 429: the same request may succeed after a wait.
func Later(code string, wait time.Duration, format string, args ...any) *Refusal {
	r := New(http.StatusTooManyRequests, code, format, args...)
	r.RetryAfter = max(wait, time.Second)
	return r
}

// Unavailable returns a 503.
func Unavailable(cause error, format string, args ...any) *Refusal {
	r := New(http.StatusServiceUnavailable, "UNAVAILABLE", format, args...)
	r.RetryAfter, r.Cause = 5*time.Second, cause
	return r
}

// NotAuthenticated is the one answer where a session with a signed-in user is required and there is none.
func NotAuthenticated() *Refusal {
	return New(http.StatusUnauthorized, "NOT_AUTHENTICATED", "you are not signed in: sign in, and send the session cookie")
}
