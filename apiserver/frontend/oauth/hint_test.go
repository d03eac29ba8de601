package oauth_test

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// alsoSignUp creates another account in the same browser, which becomes the active one, and returns its user.
func (p *person) alsoSignUp(email string) string {
	p.w.T.Helper()
	begun := p.ask("POST", "/auth/signup", map[string]any{"email": email, "password": goodPassword})
	attempts := begun["session"].(map[string]any)["signup_attempts"].([]any)
	done := p.ask("POST", "/auth/attempt-verification", map[string]any{"signup_attempt_id": attempts[0].(map[string]any)["id"], "code": p.w.CodeFor(email, 1)})
	return done["session"].(map[string]any)["active_signin"].(map[string]any)["user_id"].(string)
}

// active returns the user whose account is active.
func (p *person) active() string {
	p.w.T.Helper()
	user, _ := p.ask("GET", "/session", nil)["data"].(map[string]any)["user"].(map[string]any)
	id, _ := user["id"].(string)
	return id
}

// switchTo makes a user's account the active one.
func (p *person) switchTo(user string) {
	p.w.T.Helper()
	for _, account := range p.ask("GET", "/session/accounts", nil)["data"].([]any) {
		account := account.(map[string]any)
		if account["user"].(map[string]any)["id"] == user {
			p.ask("POST", "/session/switch-sign-in", map[string]any{"signin_id": account["signin_id"]})
			return
		}
	}
	p.w.T.Fatal("the browser has no such account")
}

func (w *world) signedOut() *person {
	jar, err := cookiejar.New(nil)
	w.Must(err)
	return &person{w: w, client: &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// with returns a request with more parameters.
func with(request url.Values, pairs ...string) url.Values {
	for ; len(pairs) > 1; pairs = pairs[2:] {
		request.Set(pairs[0], pairs[1])
	}
	return request
}

// answered returns the query of the redirect after a decision.
func (w *world) answered(data map[string]any) url.Values {
	w.T.Helper()
	to, err := url.Parse(fmt.Sprint(data["redirect_to"]))
	w.Must(err)
	return to.Query()
}

// The id_token_hint of OpenID Connect Core 3.1.2.1.
func TestIDTokenHintAcceptsOnlyItsUser(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		c, other := w.web("reports", nil), w.web("other", nil)
		p, eve := w.signUp("ada@example.com"), w.signUp("eve@example.com")
		given := c.post("/token", redeem(p.allow(c.request("openid email")).Get("code")))
		hint := given.text("id_token")
		for what, bad := range map[string]string{
			"no token": "x", "a torn one": hint[:len(hint)-4] + "AAAA", "an access token": given.text("access_token"),
			"another client's": other.post("/token", redeem(p.allow(other.request("openid")).Get("code"))).text("id_token"),
		} {
			if to := p.authorize(with(c.request("openid"), "id_token_hint", bad)); to.Host != "client.example" || to.Query().Get("error") != "invalid_request" {
				t.Errorf("%s: %s", what, to)
			}
			pushed := c.post("/par", with(c.request("openid"), "id_token_hint", bad))
			if pushed.text("error") != "invalid_request" {
				t.Errorf("%s, pushed: %d %s", what, pushed.status, pushed.raw)
			}
		}

		w.Clock.Advance(time.Hour) // the ID token has expired
		silent := func(p *person) url.Values {
			return w.answered(p.decide(p.authorize(with(c.request("openid email"), "id_token_hint", hint, "prompt", "none")), map[string]any{"decision": "continue"}))
		}
		if response := silent(p); response.Get("code") == "" {
			t.Errorf("the user of the hint, with prompt=none: %v", response)
		}
		for what, visitor := range map[string]*person{"another person": eve, "signed out": w.signedOut()} {
			if response := silent(visitor); response.Get("error") != "login_required" {
				t.Errorf("%s, silently: %v", what, response)
			}
		}
		page := eve.authorize(with(c.request("openid email"), "id_token_hint", hint, "login_hint", "eve@example.com"))
		if got := page.Query().Get("login_hint"); got != "ada@example.com" {
			t.Errorf("with an id_token_hint and another login_hint, the sign-in is for %q", got)
		}
		if got := eve.decide(page, map[string]any{"decision": "continue"}); got["step"] != "sign_in" {
			t.Errorf("another person: %v", got)
		}
		if status, _, raw := eve.send("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), map[string]any{"decision": "allow"}); status != 401 {
			t.Errorf("another person allows: %d %s", status, raw)
		}

		second := p.alsoSignUp("lady@example.com")
		if response := silent(p); response.Get("code") == "" || claimsIn(t, w, c.post("/token", redeem(response.Get("code"))).text("id_token"))["sub"] != p.id {
			t.Errorf("beside another account, silently: %v", response)
		}
		if n := w.count("SELECT count(*) FROM audit WHERE action = 'oauth.granted' AND actor = $1", "user:"+second); n != 0 {
			t.Error("the audit names the active account as the actor")
		}
		if got := p.active(); got != second {
			t.Errorf("the silent request made %s active", got)
		}
		page = p.authorize(with(c.request("openid email"), "id_token_hint", hint, "prompt", "consent"))
		if got := p.decide(page, map[string]any{"decision": "continue"}); got["step"] != "decide" || p.active() != p.id {
			t.Errorf("beside another account: %v, active is %s", got, p.active())
		}
		token := c.post("/token", redeem(w.answered(p.decide(page, map[string]any{"decision": "allow", "user_id": p.id})).Get("code")))
		if claimsIn(t, w, token.text("id_token"))["sub"] != p.id {
			t.Errorf("allowed: %s", token.raw)
		}
	})
}

