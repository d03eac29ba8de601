package enduser_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

// list is do for a response whose data is a list.
func (b *browser) list(path string) (out []map[string]any) {
	b.w.T.Helper()
	a := b.do("GET", path, "")
	if err := json.Unmarshal(a.Body.Data, &out); err != nil || a.Status != 200 {
		b.w.T.Fatalf("%s: %s", path, a.Raw)
	}
	return out
}

// role declares a role and returns its id.
func (w *world) role(name, level string, permissions ...string) string {
	return fmt.Sprint(w.Put("MembershipRole", name, deploymentName, name, document.MembershipRole{Level: level, Name: name, Permissions: permissions}))
}

func TestUnknownForeignAndFormerOrganizationsGetTheSameResponse(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		a, _ := w.signedUp("ada@example.com")
		foreign := a.organization("Ada Org")
		b, user := w.signedUp("bob@example.com")
		own := b.organization("Bob Org")
		former := foreign
		w.tx(func(tx people.Tx) error {
			return tx.Organizations().InsertMember(people.Member{ID: 77, User: parseID(user), Organization: people.Organization{ID: parseID(foreign)}, CreatedAt: w.Clock.Now()})
		})
		b.switchTo(former)
		w.tx(func(tx people.Tx) error {
			_, err := tx.Organizations().DeleteMember(parseID(foreign), parseID(user))
			return err
		})
		b.switchTo(own)
		var answers []string
		for _, id := range []string{foreign, former, "123456789"} {
			answers = append(answers, b.refused(400, "INVALID_ORGANIZATION", "POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, id)).Raw)
		}
		if answers[0] != answers[1] || answers[1] != answers[2] {
			t.Errorf("responses differ: %v", answers)
		}
		for _, body := range []string{`{}`, `{"organization_id":null}`, `{"organization_id":1}`, `{"organization_id":"x"}`, `{"organization_id":"0"}`, `{"organization_id":"01"}`, `{"organization_id":"1","more":1}`, `{"organization_id":"9223372036854775808"}`} {
			b.refused(400, "VALIDATION_ERROR", "POST", "/session/switch-organization", body)
		}
		w.browser().refused(401, "NOT_AUTHENTICATED", "POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, own))
	})
}

func TestOrganizationSlugRevealsNoOtherOrganization(t *testing.T) {
	onSQLite(t, func(w *world) {
		numbered := regexp.MustCompile(`^harbour-[0-9a-z]{10,13}$`)
		seen := map[string]bool{}
		for n := range 3 {
			b, _ := w.signedUp(fmt.Sprintf("user%d@example.com", n))
			slug := b.ok("POST", "/organizations", `{"name":"Harbour"}`)["organization"].(map[string]any)["slug"].(string)
			if !numbered.MatchString(slug) || seen[slug] {
				t.Errorf("user %d has the slug %q; the first and the later ones must look alike", n, slug)
			}
			seen[slug] = true
		}
		b, before := w.browser(), w.audited("organization.created")
		b.signUp("founder@example.com", `,"organization_name":"Harbour"`)
		if n := w.audited("organization.created") - before; n != 1 {
			t.Errorf("%d audit records of an organization that a sign-up created", n)
		}
		if slug, _ := b.ok("GET", "/session", "")["organization"].(map[string]any)["slug"].(string); !numbered.MatchString(slug) || seen[slug] {
			t.Errorf("the organization of a sign-up has the slug %q", slug)
		}
	})
}

func TestActiveWorkspaceAfterSwitch(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		one, two := b.organization("One"), b.organization("Two")
		second := b.ok("POST", "/workspaces", fmt.Sprintf(`{"name":"Second","organization_id":%q}`, one))["workspace"].(map[string]any)["id"].(string)
		active := func(want string) {
			t.Helper()
			if got := b.switchTo(one)["workspace"]; want == "" && got != nil || want != "" && (got == nil || got.(map[string]any)["name"] != want) {
				t.Fatalf("active is %v, want %q", got, want)
			}
			b.switchTo(two)
		}
		active("Default") // the organization's default; creating a workspace does not activate it
		b.switchTo(one)
		b.ok("POST", "/session/switch-workspace", fmt.Sprintf(`{"workspace_id":%q}`, second))
		b.switchTo(two)
		active("Second") // the last active workspace
		drop := func(name string) {
			for _, m := range b.list("/me/workspace-memberships") {
				if m["organization"].(map[string]any)["id"] == one && m["workspace"].(map[string]any)["name"] == name {
					w.deleteWorkspaceMembership(m["id"].(string))
				}
			}
		}
		drop("Second")
		active("Default") // no longer a member of the last one
		b.ok("POST", "/workspaces", fmt.Sprintf(`{"name":"Third","organization_id":%q}`, one))
		drop("Default")
		active("Third") // the oldest membership
		drop("Third")
		active("") // none
		if s := b.ok("GET", "/session", ""); s["organization"].(map[string]any)["id"] != two {
			t.Fatalf("session %v of user %s", s, user)
		}
	})
}

