package enduser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// makesLink makes a setup link of an organization, and returns its id and token.
func (b *browser) makesLink(organization, email, intents string) (id, token string) {
	b.w.T.Helper()
	made := b.ok("POST", "/organizations/"+organization+"/setup-links", fmt.Sprintf(`{"email":%q,"intents":[%s]}`, email, intents))
	parts := strings.Split(made["url"].(string), "/setup/")
	return made["id"].(string), parts[1]
}

// opens opens a setup link whose code is the nth that was mailed to an address.
func (b *browser) opens(token, email string, nth int) {
	b.w.T.Helper()
	b.ok("POST", "/setup/prepare-verification", fmt.Sprintf(`{"token":%q}`, token))
	b.ok("POST", "/setup/attempt-verification", fmt.Sprintf(`{"token":%q,"code":%q}`, token, b.w.CodeFor(email, nth)))
}

func TestSetupLinkPermitsWhatItNames(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		_, other, _ := w.customer("initech")
		p := w.provider()
		_, token := owner.makesLink(id, "it@globex.example", `"sso"`)
		it := w.browser()
		it.refused(400, "INVALID_SETUP_LINK", "GET", "/setup", "")
		it.ok("POST", "/setup/prepare-verification", fmt.Sprintf(`{"token":%q}`, token))
		it.refused(401, "NOT_AUTHENTICATED", "GET", "/organizations/"+id+"/connections", "") // the code is not entered yet
		it.refused(400, "INVALID_CODE", "POST", "/setup/attempt-verification", fmt.Sprintf(`{"token":%q,"code":"000000"}`, token))
		got := it.ok("POST", "/setup/attempt-verification", fmt.Sprintf(`{"token":%q,"code":%q}`, token, w.CodeFor("it@globex.example", 1)))
		if got["organization"].(map[string]any)["id"] != id || fmt.Sprint(got["intents"]) != "[sso]" {
			t.Errorf("%v", got)
		}
		it.ok("GET", "/setup", "")
		conn := it.setUp(id, p, "")
		it.ok("PATCH", "/organizations/"+id+"/connections/"+conn, `{"display_name":"Ours"}`)
		it.list("/organizations/" + id + "/connections/" + conn + "/failures")
		it.list("/organizations/" + id + "/roles")

		// Nothing else of the organization, and nothing of another.
		for _, path := range []string{
			"/organizations/" + id + "/domains", "/organizations/" + id + "/members", "/organizations/" + id + "/invitations", "/organizations/" + id + "/setup-links",
			"/organizations/" + other + "/connections", "/me", "/me/identities", "/organizations/" + other + "/roles",
		} {
			it.refused(401, "NOT_AUTHENTICATED", "GET", path, "")
		}
		it.refused(401, "NOT_AUTHENTICATED", "POST", "/organizations/"+other+"/connections", newConnection(p, ""))
		it.refused(401, "NOT_AUTHENTICATED", "POST", "/organizations/"+id+"/setup-links", `{"email":"a@b.example","intents":["sso"]}`)
		it.refused(401, "NOT_AUTHENTICATED", "DELETE", "/organizations/"+id, fmt.Sprintf(`{"confirmation":%q}`, owner.organizationSlug(id)))

		// An enforcement needs a sign-in of the session, also where the user becomes a member without permissions.
		own := "/organizations/" + id + "/connections/" + conn
		it.refused(400, "SSO_NOT_TESTED", "PATCH", own, `{"enforcement":"Members"}`)
		w.proves(id, "globex.example")
		w.Clock.Advance(time.Second)
		if a := it.sso(conn, p, identityprovider.User{"sub": "it", "email": "it@globex.example"}); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		it.ok("PATCH", own, `{"enforcement":"Members"}`)
		it.refused(403, "PERMISSION_DENIED", "GET", "/organizations/"+id+"/domains", "")
	})
}

func TestSetupLinkEnds(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		manager := w.role("manager", "Organization", "connection:manage")
		w.Eventually("the role is known", func() bool { return len(owner.list("/organizations/"+id+"/roles")) == 1 })
		bob, membership, _ := w.joins(owner, id, "bob@example.com")
		owner.ok("PATCH", "/organizations/"+id+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, manager))
		path := "/organizations/" + id + "/connections"
		closed := func(it *browser, why string) {
			t.Helper()
			if a := it.do("GET", path, ""); a.Status != 401 {
				t.Errorf("%s: the link is open: %s", why, a.Raw)
			}
		}

		link, token := owner.makesLink(id, "it@globex.example", `"sso","domains"`)
		first, second := w.browser(), w.browser()
		first.opens(token, "it@globex.example", 1)
		first.list(path)
		w.Clock.Advance(2 * time.Minute)
		second.opens(token, "it@globex.example", 2) // the newest session has the link
		second.list("/organizations/" + id + "/domains")
		closed(first, "another session opened it")
		outsider, other, _ := w.customer("initech")
		outsider.refused(400, "INVALID_SETUP_LINK", "DELETE", "/organizations/"+other+"/setup-links/"+link, "")
		second.list(path)
		owner.ok("DELETE", "/organizations/"+id+"/setup-links/"+link, "")
		closed(second, "it was deleted")
		second.refused(400, "INVALID_SETUP_LINK", "POST", "/setup/prepare-verification", fmt.Sprintf(`{"token":%q}`, token))

		_, token = bob.makesLink(id, "it2@globex.example", `"sso"`)
		third := w.browser()
		third.opens(token, "it2@globex.example", 1)
		third.list(path)
		owner.ok("PATCH", "/organizations/"+id+"/members/"+membership, `{"role_id":null}`)
		closed(third, "its maker lost the permission")
		owner.ok("PATCH", "/organizations/"+id+"/members/"+membership, fmt.Sprintf(`{"role_id":%q}`, manager))
		third.list(path)
		w.managesConnections(func(c *document.OrganizationConnections) { c.SelfService = false })
		closed(third, "organizations manage no connections any more")
		w.managesConnections(nil)
		third.list(path)
		w.Clock.Advance(24*time.Hour + time.Second)
		closed(third, "its time is over")
		for _, bad := range []string{token, "", "x", strings.Repeat("a", 43), strings.Repeat("a", 200)} {
			if a := w.browser().do("POST", "/setup/prepare-verification", fmt.Sprintf(`{"token":%q}`, bad)); a.Status != 400 {
				t.Errorf("%q: %s", bad, a.Raw)
			}
		}
	})
}

func TestSetupLinksAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.managesConnections(nil)
		owner, id, _ := w.customer("globex")
		bob, _, _ := w.joins(owner, id, "bob@example.com")
		path := "/organizations/" + id + "/setup-links"
		bob.refused(403, "PERMISSION_DENIED", "POST", path, `{"email":"it@globex.example","intents":["sso"]}`)
		for _, body := range []string{
			`{"email":"it@globex.example"}`, `{"email":"it@globex.example","intents":[]}`, `{"email":"it@globex.example","intents":["members"]}`, `{"email":"x","intents":["sso"]}`,
			`{"email":"it@globex.example","intents":["sso"],"expires_in":604801}`, `{"email":"it@globex.example","intents":["sso"],"expires_in":0}`,
		} {
			owner.refused(400, "VALIDATION_ERROR", "POST", path, body)
		}
		for range 20 {
			owner.makesLink(id, "it@globex.example", `"sso"`)
		}
		owner.refused(429, "RATE_LIMITED", "POST", path, `{"email":"it@globex.example","intents":["sso"]}`)
		if n := len(owner.list(path)); n != 20 {
			t.Errorf("%d links are listed", n)
		}
	})
}
