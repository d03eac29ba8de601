package enduser_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// verify enters the code that was sent nth to an address, for the newest sign-in attempt of the last response.
func (b *browser) verify(address string, nth int) answer {
	b.w.T.Helper()
	id := b.last.attempt()["id"].(string)
	return b.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, id, b.w.CodeFor(address, nth)))
}

// identities returns the identities of the browser's account.
func (b *browser) identities() []map[string]any {
	b.w.T.Helper()
	return b.list("/me/identities")
}

func globexDomain(c *document.Connection) { c.Domains = []string{"globex.example"} }

func TestAuthoritativeAddressSelectsTheAccountThatHasItVerified(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		owner := w.browser()
		id := owner.signUp("ann@globex.example")
		if a := w.browser().sso(conn, p, identityprovider.User{"sub": "1", "email": "ANN@globex.example"}); a.user() != id {
			t.Fatalf("%s", a.Raw)
		}
		have := owner.identities()
		if len(have) != 1 || have[0]["email"] != "ANN@globex.example" || have[0]["connection"].(map[string]any)["slug"] != "globex" {
			t.Errorf("%v", have)
		}
		w.Eventually("the owner is notified", func() bool { return len(w.Carrier.Messages("ann@globex.example")) >= 2 })
	})
}

func TestUpstreamWordCreatesAnAccountButNeverSelectsOne(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("trusted", p, func(c *document.Connection) { c.TrustsEmail = true })
		if a := w.browser().sso(conn, p, identityprovider.User{"sub": "1", "email": "new@example.com", "email_verified": true}); a.user() == "" {
			t.Errorf("no account was created: %s", a.Raw)
		}
		if a := w.browser().sso(conn, p, identityprovider.User{"sub": "2", "email": "unverified@example.com", "email_verified": false}); a.attempt()["current_step"] != "verify_email" {
			t.Errorf("an unverified address creates an account: %s", a.Raw)
		}
		w.browser().signUp("bob@example.com")
		if a := w.browser().sso(conn, p, identityprovider.User{"sub": "3", "email": "bob@example.com", "email_verified": true}); a.user() != "" || a.attempt()["current_step"] != "verify_email" {
			t.Errorf("the provider's word selects an account: %s", a.Raw)
		}
	})
}

func TestUserWithoutAnAddressEntersOneAndProvesIt(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("any", p, nil)
		b := w.browser()
		a := b.sso(conn, p, identityprovider.User{"sub": "1"})
		if a.attempt()["current_step"] != "enter_email" {
			t.Fatalf("%s", a.Raw)
		}
		id := a.attempt()["id"].(string)
		b.refused(400, "VALIDATION_ERROR", "POST", "/auth/prepare-verification", fmt.Sprintf(`{"signin_attempt_id":%q}`, id))
		b.ok("POST", "/auth/prepare-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"email":"own@example.com"}`, id))
		if b.last.attempt()["current_step"] != "verify_email" {
			t.Fatalf("%s", b.last.Raw)
		}
		if done := b.verify("own@example.com", 1); done.user() == "" {
			t.Fatalf("%s", done.Raw)
		}
		if again := w.browser().sso(conn, p, identityprovider.User{"sub": "1"}); again.user() != b.last.user() {
			t.Errorf("%s", again.Raw)
		}
	})
}

func TestRefusedSignUpIsTheSameForAddressesWithAndWithoutAnAccount(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("closed", p, func(c *document.Connection) { globexDomain(c); c.RefusesSignUp = true })
		w.browser().refusedSSO(t, conn, p, identityprovider.User{"sub": "1", "email": "new@globex.example"}, 403, "SSO_NOT_PROVISIONED")
		id := w.browser().signUp("bob@globex.example")
		if a := w.browser().sso(conn, p, identityprovider.User{"sub": "2", "email": "bob@globex.example"}); a.user() != id {
			t.Errorf("%s", a.Raw)
		}
		// Where the provider does not control the mailbox, only its owner learns that there is no account.
		for _, address := range []string{"unknown@example.com", "bob@example.com"} {
			b := w.browser()
			if a := b.sso(conn, p, identityprovider.User{"sub": address, "email": address}); a.attempt()["current_step"] != "verify_email" {
				t.Fatalf("%s", a.Raw)
			}
			if a := b.verify(address, 1); a.Status != 403 || a.code() != "SSO_NOT_PROVISIONED" {
				t.Errorf("%s", a.Raw)
			}
		}
	})
}

