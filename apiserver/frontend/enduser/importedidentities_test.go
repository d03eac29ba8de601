package enduser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/connection"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/store/people"
)

// importedUser returns the lines of a user with a verified address and an identity.
func (w *world) importedUser(id, email, slug, subject string) []string {
	return []string{
		fmt.Sprintf(`{"type":"user","external_id":%q}`, id),
		fmt.Sprintf(`{"type":"email","external_id":"mail-%s","user":%q,"email":%q,"verified_at":"2024-01-01T00:00:00Z"}`, id, id, email),
		fmt.Sprintf(`{"type":"identity","external_id":"identity-%s","user":%q,"connection":%q,"subject":%q}`, id, id, slug, subject),
	}
}

// rowOf returns the id of the user that was imported from a line.
func (w *world) rowOf(externalID string) (id int64) {
	w.T.Helper()
	w.tx(func(tx people.Tx) error {
		found, err := tx.Imports().ImportedAs(people.ImportedUser, []string{externalID})
		id = found[externalID]
		return err
	})
	return id
}

func TestImportedIdentitySignsInWithoutACode(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		inactive := func(c *document.Connection) { c.Active = false }
		conn := w.connection("globex", p, inactive) // identities can be imported before the connection is in use
		mover := w.desk("mover", deploymentName, "users:write")
		lines := append(w.importedUser("u1", "ada@example.com", "globex", "ada"), w.importedUser("u2", "bob@example.com", "globex", "ada")...)
		status, raw := mover.importFile(lines...)
		if status != http.StatusOK || !strings.Contains(raw, `"imported":5`) || !strings.Contains(raw, `"rejected":1`) || !strings.Contains(raw, `"/subject"`) {
			t.Fatalf("%d %s", status, raw)
		}
		if again, raw := mover.importFile(append(lines, "")...); again != http.StatusOK || !strings.Contains(raw, `"present":5`) || !strings.Contains(raw, `"rejected":1`) {
			t.Errorf("again: %d %s", again, raw)
		}
		w.connection("globex", p, nil)
		b := w.browser()
		// The address is another user's, and the provider calls it verified: the subject alone decides.
		a := b.sso(conn, p, identityprovider.User{"sub": "ada", "email": "bob@example.com", "email_verified": true})
		if want := ids.Format(w.rowOf("u1")); a.Status != http.StatusOK || a.user() != want || a.data()["completed"] != true {
			t.Fatalf("signed in %q, want %s: %s", a.user(), want, a.Raw)
		}
		if got := b.ok("GET", "/me", "")["email"]; got != "ada@example.com" {
			t.Errorf("the address of the account is %v", got)
		}
		have := b.identities()
		if len(have) != 1 || have[0]["email"] != "bob@example.com" || have[0]["last_used_at"] == nil {
			t.Errorf("%v", have)
		}
		for _, address := range []string{"ada@example.com", "bob@example.com"} {
			if n := len(w.Carrier.Messages(address)); n != 0 {
				t.Errorf("%d messages were sent to %s", n, address)
			}
		}
		if other := w.browser().sso(conn, p, identityprovider.User{"sub": "Ada", "email": "ada@example.com"}); other.user() != "" || other.attempt()["current_step"] != "verify_email" {
			t.Errorf("another subject: %s", other.Raw)
		}
	})
}

func TestImportedIdentitiesAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		lines := w.importedUser("u1", "ada@globex.example", "globex", "0")
		for n := 1; n <= connection.MaxIdentities; n++ {
			lines = append(lines, fmt.Sprintf(`{"type":"identity","external_id":"more-%d","user":"u1","connection":"globex","subject":"%d"}`, n, n))
		}
		status, raw := w.desk("mover", deploymentName, "users:write").importFile(lines...)
		if status != http.StatusOK || !strings.Contains(raw, `"imported":12`) || !strings.Contains(raw, `"rejected":1`) || !strings.Contains(raw, `"/user"`) {
			t.Fatalf("%d %s", status, raw)
		}
		b := w.browser()
		if last := b.sso(conn, p, identityprovider.User{"sub": fmt.Sprint(connection.MaxIdentities - 1)}); last.user() != ids.Format(w.rowOf("u1")) {
			t.Errorf("%s", last.Raw)
		}
		if n := len(b.identities()); n != connection.MaxIdentities {
			t.Errorf("the user has %d identities", n)
		}
	})
}

// Microsoft's issuer and subject are those of the user's tenant.
func TestImportedIdentityAtMicrosoftSignsIn(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		const tenant, object = "72f988bf-86f1-41af-91ab-2d7cd011db47", "a0000000-0000-4000-8000-000000000001"
		p := w.provider()
		conn := w.toMicrosoft("entra", p, nil)
		status, raw := w.desk("mover", deploymentName, "users:write").importFile(w.importedUser("u1", "ada@example.com", "entra", tenant+"/"+object)...)
		if status != http.StatusOK || !strings.Contains(raw, `"imported":3`) {
			t.Fatalf("%d %s", status, raw)
		}
		a := w.browser().microsoft(conn, p, ofTenant(tenant, object, "ada@elsewhere.example"), issuerOfTenant(tenant))
		if a.user() != ids.Format(w.rowOf("u1")) {
			t.Errorf("%s", a.Raw)
		}
	})
}

// GitHub has no issuer. Its base URL stands for one.
func TestImportedIdentityAtGitHubSignsIn(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		conn, g := w.toGitHub()
		status, raw := w.desk("mover", deploymentName, "users:write").importFile(w.importedUser("u1", "ada@example.com", "github", "583231")...)
		if status != http.StatusOK || !strings.Contains(raw, `"imported":3`) {
			t.Fatalf("%d %s", status, raw)
		}
		a := w.browser().gitHub(conn, g, identityprovider.GitHubUser{ID: 583231, Login: "octocat"})
		if a.user() != ids.Format(w.rowOf("u1")) {
			t.Errorf("%s", a.Raw)
		}
	})
}
