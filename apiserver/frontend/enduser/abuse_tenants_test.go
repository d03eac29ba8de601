package enduser_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/store/people"
)

func (b *browser) invites(organization, email string) answer {
	b.w.T.Helper()
	return b.do("POST", "/organizations/"+organization+"/invitations", fmt.Sprintf(`{"email":%q}`, email))
}

// audited counts the audit records of an action.
func (w *world) audited(action string) (n int) {
	w.T.Helper()
	db := w.Open()
	defer func() { _ = db.Close() }()
	w.Must(db.QueryRowContext(w.T.Context(), `SELECT COUNT(*) FROM audit WHERE action = '`+action+`'`).Scan(&n))
	return n
}

func TestOwnedOrganizationsAreBounded(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		for n := range 20 {
			b.organization(fmt.Sprint("Org ", n))
		}
		b.refused(400, "ORGANIZATION_LIMIT_REACHED", "POST", "/organizations", `{"name":"One more"}`)
		// Two concurrent creations cannot both become the twentieth.
		w.tx(func(tx people.Tx) error {
			members, err := tx.Organizations().MembershipsOf(parseID(user))
			if err == nil {
				_, err = tx.Organizations().DeleteMember(members[19].Organization.ID, parseID(user))
			}
			return err
		})
		var mu sync.Mutex
		statuses := map[int]int{}
		var all sync.WaitGroup
		for range 4 {
			tab := b.as(b.cookie())
			all.Go(func() {
				resp, err := tab.raw("POST", "/organizations", `{"name":"At once"}`)
				if err != nil {
					return
				}
				_ = resp.Body.Close()
				mu.Lock()
				defer mu.Unlock()
				statuses[resp.StatusCode]++
			})
		}
		all.Wait()
		if statuses[200] != 1 {
			t.Errorf("of four at once %v, want one 200", statuses)
		}
		// The settings raise the limit.
		most := int64(21)
		w.DeclareB2B(document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, MaxOrganizationsPerUser: &most})
		w.Eventually("the bound is 21", func() bool { return b.do("POST", "/organizations", `{"name":"The last"}`).Status == 200 })
		b.refused(400, "ORGANIZATION_LIMIT_REACHED", "POST", "/organizations", `{"name":"One more"}`)
	})
}

func TestSwitchesAreAuditedOncePerHourAndSession(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		one, two := b.organization("One"), b.organization("Two")
		for range 3 {
			b.switchTo(one)
			b.switchTo(two)
		}
		if got := w.audited("session.switched_organization"); got != 1 {
			t.Errorf("six switches in an hour left %d audit records, want 1", got)
		}
		w.Clock.Advance(time.Hour + time.Second)
		b.switchTo(one)
		other, _ := w.signedUp("bob@example.com")
		other.switchTo(other.organization("Other"))
		if got := w.audited("session.switched_organization"); got != 3 {
			t.Errorf("%d audit records, want 3: one per hour and session", got)
		}
	})
}

func TestInvitationsAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		sent := 0
		for n := range 7 {
			b, _ := w.signedUp(fmt.Sprintf("owner%d@example.com", n))
			if a := b.invites(b.organization("Org"), "Stranger@example.com"); a.Status == 200 {
				sent++
			} else if a.code() != "RATE_LIMITED" || a.Header.Get("Retry-After") == "" {
				t.Fatal(a.Raw)
			}
		}
		if sent != 5 {
			t.Errorf("one email was invited %d times in a day, want 5", sent)
		}
		b, _ := w.signedUp("greedy@example.com")
		organization := b.organization("Greedy")
		sent = 0
		for n := range 102 {
			if b.invites(organization, fmt.Sprintf("guest%d@example.com", n)).Status == 200 {
				sent++
			}
		}
		if sent != 100 {
			t.Errorf("one inviter invited %d in a day, want 100", sent)
		}
		w.Clock.Advance(23*time.Hour + 59*time.Minute)
		b.signIn("greedy@example.com")
		b.refused(429, "RATE_LIMITED", "POST", "/organizations/"+organization+"/invitations", `{"email":"again@example.com"}`)
		w.Clock.Advance(2 * time.Minute)
		b.ok("POST", "/organizations/"+organization+"/invitations", `{"email":"again@example.com"}`)
	})
}

func TestInvitationsAreListedAndRevoked(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		path := "/organizations/" + organization + "/invitations"
		first := owner.ok("POST", path, `{"email":"bob@example.com"}`)["id"].(string)
		w.Clock.Advance(time.Second)
		owner.ok("POST", path, `{"email":"eve@example.com"}`)
		if open := owner.list(path); len(open) != 2 || open[0]["id"] != first || open[0]["email"] != "bob@example.com" {
			t.Errorf("open invitations %v", open)
		}
		unrelated, _ := w.signedUp("mallory@example.com")
		unrelated.refused(404, "ORGANIZATION_NOT_FOUND", "GET", path, "")
		unrelated.refused(404, "ORGANIZATION_NOT_FOUND", "DELETE", path+"/"+first, "")
		elsewhere := unrelated.organization("Elsewhere")
		unrelated.refused(404, "INVITATION_NOT_FOUND", "DELETE", "/organizations/"+elsewhere+"/invitations/"+first, "")
		token := w.InvitationFor("bob@example.com", 1)
		owner.ok("DELETE", path+"/"+first, "")
		for _, id := range []string{first, "1", "x"} {
			owner.refused(404, "INVITATION_NOT_FOUND", "DELETE", path+"/"+id, "")
		}
		if open := owner.list(path); len(open) != 1 {
			t.Errorf("after the revocation %v", open)
		}
		bob, _ := w.signedUp("bob@example.com")
		bob.refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, token))
	})
}

