package enduser_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// organizationOf returns the slug of an organization of the browser's account.
func (b *browser) organizationSlug(id string) string {
	b.w.T.Helper()
	for _, m := range b.list("/me/organization-memberships") {
		if o := m["organization"].(map[string]any); o["id"] == id {
			return o["slug"].(string)
		}
	}
	b.w.T.Fatalf("no membership in %s", id)
	return ""
}

// customer creates an organization with an owner, and returns the owner's browser, the organization's id and its slug.
func (w *world) customer(name string) (owner *browser, id, slug string) {
	w.T.Helper()
	owner = w.browser()
	owner.signUp("owner@" + name + ".example")
	id = owner.organization(name)
	return owner, id, owner.organizationSlug(id)
}

// ofOrganization makes a connection one of an organization.
func ofOrganization(slug string, domains ...string) func(*document.Connection) {
	return func(c *document.Connection) { c.Organization, c.Domains = slug, domains }
}

// organizations returns the ids of the organizations that a browser's account sees.
func (b *browser) organizations() (all []string) {
	b.w.T.Helper()
	for _, m := range b.list("/me/organization-memberships") {
		all = append(all, m["organization"].(map[string]any)["id"].(string))
	}
	return all
}

func TestConnectionOfAnOrganizationMakesMembers(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, id, slug := w.customer("globex")
		p := w.provider()
		conn := w.connection("globex", p, ofOrganization(slug, "globex.example"))
		b := w.browser()
		if a := b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"}); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		if active := b.ok("GET", "/session", "")["organization"].(map[string]any); active["id"] != id {
			t.Errorf("%v is active", active)
		}
		closed := w.connection("closed", p, func(c *document.Connection) {
			ofOrganization(slug, "globex.example")(c)
			c.Membership.JustInTime = false
		})
		before := w.countUsers()
		w.browser().refusedSSO(t, closed, p, identityprovider.User{"sub": "2", "email": "new@globex.example"}, 403, "SSO_NOT_PROVISIONED")
		if after := w.countUsers(); after != before {
			t.Errorf("a refused user leaves an account: %d, want %d", after, before)
		}
	})
}

// countUsers returns how many users the deployment has.
func (w *world) countUsers() (n int) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	w.Must(db.QueryRowContext(w.T.Context(), "SELECT count(*) FROM users").Scan(&n))
	return n
}

func TestRolesFollowTheClaims(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, id, slug := w.customer("globex")
		w.role("clerk", "Organization", "billing:read")
		w.role("boss", "Organization", "organization:invite")
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) {
			ofOrganization(slug, "globex.example")(c)
			c.Membership.RoleExpression = `"bosses" in claims.groups ? ["unknown", "boss"] : ("clerks" in claims.groups ? ["clerk"] : ["owner"])`
		})
		b := w.browser()
		role := func(groups ...any) any {
			t.Helper()
			b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example", "groups": groups})
			for _, m := range b.list("/me/organization-memberships") {
				if m["organization"].(map[string]any)["id"] == id {
					if m["role"] == nil {
						return nil
					}
					return m["role"].(map[string]any)["name"]
				}
			}
			t.Fatal("no member")
			return nil
		}
		if got := role("clerks"); got != "clerk" {
			t.Errorf("a clerk has the role %v", got)
		}
		if got := role("bosses", "clerks"); got != "boss" {
			t.Errorf("a boss has the role %v", got)
		}
		if got := role("others"); got != nil {
			t.Errorf("the word owner gives the role %v", got)
		}
		if got := role("bosses"); got != "boss" {
			t.Errorf("a boss again has the role %v", got)
		}
		b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"}) // no groups: the expression fails
		if m := b.list("/me/organization-memberships"); m[0]["role"] != nil {
			t.Errorf("a failing expression leaves the role %v", m[0]["role"])
		}
	})
}