func TestSwitchRotatesTokenAndChangesClaims(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.sign()
		b, user := w.signedUp("ada@example.com")
		one, two := b.organization("One"), b.organization("Two")
		claims := func() map[string]any {
			t.Helper()
			data := b.ok("POST", "/session/token", `{}`)
			return w.verifyToken(data["token"].(string))
		}
		before := b.cookie()
		first := claims()
		b.switchTo(one)
		second := claims()
		if b.cookie() == before || first["organization"] != two || second["organization"] != one || first["sid"] != second["sid"] || second["sub"] != user {
			t.Errorf("tokens %v and %v", first, second)
		}
		if second["iss"] != "https://localhost" || fmt.Sprint(second["aud"]) != "[cardea:acme:staging]" && second["aud"] != "cardea:acme:staging" || second["jti"] == "" || second["jti"] == first["jti"] {
			t.Errorf("claims %v", second)
		}
		if life := second["exp"].(float64) - second["iat"].(float64); life != 60 {
			t.Errorf("a token lives %v s", life)
		}
		if got := fmt.Sprint(second["permissions"]); got != "[billing:read documents:read organization:invite workspace:create]" {
			t.Errorf("an owner may %s", got)
		}
		// A session token is not accepted as a session or an API key.
		token := b.ok("POST", "/session/token", `{}`)["token"].(string)
		thief := w.browser()
		thief.setCookie(token)
		thief.refused(401, "NOT_AUTHENTICATED", "GET", "/me", "")
		w.browser().refused(401, "NOT_AUTHENTICATED", "POST", "/session/token", `{}`)
	})
}

func TestRemovedMemberLosesOrganizationOnNextRequest(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.sign()
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		inviter := w.role("inviter", "Organization", "organization:invite")
		w.Eventually("the role is known", func() bool {
			return owner.do("POST", "/organizations/"+organization+"/invitations", fmt.Sprintf(`{"email":"bob@example.com","role_id":%q}`, inviter)).Status == 200
		})
		b, user := w.signedUp("bob@example.com")
		b.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor("bob@example.com", 1)))
		b.switchTo(organization)
		if got := fmt.Sprint(w.verifyToken(b.ok("POST", "/session/token", `{}`)["token"].(string))["permissions"]); got != "[organization:invite]" {
			t.Errorf("an inviter may %s", got)
		}
		// A change or deletion of a role applies immediately. The membership itself remains.
		w.role("inviter", "Organization", "billing:read")
		w.Eventually("the role's permissions changed", func() bool {
			return fmt.Sprint(w.verifyToken(b.ok("POST", "/session/token", `{}`)["token"].(string))["permissions"]) == "[billing:read]"
		})
		b.refused(403, "PERMISSION_DENIED", "POST", "/organizations/"+organization+"/invitations", `{"email":"x@example.com"}`)
		w.withdraw("MembershipRole", "inviter")
		w.Eventually("the role is gone", func() bool { return b.list("/me/organization-memberships")[0]["role"] == nil })
		w.tx(func(tx people.Tx) error {
			_, err := tx.Organizations().DeleteMember(parseID(organization), parseID(user))
			return err
		})
		if s := b.ok("GET", "/session", ""); s["organization"] != nil || s["workspace"] != nil || s["user"] == nil {
			t.Errorf("after the removal: %v", s)
		}
		if c := w.verifyToken(b.ok("POST", "/session/token", `{}`)["token"].(string)); c["organization"] != nil || fmt.Sprint(c["permissions"]) != "[]" {
			t.Errorf("after the removal: %v", c)
		}
		b.refused(400, "INVALID_WORKSPACE", "POST", "/session/switch-workspace", `{"workspace_id":"1"}`)
	})
}

