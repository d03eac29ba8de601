package oauth

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// maxForm is the longest body of a request, in bytes.
const maxForm = 64 << 10

// multiple are the parameters that may be there more than once (RFC 8707 2); all others are there once or not at all (RFC 6749 3.1, 3.2).
var multiple = map[string]bool{"resource": true}

// form reads the parameters of a request's body. Nothing is taken from the query.
func (c *call) form() (url.Values, error) {
	kind, _, err := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	if err != nil || kind != "application/x-www-form-urlencoded" {
		return nil, &Error{Status: http.StatusBadRequest, Code: "invalid_request", Description: "send the parameters as application/x-www-form-urlencoded"}
	}
	raw, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, maxForm))
	if err != nil {
		return nil, &Error{Status: http.StatusRequestEntityTooLarge, Code: "invalid_request", Description: "the body cannot be read, or is longer than 64 KiB"}
	}
	values, err := url.ParseQuery(string(raw))
	if err != nil {
		return nil, invalidRequest("the body is not form-encoded")
	}
	if err := single(values); err != nil {
		c.namesBy(values)
		return nil, err
	}
	return given(values), nil
}

// given leaves out what is there without a value: it counts as left out (RFC 6749 3.1, 3.2).
func given(values url.Values) url.Values {
	out := url.Values{}
	for name, list := range values {
		if list = slices.DeleteFunc(slices.Clone(list), func(value string) bool { return value == "" }); len(list) > 0 {
			out[name] = list
		}
	}
	return out
}

// single refuses a parameter that is there twice. Which one would count is what attackers and servers see differently.
func single(values url.Values) error {
	for name, list := range values {
		if len(list) > 1 && !multiple[name] {
			return invalidRequest("a parameter is there more than once")
		}
		for _, value := range list {
			if strings.ContainsRune(value, 0) {
				return invalidRequest("a parameter has a NUL")
			}
		}
	}
	return nil
}
