package enduser_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/store/people"
)

// managesConnections lets organizations manage their connections. change, if not nil, changes the settings.
func (w *world) managesConnections(change func(*document.OrganizationConnections)) {
	w.T.Helper()
	d, c := w.Settings(), document.DefaultConnections()
	c.SelfService = true
	if change != nil {
		change(&c)
	}
	d.Connections = &c
	d.OrganizationPermissions = []string{"connection:manage", "organization:invite", "billing:read"}
	w.Declare(d)
}

// newConnection returns the body that sets up a connection to a provider. more are further members.
func newConnection(p *identityprovider.Provider, more string) string {
	return fmt.Sprintf(`{"type":"OIDC","display_name":"Globex","issuer":%q,"client_id":%q,"client_secret":%q%s}`, p.URL, identityprovider.ClientID, identityprovider.ClientSecret, more)
}

// setUp sets up a connection of an organization, and returns its id.
func (b *browser) setUp(organization string, p *identityprovider.Provider, more string) string {
	b.w.T.Helper()
	return b.ok("POST", "/organizations/"+organization+"/connections", newConnection(p, more))["id"].(string)
}

// proves makes a domain one that the organization proved.
func (w *world) proves(organization, name string) {
	w.T.Helper()
	o, err := ids.Parse(organization)
	w.Must(err)
	id, err := ids.New(w.Clock.Now(), rand.Reader)
	w.Must(err)
	w.tx(func(tx people.Tx) error {
		return tx.Domains().InsertDomain(people.Domain{
			ID: id, Organization: o, Name: name, Value: "v", State: people.DomainVerified, VerifiedBy: people.VerifiedByDNS, CreatedAt: w.Clock.Now().UTC(), VerifiedAt: w.Clock.Now().UTC(),
		})
	})
}

func TestOrganizationSetsUpAConnection(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		p := w.provider()
		made := owner.ok("POST", "/organizations/"+id+"/connections", newConnection(p, ""))
		conn := made["id"].(string)
		if made["source"] != "runtime" || made["enforcement"] != "Optional" || made["client_secret"] != "********" || made["reachable"] != true || made["just_in_time"] != true {
			t.Errorf("%v", made)
		}
		if uris := made["redirect_uris"].([]any); len(uris) != 2 || !strings.HasSuffix(uris[0].(string), "/sso/"+conn+"/callback") {
			t.Errorf("redirect URIs %v", uris)
		}
		if strings.Contains(fmt.Sprint(made), identityprovider.ClientSecret) {
			t.Error("the response has the secret")
		}
		if list := owner.list("/organizations/" + id + "/connections"); len(list) != 1 || list[0]["id"] != conn {
			t.Errorf("%v", list)
		}

		// Without a proven domain, a code proves the address.
		b := w.browser()
		if a := b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"}); a.user() != "" {
			t.Fatalf("signed in without a proof: %s", a.Raw)
		}
		b.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, b.last.attempt()["id"], w.CodeFor("ann@globex.example", 1)))
		if active := b.ok("GET", "/session", "")["organization"].(map[string]any); active["id"] != id {
			t.Errorf("%v is active", active)
		}

		// With one, discovery offers the connection, and its word suffices.
		w.proves(id, "globex.example")
		found := w.browser().ok("POST", "/auth/sso/discover", `{"email":"bob@globex.example"}`)
		if list := found["connections"].([]any); len(list) != 1 || list[0].(map[string]any)["id"] != conn || found["required"] != false {
			t.Errorf("%v", found)
		}
		if a := w.browser().sso(conn, p, identityprovider.User{"sub": "2", "email": "bob@globex.example"}); a.user() == "" {
			t.Errorf("%s", a.Raw)
		}
	})
}

