package bearer

import (
	"net/http"
	"testing"
)

// TestBearerTokenNeedsOneHeader reads tokens of requests with none, one and two Authorization headers.
func TestBearerTokenNeedsOneHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		header []string
		token  string
		ok     bool
	}{
		{"no header", nil, "", false},
		{"one", []string{"Bearer abc"}, "abc", true},
		{"scheme in lower case, more blanks", []string{"bearer   abc "}, "abc", true},
		{"scheme alone", []string{"Bearer"}, "", true},
		{"another scheme", []string{"Basic abc"}, "", false},
		{"two headers", []string{"Bearer abc", "Bearer def"}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, ok := FromHeader(&http.Request{Header: http.Header{"Authorization": c.header}})
			if token != c.token || ok != c.ok {
				t.Fatalf("FromHeader(%q) = %q, %v; want %q, %v", c.header, token, ok, c.token, c.ok)
			}
		})
	}
}