// An organization's provider states a subject that an account of other organizations has. It reaches that organization
// alone, until the user proves the account.
func TestSignInByAnOrganizationsProviderIsConfinedToTheOrganization(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, globex, slug := w.customer("globex")
		p := w.provider()
		conn := w.connection("globex", p, ofOrganization(slug, "globex.example"))
		victim := w.browser()
		user := victim.signUp("victim@example.com")
		other := victim.organization("Initech")
		if a := victim.ssoFor(conn, p, identityprovider.User{"sub": "v"}, `,"intent":"link"`); a.Status != 200 {
			t.Fatalf("%s", a.Raw)
		}
		b := w.browser()
		if a := b.sso(conn, p, identityprovider.User{"sub": "v"}); a.user() != user {
			t.Fatalf("%s", a.Raw)
		}
		if got := b.organizations(); len(got) != 1 || got[0] != globex {
			t.Errorf("it sees %v", got)
		}
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, other))
		if !strings.Contains(b.last.Raw, `"strategies":["password","email_otp"]`) {
			t.Errorf("%s", b.last.Raw)
		}
		b.checkConfined(t, globex, other)
		b.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
		if got := b.organizations(); len(got) != 2 {
			t.Errorf("after the password it sees %v", got)
		}
		b.ok("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, other))
	})
}

// checkConfined requests the operations of the account and of an organization that need a signed-in user, for another
// organization than the one that the sign-in is confined to. An incomplete body may be refused before the organization
// is read.
func (b *browser) checkConfined(t *testing.T, own, other string) {
	t.Helper()
	for pattern := range signedInOperations(t) {
		method, path, _ := strings.Cut(pattern, " ")
		if !strings.HasPrefix(path, "/organizations/{id}") && !strings.HasPrefix(path, "/me/") && path != "/me" && path != "/organizations" {
			continue
		}
		path = strings.NewReplacer("{id}", other, "{membership_id}", "1", "{invitation_id}", "1").Replace(path)
		body := ""
		if method != http.MethodGet && method != http.MethodDelete {
			body = `{}`
		}
		if pattern == "DELETE /organizations/{id}" || pattern == "DELETE /me/account" {
			body = `{"confirmation":"x"}`
		}
		a := b.do(method, path, body)
		switch {
		case pattern == "GET /me", pattern == "GET /me/organization-memberships", pattern == "GET /me/workspace-memberships":
			if a.Status != http.StatusOK || strings.Contains(a.Raw, other) {
				t.Errorf("%s: %s", pattern, a.Raw)
			}
		case a.Status == http.StatusForbidden && a.code() == "REAUTHENTICATION_REQUIRED":
		case a.Status == http.StatusBadRequest && a.code() == "VALIDATION_ERROR" && strings.HasPrefix(path, "/organizations/"): // before the organization is read
		default:
			t.Errorf("%s: %s", pattern, a.Raw)
		}
	}
	if members := b.list("/organizations/" + own + "/members"); len(members) != 2 {
		t.Errorf("its own organization has the members %v", members)
	}
}

func TestSignInIsNotConfinedIfTheProviderControlsTheMailbox(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, _, slug := w.customer("globex")
		p := w.provider()
		conn := w.connection("globex", p, ofOrganization(slug, "globex.example"))
		ann := w.browser()
		ann.signUp("ann@globex.example")
		ann.organization("Initech")
		b := w.browser()
		b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		if got := b.organizations(); len(got) != 2 {
			t.Errorf("it sees %v", got)
		}
		carl := w.browser()
		carl.signUp("carl@example.com")
		carl.organization("Hooli")
		code := w.browser()
		code.sso(conn, p, identityprovider.User{"sub": "2", "email": "carl@example.com"})
		if a := code.verify("carl@example.com", 2); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		if got := code.organizations(); len(got) != 2 {
			t.Errorf("a sign-in that proved the mailbox sees %v", got)
		}
	})
}

