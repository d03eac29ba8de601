package enduser_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// globex is an organization with a connection for its domain and a directory.
type globex struct {
	*directory
	owner *browser
	// organization is its id.
	organization string
	provider     *identityprovider.Provider
	connection   string
}

// globex declares an organization with a connection for globex.example and a directory.
func (w *world) globex(change func(*document.Directory)) *globex {
	w.T.Helper()
	g := &globex{}
	var slug string
	g.owner, g.organization, slug = w.customer("globex")
	g.provider = w.provider()
	g.connection = w.connection("globex", g.provider, ofOrganization(slug, "globex.example"))
	g.directory = w.directory("globex", slug, func(d *document.Directory) {
		d.Connection = "globex"
		if change != nil {
			change(d)
		}
	})
	return g
}

func TestDirectoryUserBecomesAMemberAndSignsIn(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("Ann@globex.example", `,"externalId":"ext-1","name":{"givenName":"Ann","familyName":"Lee"}`)
		if _, membership := g.owner.memberAt(g.organization, "Ann@globex.example"); membership == "" {
			t.Fatal("the user is not a member")
		}
		b := w.browser()
		a := b.sso(g.connection, g.provider, identityprovider.User{"sub": "ext-1", "email": "other@globex.example"})
		if a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		if me := b.ok("GET", "/me", ""); me["email"] != "Ann@globex.example" || me["first_name"] != "Ann" || me["last_name"] != "Lee" {
			t.Errorf("externalId does not lead to the account: %v", me)
		}
		second := w.browser()
		g.adds("bob@globex.example")
		second.sso(g.connection, g.provider, identityprovider.User{"sub": "2", "email": "bob@globex.example"})
		if me := second.ok("GET", "/me", ""); me["email"] != "bob@globex.example" {
			t.Errorf("%v", me)
		}
		got := g.ok(http.StatusOK, "GET", "/Users/"+id, "")
		if got["userName"] != "Ann@globex.example" || got["externalId"] != "ext-1" || got["active"] == false || got["meta"].(map[string]any)["version"] != `W/"1"` {
			t.Errorf("%v", got)
		}
		if got := w.count("SELECT COUNT(*) FROM users"); got != 3 {
			t.Errorf("%d users", got)
		}
	})
}

func TestDirectoryUserGetsTheAccountWhereTheAddressIsVerified(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ann@globex.example")
		g := w.globex(nil)
		g.adds("ann@globex.example")
		if _, membership := g.owner.memberAt(g.organization, "ann@globex.example"); membership == "" {
			t.Error("the user is not a member")
		}
		if !b.alive() || b.ok("GET", "/me", "")["id"] != user {
			t.Error("the account changed")
		}
	})
}

func TestDeactivationEndsAccessAndActivationBringsBackEverythingButSessions(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		role := w.role("developer", "Organization", "billing:read")
		g := w.globex(nil)
		id := g.adds("ann@globex.example")
		b := w.browser()
		b.sso(g.connection, g.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		_, membership := g.owner.memberAt(g.organization, "ann@globex.example")
		g.owner.ok("PATCH", "/organizations/"+g.organization+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, role))
		workspaces := len(b.list("/me/workspace-memberships"))
		g.activates(id, false)
		if b.alive() {
			t.Error("the session is alive after the deactivation")
		}
		if _, m := g.owner.memberAt(g.organization, "ann@globex.example"); m != "" {
			t.Error("the deactivated user is a member")
		}
		w.browser().refusedSSO(t, g.connection, g.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"}, 403, "SSO_NOT_PROVISIONED")
		g.activates(id, false) // equal: nothing changes
		g.activates(id, true)
		if b.alive() {
			t.Error("the session is alive again")
		}
		c := w.browser()
		if a := c.sso(g.connection, g.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"}); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		if name, m := g.owner.memberAt(g.organization, "ann@globex.example"); m != membership || name != "developer" {
			t.Errorf("membership %s with role %q, want %s with developer", m, name, membership)
		}
		if got := len(c.list("/me/workspace-memberships")); got != workspaces {
			t.Errorf("%d workspaces, want %d", got, workspaces)
		}
		if v := g.ok(http.StatusOK, "GET", "/Users/"+id, "")["meta"].(map[string]any)["version"]; v != `W/"3"` {
			t.Errorf("version %v: a change to an equal document must not count", v)
		}
	})
}