func TestConcurrentSwitchesNeverMixOrganizations(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		homes := map[string]string{} // workspace to organization
		var organizations []string
		for _, name := range []string{"One", "Two", "Three"} {
			data := b.ok("POST", "/organizations", fmt.Sprintf(`{"name":%q}`, name))
			organizations = append(organizations, data["organization"].(map[string]any)["id"].(string))
		}
		for _, m := range b.list("/me/workspace-memberships") {
			homes[m["workspace"].(map[string]any)["id"].(string)] = m["organization"].(map[string]any)["id"].(string)
		}
		workspaces := func(organization string) (id string) {
			for w, o := range homes {
				if o == organization {
					id = w
				}
			}
			return id
		}
		// Each tab begins with its own token, because a shared one is evicted when there are many.
		var tabs []*browser
		for tab := range 4 {
			tabs = append(tabs, b.as(b.cookie()))
			tabs[tab].switchTo(organizations[tab%3])
		}
		var group sync.WaitGroup
		for tab, client := range tabs {
			group.Go(func() {
				for i := range 15 {
					organization := organizations[(tab+i)%3]
					if i%3 == 2 {
						client.do("POST", "/session/switch-workspace", fmt.Sprintf(`{"workspace_id":%q}`, workspaces(organization)))
						continue
					}
					data := client.switchTo(organization)
					if o, ws := data["organization"].(map[string]any)["id"].(string), data["workspace"].(map[string]any)["id"].(string); o != organization || homes[ws] != o {
						t.Errorf("answered organization %s with workspace %s of %s", o, ws, homes[ws])
					}
					s := client.ok("GET", "/session", "")
					if o, ws := s["organization"].(map[string]any)["id"].(string), s["workspace"].(map[string]any)["id"].(string); homes[ws] != o {
						t.Errorf("the session has organization %s with workspace %s of %s", o, ws, homes[ws])
					}
				}
			})
		}
		group.Wait()
	})
}

func TestSwitchesAreAuditedButNotSignIns(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		one := b.organization("One")
		b.organization("Two")
		count := func() int { return strings.Count(w.dump(), "events: "+deploymentName+" signin") }
		before := count()
		b.switchTo(one)
		b.ok("GET", "/session", "")
		if count() != before || before != 1 {
			t.Errorf("%d sign-ins, before %d", count(), before)
		}
		if n := w.audited("session.switched_organization"); n != 1 {
			t.Errorf("%d switches in the audit, want 1", n)
		}
	})
}

func TestB2BSettingsApplyImmediately(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.sign()
		b, _ := w.signedUp("ada@example.com")
		one := b.organization("One")
		set := func(change func(*document.B2BSettings)) {
			s := document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5}
			change(&s)
			w.DeclareB2B(s)
		}
		workspace := fmt.Sprintf(`{"name":"More","organization_id":%q}`, one)
		// Until the settings are known, each request creates a workspace. It goes into an organization whose workspaces
		// are not counted below.
		elsewhere := fmt.Sprintf(`{"name":"More","organization_id":%q}`, b.organization("Elsewhere"))
		set(func(s *document.B2BSettings) { s.AllowWorkspaceCreation = false })
		w.Eventually("no workspaces are created", func() bool {
			return b.do("POST", "/workspaces", elsewhere).code() == "WORKSPACE_CREATION_DISABLED"
		})
		if data := b.ok("POST", "/organizations", `{"name":"Bare"}`); b.ok("GET", "/session", "")["workspace"] != nil {
			t.Errorf("a default workspace came with %v", data)
		}
		set(func(s *document.B2BSettings) { s.DefaultWorkspaceLimit = 2 })
		w.Eventually("workspaces are created again", func() bool { return b.do("POST", "/workspaces", workspace).Status == 200 })
		w.Eventually("the limit binds", func() bool { return b.do("POST", "/workspaces", workspace).code() == "WORKSPACE_LIMIT_REACHED" })
		unrelated, _ := w.signedUp("bob@example.com")
		unrelated.refused(403, "NOT_MEMBER", "POST", "/workspaces", workspace)
		unrelated.refused(403, "NOT_MEMBER", "POST", "/workspaces", `{"name":"More","organization_id":"12345"}`)

		set(func(s *document.B2BSettings) { s.RequireOrgForSignup = true })
		w.Eventually("sign-ups need an organization", func() bool {
			return w.browser().do("POST", "/auth/signup", `{"email":"eve@example.com"}`).code() == "ORGANIZATION_REQUIRED"
		})
		eve := w.browser()
		eve.ok("POST", "/auth/signup", `{"email":"eve2@example.com","organization_name":"Eve & Söhne"}`)
		eve.completeSignUp("eve2@example.com")
		if s := eve.ok("GET", "/session", ""); s["organization"].(map[string]any)["slug"] != w.Numbered("eve-sohne") {
			t.Errorf("the sign-up's organization: %v", s)
		}

		set(func(s *document.B2BSettings) { s.Enabled = false; s.RequireOrgForSignup = true })
		w.Eventually("organizations are disabled", func() bool { return b.do("POST", "/organizations", `{"name":"No"}`).code() == "ORGANIZATIONS_DISABLED" })
		switchBody := fmt.Sprintf(`{"organization_id":%q}`, one)
		b.refused(403, "ORGANIZATIONS_DISABLED", "POST", "/session/switch-organization", switchBody)
		b.refused(403, "ORGANIZATIONS_DISABLED", "POST", "/session/switch-organization", `{"organization_id":"999"}`)
		b.refused(403, "ORGANIZATIONS_DISABLED", "POST", "/session/switch-workspace", `{"workspace_id":"999"}`)
		b.refused(403, "ORGANIZATIONS_DISABLED", "POST", "/workspaces", workspace)
		b.refused(403, "ORGANIZATIONS_DISABLED", "POST", "/organizations/"+one+"/invitations", `{"email":"x@example.com"}`)
		w.browser().refused(403, "ORGANIZATIONS_DISABLED", "POST", "/auth/signup", `{"email":"x@example.com","organization_name":"X"}`)
		if s := b.ok("GET", "/session", ""); s["organization"] != nil || s["workspace"] != nil || s["user"] == nil {
			t.Errorf("while B2B is off: %v", s)
		}
		if c := w.verifyToken(b.ok("POST", "/session/token", `{}`)["token"].(string)); c["organization"] != nil || c["workspace"] != nil {
			t.Errorf("while B2B is off: %v", c)
		}
		if len(b.list("/me/organization-memberships")) == 0 {
			t.Error("memberships are not readable while B2B is off")
		}
		plain := w.browser()
		plain.ok("POST", "/auth/signup", `{"email":"plain@example.com"}`) // require_org_for_signup is ignored
		set(func(*document.B2BSettings) {})
		w.Eventually("the organizations are available again", func() bool { return b.do("POST", "/session/switch-organization", switchBody).Status == 200 })
	})
}