func TestEnforcedDomainNeedsItsConnection(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, id, slug := w.customer("globex")
		ann := w.browser()
		ann.signUp("ann@globex.example")
		p := w.provider()
		conn := w.connection("globex", p, ofOrganization(slug, "globex.example"))
		ann.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		byPassword := w.browser()
		byPassword.signIn("ann@globex.example")
		byPassword.ok("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, id))

		enforced := func(c *document.Connection) { ofOrganization(slug, "globex.example")(c); c.Enforcement = "Domains" }
		w.connection("globex", p, enforced)
		other := w.browser()
		for _, email := range []string{"ann@globex.example", "unknown@globex.example"} {
			for path, body := range map[string]string{
				"/auth/signin": `{"strategy":"password","email":%q,"password":"x"}`, "/auth/signup": `{"email":%q,"password":"correct horse battery staple"}`,
				"/auth/forgot-password": `{"email":%q}`,
			} {
				other.refused(403, "SSO_REQUIRED", "POST", path, fmt.Sprintf(body, email))
				if !strings.Contains(other.last.Raw, `"connections":[{"id":"`+conn+`"`) {
					t.Errorf("%s: %s", path, other.last.Raw)
				}
			}
			other.refused(403, "SSO_REQUIRED", "POST", "/auth/signin", fmt.Sprintf(`{"strategy":"email_otp","email":%q}`, email))
		}
		if got := byPassword.ok("GET", "/session", ""); got["organization"] != nil || got["user"] == nil {
			t.Errorf("a sign-in by password still has the organization: %v", got)
		}
		byPassword.refused(403, "SSO_REQUIRED", "POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, id))
		byPassword.refused(403, "SSO_REQUIRED", "GET", "/organizations/"+id+"/members", "")
		byPassword.refused(403, "SSO_REQUIRED", "POST", "/session/token", "")
		byPassword.refused(403, "SSO_REQUIRED", "POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"password","password":%q}`, goodPassword))
		if got := ann.ok("GET", "/session", "")["organization"]; got == nil {
			t.Error("the sign-in by the connection lost the organization")
		}
		if got := owner.ok("GET", "/session", "")["organization"]; got != nil {
			t.Error("an owner with an address in the domain is an exception")
		}
		found := other.ok("POST", "/auth/sso/discover", `{"email":"unknown@globex.example"}`)
		if found["required"] != true || len(found["connections"].([]any)) != 1 {
			t.Errorf("%v", found)
		}
		social := w.provider()
		everybody := w.connection("social", social, nil)
		a := w.browser().sso(everybody, social, identityprovider.User{"sub": "s", "email": "ann@globex.example"})
		if a.Status != 403 || a.code() != "SSO_REQUIRED" {
			t.Errorf("another provider signs in an address of the domain: %s", a.Raw)
		}
		w.connection("globex", p, ofOrganization(slug, "globex.example"))
		if got := byPassword.ok("GET", "/session", "")["organization"]; got == nil {
			t.Error("the organization does not come back when nothing is enforced anymore")
		}
	})
}

func TestEnforcementOfMembersCoversEveryAddress(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, id, slug := w.customer("globex")
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) { ofOrganization(slug)(c); c.Enforcement = "Members" })
		if got := owner.ok("GET", "/session", "")["organization"]; got != nil {
			t.Errorf("the owner still has the organization: %v", got)
		}
		owner.refused(403, "SSO_REQUIRED", "GET", "/organizations/"+id+"/members", "")
		if a := owner.ssoFor(conn, p, identityprovider.User{"sub": "o"}, `,"intent":"link"`); a.Status != 200 {
			t.Fatalf("%s", a.Raw)
		}
		owner.sso(conn, p, identityprovider.User{"sub": "o"})
		if got := owner.ok("GET", "/session", "")["organization"]; got == nil {
			t.Error("a sign-in by the connection has no organization")
		}
		owner.ok("GET", "/organizations/"+id+"/members", "")
	})
}

func TestSignInEndsAfterTheLifetimeOfTheConnection(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) { globexDomain(c); c.SessionSeconds = 600 })
		b := w.browser()
		b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		w.Clock.Advance(599 * time.Second)
		if !b.isSignedIn() {
			t.Error("the sign-in ended early")
		}
		w.Clock.Advance(time.Second)
		if b.isSignedIn() {
			t.Error("the sign-in goes on")
		}
	})
}

func TestDiscoveryFindsConnectionsByDomainAlone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, _, slug := w.customer("globex")
		p := w.provider()
		conn := w.connection("globex", p, ofOrganization(slug, "globex.example"))
		second := w.connection("sibling", p, ofOrganization(slug))
		w.connection("hidden", p, func(c *document.Connection) { c.Domains, c.Shown = []string{"hidden.example"}, false })
		w.connection("off", p, func(c *document.Connection) { c.Domains, c.Active = []string{"off.example"}, false })
		b := w.browser()
		found := func(email string) (ids []string) {
			t.Helper()
			for _, c := range b.ok("POST", "/auth/sso/discover", fmt.Sprintf(`{"email":%q}`, email))["connections"].([]any) {
				ids = append(ids, c.(map[string]any)["id"].(string))
			}
			return ids
		}
		if got := found("x@GLOBEX.example"); len(got) != 2 || got[0] != conn || got[1] != second {
			t.Errorf("%v", got)
		}
		for _, email := range []string{"owner@globex.example.evil", "x@eu.globex.example", "x@hidden.example", "x@off.example", "x@unknown.example"} {
			if got := found(email); len(got) != 0 {
				t.Errorf("%s finds %v", email, got)
			}
		}
		for range 120 {
			if b.do("POST", "/auth/sso/discover", `{"email":"x@unknown.example"}`).Status == http.StatusTooManyRequests {
				return
			}
		}
		t.Error("discovery has no limit")
	})
}

