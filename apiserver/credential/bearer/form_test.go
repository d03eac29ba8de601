package bearer

import (
	"bytes"
	"encoding/base64"
	"os"
	"path/filepath"
	"testing"

	"github.com/cardea-iam/cardea/internal/seal"
)

func TestClassify(t *testing.T) {
	t.Parallel()
	encode := base64.RawURLEncoding.EncodeToString
	payload := encode([]byte(`{"iss":"https://id.example"}`))
	file := filepath.Join(t.TempDir(), "root.key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{1}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	keyring, err := seal.Load([]string{file})
	if err != nil {
		t.Fatal(err)
	}
	claims := AccessClaims{}
	claims.Issuer = "https://id.example"
	sealed, err := SealAccess(keyring, claims)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		raw    string
		form   Form
		issuer string
	}{
		"API key":                      {"cardea_key_0123456789", APIKey, ""},
		"empty":                        {"", APIKey, ""},
		"one dot":                      {"a.b", APIKey, ""},
		"session token":                {encode([]byte(`{"alg":"ES256","typ":"JWT"}`)) + "." + payload + ".c2ln", SessionToken, "https://id.example"},
		"token without a type":         {encode([]byte(`{"alg":"ES256"}`)) + "." + payload + ".c2ln", SessionToken, "https://id.example"},
		"access token":                 {encode([]byte(`{"alg":"ES256","typ":"at+jwt"}`)) + "." + payload + ".c2ln", AccessToken, "https://id.example"},
		"access token in capitals":     {encode([]byte(`{"typ":"AT+JWT"}`)) + "." + payload + ".", AccessToken, "https://id.example"},
		"two dots, no header":          {"a.b.c", SessionToken, ""},
		"only dots":                    {"..", SessionToken, ""},
		"opaque access token":          {sealed, OpaqueAccessToken, "https://id.example"},
		"three dots, issuer no base64": {"!.a.b.c", APIKey, ""},
		"four dots":                    {"a.b.c.d.e", APIKey, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Classify(tt.raw); got != tt.form {
				t.Errorf("form %d, want %d", got, tt.form)
			}
			if got := StatedIssuer(tt.raw); got != tt.issuer {
				t.Errorf("issuer %q, want %q", got, tt.issuer)
			}
			if is := IsJWT(tt.raw); is != (tt.form == SessionToken || tt.form == AccessToken) {
				t.Errorf("IsJWT %t", is)
			}
		})
	}
}
