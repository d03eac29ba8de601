package connection

import "testing"

func TestChangesThatAddKeys(t *testing.T) {
	t.Parallel()
	two := of("", "e", "a")
	two.Given.Certificates = append(two.Given.Certificates, []byte("b"))
	for name, tc := range map[string]struct {
		now, next SAMLProvider
		want      bool
	}{
		"the same":  {of("", "e", "a"), of("", "e", "a"), false},
		"another":   {of("", "e", "a"), of("", "e", "b"), true},
		"one more":  {of("", "e", "a"), two, true},
		"one less":  {two, of("", "e", "a"), false},
		"the first": {SAMLProvider{}, of("", "e", "a"), false},
	} {
		next := tc.next
		if got := (Change{SAML: &next}).AddsKeys(Settings{SAML: &SAMLSettings{SAMLProvider: tc.now}}); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