func TestInvitationEndsWithItsInviter(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		owner, user := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		owner.invites(organization, "bob@example.com")
		token := w.InvitationFor("bob@example.com", 1)
		disable := func(disabled bool) {
			w.tx(func(tx people.Tx) error {
				return tx.Users().UpdateUser(people.User{ID: parseID(user), Disabled: disabled, UpdatedAt: w.Clock.Now()})
			})
		}
		accept := fmt.Sprintf(`{"token":%q}`, token)
		bob, _ := w.signedUp("bob@example.com")
		disable(true)
		bob.refused(400, "INVALID_INVITATION", "POST", "/organizations/invitations/accept", accept)
		w.browser().refused(400, "INVALID_INVITATION", "POST", "/auth/signup",
			fmt.Sprintf(`{"email":"bob@example.com","password":%q,"invitation_token":%q}`, goodPassword, token))
		disable(false)
		bob.ok("POST", "/organizations/invitations/accept", accept)
	})
}

// The permissions of a token are one flat list, so a name in both catalogs is granted only by the organization's role.
func TestWorkspaceRoleGrantsNoOrganizationPermission(t *testing.T) {
	onSQLite(t, func(w *world) {
		w.sign()
		d := w.signedDeployment()
		d.OrganizationPermissions = append(d.OrganizationPermissions, "billing:write")
		d.WorkspacePermissions = append(d.WorkspacePermissions, "billing:write")
		w.Declare(d)
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		role := w.role("builder", "Organization", "workspace:create")
		w.Eventually("the role and the catalog are known", func() bool {
			return owner.do("POST", "/organizations/"+organization+"/invitations", fmt.Sprintf(`{"email":"bob@example.com","role_id":%q}`, role)).Status == 200
		})
		bob, _ := w.signedUp("bob@example.com")
		bob.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor("bob@example.com", 1)))
		bob.switchTo(organization)
		workspace := bob.ok("POST", "/workspaces", fmt.Sprintf(`{"name":"Mine","organization_id":%q}`, organization))["workspace"].(map[string]any)["id"].(string)
		bob.ok("POST", "/session/switch-workspace", fmt.Sprintf(`{"workspace_id":%q}`, workspace))
		claims := w.verifyToken(bob.ok("POST", "/session/token", `{}`)["token"].(string))
		if got := fmt.Sprint(claims["permissions"]); strings.Contains(got, "billing:write") || !strings.Contains(got, "documents:read") || claims["workspace"] != workspace {
			t.Errorf("a user who owns only a workspace has the permissions %s: %v", got, claims)
		}
	})
}

func TestConcurrentRemovalLeavesNoMembership(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		owner, _ := w.signedUp("owner@example.com")
		organization := owner.organization("Org")
		b, user := w.signedUp("bob@example.com")
		for round := range int64(10) {
			w.tx(func(tx people.Tx) error {
				return tx.Organizations().InsertMember(people.Member{ID: 7000 + round, User: parseID(user), Organization: people.Organization{ID: parseID(organization)}, CreatedAt: w.Clock.Now()})
			})
			removed := make(chan error, 1)
			go func() {
				removed <- w.Store.Change(t.Context(), deploymentName, func(tx people.Tx) error {
					_, err := tx.Organizations().DeleteMember(parseID(organization), parseID(user))
					return err
				})
			}()
			switched := b.do("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, organization))
			w.Must(<-removed)
			if switched.Status != 200 && switched.code() != "INVALID_ORGANIZATION" {
				t.Fatal(switched.Raw)
			}
			if s := b.ok("GET", "/session", ""); s["organization"] != nil {
				t.Fatalf("round %d: the organization of a removed member is active: %v", round, s)
			}
		}
	})
}

// Listing invitations reads each inviter once, not once per invitation.
func TestListingInvitationsReadsEachInviterOnce(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		organization := b.organization("Org")
		listed := func(want int) int {
			return len(w.traced.of(func() {
				if got := b.list("/organizations/" + organization + "/invitations"); len(got) != want {
					t.Fatalf("%d invitations, want %d", len(got), want)
				}
			}))
		}
		for n := range 2 {
			b.ok("POST", "/organizations/"+organization+"/invitations", fmt.Sprintf(`{"email":"one%d@example.com"}`, n))
		}
		few := listed(2)
		for n := range 6 {
			b.ok("POST", "/organizations/"+organization+"/invitations", fmt.Sprintf(`{"email":"more%d@example.com"}`, n))
		}
		if many := listed(8); many > few {
			t.Errorf("%d statements for 8 invitations, %d for 2", many, few)
		}
	})
}

// A sign-up that cannot create its organization is refused before a code is sent, not after.
func TestSignUpWithOrganizationNeedsOwnableOrganizations(t *testing.T) {
	onSQLite(t, func(w *world) {
		none := int64(0)
		w.DeclareB2B(document.B2BSettings{Enabled: true, AllowWorkspaceCreation: true, DefaultWorkspaceLimit: 5, MaxOrganizationsPerUser: &none})
		b := w.browser()
		w.Eventually("the settings are active", func() bool {
			return b.do("POST", "/auth/signup", fmt.Sprintf(`{"email":"ada@example.com","password":%q,"organization_name":"Org"}`, goodPassword)).code() == "ORGANIZATION_LIMIT_REACHED"
		})
	})
}
