// Package problem is how the management API says no: one form for every error, always JSON, with every fault at once.
package problem

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/apiserver/openapi"
)

// Item is one fault.
type Item struct {
	// Field is a JSON pointer into the body, ?name for a query parameter, :name for a path one, "" for neither.
	Field   string
	Message string
	// Manager and ResourcePath tell who owns a field that was not written, and which.
	Manager      string
	ResourcePath string
}

// Problem is an answer other than success. It is an error, so that handlers return it.
type Problem struct {
	// Status is the HTTP status, 400 to 599.
	Status int
	// Message is one sentence: what, why, how to fix. With none, the items' messages are joined.
	Message string
	Items   []Item
	// RetryAfter is sent as Retry-After in whole seconds, rounded up; 0: not sent.
	RetryAfter time.Duration
	// Header is added to the answer.
	Header http.Header
	// Cause is logged, never sent.
	Cause error
}

// Error returns the message and the cause, for logs.
func (p *Problem) Error() string {
	if p.Cause != nil {
		return fmt.Sprintf("%d %s: %v", p.Status, p.message(), p.Cause)
	}
	return fmt.Sprintf("%d %s", p.Status, p.message())
}

// Unwrap returns the cause.
func (p *Problem) Unwrap() error { return p.Cause }

func (p *Problem) message() string {
	if p.Message != "" || len(p.Items) == 0 {
		return p.Message
	}
	parts := make([]string, len(p.Items))
	for i, item := range p.Items {
		parts[i] = item.Message
		if item.Field != "" {
			parts[i] = item.Field + " " + item.Message
		}
	}
	return strings.Join(parts, "; ")
}

// New returns a problem with one message and no fields.
func New(status int, format string, args ...any) *Problem {
	return &Problem{Status: status, Message: fmt.Sprintf(format, args...)}
}

// Invalid returns a 400 with every fault.
func Invalid(items ...Item) *Problem { return &Problem{Status: http.StatusBadRequest, Items: items} }

// Unauthorized is the one answer to every credential that is not accepted, whatever the reason.
func Unauthorized() *Problem {
	p := New(http.StatusUnauthorized, "no accepted credential: send `Authorization: Bearer <API key>` with a key that is known, active and not expired")
	p.Header = http.Header{"Www-Authenticate": {"Bearer"}}
	return p
}

// Unavailable returns a 503 with Retry-After.
func Unavailable(cause error, format string, args ...any) *Problem {
	p := New(http.StatusServiceUnavailable, format, args...)
	p.RetryAfter, p.Cause = 5*time.Second, cause
	return p
}

type requestIDKey struct{}

// WithRequestID returns a context that carries a request's id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestIDKey{}, id)
}

// RequestID returns the id a context carries, "" if none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// Write answers with an error. An error that is no Problem is a bare 500: what it says is for the log.
func Write(w http.ResponseWriter, r *http.Request, err error) *Problem {
	var p *Problem
	if !errors.As(err, &p) {
		p = New(http.StatusInternalServerError, "the server failed on this request: try again, and report the request id if it happens again")
		p.Cause = err
	}
	body := openapi.Error{Message: p.message(), Errors: []openapi.ErrorItem{}, RequestId: RequestID(r.Context())}
	items := p.Items
	if len(items) == 0 {
		items = []Item{{Message: p.message()}}
	}
	for _, item := range items {
		body.Errors = append(body.Errors, openapi.ErrorItem{
			Message: item.Message, Code: p.Status, Field: optional(item.Field), Manager: optional(item.Manager), ResourcePath: optional(item.ResourcePath),
		})
	}
	header := w.Header()
	for name, values := range p.Header {
		header[name] = values
	}
	if p.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int((p.RetryAfter+time.Second-1)/time.Second)))
	}
	raw, _ := json.Marshal(body) // strings and integers: cannot fail
	header.Set("Content-Type", "application/json")
	header.Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(raw) // the client is gone
	}
	return p
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
