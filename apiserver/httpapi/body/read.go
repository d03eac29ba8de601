package body

import (
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/apiserver/httpapi/apierror"
)

// The maximum sizes of request bodies, in bytes. End users need no larger bodies, and any client can send them.
const (
	MaxBackendBytes = 1 << 20
	MaxEndUserBytes = 16 << 10
)

// RequireJSON refuses a request with 415 unless its body is declared as JSON in UTF-8.
func RequireJSON(r *http.Request) error { return require(r, "application/json") }

// RequireLines refuses a request with 415 unless its body is declared as JSON Lines in UTF-8.
func RequireLines(r *http.Request) error { return require(r, "application/x-ndjson") }

func require(r *http.Request, wanted string) error {
	if sent := r.Header["Content-Type"]; len(sent) == 1 && sent[0] == wanted {
		return nil
	}
	mediaType, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || mediaType != wanted || len(r.Header.Values("Content-Type")) > 1 {
		return apierror.New(http.StatusUnsupportedMediaType, "the Content-Type is not %s: send this type, and set the header", wanted)
	}
	if charset, given := params["charset"]; given && !strings.EqualFold(charset, "utf-8") {
		return apierror.New(http.StatusUnsupportedMediaType, "the charset is not UTF-8: send JSON in UTF-8")
	}
	return nil
}

// Read reads a body. A body of more than most bytes is a 413.
func Read(r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most {
		return nil, tooLarge(most)
	}
	raw, err := readAll(r, most)
	if err != nil {
		bad := apierror.New(http.StatusBadRequest, "the body could not be read to its end: send it again")
		bad.Cause = err
		return nil, bad
	}
	if int64(len(raw)) > most {
		return nil, tooLarge(most)
	}
	return raw, nil
}

// believed bounds the memory, in bytes, that is allocated by Content-Length before the body arrives.
const believed = 16 << 10

// readAll reads a body to its end, but at most one byte more than allowed.
func readAll(r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength < 0 || r.ContentLength > believed {
		return io.ReadAll(io.LimitReader(r.Body, most+1))
	}
	raw := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, raw)
	return raw, err
}

func tooLarge(most int64) *apierror.Error {
	return apierror.New(http.StatusRequestEntityTooLarge, "the body is longer than %d bytes: send a shorter one", most)
}