func TestDeletedDirectoryUserIsFoundAgain(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("ann@globex.example")
		_, membership := g.owner.memberAt(g.organization, "ann@globex.example")
		g.ok(http.StatusNoContent, "DELETE", "/Users/"+id, "")
		g.refused(http.StatusNotFound, "", "DELETE", "/Users/"+id, "")
		g.refused(http.StatusNotFound, "", "GET", "/Users/"+id, "")
		if _, m := g.owner.memberAt(g.organization, "ann@globex.example"); m != "" {
			t.Error("the deleted user is a member")
		}
		before := w.countUsers()
		g.adds("ann@globex.example")
		if _, m := g.owner.memberAt(g.organization, "ann@globex.example"); m != membership || w.countUsers() != before {
			t.Errorf("membership %q, want %q; %d accounts, want %d", m, membership, w.countUsers(), before)
		}
	})
}

func TestErasingDirectoryDeletesOnlyAccountsThatItCreatedAndNoOtherOrganizationHas(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		_, existing := w.signedUp("old@globex.example")
		g := w.globex(func(d *document.Directory) { d.Erases = true })
		created, kept, shared := g.adds("new@globex.example"), g.adds("old@globex.example"), g.adds("both@globex.example")
		b := w.browser()
		b.sso(g.connection, g.provider, identityprovider.User{"sub": "3", "email": "both@globex.example"})
		b.proveByCode("both@globex.example", 1)
		b.organization("Own")
		before := w.countUsers()
		for _, id := range []string{created, kept, shared} {
			g.ok(http.StatusNoContent, "DELETE", "/Users/"+id, "")
		}
		if got := w.countUsers(); got != before-1 {
			t.Errorf("%d accounts, want %d", got, before-1)
		}
		if got := w.count("SELECT COUNT(*) FROM users WHERE id = " + existing); got != 1 {
			t.Error("an account that the directory did not create is gone")
		}
	})
}

func TestUserOutsideTheDomainsWaitsUntilTheAddressIsProven(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("contractor@mail.example")
		g := w.globex(nil)
		id := g.adds("contractor@mail.example")
		if len(b.organizations()) != 0 {
			t.Fatal("a directory joined an account of a foreign domain")
		}
		w.Clock.Advance(time.Minute)
		again := w.browser()
		again.signIn("contractor@mail.example")
		if len(b.organizations()) != 0 {
			t.Fatal("a password proved a mailbox")
		}
		again.otp("contractor@mail.example")
		if a := again.try(again.attempt(), w.CodeFor("contractor@mail.example", 2)); a.Status != 200 {
			t.Fatal(a.Raw)
		}
		if got := b.organizations(); len(got) != 1 || got[0] != g.organization {
			t.Errorf("member of %v after the address was proven", got)
		}
		g.activates(id, false)
		if got := again.organizations(); len(got) != 0 || !again.alive() {
			t.Errorf("member of %v; an account of its own must keep its sign-ins elsewhere", got)
		}
		late := g.adds("late@mail.example")
		late2 := w.browser()
		late2.signUp("late@mail.example")
		if got := late2.organizations(); len(got) != 1 {
			t.Errorf("member of %v after the sign-up", got)
		}
		g.ok(http.StatusNoContent, "DELETE", "/Users/"+late, "")
		if got := late2.organizations(); len(got) != 0 {
			t.Errorf("member of %v after the user was deleted", got)
		}
	})
}

func TestInvitationTiesAWaitingUser(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c, _ := w.signedUp("contractor@mail.example")
		g := w.globex(nil)
		id := g.adds("contractor@mail.example")
		b, _ := w.signedUp("other@mail.example")
		b.addAddress("contractor@mail.example", false)
		if len(b.organizations()) != 0 || len(c.organizations()) != 0 {
			t.Fatal("an address that was not proven again made a member")
		}
		w.joinsAs(g.owner, g.organization, c)
		g.activates(id, false)
		if got := c.organizations(); len(got) != 0 {
			t.Errorf("member of %v after the deactivation", got)
		}
	})
}

