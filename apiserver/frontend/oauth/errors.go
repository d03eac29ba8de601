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
	// Code is one of the standards', such as invalid_grant, and Description says what to do about it. It holds no secret.
	Code, Description string
	// Reason is what auditors are told in place of Description: what the client is not told, or without what a stranger chose.
	Reason string
	// Audited reports that the audit has it already.
	Audited bool
	// RetryAfter is when to try again, 0 where that is of no use.
	RetryAfter time.Duration
	// Challenge is the value of WWW-Authenticate, "" for none.
	Challenge string
}

func (e *Error) Error() string { return e.Code + ": " + e.Description }

// The standards' refusals.
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

// asRefused answers what a browser would be told of directly.
func asRefused(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return &Error{Status: http.StatusBadRequest, Code: refused.Code, Description: refused.Description}
	}
	return err
}

// invalidClient refuses a client that did not prove who it is, however that failed.
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
	}{e.Code, e.Description})
}

// writeJSON answers what is nobody else's: never kept by a cache.
func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // what is answered are structs of this package
		status, raw = http.StatusInternalServerError, []byte(`{"error":"server_error"}`)
	}
	header := w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Pragma", "no-cache")
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the client is gone
}