func TestSignUpNeedsAConnectionWhereUsersSignInByConnectionsOnly(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("everybody", p, func(c *document.Connection) { c.TrustsEmail = true })
		d := w.Settings()
		d.SignIn = &document.SignInSettings{ConnectionsOnly: true, PasswordMinLength: 15}
		w.Declare(d)
		b := w.browser()
		b.refused(403, "SSO_REQUIRED", "POST", "/auth/signup", `{"email":"new@example.com"}`)
		if config := b.ok("GET", "/auth/config", ""); config["connections_only"] != true || len(config["connections"].([]any)) != 1 {
			t.Errorf("%v", config)
		}
		if a := b.sso(conn, p, identityprovider.User{"sub": "1", "email": "new@example.com", "email_verified": true}); a.user() == "" {
			t.Errorf("%s", a.Raw)
		}
	})
}

func TestTwoFactorsOfTheProviderCountWhereTheConnectionNamesThem(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		p := w.provider()
		plain := w.connection("plain", p, globexDomain)
		strongOne := w.connection("strong", p, func(c *document.Connection) { c.Domains, c.AMR = []string{"strong.example"}, []string{"mfa"} })
		level := func(conn string, user identityprovider.User) any {
			t.Helper()
			b := w.browser()
			if a := b.sso(conn, p, user); a.user() == "" {
				t.Fatalf("%s", a.Raw)
			}
			return b.ok("GET", "/session/assurance", "")["level"]
		}
		if got := level(plain, identityprovider.User{"sub": "1", "email": "a@globex.example", "amr": []string{"mfa"}}); got != "one_factor" {
			t.Errorf("an undeclared value gives %v", got)
		}
		if got := level(strongOne, identityprovider.User{"sub": "2", "email": "a@strong.example", "amr": []string{"pwd"}}); got != "one_factor" {
			t.Errorf("another value gives %v", got)
		}
		if got := level(strongOne, identityprovider.User{"sub": "3", "email": "b@strong.example", "amr": []string{"pwd", "mfa"}}); got != "two_factors" {
			t.Errorf("the declared value gives %v", got)
		}
	})
}

func TestAccountWithTwoStepShowsItsFactorAfterTheProvider(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		owner := w.browser()
		id := owner.signUp("ann@globex.example")
		app, _ := owner.addApp()
		b := w.browser()
		a := b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		if a.user() != "" || a.attempt()["current_step"] != "second_factor" {
			t.Fatalf("%s", a.Raw)
		}
		if len(owner.identities()) != 0 {
			t.Error("the identity is added before the second factor")
		}
		b.ok("POST", "/auth/attempt-second-factor", secondStep(a.attempt()["id"].(string), "totp", app.next()))
		if b.last.user() != id || len(owner.identities()) != 1 {
			t.Errorf("%s", b.last.Raw)
		}
		if got := b.ok("GET", "/session/assurance", "")["level"]; got != "two_factors" {
			t.Errorf("the level is %v", got)
		}
	})
}

func TestConnectionOfAnOrganizationNeedsOrganizations(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		_, _, slug := w.customer("globex")
		p, b := w.provider(), w.browser()
		connection := w.connection("globex", p, ofOrganization(slug))
		inactive := w.connection("inactive", p, func(c *document.Connection) { c.Organization, c.Active = slug, false })
		begin := func(id string) string {
			return b.do("POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q}`, id)).code()
		}
		w.Eventually("the connection is declared", func() bool { return begin(connection) == "" })
		w.DeclareB2B(document.B2BSettings{})
		w.Eventually("organizations are disabled", func() bool { return begin(connection) == "ORGANIZATIONS_DISABLED" })
		if code := begin(inactive); code != "CONNECTION_NOT_FOUND" {
			t.Errorf("an inactive connection: %s", code)
		}
	})
}