func TestOnlyAdminsManageConnections(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, id, _ := w.customer("globex")
		outsider, _, _ := w.customer("initech")
		p := w.provider()
		path := "/organizations/" + id + "/connections"
		owner.refused(403, "SELF_SERVICE_DISABLED", "POST", path, newConnection(p, ""))
		owner.refused(403, "SELF_SERVICE_DISABLED", "GET", path, "")
		w.managesConnections(func(c *document.OrganizationConnections) { c.SelfService = false })
		owner.refused(403, "SELF_SERVICE_DISABLED", "POST", path, newConnection(p, ""))
		w.managesConnections(func(c *document.OrganizationConnections) { c.MaxPerOrganization = 2 })
		conn := owner.setUp(id, p, "")
		own := path + "/" + conn
		for _, other := range []string{path, own, own + "/failures"} {
			outsider.refused(404, "ORGANIZATION_NOT_FOUND", "GET", other, "")
		}
		outsider.refused(404, "ORGANIZATION_NOT_FOUND", "DELETE", own, "")

		manager, clerk := w.role("manager", "Organization", "connection:manage"), w.role("clerk", "Organization", "billing:read")
		bob, membership, _ := w.joins(owner, id, "bob@example.com")
		bob.refused(403, "PERMISSION_DENIED", "GET", path, "")
		bob.refused(403, "PERMISSION_DENIED", "POST", path, newConnection(p, ""))
		bob.refused(403, "PERMISSION_DENIED", "PATCH", own, `{"display_name":"Mine"}`)
		w.Eventually("the role is known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 2 })
		owner.ok("PATCH", "/organizations/"+id+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, manager))
		bob.ok("PATCH", own, `{"display_name":"Ours"}`)
		// Roles above the admin's own are not theirs to map; an owner's mapping stays.
		mapping := fmt.Sprintf(`{"role_mappings":[{"claim":"groups","value":"eng","role_id":%q}]}`, clerk)
		bob.refused(403, "PERMISSION_DENIED", "PATCH", own, mapping)
		owner.refused(400, "VALIDATION_ERROR", "PATCH", own, `{"role_mappings":[{"claim":"groups","value":"eng","role_id":"7"}]}`)
		owner.refused(400, "VALIDATION_ERROR", "PATCH", own, strings.Replace(mapping, "eng", `e\ng`, 1)) // no form sends a line break back
		owner.ok("PATCH", own, mapping)
		if kept := bob.ok("PATCH", own, mapping); len(kept["role_mappings"].([]any)) != 1 {
			t.Errorf("%v", kept)
		}
		// Another provider, another client and another order of the mappings decide who gets the owner's roles.
		second := fmt.Sprintf(`{"claim":"groups","value":"ops","role_id":%q}`, clerk)
		owner.ok("PATCH", own, strings.Replace(mapping, "]", ","+second+"]", 1))
		for _, change := range []string{
			`{"issuer":"https://bob.example","confirmation":"Ours"}`, `{"client_id":"bobs"}`, `{"client_secret":"s","client_id":"bobs"}`, mapping,
		} {
			bob.refused(403, "PERMISSION_DENIED", "PATCH", own, change)
		}
		bob.ok("PATCH", own, `{"client_secret":"rotated","display_name":"Ours again"}`)
		bob.ok("PATCH", own, `{"role_mappings":[]}`)
		bob.ok("PATCH", own, `{"client_id":"bobs"}`)

		bob.setUp(id, p, "")
		bob.refused(400, "CONNECTION_LIMIT_REACHED", "POST", path, newConnection(p, ""))
		w.Clock.Advance(w.reauthenticateAfter() + time.Second)
		bob.refused(403, "REAUTHENTICATION_REQUIRED", "PATCH", own, `{"display_name":"Later"}`)
		bob.refused(403, "REAUTHENTICATION_REQUIRED", "DELETE", own, "")
		bob.list(path)
	})
}

func TestConnectionSettingsAreChecked(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		p := w.provider()
		path := "/organizations/" + id + "/connections"
		for _, more := range []string{
			`,"type":"SAML"`, `,"issuer":"http://globex.example"`, `,"issuer":"ftp://globex.example"`, `,"issuer":"https://u@globex.example"`, `,"issuer":"https://globex.example/?a"`,
			`,"issuer":"https://globex.example/#a"`, `,"issuer":"https://"`, `,"issuer":""`, `,"client_id":""`, `,"client_id":" a"`, `,"client_secret":"********"`, `,"client_secret":""`,
			`,"enforcement":"All"`, `,"unknown":1`, `,"role_mappings":[{"claim":"","value":"x","role_id":"1"}]`, `,"role_mappings":[{"claim":"groups","value":"x"}]`, `,"display_name":""`,
			`,"issuer":"https://accounts.google.com"`, `,"issuer":"https://login.microsoftonline.com/common/v2.0"`,
		} {
			valid, member := newConnection(p, ""), strings.SplitN(strings.TrimPrefix(more, ","), ":", 2)
			fields := map[string]string{"type": `"OIDC"`, "display_name": `"Globex"`, "issuer": fmt.Sprintf("%q", p.URL), "client_id": `"a"`, "client_secret": `"b"`}
			fields[strings.Trim(member[0], `"`)] = member[1]
			var parts []string
			for name, value := range fields {
				parts = append(parts, fmt.Sprintf("%q:%s", name, value))
			}
			if body := "{" + strings.Join(parts, ",") + "}"; body == valid {
				t.Errorf("%s changes nothing", more)
			} else {
				owner.refused(400, "VALIDATION_ERROR", "POST", path, body)
			}
		}
		if n := len(owner.list(path)); n != 0 {
			t.Errorf("%d connections were set up", n)
		}
		owner.ok("POST", path, strings.Replace(newConnection(p, `,"just_in_time":false`), p.URL, "https://accounts.google.com", 1))
	})
}