func TestWaitingUserGetsAnAccountWhenTheDomainBecomesTheOrganizations(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id, member := g.adds("ann@new.example"), g.adds("bob@new.example")
		b, _ := w.signedUp("carl@new.example")
		b.signIn("carl@new.example")
		w.connection("globex", g.provider, ofOrganization(g.document.Organization, "globex.example", "new.example"))
		if got := g.ok(http.StatusOK, "PUT", "/Users/"+id, `{"userName":"ann@new.example","emails":[{"value":"ann@new.example","type":"work","primary":true}]}`); got["meta"].(map[string]any)["version"] != `W/"1"` {
			t.Errorf("an equal document got a version: %v", got)
		}
		if _, m := g.owner.memberAt(g.organization, "ann@new.example"); m == "" {
			t.Error("not a member after the next request")
		}
		g.activates(member, false)
		if got := w.count("SELECT COUNT(*) FROM emails WHERE folded = 'bob@new.example'"); got != 0 {
			t.Error("a deactivation created an account")
		}
		// A deactivation reaches the account of a user who waited until the domain was the organization's.
		carl := g.adds("dora@elsewhere.example", `,"emails":[{"value":"carl@new.example","type":"work","primary":true}]`)
		double := g.adds("double@elsewhere.example")
		w.connection("globex", g.provider, ofOrganization(g.document.Organization, "globex.example"))
		g.patches("/Users/"+double, `{"op":"replace","path":"emails[type eq \"work\"].value","value":"carl@new.example"}`)
		w.connection("globex", g.provider, ofOrganization(g.document.Organization, "globex.example", "new.example"))
		g.activates(double, false) // another user has the account
		g.ok(http.StatusNoContent, "DELETE", "/Users/"+double, "")
		if !b.alive() {
			t.Error("a user without an account ended the sign-in of another one")
		}
		g.activates(carl, false)
		if b.alive() {
			t.Error("the deactivated user is signed in")
		}
		emil, _ := w.signedUp("emil@late.example")
		late := g.adds("emil@late.example")
		w.connection("globex", g.provider, ofOrganization(g.document.Organization, "globex.example", "late.example"))
		g.ok(http.StatusNoContent, "DELETE", "/Users/"+late, "")
		if emil.alive() {
			t.Error("the deleted user, whose address is now in a domain of the organization, is signed in")
		}
	})
}

func TestLastOwnerIsNeverDeactivated(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("owner@globex.example")
		for _, request := range [][2]string{{"PATCH", `{"Operations":[{"op":"Replace","path":"active","value":"False"}]}`}, {"DELETE", ""}} {
			g.refused(http.StatusConflict, "", request[0], "/Users/"+id, request[1])
		}
		if !g.owner.alive() {
			t.Error("the owner's session ended")
		}
		if got := g.ok(http.StatusOK, "GET", "/Users/"+id, ""); got["active"] == false {
			t.Error("the refused change was stored")
		}
		w.Eventually("the owner is mailed once", func() bool { return w.mailsWith("owner@globex.example", "last owner") == 1 })
	})
}

func TestManagedAccountFollowsItsDirectory(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("ann@globex.example", `,"name":{"givenName":"Ann","familyName":"Lee"}`)
		g.adds("bob@globex.example")
		b := w.browser()
		b.sso(g.connection, g.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		b.refused(http.StatusForbidden, "MANAGED_ACCOUNT", "DELETE", "/me/account", `{"confirmation":"DELETE_MY_ACCOUNT"}`)
		g.patches("/Users/"+id, `{"op":"replace","path":"emails[type eq \"work\"].value","value":"ann.wu@globex.example"},{"op":"replace","path":"name.familyName","value":"Wu"}`)
		if me := b.ok("GET", "/me", ""); me["email"] != "ann.wu@globex.example" || me["last_name"] != "Wu" {
			t.Errorf("%v", me)
		}
		if got := w.count("SELECT COUNT(*) FROM emails WHERE folded = 'ann@globex.example'"); got != 0 {
			t.Error("the account keeps its former address, whose mailbox may get another owner")
		}
		g.refused(http.StatusConflict, "uniqueness", "PATCH", "/Users/"+id, `{"Operations":[{"op":"replace","path":"emails[type eq \"work\"].value","value":"bob@globex.example"}]}`)
		g.patches("/Users/"+id, `{"op":"replace","path":"emails[type eq \"work\"].value","value":"ann@elsewhere.example"}`)
		if me := b.ok("GET", "/me", ""); me["email"] != "ann.wu@globex.example" {
			t.Errorf("the account got an address of a foreign domain: %v", me)
		}
	})
}

