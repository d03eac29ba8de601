package exports

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/users/imports"
	"github.com/cardea-iam/cardea/internal/text"
)

func TestConnectionOfReadsMappings(t *testing.T) {
	t.Parallel()
	for mapping, want := range map[string][2]string{
		"google-oauth2=google": {"google-oauth2", "google"}, "a=b=globex": {"a=b", "globex"}, "Globex SSO=globex": {"Globex SSO", "globex"}, "": {}, "google": {}, "=google": {}, "google=": {},
	} {
		name, slug, err := ConnectionOf(mapping)
		if name != want[0] || slug != want[1] || (err == nil) != (want[1] != "") {
			t.Errorf("%q: %q, %q, %v", mapping, name, slug, err)
		}
	}
}

// A conversion with another mapping writes lines that were not imported yet.
func TestExternalIDsOfIdentitiesDependOnTheConnection(t *testing.T) {
	t.Parallel()
	ids := map[string]bool{}
	for _, mapping := range []string{"google-oauth2=google", "google-oauth2=other", "google-oauth2=google"} {
		var out bytes.Buffer
		user := `{"user_id":"u","identities":[{"provider":"google-oauth2","user_id":"1030"}]}`
		if err := Convert("auth0", []File{{"f", strings.NewReader(user)}}, mapped(mapping), NewLines(&out)); err != nil {
			t.Fatal(err)
		}
		lines := imports.ReadAll(out.Bytes(), time.Now())
		ids[lines[len(lines)-1].ExternalID] = true
	}
	if len(ids) != 2 {
		t.Errorf("%v", ids)
	}
}

func TestReportedProvidersAreBounded(t *testing.T) {
	t.Parallel()
	var identities []map[string]string
	for n := range 2 * maxReported {
		identities = append(identities, map[string]string{"provider": "oidc", "connection": "c" + strings.Repeat("x", n%60) + string(rune('a'+n/60)), "user_id": "1"})
	}
	user, err := json.Marshal(map[string]any{"user_id": "u", "identities": identities})
	if err != nil {
		t.Fatal(err)
	}
	_, lines := exported(t, "auth0", string(user))
	if n := len(lines.LeftOut()); n != maxReported+1 {
		t.Errorf("%d providers are reported", n)
	}
}

// Whatever the names and ids of providers are, each line is an object of JSON, and a report steers no terminal.
func FuzzLogins(f *testing.F) {
	f.Add("oidc", "globex", "globex|00u1", "ann@globex.example")
	f.Add("google-oauth2", "", "1030", "")
	f.Add("\x1b[2J", "a=b", "\u2028", "no address")
	f.Fuzz(func(t *testing.T, provider, connection, id, email string) {
		raw := func(value string) json.RawMessage {
			encoded, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			return encoded
		}
		var out bytes.Buffer
		lines := &Lines{out: bufio.NewWriter(&out), left: map[string]*LeftOut{}, named: map[string]bool{}, connections: mapped("google-oauth2=google", "globex=globex", "a=b=c").Connections}
		for _, one := range []login{
			auth0Identity{Provider: provider, Connection: raw(connection), UserID: raw(id)}.login(),
			clerkAccount{Provider: provider, UserID: raw(id), Email: raw(email)}.login(),
			clerkAccount{GoogleID: raw(id), Email: raw(email)}.login(),
			{names: []string{connection}, subject: textOrNumber(json.RawMessage(id)), email: email},
		} {
			if err := lines.logins("u", []login{one, one}); err != nil {
				t.Fatal(err)
			}
		}
		if err := lines.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, line := range imports.ReadAll(out.Bytes(), time.Unix(1<<31, 0)) {
			if faults := line.Faults(); line.Refused != nil && faults[0][0] == "" && out.Len() < imports.MaxLine {
				t.Errorf("%s: %s", out.String(), faults[0][1])
			}
		}
		for _, left := range lines.LeftOut() {
			if left.What != text.Printable(left.What) || len(left.What) > 120 {
				t.Errorf("%q is reported", left.What)
			}
		}
	})
}
