package exports

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/imports"
	"github.com/cardea-iam/cardea/apiserver/users/password/foreign"
)

var update = flag.Bool("update", false, "write the golden files anew")

// export is the export files of a system in testdata.
type export struct {
	system  string
	options Options
	files   []string
}

// golden lists exports by the name of their golden file.
var golden = map[string]export{
	"clerk": {"clerk", Options{}, []string{"clerk.csv"}}, "auth0": {"auth0", Options{}, []string{"auth0-passwords.ndjson", "auth0-users.ndjson"}},
	"firebase": {"firebase", Options{}, []string{"firebase.json", "firebase-hash.txt"}}, "keycloak": {"keycloak", Options{}, []string{"keycloak.json"}},

	"clerk-factors":     {"clerk", Options{}, []string{"clerk-factors.csv"}},
	"auth0-factors":     {"auth0", Options{}, []string{"auth0-methods.ndjson", "auth0-factors.ndjson"}},
	"firebase-factors":  {"firebase", Options{}, []string{"firebase-factors.json"}},
	"keycloak-factors":  {"keycloak", Options{RelyingParty: "example.com"}, []string{"keycloak-factors.json"}},
	"keycloak-no-rp-id": {"keycloak", Options{}, []string{"keycloak-factors.json"}},

	"clerk-logins":    {"clerk", mapped("oauth_google=google", "github=github"), []string{"clerk-logins.ndjson", "clerk-logins.csv"}},
	"auth0-logins":    {"auth0", mapped("google-oauth2=google", "github=github", "globex=globex-oidc"), []string{"auth0-logins.ndjson"}},
	"firebase-logins": {"firebase", mapped("google.com=google", "oidc.globex=globex"), []string{"firebase-logins.json"}},
	"keycloak-logins": {"keycloak", mapped("google=google", "Globex SSO=globex"), []string{"keycloak-logins.json"}},
}

// mapped returns options with mappings of --connection.
func mapped(mappings ...string) Options {
	o := Options{Connections: map[string]string{}}
	for _, mapping := range mappings {
		name, slug, err := ConnectionOf(mapping)
		if err != nil {
			panic(err)
		}
		o.Connections[name] = slug
	}
	return o
}

func convert(t *testing.T, from export) (string, *Lines) {
	t.Helper()
	var files []File
	for _, name := range from.files {
		raw, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, File{name, bytes.NewReader(raw)})
	}
	var out bytes.Buffer
	lines := NewLines(&out)
	if err := Convert(from.system, files, from.options, lines); err != nil {
		t.Fatal(err)
	}
	return out.String(), lines
}

// report returns the lines of a conversion with their sources, and what was left out.
func report(text string, lines *Lines) string {
	var b strings.Builder
	for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		source := lines.Source(int64(i + 1))
		fmt.Fprintf(&b, "%s:%d %s\n", source.File, source.Record, line)
	}
	for _, left := range lines.LeftOut() {
		fmt.Fprintf(&b, "left out, of %d, first %s:%d: %s\n", left.Users, left.First.File, left.First.Record, left.What)
	}
	return b.String()
}

func TestConvertMatchesGoldenFiles(t *testing.T) {
	t.Parallel()
	for name, from := range golden {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, lines := convert(t, from)
			got, path := report(text, lines), filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil || got != string(want) {
				t.Errorf("%v, got\n%s\nwant\n%s", err, got, want)
			}
			again, _ := convert(t, from)
			if again != text {
				t.Error("a second conversion writes different lines, so an interrupted import could not continue")
			}
		})
	}
}

func TestGoldenLinesAreValid(t *testing.T) {
	t.Parallel()
	for name, from := range golden {
		text, _ := convert(t, from)
		for _, line := range imports.ReadAll([]byte(text), time.Now()) {
			if line.Refused != nil {
				t.Errorf("%s: line %d: %v", name, line.Number, line.Refused)
			}
		}
	}
}

// The password of Firebase's published example signs in after the conversion.
func TestFirebaseHashMatchesItsPassword(t *testing.T) {
	t.Parallel()
	text, _ := convert(t, golden["firebase"])
	line := imports.ReadAll([]byte(text), time.Now())[0]
	h, err := foreign.Parse(line.Content.(*imports.User).PasswordHash)
	if err != nil || !h.Matches("user1password") {
		t.Errorf("the password does not match the converted hash: %v", err)
	}
}

func TestConvertErrorsDoNotContainTheFile(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ system, text string }{
		"no CSV":           {"clerk", "id,primary_email_address\n\"secret"},
		"another CSV":      {"clerk", "a,b\nsecret,2\n"},
		"nothing":          {"clerk", ""},
		"no JSON":          {"auth0", "{\"user_id\":secret}\n"},
		"only hashes":      {"auth0", `{"_id":{"$oid":"x"},"passwordHash":"secret"}`},
		"a list":           {"firebase", "[1]"},
		"users of no kind": {"firebase", `{"users":{"secret":1}}`},
		"broken users":     {"keycloak", `{"users":[{"id":"7","x":secret}]}`},
		"an endless user":  {"keycloak", `{"users":[{"id":"` + strings.Repeat("secret", maxRecord/5)},
		"an endless row":   {"clerk", "id,primary_email_address\n\"" + strings.Repeat("secret,\n", maxRecord/5)},
		"an end":           {"keycloak", `{"users":[{"id":"1"}`},
		"no parameters":    {"firebase", "hash_config {\n  algorithm: BCRYPT,\n  base64_signer_key: secret,\n}"},
		"another system":   {"okta", "secret"},
	} {
		err := Convert(tc.system, []File{{"f", strings.NewReader(tc.text)}}, Options{}, NewLines(&bytes.Buffer{}))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
