package toolcall

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestAnswersDoNotRepeatSecrets(t *testing.T) {
	for name, tc := range map[string]struct {
		secret, mediaType, body string
		status                  int
		want                    string
	}{
		"text":                              {"t0ken", "text/plain", "a t0ken, at0kenb", 200, "a [redacted], a[redacted]b"},
		"a short value":                     {"x", "text/plain", "xyx", 200, "[redacted]y[redacted]"},
		"parts that removed characters cut": {"t0ken", "text/plain", "t0\u202eken", 200, "[redacted]"},
		"JSON with escapes":                 {"t0ken", "application/json", `{"a":"\u00740ken","t0ken":1}`, 200, `{"[redacted]":1,"a":"[redacted]"}`},
		"a value with quotes in JSON":       {`a"b\c`, "application/json", `["a\"b\\c"]`, 200, `["[redacted]"]`},
		"a value with quotes in text":       {`a"b\c`, "text/javascript", `f("a\"b\\c")`, 200, `f("[redacted]")`},
		"a value in HTML":                   {`a&b<c`, "text/html", `<b>a&amp;b&lt;c</b>`, 200, `<b>[redacted]</b>`},
		"a value in a URL":                  {`a b/c`, "text/plain", `?q=a+b%2Fc a%20b%2Fc`, 200, `?q=[redacted] [redacted]`},
		"a number":                          {"1234567890", "application/json", `[1234567890,-1234567890.5]`, 200, `["[redacted]","[redacted]"]`},
		"a short number":                    {"12", "application/json", `[12,"12"]`, 200, `[12,"[redacted]"]`},
		"what is behind the scheme":         {"Bearer abcdefgh", "text/plain", "got abcdefgh and Bearer abcdefgh", 200, "got [redacted] and [redacted]"},
		"a short part behind a blank":       {"one two", "text/plain", "two one two", 200, "two [redacted]"},
		"an error that would be cut in it": {"t0ken", "application/json", `{"detail":"` + strings.Repeat("a", 498) + `t0ken"}`, 500,
			"The tool answered 500 Internal Server Error. " + strings.Repeat("a", 498) + "[r..."},
		"the error of a JSON parser": {"t0ken", "application/json", `{"t0ken":1,"t0ken":2}`, 200, ""},
		"a media type":               {"t0kent0ken", "image/t0kent0ken", "GIF", 200, "The tool answered with a body that is neither JSON, text, image nor audio."},
		"an empty value":             {"", "text/plain", "abc", 200, "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := &http.Response{StatusCode: tc.status, Header: http.Header{"Content-Type": {tc.mediaType}}, Body: io.NopCloser(strings.NewReader(tc.body))}
			got, err := newReader([]string{tc.secret}).read(resp)
			if err != nil {
				t.Fatal(err)
			}
			text := got.Content[0].Text
			if tc.want != "" && text != tc.want || tc.secret != "" && len(tc.secret) > 2 && strings.Contains(text, tc.secret) {
				t.Errorf("got %q, want %q", text, tc.want)
			}
			if got.Structured != nil && string(got.Structured) != text {
				t.Errorf("the structured content is %s, the text %s", got.Structured, text)
			}
		})
	}
}
