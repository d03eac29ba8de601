package toolcall

import (
	"bytes"
	"cmp"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
)

const (
	// redacted stands for a secret value in an answer.
	redacted = "[redacted]"
	// distinct is the length from which a value is also looked for where a shorter one is found by chance: in numbers,
	// media types, images and sound, and a value's part behind its scheme.
	distinct = 8
)

// reader turns responses into results without the secret values of their requests.
type reader struct {
	values   []string
	replacer *strings.Replacer // nil without values
	shape    shape
	// later reports that the tool may answer 202 and send its result later.
	later bool
	// room takes room for a response, nil: there always is.
	room func(bytes int64) bool
	// readOnly reports that the request may be sent again.
	readOnly bool
}

// newReader returns a reader of the responses to requests with the given secret values.
func newReader(secrets []string) *reader {
	r := &reader{}
	add := func(value string, atLeast int) {
		if len(value) >= atLeast && !slices.Contains(r.values, value) {
			r.values = append(r.values, value)
		}
	}
	for _, value := range secrets {
		add(value, 1)
		_, credential, _ := strings.Cut(value, " ") // such as "Bearer ..."
		add(credential, distinct)
	}
	if len(r.values) == 0 {
		return r
	}
	slices.SortFunc(r.values, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, value := range r.values {
		for _, form := range forms(value) {
			pairs = append(pairs, form, redacted)
		}
	}
	r.replacer = strings.NewReplacer(pairs...)
	return r
}

// forms returns a value as answers repeat it: as it is, and encoded for JSON, HTML and URLs.
func forms(value string) []string {
	safe, _ := json.Marshal(value) // a string can be encoded
	plain := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value)
	return []string{value, string(safe[1 : len(safe)-1]), plain, html.EscapeString(value), url.QueryEscape(value), url.PathEscape(value)}
}

// clean returns a text Clean and without secret values.
func (r *reader) clean(text string) string {
	text = Clean(text)
	if r.replacer != nil {
		text = r.replacer.Replace(text)
	}
	return text
}

// repeats reports whether a number or a media type contains a secret value.
func (r *reader) repeats(text string) bool {
	return slices.ContainsFunc(r.values, func(value string) bool {
		return len(value) >= distinct && strings.Contains(strings.ToLower(text), strings.ToLower(value))
	})
}

// cleanData returns the bytes of an image or sound without secret values.
func (r *reader) cleanData(data []byte) []byte {
	for _, value := range r.values {
		if len(value) >= distinct {
			data = bytes.ReplaceAll(data, []byte(value), []byte(redacted))
		}
	}
	return data
}
