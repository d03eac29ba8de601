package body

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/problem"
)

// MaxBytes is the longest request body, in bytes.
const MaxBytes = 1 << 20

// RequireJSON refuses with 415 what does not say that its body is JSON in UTF-8.
func RequireJSON(r *http.Request) error {
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != "application/json" || len(r.Header.Values("Content-Type")) > 1 {
		return problem.New(http.StatusUnsupportedMediaType, "the Content-Type is not application/json: send JSON and say so")
	}
	if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return problem.New(http.StatusUnsupportedMediaType, "the charset is not UTF-8: send JSON in UTF-8")
	}
	return nil
}

// Read reads a body of at most MaxBytes; longer ones are a 413.
func Read(r *http.Request) ([]byte, error) {
	tooLarge := problem.New(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes: send a shorter one", MaxBytes)
	if r.ContentLength > MaxBytes {
		return nil, tooLarge
	}
	raw, err := io.ReadAll(io.LimitReader(r.Body, MaxBytes+1))
	if err != nil {
		bad := problem.New(http.StatusBadRequest, "the body could not be read to its end: send it again")
		bad.Cause = err
		return nil, bad
	}
	if len(raw) > MaxBytes {
		return nil, tooLarge
	}
	return raw, nil
}