func TestEnforcementNeedsATestedConnection(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		bob, _, _ := w.joins(owner, id, "bob@example.com")
		p := w.provider()
		conn := owner.setUp(id, p, "")
		own := "/organizations/" + id + "/connections/" + conn
		owner.refused(400, "SSO_NOT_TESTED", "PATCH", own, `{"enforcement":"Members"}`)
		owner.refused(400, "SSO_NOT_TESTED", "POST", "/organizations/"+id+"/connections", newConnection(p, `,"enforcement":"Members"`))
		link := func() {
			w.T.Helper()
			if a := owner.ssoFor(conn, p, identityprovider.User{"sub": "owner", "email": "owner@globex.example"}, `,"intent":"link"`); a.Status != http.StatusOK {
				t.Fatalf("%s", a.Raw)
			}
		}
		link()
		// A client secret that changed since then is not tested.
		w.Clock.Advance(time.Second)
		owner.ok("PATCH", own, fmt.Sprintf(`{"client_secret":%q}`, identityprovider.ClientSecret))
		owner.refused(400, "SSO_NOT_TESTED", "PATCH", own, `{"enforcement":"Members"}`)
		w.Clock.Advance(time.Second)
		owner.sso(conn, p, identityprovider.User{"sub": "owner", "email": "owner@globex.example"})
		owner.ok("PATCH", own, `{"enforcement":"Members"}`)

		// From now on, a member signed in otherwise is in no organization.
		if active := bob.ok("GET", "/session", "")["organization"]; active != nil {
			t.Errorf("bob is in %v", active)
		}
		refused := bob.refused(403, "SSO_REQUIRED", "POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, id))
		if !strings.Contains(refused.Raw, conn) {
			t.Errorf("the response does not name the connection: %s", refused.Raw)
		}
		if active := owner.ok("GET", "/session", "")["organization"]; active == nil {
			t.Error("the owner, signed in by the connection, is in no organization")
		}
		owner.ok("PATCH", own, `{"is_active":false}`)
		bob.ok("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, id))
	})
}

func TestEnforcementOfAProvenDomain(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		p := w.provider()
		conn := owner.setUp(id, p, "")
		w.proves(id, "globex.example")
		if a := owner.sso(conn, p, identityprovider.User{"sub": "owner", "email": "owner@globex.example"}); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		owner.ok("PATCH", "/organizations/"+id+"/connections/"+conn, `{"enforcement":"Domains"}`)
		for _, path := range []string{"/auth/signin", "/auth/signup", "/auth/forgot-password"} {
			body := `{"email":"ann@globex.example","password":"a long and quiet sentence","strategy":"password"}`
			switch path {
			case "/auth/signup":
				body = `{"email":"ann@globex.example","password":"a long and quiet sentence","first_name":"Ann","last_name":"A"}`
			case "/auth/forgot-password":
				body = `{"email":"ann@globex.example"}`
			}
			if refused := w.browser().refused(403, "SSO_REQUIRED", "POST", path, body); !strings.Contains(refused.Raw, conn) {
				t.Errorf("%s: %s", path, refused.Raw)
			}
		}
		if found := w.browser().ok("POST", "/auth/sso/discover", `{"email":"ann@globex.example"}`); found["required"] != true {
			t.Errorf("%v", found)
		}
		w.browser().signUp("eve@elsewhere.example")
		// Connections that organizations set up end with the declaration that permits them.
		d := w.Settings()
		d.Connections = nil
		w.Declare(d)
		w.browser().refused(404, "CONNECTION_NOT_FOUND", "POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q}`, conn))
		w.browser().signUp("ann@globex.example")
	})
}