func TestInvitations(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		path := "/organizations/" + organization + "/invitations"
		orgRole, wsRole := w.role("member", "Organization", "billing:read"), w.role("writer", "Workspace", "documents:read")
		w.DeclareB2B(document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, OrgRole: "member", WorkspaceRole: "writer"})
		w.Eventually("the roles are known", func() bool {
			return owner.do("POST", path, fmt.Sprintf(`{"email":"x@example.com","role_id":%q}`, orgRole)).Status == 200
		})
		owner.refused(400, "VALIDATION_ERROR", "POST", path, fmt.Sprintf(`{"email":"x@example.com","role_id":%q}`, wsRole))
		owner.refused(400, "VALIDATION_ERROR", "POST", path, `{"email":"x@example.com","role_id":"123"}`)
		owner.refused(400, "VALIDATION_ERROR", "POST", path, `{"email":"nobody"}`)
		owner.refused(404, "ORGANIZATION_NOT_FOUND", "POST", "/organizations/123/invitations", `{"email":"x@example.com"}`)
		owner.refused(404, "ORGANIZATION_NOT_FOUND", "POST", "/organizations/x/invitations", `{"email":"x@example.com"}`)
		owner.ok("POST", path, `{"email":"Bob@Example.com"}`)
		token := w.InvitationFor("Bob@Example.com", 1)

		// Only the invited user can accept, and only once.
		mallory, _ := w.signedUp("mallory@example.com")
		accept := fmt.Sprintf(`{"token":%q}`, token)
		mallory.refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/accept", accept)
		mallory.refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/accept", `{"token":"x"}`)
		mallory.refused(400, "VALIDATION_ERROR", "POST", "/organizations/invitations/accept", `{}`)
		w.browser().refused(400, "INVALID_INVITATION", "POST", "/auth/signup", fmt.Sprintf(`{"email":"mallory2@example.com","invitation_token":%q}`, token))
		w.browser().refused(400, "VALIDATION_ERROR", "POST", "/auth/signup", fmt.Sprintf(`{"email":"bob@example.com","invitation_token":%q,"organization_name":"X"}`, token))

		// A sign-up with the invitation creates a membership with the roles of the settings.
		bob := w.browser()
		bob.ok("POST", "/auth/signup", fmt.Sprintf(`{"email":"bob@example.com","invitation_token":%q}`, token))
		bob.completeSignUp("bob@example.com")
		m := bob.list("/me/organization-memberships")
		if len(m) != 1 || m[0]["role"].(map[string]any)["id"] != orgRole || fmt.Sprint(m[0]["role"].(map[string]any)["permissions"]) != "[billing:read]" {
			t.Fatalf("memberships %v", m)
		}
		ws := bob.list("/me/workspace-memberships")
		if len(ws) != 1 || ws[0]["role"].(map[string]any)["id"] != wsRole {
			t.Fatalf("workspace memberships %v", ws)
		}
		if s := bob.ok("GET", "/session", ""); s["organization"].(map[string]any)["id"] != organization {
			t.Errorf("session %v", s)
		}
		bob.refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/accept", accept)
		bob.refused(403, "PERMISSION_DENIED", "POST", path, `{"email":"y@example.com"}`)
		bob.refused(403, "PERMISSION_DENIED", "POST", "/workspaces", fmt.Sprintf(`{"name":"W","organization_id":%q}`, organization))

		// An invitation expires after a week, and members can leave, except for the owner.
		owner.ok("POST", path, `{"email":"mallory@example.com"}`)
		late := w.InvitationFor("mallory@example.com", 1)
		w.Clock.Advance(7*24*time.Hour + time.Second)
		mallory.signIn("mallory@example.com")
		mallory.refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, late))
		owner.signIn("owner@example.com")
		own := owner.list("/me/organization-memberships")[0]["id"].(string)
		owner.refused(400, "OWNER_REMOVAL", "DELETE", "/me/organization-memberships/"+own, "")
		owner.refused(404, "MEMBERSHIP_NOT_FOUND", "DELETE", "/me/organization-memberships/1", "")
		bob.ok("POST", "/auth/signin", `{"strategy":"email_otp","email":"bob@example.com"}`)
		attempt := bob.last.Body.Session.SignInAttempts[0]["id"]
		bob.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("bob@example.com", 2)))
		bob.ok("DELETE", "/me/organization-memberships/"+bob.list("/me/organization-memberships")[0]["id"].(string), "")
		if s := bob.ok("GET", "/session", ""); s["organization"] != nil || len(bob.list("/me/workspace-memberships")) != 0 {
			t.Errorf("after leaving: %v", s)
		}
	})
}

