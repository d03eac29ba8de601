package backend

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	tenantID = "72f988bf-86f1-41af-91ab-2d7cd011db47"
	objectID = "a0000000-0000-4000-8000-000000000001"
)

// declaredConnections are connections of each type with another issuer: globex, google, entra and github. others is a
// connection of another deployment.
func declaredConnections(t *testing.T) []store.Document {
	t.Helper()
	fixedConnection := func(id int64, slug, kind string, provider document.UpstreamProvider) store.Document {
		return fixed(t, "Connection", slug, "uid-c-"+slug, id, slug, time.Now(), document.Connection{Slug: slug, Type: kind, Name: slug, Active: slug != "google", Provider: provider})
	}
	others := fixedConnection(45, "others", "OIDC", document.UpstreamProvider{Issuer: "https://others.example"})
	others.Deployment = "ns/other"
	return []store.Document{
		fixed(t, "IdentityDeployment", "other", "uid-other", 8, "other", time.Now(), document.Deployment{}), others,
		fixedConnection(41, "globex", "OIDC", document.UpstreamProvider{Issuer: "https://globex.example/"}),
		fixedConnection(42, "google", "Google", document.UpstreamProvider{Issuer: "https://accounts.google.com"}),
		fixedConnection(43, "entra", "Microsoft", document.UpstreamProvider{Issuer: "https://login.microsoftonline.com/organizations/v2.0", Tenant: "organizations"}),
		fixedConnection(44, "github", "GitHub", document.UpstreamProvider{BaseURL: "https://github.com"}),
	}
}

// identityLine returns a line of an identity with more members.
func identityLine(externalID, user, slug, subject, more string) string {
	return line(fmt.Sprintf(`"identity","external_id":%q,"user":%q,"connection":%q,"subject":%q%s`, externalID, user, slug, subject, more))
}

func TestImportedIdentityIsTheOneThatASignInLooksUp(t *testing.T) {
	t.Parallel()
	s := keyWorld(t, declaredConnections(t)...)
	lines := line(`"user","external_id":"u1"`) +
		identityLine("i1", "u1", "globex", "Ann|00u1", `,"email":" Ann@Globex.example ","issuer":null`) + identityLine("i2", "u1", "google", "1030", `,"issuer":"https://accounts.google.com","email":null`) +
		identityLine("i3", "u1", "entra", tenantID+"/"+objectID, "") + identityLine("i4", "u1", "github", "583231", `,"issuer":"https://github.com"`)
	if got := s.imports(t, "file", 0, lines, "&complete=true"); got.Imported != 5 || got.Rejected != 0 {
		t.Fatalf("%+v", got)
	}
	user := s.rowOf(t, people.ImportedUser, "u1")
	for externalID, want := range map[string]people.Identity{
		"i1": {Connection: 41, Issuer: "https://globex.example/", Subject: "Ann|00u1", Email: "Ann@Globex.example"},
		"i2": {Connection: 42, Issuer: "https://accounts.google.com", Subject: "1030"},
		"i3": {Connection: 43, Issuer: "https://login.microsoftonline.com/" + tenantID + "/v2.0", Subject: tenantID + "/" + objectID},
		"i4": {Connection: 44, Issuer: "https://github.com", Subject: "583231"},
	} {
		want.ID, want.User = s.rowOf(t, people.ImportedIdentity, externalID), user
		got := read(t, s, func(tx people.Tx) (people.Identity, error) {
			i, _, err := tx.Identities().IdentityOf(want.Connection, want.Issuer, want.Subject)
			return i, err
		})
		if want.CreatedAt = got.CreatedAt; got != want || got.CreatedAt.IsZero() {
			t.Errorf("%s: %+v, want %+v", externalID, got, want)
		}
	}
	s.says(t, "GET", fmt.Sprintf("/users/%d/identities", user), "", 200, `"last_used_at":null`, `"subject":"583231"`)
	audited := read(t, s, func(tx people.Tx) ([]people.Audit, error) { return tx.Listings().ListAudit(people.AuditFilter{}, 10) })
	if len(audited) != 1 || audited[0].Action != "import.completed" {
		t.Errorf("audited: %+v", audited)
	}
	if got := s.imports(t, "again", 0, lines+lines, "&complete=true"); got.Present != 10 || got.Imported != 0 || got.Rejected != 0 {
		t.Errorf("again: %+v", got)
	}
	changed := strings.ReplaceAll(lines, `"583231"`, `"583232"`)
	if got := s.imports(t, "changed", 0, changed, "&complete=true"); got.Present != 5 {
		t.Errorf("another subject under the same external id: %+v", got)
	}
}