func TestAnotherIssuerInheritsNoUser(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		first, second := w.provider(), w.provider()
		conn := owner.setUp(id, first, "")
		own := "/organizations/" + id + "/connections/" + conn
		w.proves(id, "globex.example")
		ann := w.browser()
		ann.sso(conn, first, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		user := ann.last.user()
		if user == "" {
			t.Fatalf("%s", ann.last.Raw)
		}
		moved := fmt.Sprintf(`{"issuer":%q,"confirmation":%%q}`, second.URL)
		owner.refused(400, "VALIDATION_ERROR", "PATCH", own, fmt.Sprintf(moved, ""))
		owner.refused(400, "VALIDATION_ERROR", "PATCH", own, fmt.Sprintf(moved, "globex"))
		begun := w.browser()
		values, err := first.Authorize(begun.begin(conn, ""), identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		w.Must(err)
		waiting := w.browser()
		pending := waiting.sso(conn, first, identityprovider.User{"sub": "9", "email": "eve@elsewhere.example"}).attempt()["id"]
		owner.ok("PATCH", own, fmt.Sprintf(moved, "Globex"))
		if a := begun.do(http.MethodGet, callback(conn, values), ""); a.Status < 400 {
			t.Errorf("a response of the former provider: %s", a.Raw)
		}
		if list := ann.do("GET", "/session", ""); list.user() != "" {
			t.Errorf("the sign-in goes on: %s", list.Raw)
		}
		// Nor does an attempt complete that waited for a code meanwhile.
		waiting.refused(400, "INVALID_ATTEMPT", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, pending, w.CodeFor("eve@elsewhere.example", 1)))
		// The same subject of the other provider is another person: the domain, not the identity, selects the account.
		mallory := w.browser()
		if a := mallory.sso(conn, second, identityprovider.User{"sub": "1", "email": "mallory@globex.example"}); a.user() == user || a.user() == "" {
			t.Errorf("%s", a.Raw)
		}
	})
}

func TestDeletedConnectionTakesItsSignInsAlong(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, slug := w.customer("globex")
		p := w.provider()
		conn := owner.setUp(id, p, "")
		w.proves(id, "globex.example")
		ann := w.browser()
		if a := ann.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"}); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		declared := w.connection("declared", p, ofOrganization(slug))
		w.Eventually("the declared connection is listed", func() bool { return len(owner.list("/organizations/"+id+"/connections")) == 2 })
		path := "/organizations/" + id + "/connections/"
		owner.refused(409, "CONFLICT", "DELETE", path+declared, "")
		owner.refused(409, "CONFLICT", "PATCH", path+declared, `{"display_name":"Mine"}`)
		if got := owner.ok("GET", path+declared, ""); got["source"] != "declared" || got["created_at"] != nil {
			t.Errorf("%v", got)
		}
		outsider, other, _ := w.customer("initech")
		for _, foreign := range []string{conn, declared, "1", "x"} {
			outsider.refused(404, "CONNECTION_NOT_FOUND", "GET", "/organizations/"+other+"/connections/"+foreign, "")
			outsider.refused(404, "CONNECTION_NOT_FOUND", "GET", "/organizations/"+other+"/connections/"+foreign+"/failures", "")
			outsider.refused(404, "CONNECTION_NOT_FOUND", "DELETE", "/organizations/"+other+"/connections/"+foreign, "")
			outsider.refused(404, "CONNECTION_NOT_FOUND", "PATCH", "/organizations/"+other+"/connections/"+foreign, `{"display_name":"Mine"}`)
		}
		owner.ok("DELETE", path+conn, "")
		if a := ann.do("GET", "/session", ""); a.user() != "" {
			t.Errorf("the sign-in goes on: %s", a.Raw)
		}
		w.browser().refused(404, "CONNECTION_NOT_FOUND", "POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q}`, conn))
		owner.refused(404, "CONNECTION_NOT_FOUND", "DELETE", path+conn, "")
	})
}

func TestClaimsGiveMappedRoles(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		engineer, clerk := w.role("engineer", "Organization", "organization:invite"), w.role("clerk", "Organization", "billing:read")
		w.Eventually("the roles are known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 2 })
		p := w.provider()
		mapping := `{"claim":%q,"value":%q,"role_id":%q}`
		conn := owner.setUp(id, p, fmt.Sprintf(`,"role_mappings":[`+mapping+`,`+mapping+`]`, "groups", "eng", engineer, "department", "billing", clerk))
		w.proves(id, "globex.example")
		roleOf := func(claims identityprovider.User) any {
			t.Helper()
			b := w.browser()
			claims["email"] = claims["sub"].(string) + "@globex.example"
			if a := b.sso(conn, p, claims); a.user() == "" {
				t.Fatalf("%s", a.Raw)
			}
			role, _ := b.list("/me/organization-memberships")[0]["role"].(map[string]any)
			return role["name"]
		}
		for _, one := range []struct {
			claims identityprovider.User
			want   any
		}{
			{identityprovider.User{"sub": "1", "groups": []any{"sales", "eng"}}, "engineer"},
			{identityprovider.User{"sub": "2", "groups": "eng", "department": "billing"}, "engineer"},
			{identityprovider.User{"sub": "3", "groups": "eng sales", "department": "billing"}, "clerk"},
			{identityprovider.User{"sub": "4", "groups": map[string]any{"eng": true}}, nil},
			{identityprovider.User{"sub": "1", "groups": []any{"sales"}}, nil}, // lost at the provider, lost at the sign-in
		} {
			if got := roleOf(one.claims); got != one.want {
				t.Errorf("%v: %v, want %v", one.claims, got, one.want)
			}
		}
	})
}
