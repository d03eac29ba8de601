package enduser_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// CON-27: a directory reaches no account outside of the organization's domains, whatever it states.
func TestDirectoryTakesNoForeignAccount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		victim, _ := w.signedUp("victim@mail.example")
		rival, rivalOrganization, rivalSlug := w.customer("initech")
		w.connection("initech", w.provider(), ofOrganization(rivalSlug, "initech.example"))
		g := w.globex(nil)
		own := g.adds("ann@globex.example")
		b := w.browser()
		b.sso(g.connection, g.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		me := b.ok("GET", "/me", "")["id"]
		for _, address := range []string{"victim@mail.example", "owner@initech.example", "VICTIM@MAIL.EXAMPLE"} {
			id := g.adds(strings.Replace(address, "@", "+new@", 1), fmt.Sprintf(`,"emails":[{"value":%q,"primary":true,"type":"work"}],"externalId":%q`, address, address))
			if len(victim.organizations()) != 0 || len(rival.organizations()) != 1 {
				t.Errorf("%s: a foreign account became a member", address)
			}
			g.activates(id, false)
			g.activates(id, true)
			g.ok(http.StatusNoContent, "DELETE", "/Users/"+id, "")
			g.patches("/Users/"+own, fmt.Sprintf(`{"op":"replace","path":"emails[type eq \"work\"].value","value":%q},{"op":"replace","path":"userName","value":%q}`, address, address))
			g.activates(own, false)
			g.activates(own, true)
		}
		if !victim.alive() || !rival.alive() || len(victim.organizations()) != 0 || len(rival.organizations()) != 1 {
			t.Error("a directory reached an account of a foreign domain")
		}
		if got := rival.list("/organizations/" + rivalOrganization + "/members"); len(got) != 1 {
			t.Errorf("members of another organization: %v", got)
		}
		c := w.browser()
		c.sso(g.connection, g.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		if got := c.ok("GET", "/me", ""); got["id"] != me || got["email"] != "ann@globex.example" {
			t.Errorf("%v", got)
		}
		// A subject of the provider that a directory names selects no account that the provider does not control.
		waiting := g.adds("w@globex.example", `,"externalId":"sub-9","emails":[{"value":"victim@mail.example","primary":true,"type":"work"}]`)
		a := w.browser().sso(g.connection, g.provider, identityprovider.User{"sub": "sub-9", "email": "victim@mail.example"})
		if a.user() != "" {
			t.Errorf("signed in as the victim: %s", a.Raw)
		}
		g.ok(http.StatusNoContent, "DELETE", "/Users/"+waiting, "")
	})
}

// An account whose address is not proven may have the password of another person.
func TestDirectoryProvesTheAddressOfAnImportedAccount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		w.importUser(900, oldHash, "ann@globex.example")
		g.adds("ann@globex.example")
		if _, membership := g.owner.memberAt(g.organization, "ann@globex.example"); membership == "" {
			t.Error("the user is not a member")
		}
		if w.password(900) != "" || !w.verifiedEmail("ann@globex.example") {
			t.Error("the account keeps a password from before the address was proven")
		}
	})
}

// CON-20: tokens and ids of one directory mean nothing to another.
func TestDirectoriesDoNotSeeEachOther(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		_, _, slug := w.customer("initech")
		other := w.directory("initech", slug, nil)
		ann := g.adds("ann@globex.example")
		staff := g.group("Staff", ann)
		for _, path := range []string{"/Users/" + ann, "/Groups/" + staff} {
			other.refused(http.StatusNotFound, "", "GET", path, "")
			other.refused(http.StatusNotFound, "", "DELETE", path, "")
			other.refused(http.StatusNotFound, "", "PATCH", path, `{"Operations":[{"op":"replace","path":"displayName","value":"x"}]}`)
		}
		other.refused(http.StatusBadRequest, "invalidValue", "POST", "/Groups", fmt.Sprintf(`{"displayName":"Mine","members":[{"value":%q}]}`, ann))
		if got := other.ok(http.StatusOK, "GET", "/Users?filter="+url.QueryEscape(`id eq "`+ann+`"`), ""); got["totalResults"] != 0.0 {
			t.Errorf("%v", got)
		}
		other.adds("ann@globex.example") // waits: the domain is another organization's
		if got := w.count("SELECT COUNT(*) FROM scim_users WHERE user_id <> 0"); got != 1 {
			t.Errorf("%d users have accounts", got)
		}
	})
}

// CON-29: of a deactivation and concurrent sign-ins, switches and provider sign-ins, none leaves a session.
func TestDeactivationEndsConcurrentSignIns(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		id := g.adds("ann@globex.example")
		first := w.browser()
		first.sso(g.connection, g.provider, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		user := first.ok("GET", "/me", "")["id"].(string)
		for round := range 5 {
			var all sync.WaitGroup
			for range 4 {
				b := w.browser()
				values, err := g.provider.Authorize(b.begin(g.connection, ""), identityprovider.User{"sub": "1", "email": "ann@globex.example"})
				w.Must(err)
				all.Go(func() { b.do(http.MethodGet, callback(g.connection, values), "", "Sec-Fetch-Site", "cross-site") })
			}
			all.Go(func() {
				first.do("POST", "/session/switch-organization", fmt.Sprintf(`{"organization_id":%q}`, g.organization))
			})
			all.Go(func() { g.activates(id, false) })
			all.Wait()
			if got := w.count("SELECT COUNT(*) FROM signins WHERE user_id = " + user); got != 0 {
				t.Fatalf("round %d: %d sign-ins are left", round, got)
			}
			if got := w.count("SELECT COUNT(*) FROM organization_memberships WHERE user_id = " + user); got != 0 {
				t.Fatalf("round %d: %d memberships are left", round, got)
			}
			g.activates(id, true)
		}
	})
}

func TestDeactivatedUserIsNotInvitedBack(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		b, _ := w.signedUp("contractor@mail.example")
		b.otp("contractor@mail.example")
		id := g.adds("contractor@mail.example")
		b.try(b.attempt(), w.CodeFor("contractor@mail.example", 2))
		if len(b.organizations()) != 1 {
			t.Fatal("not a member")
		}
		g.activates(id, false)
		g.owner.invites(g.organization, "contractor@mail.example")
		again := w.browser()
		again.signIn("contractor@mail.example")
		again.refused(http.StatusForbidden, "MEMBERSHIP_SUSPENDED", "POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor("contractor@mail.example", 1)))
		if got := again.organizations(); len(got) != 0 {
			t.Errorf("member of %v", got)
		}
		w.Withdraw("Directory", "acme", "globex") // the directory is gone: its deactivation no longer counts
		again.ok("POST", "/organizations/invitations/accept", fmt.Sprintf(`{"token":%q}`, w.InvitationFor("contractor@mail.example", 1)))
		if got := again.organizations(); len(got) != 1 {
			t.Errorf("member of %v", got)
		}
	})
}

func TestTokensOfDirectoriesStaySecret(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		g := w.globex(nil)
		g.adds("ann@globex.example")
		g.refused(http.StatusNotFound, "", "GET", "/Users/1", "")
		w.managesConnections(nil)
		own := g.owner.setsUpDirectory(g.organization, `{}`)
		own.adds("bob@globex.example")
		own.refused(http.StatusNotFound, "", "GET", "/Users/1", "")
		for name, token := range map[string]string{"declared": g.token, "of the organization": own.token} {
			secret := token[len("scim_")+12:]
			if strings.Contains(w.Logs.String(), secret) || strings.Contains(w.dump(), secret) {
				t.Errorf("the token of the directory %s is in the log or the store", name)
			}
		}
	})
}