func TestConcurrentWorkspacesKeepTheLimit(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		organization := b.organization("Org")
		var group sync.WaitGroup
		for range 20 {
			client := b.as(b.cookie())
			group.Go(func() {
				for range 5 {
					client.do("POST", "/workspaces", fmt.Sprintf(`{"name":"Same","organization_id":%q}`, organization))
				}
			})
		}
		group.Wait()
		if n := len(b.list("/me/workspace-memberships")); n != 5 {
			t.Errorf("%d workspaces, want the limit of 5", n)
		}
	})
}

// verifyToken verifies a session token with the published key set, and returns its claims.
func (w *world) verifyToken(token string) map[string]any {
	w.T.Helper()
	var set jose.JSONWebKeySet
	a := w.browser().do("GET", "/.well-known/jwks.json", "")
	w.Must(json.Unmarshal([]byte(a.Raw), &set))
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.ES256})
	w.Must(err)
	keys := set.Key(parsed.Headers[0].KeyID)
	if len(keys) != 1 || !keys[0].IsPublic() {
		w.T.Fatalf("the key set %s does not have the key %s", a.Raw, parsed.Headers[0].KeyID)
	}
	var claims map[string]any
	w.Must(parsed.Claims(keys[0], &claims))
	return claims
}

func TestInvitationEndsWithInvitersMembership(t *testing.T) {
	onSQLite(t, func(w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		inviter := w.role("inviter", "Organization", "organization:invite")
		path := "/organizations/" + organization + "/invitations"
		w.Eventually("the role is known", func() bool {
			return owner.do("POST", path, fmt.Sprintf(`{"email":"mallory@example.com","role_id":%q}`, inviter)).Status == 200
		})
		mallory, user := w.signedUp("mallory@example.com")
		mallory.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor("mallory@example.com", 1)))
		mallory.ok("POST", path, `{"email":"second@example.com"}`)
		token := w.InvitationFor("second@example.com", 1)
		w.tx(func(tx people.Tx) error {
			_, err := tx.Organizations().DeleteMember(parseID(organization), parseID(user))
			return err
		})
		second, _ := w.signedUp("second@example.com")
		second.refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, token))
		if n := len(second.list("/me/organization-memberships")); n != 0 {
			t.Errorf("%d memberships by an invitation whose inviter is gone", n)
		}
	})
}
