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

// multiple are the parameters that may be repeated (RFC 8707 2). Every other parameter must not be (RFC 6749 3.1, 3.2).
var multiple = map[string]bool{"resource": true}

// form reads the parameters of a request's body. It ignores the query.
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
	return nonEmpty(values), nil
}

// nonEmpty returns the parameters that have a value: an empty parameter counts as omitted (RFC 6749 3.1, 3.2).
func nonEmpty(values url.Values) url.Values {
	out := url.Values{}
	for name, list := range values {
		if list = slices.DeleteFunc(slices.Clone(list), func(value string) bool { return value == "" }); len(list) > 0 {
			out[name] = list
		}
	}
	return out
}

// single refuses repeated parameters, because different parsers use different values.
func single(values url.Values) error {
	for name, list := range values {
		if len(list) > 1 && !multiple[name] {
			return invalidRequest("a parameter is repeated")
		}
		for _, value := range list {
			if strings.ContainsRune(value, 0) {
				return invalidRequest("a parameter contains a NUL")
			}
		}
	}
	return nil
}
