package enduser_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/cardea-iam/cardea/internal/document"
)

// directory is a directory as its identity provider uses it.
type directory struct {
	w        *world
	id       string
	document document.Directory
	// host is the Host that requests name, and token the token that they send.
	host, token string
}

// reply is a response of a directory.
type reply struct {
	Status int
	Header http.Header
	Raw    string
	Body   map[string]any
}

// directory declares a directory of an organization, which change may change.
func (w *world) directory(slug, organization string, change func(*document.Directory)) *directory {
	w.T.Helper()
	token, verifier := w.DirectoryToken()
	d := &directory{w: w, host: "localhost", token: token}
	d.document = document.Directory{Slug: slug, Organization: organization, Active: true, Verifiers: []document.Verifier{verifier}}
	d.declare(change)
	return d
}

// declare declares the directory again, after a change.
func (d *directory) declare(change func(*document.Directory)) {
	d.w.T.Helper()
	if change != nil {
		change(&d.document)
	}
	d.id = d.w.DeclareDirectory(d.document)
}

// do sends a request below the directory.
func (d *directory) do(method, path, body string, header ...string) reply {
	d.w.T.Helper()
	var out reply
	out.Status, out.Header, out.Raw = d.w.SCIM(d.host, d.id, d.token, method, path, body, header...)
	if out.Raw != "" {
		d.w.Must(json.Unmarshal([]byte(out.Raw), &out.Body))
	}
	return out
}

// ok is do for a request that must have a status.
func (d *directory) ok(status int, method, path, body string, header ...string) map[string]any {
	d.w.T.Helper()
	a := d.do(method, path, body, header...)
	if a.Status != status {
		d.w.T.Fatalf("%s %s %s: want %d, got %d %s", method, path, body, status, a.Status, a.Raw)
	}
	return a.Body
}

// refused is do for a request that must be refused with an error of SCIM.
func (d *directory) refused(status int, scimType, method, path, body string, header ...string) {
	d.w.T.Helper()
	a := d.do(method, path, body, header...)
	got, _ := a.Body["scimType"].(string)
	if a.Status != status || got != scimType || a.Body["status"] != fmt.Sprint(status) || a.Body["detail"] == "" {
		d.w.T.Fatalf("%s %s %s: want %d %s, got %d %s", method, path, body, status, scimType, a.Status, a.Raw)
	}
}

// adds adds a user with an address and returns its id.
func (d *directory) adds(email string, more ...string) string {
	d.w.T.Helper()
	body := fmt.Sprintf(`{"schemas":["urn:ietf:params:scim:schemas:core:2.0:User"],"userName":%q,"emails":[{"value":%q,"type":"work","primary":true}]%s}`, email, email, strings.Join(more, ""))
	return d.ok(http.StatusCreated, "POST", "/Users", body)["id"].(string)
}

// activates sets whether a user is active, as Okta does.
func (d *directory) activates(user string, active bool) {
	d.w.T.Helper()
	got := d.ok(http.StatusOK, "PATCH", "/Users/"+user, fmt.Sprintf(`{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[{"op":"replace","value":{"active":%v}}]}`, active))
	if got["active"] != active {
		d.w.T.Fatalf("%v", got)
	}
}

// group adds a group with users and returns its id.
func (d *directory) group(name string, users ...string) string {
	d.w.T.Helper()
	var members []string
	for _, user := range users {
		members = append(members, fmt.Sprintf(`{"value":%q}`, user))
	}
	return d.ok(http.StatusCreated, "POST", "/Groups", fmt.Sprintf(`{"displayName":%q,"members":[%s]}`, name, strings.Join(members, ",")))["id"].(string)
}

// patches changes a resource by the operations of a PATCH.
func (d *directory) patches(path, operations string) map[string]any {
	d.w.T.Helper()
	return d.ok(http.StatusOK, "PATCH", path, `{"schemas":["urn:ietf:params:scim:api:messages:2.0:PatchOp"],"Operations":[`+operations+`]}`)
}

// member returns the role and membership of the user with an address in an organization, as an owner sees them; "" for
// no member.
func (b *browser) memberAt(organization, email string) (role, membership string) {
	b.w.T.Helper()
	for _, m := range b.list("/organizations/" + organization + "/members") {
		if user, _ := m["user"].(map[string]any); user["email"] == email {
			membership, _ = m["id"].(string)
			if r, _ := m["role"].(map[string]any); r != nil {
				role, _ = r["name"].(string)
			}
		}
	}
	return role, membership
}
