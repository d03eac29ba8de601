package enduser_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/scim"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
)

// Texts that a provider may send as a name. The first one is a valid name, which each page has to escape.
const (
	scriptName   = "<script>alert(1)</script>"
	reversedName = "Ann\u202Elivd"
)

// hostileNames has the name that an account gets for one that a provider sends, "" if it gets none.
func hostileNames() map[string]string {
	return map[string]string{scriptName: scriptName, reversedName: "", "Ann\nLee": "", strings.Repeat("a", 10<<10): ""}
}

// isText expects a response of JSON that a browser shows as nothing else.
func (a answer) isText(t *testing.T) {
	t.Helper()
	if !strings.HasPrefix(a.Header.Get("Content-Type"), "application/json") || a.Header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("the response has the header %v", a.Header)
	}
}

func TestNamesOfProvidersAreTextOrIgnored(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, id, slug := w.customer("globex")
		p, samlIDP := w.provider(), w.SAMLProvider()
		conn, samlConn := w.connection("globex", p, globexDomain), w.DeclareSAML("globex-saml", samlIDP, globexSAML)
		d := w.directory("globex", slug, nil)
		w.proves(id, "scim.example")
		n := 0
		for sent, want := range hostileNames() {
			n++
			has := func(by string, b *browser) {
				t.Helper()
				a := b.do("GET", "/me", "")
				a.isText(t)
				if first, _ := a.data()["first_name"].(string); a.Status != http.StatusOK || first != want || a.data()["last_name"] != "Lee" {
					t.Errorf("%s: the name %.40q is %.80q of %v", by, sent, first, a.Status)
				}
			}
			b := w.browser()
			email := fmt.Sprintf("ann%d@globex.example", n)
			b.sso(conn, p, identityprovider.User{"sub": email, "email": email, "given_name": sent, "family_name": "Lee"})
			has("OpenID Connect", b)
			b = w.browser()
			email = fmt.Sprintf("bob%d@globex.example", n)
			b.saml(samlConn, samlIDP, samlprovider.User{NameID: email, Attributes: map[string][]string{"mail": {email}, "givenName": {sent}, "sn": {"Lee"}}})
			has("SAML", b)
			name, err := json.Marshal(sent)
			w.Must(err)
			email = fmt.Sprintf("carl%d@scim.example", n)
			more := fmt.Sprintf(`,"name":{"givenName":%s,"familyName":"Lee"}`, name)
			if len(sent) > scim.MaxUserBytes {
				d.refused(http.StatusBadRequest, "invalidValue", "POST", "/Users", fmt.Sprintf(`{"userName":%q%s}`, email, more))
				continue
			}
			d.adds(email, more)
			members := owner.do("GET", "/organizations/"+id+"/members", "")
			members.isText(t)
			if first, found := members.firstNameOf(w, email); first != want || !found {
				t.Errorf("SCIM: the name %.40q is %.80q, of a member: %t", sent, first, found)
			}
		}
		d.refused(http.StatusBadRequest, "invalidValue", "POST", "/Users", `{"userName":"dora@scim.example","name":{"givenName":"Dora\u0000"}}`)
	})
}

// firstNameOf returns the first name of a member in a list of members.
func (a answer) firstNameOf(w *world, email string) (first string, found bool) {
	w.T.Helper()
	var members []struct {
		User struct {
			Email string
			First string `json:"first_name"`
		}
	}
	w.Must(json.Unmarshal(a.Body.Data, &members))
	for _, m := range members {
		if m.User.Email == email {
			return m.User.First, true
		}
	}
	return "", false
}

func TestTextsOfFailuresAreBoundedAndCleaned(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		p := w.provider()
		conn := owner.setUp(id, p, `,"just_in_time":false`)
		w.proves(id, "globex.example")
		for _, description := range []string{scriptName, reversedName, "a\x00\x1b[2Jb", strings.Repeat("a", 3000)} {
			b := w.browser()
			values := b.authorized(conn, p, ann)
			values.Del("code")
			values.Set("error", "access_denied")
			values.Set("error_description", description)
			if a := b.do("GET", callback(conn, values), ""); a.code() != "SSO_FAILED" {
				t.Errorf("%.40q: %s", description, a.Raw)
			}
		}
		w.browser().sso(conn, p, identityprovider.User{"sub": reversedName, "email": "ann@globex.example"})
		a := owner.do("GET", "/organizations/"+id+"/connections/"+conn+"/failures", "")
		a.isText(t)
		var failures []struct{ Reason, Got, Subject, Email string }
		w.Must(json.Unmarshal(a.Body.Data, &failures))
		want := map[string]bool{
			"access_denied: " + scriptName: true, "access_denied: Ann\uFFFDlivd": true, "access_denied: a\uFFFD\uFFFD[2Jb": true,
			"access_denied: " + strings.Repeat("a", 256-len("access_denied: ")): true, "Ann\uFFFDlivd": true,
		}
		for _, f := range failures {
			delete(want, f.Got)
			delete(want, f.Subject)
			if strings.ContainsAny(f.Got+f.Subject+f.Email, "\u202E\x00\x1b") || len(f.Got) > 256 {
				t.Errorf("%+v", f)
			}
		}
		if len(failures) != 5 || len(want) != 0 {
			t.Errorf("of %d failures, none has %v: %+v", len(failures), want, failures)
		}
	})
}

