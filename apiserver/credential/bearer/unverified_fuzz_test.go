package bearer

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
)

// FuzzParse checks that Parse only fails with ErrForm, and that parsed tokens are within the bounds.
func FuzzParse(f *testing.F) {
	part := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, seed := range []string{
		"", "..", "a.b.c", part(`{"alg":"ES256","kid":"k"}`) + "." + part(`{"iss":"i","aud":"a","sub":"s","exp":1}`) + "." + strings.Repeat("A", 86),
		part(`{"alg":"none"}`) + "." + part(`{}`) + ".", part(`{"alg":"ES256","jwk":{}}`) + "." + part(`{"iss":"i","aud":["a"],"aud":"b"}`) + ".AA",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		token, err := Parse(raw)
		if err != nil {
			if !errors.Is(err, ErrForm) {
				t.Fatalf("%v", err)
			}
			return
		}
		if len(raw) > MaxLength || token.Claims.Issuer == "" || len(token.Claims.Audience) == 0 || len(token.Claims.Audience) > 32 || token.Payload == nil {
			t.Fatalf("accepted the form of %q: %+v", raw, token.Claims)
		}
	})
}
