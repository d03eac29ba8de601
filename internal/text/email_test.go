package text

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestEmail(t *testing.T) {
	for in, want := range map[string]string{
		"ada@example.com": "ada@example.com", " Ada@Example.com\t": "Ada@Example.com", "a+b@sub.example.com": "a+b@sub.example.com", "ada@localhost": "ada@localhost",
		"": "", "ada": "", "@example.com": "", "ada@": "", "Ada <ada@example.com>": "", "<ada@example.com>": "", "a b@example.com": "", `"a b"@example.com`: "", "a@b@c": "",
		"ada@example.com\nBcc: x@example.com": "", "ada@example.com, bob@example.com": "", "ada\u202e@example.com": "", "\u212aarl@example.com": "", "adä@example.com": "", "ada@[10.0.0.1]": "", strings.Repeat("a", 243) + "@example.com": "",
	} {
		if got, err := Email(in); got != want || (err == nil) != (want != "") {
			t.Errorf("Email(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		email, err := Email(rapid.String().Draw(t, "email"))
		if err == nil && (strings.ContainsAny(email, "\r\n \"<>,") || strings.Count(email, "@") != 1) {
			t.Fatalf("%q passed", email)
		}
	})
}