// refusedSSO is sso for a response that must be refused.
func (b *browser) refusedSSO(t *testing.T, conn string, p *identityprovider.Provider, user identityprovider.User, status int, code string) answer {
	t.Helper()
	a := b.sso(conn, p, user)
	if a.Status != status || a.code() != code || a.user() != "" {
		t.Errorf("want %d %s, got %s", status, code, a.Raw)
	}
	return a
}

func TestLinkNeedsAFreshSignInAndAddsTheIdentity(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		w.browser().refused(401, "NOT_AUTHENTICATED", "POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q,"intent":"link"}`, conn))
		b := w.browser()
		id := b.signUp("ann@example.com")
		w.Clock.Advance(time.Second)
		if a := b.ssoFor(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"}, `,"intent":"link"`); a.Status != 200 || a.user() != id || a.data()["completed"] != true {
			t.Fatalf("%s", a.Raw)
		}
		if have := b.identities(); len(have) != 1 {
			t.Errorf("%v", have)
		}
		addresses := b.list("/me/email-addresses")
		if len(addresses) != 2 || addresses[1]["email"] != "ann@globex.example" || addresses[1]["verified"] != true {
			t.Errorf("the authoritative address was not added: %v", addresses)
		}
		other := w.browser()
		other.signUp("eve@example.com")
		a := other.ssoFor(conn, p, identityprovider.User{"sub": "1"}, `,"intent":"link"`)
		if a.Status != 400 || a.code() != "IDENTITY_EXISTS" {
			t.Errorf("another account's identity is linked: %s", a.Raw)
		}
		w.Clock.Advance(w.reauthenticateAfter())
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q,"intent":"link"}`, conn))
	})
}

func TestEleventhIdentityIsRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("any", p, nil)
		b := w.browser()
		b.signUp("ann@example.com")
		for n := range 10 {
			if a := b.ssoFor(conn, p, identityprovider.User{"sub": fmt.Sprint(n)}, `,"intent":"link"`); a.Status != 200 {
				t.Fatalf("%d: %s", n, a.Raw)
			}
		}
		if a := b.ssoFor(conn, p, identityprovider.User{"sub": "eleven"}, `,"intent":"link"`); a.code() != "IDENTITY_LIMIT_REACHED" {
			t.Errorf("%s", a.Raw)
		}
	})
}

func TestOnlyWayToSignInIsNotRemoved(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		b.sso(conn, p, identityprovider.User{"sub": "1", "email": "ann@globex.example"})
		id := b.identities()[0]["id"].(string)
		d := w.Settings()
		d.SignIn = &document.SignInSettings{Password: false, EmailCode: false, ConnectionsOnly: true}
		w.Declare(d)
		b.refused(400, "NO_ALTERNATIVE_AUTH", "DELETE", "/me/identities/"+id, "")
		b.refused(404, "IDENTITY_NOT_FOUND", "DELETE", "/me/identities/1", "")
		w.Declare(w.Settings())
		if got := b.ok("DELETE", "/me/identities/"+id, ""); got["id"] != id || !b.isSignedIn() {
			t.Errorf("%v, signed in: %t", got, b.isSignedIn())
		}
		if have := b.identities(); len(have) != 0 {
			t.Errorf("%v", have)
		}
	})
}

func TestReauthenticationNeedsANewAuthenticationAtTheProvider(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		ann := identityprovider.User{"sub": "1", "email": "ann@globex.example"}
		b.sso(conn, p, ann)
		w.Clock.Advance(w.reauthenticateAfter())
		link := fmt.Sprintf(`{"connection_id":%q,"intent":"link"}`, conn)
		b.refused(403, "REAUTHENTICATION_REQUIRED", "POST", "/auth/sso", link)
		stale := identityprovider.User{"sub": "1", "auth_time": w.Clock.Now().Unix() - 3600}
		if a := b.ssoFor(conn, p, stale, `,"intent":"reauthenticate"`); a.code() != "SSO_RESPONSE_INVALID" {
			t.Errorf("an old authentication counts: %s", a.Raw)
		}
		if a := b.ssoFor(conn, p, ann, `,"intent":"reauthenticate"`); a.code() != "SSO_RESPONSE_INVALID" {
			t.Errorf("an authentication without a time counts: %s", a.Raw)
		}
		other := identityprovider.User{"sub": "2", "auth_time": w.Clock.Now().Unix()}
		if a := b.ssoFor(conn, p, other, `,"intent":"reauthenticate"`); a.code() != "IDENTITY_EXISTS" {
			t.Errorf("another user counts: %s", a.Raw)
		}
		now := identityprovider.User{"sub": "1", "auth_time": w.Clock.Now().Unix()}
		if a := b.ssoFor(conn, p, now, `,"intent":"reauthenticate"`); a.Status != http.StatusOK {
			t.Fatalf("%s", a.Raw)
		}
		b.ok("POST", "/auth/sso", link)
	})
}

func TestHelpDeskSeesFailuresAndRemovesIdentities(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		user := b.sso(conn, p, ann).user()
		help, foreign := w.desk("help", deploymentName, "users:read", "users:write", "connections:read"), w.desk("foreign", anotherName, "*")
		list := help.expect(200, "GET", "/users/"+user+"/identities", "")["data"].([]any)
		if len(list) != 1 || list[0].(map[string]any)["subject"] != "1" || list[0].(map[string]any)["connection_slug"] != "globex" {
			t.Fatalf("%v", list)
		}
		id := list[0].(map[string]any)["id"].(string)
		p.Lie(func(c map[string]any) { c["aud"] = "x" })
		w.browser().sso(conn, p, ann)
		p.Lie(nil)
		failures := help.expect(200, "GET", "/connections/"+conn+"/failures", "")["data"].([]any)
		if len(failures) != 1 || failures[0].(map[string]any)["reason"] != "aud" {
			t.Errorf("%v", failures)
		}
		if served := help.expect(200, "GET", "/connections/"+conn, ""); served["slug"] != "globex" || served["source"] != "declared" {
			t.Errorf("%v", served)
		}
		for _, path := range []string{"/connections/" + conn, "/connections/" + conn + "/failures", "/users/" + user + "/identities"} {
			foreign.expect(404, "GET", path, "")
		}
		if other := foreign.expect(200, "GET", "/connections", "")["data"].([]any); len(other) != 0 {
			t.Errorf("%v", other)
		}
		foreign.expect(404, "DELETE", "/users/"+user+"/identities/"+id, "")
		help.expect(404, "DELETE", "/users/"+user+"/identities/1", "")
		help.expect(204, "DELETE", "/users/"+user+"/identities/"+id, "")
		if b.isSignedIn() {
			t.Error("the sign-in by the identity goes on")
		}
		help.expect(404, "DELETE", "/users/"+user+"/identities/"+id, "")
	})
}

func TestAddressComesFromUserinfoIfTheTokenHasNone(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		p.Lie(func(c map[string]any) { delete(c, "email") })
		b := w.browser()
		if a := b.sso(conn, p, ann); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		if me := b.ok("GET", "/me", ""); me["email"] != "ann@globex.example" {
			t.Errorf("%v", me)
		}
		w.connection("globex", p, func(c *document.Connection) { globexDomain(c); c.Provider.Userinfo = document.UserinfoNever })
		if a := w.browser().sso(conn, p, identityprovider.User{"sub": "2", "email": "bob@globex.example"}); a.attempt()["current_step"] != "enter_email" {
			t.Errorf("%s", a.Raw)
		}
	})
}
