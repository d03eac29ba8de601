package oauth

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Error is a refusal in the form of RFC 6749 5.2.
type Error struct {
	Status int
	// Code is a standard error code, such as invalid_grant. Description says what to do about it, and contains no secret.
	Code, Description string
	// Reason replaces Description in the audit: it has details that the client must not see, or leaves out text that the
	// caller chose.
	Reason string
	// Audited reports that the audit already has a record of the error.
	Audited bool
	// RetryAfter is when to try again, 0 if a retry cannot help.
	RetryAfter time.Duration
	// ACRValues is the value of acr_values with which an authorization request gets what is refused now, "" if it cannot.
	ACRValues string
	// Challenge is the value of WWW-Authenticate, "" for none.
	Challenge string
}

func (e *Error) Error() string { return e.Code + ": " + e.Description }

// Constructors of the standard errors.
func invalidRequest(description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_request", Description: description}
}

func invalidScope(description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_scope", Description: description}
}

func invalidTarget(description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_target", Description: description}
}

func invalidGrant(description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "invalid_grant", Description: description}
}

func unauthorizedClient(description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "unauthorized_client", Description: description}
}

func unsupportedGrant(description string) error {
	return &Error{Status: http.StatusBadRequest, Code: "unsupported_grant_type", Description: description}
}

// asRefused turns a refusal for a redirect into an error response.
func asRefused(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return &Error{Status: http.StatusBadRequest, Code: refused.Code, Description: refused.Description}
	}
	return err
}

// invalidClient refuses a client that did not authenticate, for any reason.
func invalidClient() error {
	return &Error{
		Status: http.StatusUnauthorized, Code: "invalid_client", Description: "the client is unknown, inactive, or its credentials are wrong", Challenge: `Basic realm="oauth"`,
	}
}

func writeError(w http.ResponseWriter, e *Error) {
	header := w.Header()
	if e.Challenge != "" {
		header.Set("WWW-Authenticate", e.Challenge)
	}
	if e.RetryAfter > 0 {
		header.Set("Retry-After", strconv.Itoa(int((e.RetryAfter+time.Second-1)/time.Second)))
	}
	writeJSON(w, e.Status, struct {
		Code        string `json:"error"`
		Description string `json:"error_description,omitempty"`
		ACRValues   string `json:"acr_values,omitempty"`
	}{e.Code, e.Description, e.ACRValues})
}

// writeJSON writes a response that caches must not store.
func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // unreachable: the bodies are structs of this package
		status, raw = http.StatusInternalServerError, []byte(`{"error":"server_error"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Pragma", "no-cache")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // an error means that the client is disconnected
}
