package exports

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/imports"
)

// secrets are parts of secrets, codes and credential ids in the exports of testdata.
var secrets = []string{
	"N3xQv7rT", "GEZDGNBV", "gezdgnbv", "HotpSecret", "Sh0rt", "Md5Secret", "HexSecret", "BrokenSecret", "CustomSecret", "c2VjcmV0", "QnJva2Vu",
	"TooShort", "Not-Base32", "secretpasskey", "code-secret", "secret@", "secretlist", "PushSecret", "RecoverySecret", "FormSecret", "OtherSecret", "|secret", "gIGCg4SF",
}

func TestOmissionsDoNotContainSecrets(t *testing.T) {
	t.Parallel()
	for name, from := range golden {
		_, lines := convert(t, from)
		for _, left := range lines.LeftOut() {
			for _, secret := range secrets {
				if strings.Contains(left.What, secret) {
					t.Errorf("%s: %q contains %q", name, left.What, secret)
				}
			}
		}
	}
}

func TestFactorErrorsDoNotContainTheFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ system, text string }{
		"a broken factor":     {"auth0", `{"user_id":"a","mfa_factors":[{"totp":{"secret":secret}}]}`},
		"a broken method":     {"auth0", `{"user_id":"a","type":"passkey","key_id":secret}`},
		"only methods":        {"auth0", `{"user_id":"a","type":"passkey","key_id":"secret"}`},
		"a broken credential": {"keycloak", `{"users":[{"id":"a","credentials":[{"type":"otp","secretData":secret}]}]}`},
		"a broken number":     {"firebase", `{"users":[{"localId":"a","mfaInfo":[{"phoneInfo":secret}]}]}`},
		"a broken column":     {"clerk", "id,primary_email_address,totp_secret\na,,\"secret"},
	} {
		err := Convert(tc.system, []File{{"f", strings.NewReader(tc.text)}}, Options{}, NewLines(&bytes.Buffer{}))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Keycloak computes codes with the bytes of the secret's text, unless the credential says BASE32.
func TestKeycloakSecretsKeepTheirBytes(t *testing.T) {
	t.Parallel()
	text, _ := convert(t, golden["keycloak-factors"])
	var got []string
	for _, line := range imports.ReadAll([]byte(text), time.Now()) {
		if app, is := line.Content.(*imports.TOTP); is {
			got = append(got, string(app.Secret))
		}
	}
	if len(got) != 2 || got[0] != "N3xQv7rTzL0pWk2sYb8J" || got[1] != "12345678901234567890" {
		t.Errorf("%q", got)
	}
}

func TestLinesOfFactorsNeedTheirPermission(t *testing.T) {
	t.Parallel()
	none := func(string) bool { return false }
	for _, name := range []string{"clerk-factors", "auth0-factors", "firebase-factors", "keycloak-factors"} {
		text, _ := convert(t, golden[name])
		if !strings.Contains(text, `"type":"totp"`) && !strings.Contains(text, `"second_factor":true`) {
			t.Errorf("%s has no factor", name)
		}
		for _, line := range imports.ReadAll([]byte(text), time.Now()) {
			number, isPhone := line.Content.(*imports.Phone)
			factor := line.Kind == "totp" || line.Kind == "passkey" || isPhone && number.SecondFactor
			if needed := line.Permissions(none); factor != strings.Contains(strings.Join(needed, " "), "user_factors:write") {
				t.Errorf("%s: line %d of type %s needs %v", name, line.Number, line.Kind, needed)
			}
		}
	}
}