func TestInvalidIdentityLineIsRejectedAlone(t *testing.T) {
	t.Parallel()
	s := keyWorld(t, declaredConnections(t)...)
	s.imports(t, "before", 0, line(`"user","external_id":"u1"`)+line(`"user","external_id":"u2"`)+line(`"user","external_id":"gone"`)+identityLine("i1", "u1", "globex", "taken-secret", ""), "")
	gone := s.rowOf(t, people.ImportedUser, "gone")
	if err := s.rows.Change(t.Context(), "ns/acme", func(tx people.Tx) error { return tx.Users().DeleteUser(gone) }); err != nil {
		t.Fatal(err)
	}
	faulty := []struct{ line, field string }{
		{identityLine("x", "unknown", "globex", "secret", ""), "/user"},
		{identityLine("x", "gone", "globex", "secret", ""), "/user"},
		{line(`"identity","external_id":"x","connection":"globex","subject":"secret"`), "/user"},
		{line(`"identity","external_id":"x","user":"u1","subject":"secret"`), "/connection"},
		{identityLine("x", "u1", "secret", "1", ""), "/connection"},
		{identityLine("x", "u1", "others", "secret", ""), "/connection"},
		{identityLine("x", "u1", "", "secret", ""), "/connection"},
		{line(`"identity","external_id":"x","user":"u1","connection":"globex"`), "/subject"},
		{identityLine("x", "u1", "globex", "", ""), "/subject"},
		{line(`"identity","external_id":"x","user":"u1","connection":"globex","subject":1030`), "/subject"},
		{line(`"identity","external_id":"x","user":"u1","connection":"globex","subject":null`), "/subject"},
		{identityLine("x", "u1", "globex", "secret"+strings.Repeat("s", 250), ""), "/subject"},
		{identityLine("x", "u1", "globex", strings.Repeat("ü", 128), ""), "/subject"},
		{line(`"identity","external_id":"x","user":"u1","connection":"globex","subject":"se\ncret"`), "/subject"},
		{line(`"identity","external_id":"x","user":"u1","connection":"globex","subject":"se\u0000cret"`), "/subject"},
		{identityLine("x", "u1", "globex", "taken-secret", ""), "/subject"},
		{identityLine("x", "u2", "globex", "taken-secret", `,"issuer":"https://globex.example/"`), "/subject"},
		{identityLine("x", "u1", "globex", "s", `,"issuer":"https://globex.example"`), "/issuer"},
		{identityLine("x", "u1", "globex", "s", `,"issuer":"https://secret.example/"`), "/issuer"},
		{identityLine("x", "u1", "globex", "s", `,"issuer":"secret"`), "/issuer"},
		{identityLine("x", "u1", "globex", "s", `,"issuer":""`), "/issuer"},
		{identityLine("x", "u1", "globex", "s", `,"issuer":7`), "/issuer"},
		{identityLine("x", "u1", "google", "1030", `,"issuer":"accounts.google.com"`), "/issuer"},
		{identityLine("x", "u1", "globex", "s", `,"email":"secret"`), "/email"},
		{identityLine("x", "u1", "globex", "s", `,"email":["secret@example.com"]`), "/email"},
		{identityLine("x", "u1", "globex", "s", `,"created_at":"2024-01-01T00:00:00Z"`), "/created_at"},
		{identityLine("x", "u1", "globex", "s", `,"subject":"secret"`), "/subject"},
		{identityLine("x", "u1", "github", "secret", ""), "/subject"},
		{identityLine("x", "u1", "github", "0583231", ""), "/subject"},
		{identityLine("x", "u1", "github", "0", ""), "/subject"},
		{identityLine("x", "u1", "github", "99999999999999999999", ""), "/subject"},
		{identityLine("x", "u1", "github", "583231", `,"issuer":"https://github.com/login/oauth"`), "/issuer"},
		{identityLine("x", "u1", "entra", "AAAAAAAAAAAAAAAAAAAAAIkzqFVrSaSaFHy782bbtaQ", ""), "/subject"},
		{identityLine("x", "u1", "entra", objectID, ""), "/subject"},
		{identityLine("x", "u1", "entra", strings.ToUpper(tenantID)+"/"+objectID, ""), "/subject"},
		{identityLine("x", "u1", "entra", tenantID+"/"+objectID+"/x", ""), "/subject"},
		{identityLine("x", "u1", "entra", "9188040d-6c67-4c5b-b112-36a304b66dad/"+objectID, ""), "/subject"},
		{identityLine("x", "u1", "entra", tenantID+"/"+objectID, `,"issuer":"https://login.microsoftonline.com/organizations/v2.0"`), "/issuer"},
	}
	lines := identityLine("i2", "u2", "globex", "good", "")
	for _, f := range faulty {
		lines += f.line
	}
	lines += identityLine("i3", "u2", "entra", tenantID+"/"+objectID, `,"issuer":"https://login.microsoftonline.com/`+tenantID+`/v2.0"`)
	got := s.imports(t, "faulty", 0, lines, "&complete=true")
	if got.Imported != 2 || got.Rejected != len(faulty) || got.Present != 0 {
		t.Errorf("imported %d, rejected %d of %d", got.Imported, got.Rejected, len(faulty))
	}
	fields := map[int][]string{}
	for _, rejection := range got.Rejections {
		if rejection.Field != nil {
			fields[rejection.Line] = append(fields[rejection.Line], *rejection.Field)
		}
		if strings.Contains(rejection.Message, "secret") {
			t.Errorf("a message contains a value: %s", rejection.Message)
		}
	}
	for i, f := range faulty {
		if at := fields[i+2]; len(at) != 1 || at[0] != f.field {
			t.Errorf("%.140s: rejected at %q, want %s", f.line, at, f.field)
		}
	}
}