// A directory first names an address outside of its organization's domains, which the account does not follow: one that
// the account has, or does not have. Then it names one inside.
func TestRenamedAccountLosesItsFormerAddressAndKeepsItsOwnOnes(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		for name, between := range map[string]string{"ann": "ann@new.example", "bob": "bob@private.example"} {
			b, _ := w.signedUp(name + "@globex.example")
			id := g.adds(name + "@globex.example")
			b.addAddress(name+"@private.example", true)
			for _, address := range []string{between, name + ".wu@globex.example"} {
				g.patches("/Users/"+id, fmt.Sprintf(`{"op":"replace","path":"emails[type eq \"work\"].value","value":%q}`, address))
			}
			var left []string
			for _, e := range b.list("/me/email-addresses") {
				left = append(left, e["email"].(string))
			}
			slices.Sort(left)
			if want := []string{name + ".wu@globex.example", name + "@private.example"}; !slices.Equal(left, want) {
				t.Errorf("%s, which was %s meanwhile: the account has %v, want %v", name, between, left, want)
			}
		}
	})
}

func TestAccountOutsideTheDomainsDoesNotFollowItsDirectory(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("late@mail.example")
		b := w.browser()
		b.signUp("late@mail.example")
		before := b.ok("GET", "/me", "")
		if got := b.organizations(); len(got) != 1 {
			t.Fatalf("member of %v after the sign-up", got)
		}
		g.patches("/Users/"+id, `{"op":"replace","path":"emails[type eq \"work\"].value","value":"late@globex.example"},{"op":"replace","path":"name","value":{"givenName":"Eve","familyName":"Wu"}}`)
		if me := b.ok("GET", "/me", ""); me["email"] != "late@mail.example" || me["first_name"] != before["first_name"] || me["last_name"] != before["last_name"] {
			t.Errorf("the account follows the directory: %v, was %v", me, before)
		}
		if got := w.count("SELECT COUNT(*) FROM emails WHERE folded = 'late@globex.example'"); got != 0 {
			t.Error("the account has the directory's address")
		}
	})
}

func TestDirectoryMailsAUserOnlySoOften(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("ann@globex.example")
		status := 0
		for i := range 120 {
			status = g.do("PATCH", "/Users/"+id, fmt.Sprintf(`{"Operations":[{"op":"replace","path":"emails[type eq \"work\"].value","value":"ann%d@globex.example"}]}`, i)).Status
		}
		if got := w.audited("email.made_primary"); got != 100 || status != http.StatusTooManyRequests {
			t.Errorf("the address moved %d times, the last request got %d", got, status)
		}
	})
}

func TestLargeRequestsOfADirectoryCountAsMany(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		padding := strings.Repeat(" ", 1<<20-200)
		accepted := 0
		for range 20 { // the clock of the world stands still
			if g.do("POST", "/Users", `{"userName":""}`+padding).Status != http.StatusTooManyRequests {
				accepted++
			}
		}
		if accepted > 5 {
			t.Errorf("%d bodies of 1 MiB were read at once", accepted)
		}
		w.Clock.Advance(time.Minute)
		g.ok(http.StatusOK, "GET", "/Users", "")
	})
}

func TestMemberWhoLeftIsJoinedAgainOnlyByActivation(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("ann@globex.example")
		_, membership := g.owner.memberAt(g.organization, "ann@globex.example")
		g.owner.ok("DELETE", "/organizations/"+g.organization+"/members/"+membership, "")
		g.patches("/Users/"+id, `{"op":"replace","path":"title","value":"Lead"}`)
		if _, m := g.owner.memberAt(g.organization, "ann@globex.example"); m != "" {
			t.Error("a change of the title made the removed user a member")
		}
		g.activates(id, false)
		g.activates(id, true)
		if _, m := g.owner.memberAt(g.organization, "ann@globex.example"); m == "" {
			t.Error("an activated user is not a member")
		}
	})
}