// Another tab makes another account active while the page is open.
func TestDecisionIsRefusedForAnotherAccountThanShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	second := p.alsoSignUp("lady@example.com")
	page := p.authorize(c.request("openid"))
	path := "/session/authorizations/" + strings.TrimPrefix(page.Path, "/authorize/")
	if shown := p.ask("GET", path, nil)["data"].(map[string]any); shown["user_id"] != second || shown["one_account"] != false {
		t.Fatalf("%v", shown)
	}
	p.switchTo(p.id)
	for _, decision := range []string{"allow", "deny"} {
		if status, _, raw := p.send("POST", path, map[string]any{"decision": decision, "user_id": second}); status != 409 || !strings.Contains(string(raw), "ACTIVE_ACCOUNT_CHANGED") {
			t.Errorf("%s: %d %s", decision, status, raw)
		}
	}
	if grants := p.ask("GET", "/me/oauth-grants", nil)["data"].([]any); len(grants) != 0 {
		t.Errorf("granted anyway: %v", grants)
	}
	token := c.post("/token", redeem(w.answered(p.decide(page, map[string]any{"decision": "allow", "user_id": p.id})).Get("code")))
	if claimsIn(t, w, token.text("id_token"))["sub"] != p.id {
		t.Errorf("decided: %s", token.raw)
	}
}

// A withdrawn key, such as a leaked one, no longer verifies hints.
func TestHintOfWithdrawnKeyIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p := w.web("reports", nil), w.signUp("ada@example.com")
	hint := c.post("/token", redeem(p.allow(c.request("openid email")).Get("code"))).text("id_token")
	leave := func() (status int, to string) {
		status, header, _ := p.send("GET", "/oauth/portal/logout?"+url.Values{"id_token_hint": {hint}}.Encode(), nil)
		return status, header.Get("Location")
	}
	until := w.Clock.Now().Add(time.Minute)
	before := w.app.SigningKeys
	w.app.SigningKeys = []document.SigningKey{w.OAuthKey(jose.ES256), w.OAuthKey(jose.RS256)}
	for _, old := range before {
		old.ExpiresAt = &until
		w.app.SigningKeys = append(w.app.SigningKeys, old)
	}
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
	w.Eventually("the new keys are served", func() bool { return strings.Contains(w.get("/oauth/portal/jwks").raw, w.app.SigningKeys[0].ID) })
	w.Clock.Advance(time.Minute)
	if status, to := leave(); status != 303 || !strings.Contains(to, "/sign-out?") {
		t.Errorf("%d %s: the person is not asked", status, to)
	}
}

// A path has one form: a proxy in front of this server may route an escaped form as another path.
func TestEscapedPathIsNotServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, want := range map[string]int{"/oauth/portal/jwks": 200, "/oauth/portal%2fjwks": 404, "/oauth/p%6frtal/jwks": 404, "/oauth%2Fportal/jwks": 404} {
		if a := w.get(path); a.status != want {
			t.Errorf("%s: %d, want %d", path, a.status, want)
		}
	}
}