// A user has as many imported identities as after sign-ins, whichever batches they come in. A rejected line counts for
// none.
func TestImportedIdentitiesOfAUserAreBounded(t *testing.T) {
	t.Parallel()
	for name, batches := range map[string]int{"in one batch": 1, "in several": 4} {
		s := keyWorld(t, declaredConnections(t)...)
		s.imports(t, "users", 0, line(`"user","external_id":"u1"`)+line(`"user","external_id":"u2"`)+identityLine("other", "u2", "globex", "taken", ""), "&complete=true")
		parts := make([]string, batches)
		for n := range connection.MaxIdentities + 3 {
			subject := fmt.Sprint("subject-", n)
			if n == 1 {
				subject = "taken"
			}
			parts[n*batches/(connection.MaxIdentities+3)] += identityLine(fmt.Sprint(n), "u1", "globex", subject, "")
		}
		imported, rejected := 0, 0
		for n, part := range parts {
			got := s.imports(t, fmt.Sprint(name, n), 0, part, "&complete=true")
			imported, rejected = imported+got.Imported, rejected+got.Rejected
		}
		if imported != connection.MaxIdentities || rejected != 3 {
			t.Errorf("%s: imported %d, rejected %d", name, imported, rejected)
		}
	}
}

// Sign-ins by a connection with assurance can pass the second step of an account.
func TestIdentitiesOfTwoFactorConnectionsNeedThePermissionOfFactors(t *testing.T) {
	t.Parallel()
	own := document.Connection{Slug: "strong", Type: "OIDC", Active: true, AMR: []string{"mfa"}, Provider: document.UpstreamProvider{Issuer: "https://strong.example"}}
	organization := own
	organization.Slug, organization.Organization = "organization", "globex"
	s := keyWorld(t, append(declaredConnections(t), fixed(t, "Connection", "strong", "uid-c-strong", 46, "strong", time.Now(), own),
		fixed(t, "Connection", "organization", "uid-c-organization", 47, "organization", time.Now(), organization))...)
	following(t, s)
	s.imports(t, "users", 0, line(`"user","external_id":"u1"`), "&complete=true")
	all := s.key
	_, s.key = s.creates(t, "tools", `{"name":"users","permissions":["users:write"]}`)
	if got := s.imports(t, "plain", 0, identityLine("i1", "u1", "globex", "1", "")+identityLine("i2", "u1", "organization", "1", ""), "&complete=true"); got.Imported != 2 {
		t.Errorf("%+v", got)
	}
	strong := identityLine("i3", "u1", "strong", "1", "")
	s.says(t, "POST", "/imports/"+hashOf("strong")+"/batches?offset=0", strong, 403, "user_factors:write")
	if s.key = all; s.imports(t, "strong", 0, strong, "&complete=true").Imported != 1 {
		t.Error("the line was not imported with both permissions")
	}
}