func TestTextsOfSAMLFailuresAreBoundedAndCleaned(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesSAML()
		owner, id, _ := w.customer("globex")
		p := w.SAMLProvider()
		path := "/organizations/" + id + "/connections"
		conn := owner.ok("POST", path, samlBody("type", "SAML", "display_name", "Globex", "metadata_url", p.URL+"/metadata"))["id"].(string)
		certificate := w.samlCertificate(conn)
		const responder = "urn:oasis:names:tc:SAML:2.0:status:Responder"
		want := map[string]bool{}
		for _, sent := range []struct{ code, text, kept string }{
			{"urn:x", scriptName, responder + ", urn:x: " + scriptName},
			{"urn:x", reversedName, responder + ", urn:x: Ann\uFFFDlivd"},
			{"urn:\u202Ex", "text", responder + ", urn:\uFFFDx: text"},
			{"urn:x", strings.Repeat("a", 3000), (responder + ", urn:x: " + strings.Repeat("a", 256))[:256]},
			{strings.Repeat("c", 3000), "text", (responder + ", " + strings.Repeat("c", 256))[:256]},
		} {
			b := w.browser()
			r, err := p.ReadRedirect(b.begin(conn, ""), certificate)
			w.Must(err)
			resp := w.post("/sso/"+conn+"/acs", p.Refuse(r, sent.code, sent.text))
			raw, err := io.ReadAll(resp.Body)
			w.Must(err)
			if resp.StatusCode != http.StatusBadRequest || strings.Contains(string(raw), "text") && sent.text == "text" || strings.Contains(string(raw), "script") || strings.Contains(string(raw), "aaa") {
				t.Errorf("%.40q: the response is %d %.300s", sent.text, resp.StatusCode, raw)
			}
			want[sent.kept] = true
		}
		a := owner.do("GET", path+"/"+conn+"/failures", "")
		a.isText(t)
		var failures []struct{ Reason, Got string }
		w.Must(json.Unmarshal(a.Body.Data, &failures))
		for _, f := range failures {
			delete(want, f.Got)
			if f.Reason != "status" || strings.ContainsRune(f.Got, '\u202E') || len(f.Got) > 256 {
				t.Errorf("%+v", f)
			}
		}
		if len(failures) != 5 || len(want) != 0 {
			t.Errorf("of %d failures, none has %v: %+v", len(failures), want, failures)
		}
	})
}

func TestNamesOfGroupsAreTextOrRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		role := w.role("engineer", "Organization", "billing:read")
		w.Eventually("the role is known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 1 })
		d := owner.setsUpDirectory(id, `{}`)
		for sent, valid := range map[string]bool{scriptName: true, reversedName: true, "a\nb": false, "a\x00b": false, strings.Repeat("a", 10<<10): false} {
			name, err := json.Marshal(sent)
			w.Must(err)
			made := d.do("POST", "/Groups", fmt.Sprintf(`{"displayName":%s}`, name))
			if valid && (made.Status != http.StatusCreated || made.Body["displayName"] != sent) || !valid && (made.Status != http.StatusBadRequest || made.Body["scimType"] != "invalidValue") {
				t.Errorf("a group %.40q: %d %.200s", sent, made.Status, made.Raw)
			}
			if kind := made.Header.Get("Content-Type"); !strings.HasPrefix(kind, "application/scim+json") || made.Header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("a group %.40q: %v", sent, made.Header)
			}
			body := fmt.Sprintf(`{"group_roles":[{"group":%s,"role_id":%q}]}`, name, role)
			a := owner.do("PATCH", directoriesOf(id)+"/"+d.id, body)
			a.isText(t)
			if !valid && (a.Status != http.StatusBadRequest || a.code() != "VALIDATION_ERROR" || !strings.Contains(a.Raw, "group")) {
				t.Errorf("a role of the group %.40q: %.200s", sent, a.Raw)
			}
			if valid && (a.Status != http.StatusOK || a.data()["group_roles"].([]any)[0].(map[string]any)["group"] != sent) {
				t.Errorf("a role of the group %.40q: %.200s", sent, a.Raw)
			}
		}
	})
}
