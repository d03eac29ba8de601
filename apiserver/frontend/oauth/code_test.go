package oauth_test

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// outside is a context in which clients reach the issuer's address at the test's server.
func (w *world) outside() context.Context {
	target := w.Server.Listener.Addr().String()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", target)
	}}
	w.T.Cleanup(transport.CloseIdleConnections)
	return oidc.ClientContext(context.Background(), &http.Client{Transport: transport, Timeout: time.Minute})
}

func TestPublishedClientLibrarySignsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, p, ctx := w.web("reports", nil), w.signUp("ada@example.com"), w.outside()
	p.ask("PATCH", "/me", map[string]any{"first_name": "Ada", "last_name": "Lovelace"})
	provider, err := oidc.NewProvider(ctx, issuer)
	w.Must(err)
	config := oauth2.Config{
		ClientID: c.id, ClientSecret: c.secret, Endpoint: provider.Endpoint(), RedirectURL: callback, Scopes: []string{"openid", "profile", "email", "offline_access", "jobs:read"},
	}
	check := oauth2.GenerateVerifier()
	asked, err := url.Parse(config.AuthCodeURL("the state", oauth2.S256ChallengeOption(check), oidc.Nonce("the nonce")))
	w.Must(err)
	if !strings.HasPrefix(asked.String(), "http://localhost:8081/oauth/portal/authorize?") {
		t.Fatalf("people are sent to %s", asked)
	}
	answer := p.allow(asked.Query())
	if answer.Get("state") != "the state" || answer.Get("iss") != issuer {
		t.Fatalf("answered %v", answer)
	}
	token, err := config.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(check))
	w.Must(err)
	raw, _ := token.Extra("id_token").(string)
	verifying := provider.Verifier(&oidc.Config{ClientID: c.id, Now: w.Clock.Now})
	id, err := verifying.Verify(ctx, raw)
	w.Must(err)
	w.Must(id.VerifyAccessToken(token.AccessToken))
	var claims struct {
		Name     string   `json:"name"`
		Email    string   `json:"email"`
		Verified bool     `json:"email_verified"`
		AMR      []string `json:"amr"`
		SessID   string   `json:"sid"`
		AuthTime int64    `json:"auth_time"`
	}
	w.Must(id.Claims(&claims))
	if id.Subject != p.id || id.Nonce != "the nonce" || claims.Name != "Ada Lovelace" || claims.Email != "ada@example.com" || !claims.Verified || len(claims.AMR) != 1 || claims.SessID == "" || claims.AuthTime == 0 {
		t.Errorf("%+v %+v", id, claims)
	}
	info, err := provider.UserInfo(ctx, oauth2.StaticTokenSource(token))
	w.Must(err)
	if info.Subject != p.id || info.Email != "ada@example.com" || !info.EmailVerified {
		t.Errorf("%+v", info)
	}
	// The library treats the token as expired when its lifetime is over, and refreshes.
	over := *token
	over.Expiry = time.Unix(1, 0)
	next, err := config.TokenSource(ctx, &over).Token()
	w.Must(err)
	if next.AccessToken == token.AccessToken || next.RefreshToken == token.RefreshToken || next.RefreshToken == "" {
		t.Error("nothing was refreshed")
	}
}

func TestCodeIsBoundToClientURIAndVerifierAndRedeemedOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		c, other, p := w.web("reports", nil), w.web("unrelated", nil), w.signUp("ada@example.com")
		code := p.allow(c.request("jobs:read")).Get("code")
		with := func(name, value string) url.Values {
			form := redeem(code)
			form.Set(name, value)
			return form
		}
		for what, a := range map[string]answer{
			"another client":        other.post("/token", redeem(code)),
			"another verifier":      c.post("/token", with("code_verifier", strings.Repeat("a", 43))),
			"another redirect URI":  c.post("/token", with("redirect_uri", callback+"/")),
			"another code":          c.post("/token", with("code", strings.Repeat("A", 43))),
			"no code at all":        c.post("/token", with("code", "x")),
			"a shifted letter case": c.post("/token", with("redirect_uri", strings.ToUpper(callback))),
		} {
			if a.status != 400 || a.text("error") != "invalid_grant" {
				t.Errorf("%s: %d %s", what, a.status, a.raw)
			}
		}
		for _, name := range []string{"code", "redirect_uri", "code_verifier"} {
			form := redeem(code)
			form.Del(name)
			if a := c.post("/token", form); a.text("error") != "invalid_request" || !strings.Contains(a.text("error_description"), name) {
				t.Errorf("without %s: %s", name, a.raw)
			}
		}
		got := c.post("/token", redeem(code))
		if got.status != 200 || got.text("scope") != "jobs:read" || got.text("id_token") != "" || got.text("refresh_token") == "" {
			t.Fatalf("%d %s", got.status, got.raw)
		}
		alive := func() bool {
			return c.post("/introspect", url.Values{"token": {got.text("access_token")}}).body["active"] == true
		}
		if !alive() {
			t.Fatal("the token is not active")
		}
		if a := other.post("/token", redeem(code)); a.text("error") != "invalid_grant" || !alive() {
			t.Errorf("another client's replay: %s", a.raw)
		}
		if a := c.post("/token", redeem(code)); a.text("error") != "invalid_grant" || alive() {
			t.Errorf("after its own client's replay: %s, alive %v", a.raw, alive())
		}
		if a := c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {got.text("refresh_token")}}); a.text("error") != "invalid_grant" {
			t.Errorf("refreshed after a replay: %s", a.raw)
		}

		late := p.allow(c.request("jobs:read")).Get("code")
		w.Clock.Advance(time.Minute)
		if a := c.post("/token", redeem(late)); a.text("error") != "invalid_grant" {
			t.Errorf("after its time: %s", a.raw)
		}
	})
}

func TestOneOfConcurrentRedemptionsSucceeds(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		code := p.allow(c.request("jobs:read")).Get("code")
		answers := atOnce(100, func() answer { return c.post("/token", redeem(code)) })
		won := 0
		for _, a := range answers {
			switch {
			case a.status == 200:
				won++
			case a.text("error") != "invalid_grant":
				t.Errorf("%d %s", a.status, a.raw)
			}
		}
		if won != 1 {
			t.Errorf("%d won", won)
		}
	})
}

// atOnce runs do concurrently many times.
func atOnce(times int, do func() answer) []answer {
	answers, start := make([]answer, times), make(chan struct{})
	var group sync.WaitGroup
	for i := range answers {
		group.Go(func() {
			<-start
			answers[i] = do()
		})
	}
	close(start)
	group.Wait()
	return answers
}

func TestRefreshTokenReuseRevokesFamily(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		c, p := w.web("reports", nil), w.signUp("ada@example.com")
		refresh := func(token string, from ...string) answer {
			return c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}, func(r *http.Request) {
				r.Header.Set("X-Forwarded-For", append(from, "198.51.100.7")[0])
			})
		}
		begin := func() string {
			return c.post("/token", redeem(p.allow(c.request("jobs:read offline_access")).Get("code"))).text("refresh_token")
		}

		first := begin()
		lost, second := refresh(first), refresh(first) // the same token works again, as after a lost response
		if lost.status != 200 || second.status != 200 || lost.text("refresh_token") == second.text("refresh_token") {
			t.Fatalf("%s %s", lost.raw, second.raw)
		}
		third := refresh(second.text("refresh_token"))
		w.Clock.Advance(9 * time.Second)
		if a := refresh(first, "198.51.100.200"); a.status != 200 {
			t.Errorf("within the grace, in the same network: %s", a.raw)
		}
		w.Clock.Advance(2 * time.Second)
		if a := refresh(first); a.text("error") != "invalid_grant" {
			t.Errorf("after the grace: %s", a.raw)
		}
		if a := refresh(third.text("refresh_token")); a.text("error") != "invalid_grant" {
			t.Errorf("the family goes on: %s", a.raw)
		}

		first = begin()
		second = refresh(first)
		refresh(second.text("refresh_token"))
		if a := refresh(first, "203.0.113.9"); a.text("error") != "invalid_grant" {
			t.Errorf("within the grace, from elsewhere: %s", a.raw)
		}
		if a := refresh(second.text("refresh_token")); a.text("error") != "invalid_grant" {
			t.Errorf("the family goes on: %s", a.raw)
		}

		first = begin()
		answers := atOnce(100, func() answer { return refresh(first) })
		won := map[string]bool{}
		for _, a := range answers {
			switch {
			case a.status == 200:
				won[a.text("refresh_token")] = true
			case a.text("error") != "invalid_grant":
				t.Errorf("%d %s", a.status, a.raw)
			}
		}
		good := 0
		for token := range won {
			if refresh(token).status == 200 {
				good++
			}
		}
		if len(won) != 100 || good != 100 {
			t.Errorf("%d of a hundred succeeded, and %d of their tokens can be refreshed", len(won), good)
		}

		if a := refresh(begin()); a.status != 200 {
			t.Fatal(a.raw)
		}
		idle := begin()
		w.Clock.Advance(7*24*time.Hour + time.Second)
		if a := refresh(idle); a.text("error") != "invalid_grant" {
			t.Errorf("after a week without use: %s", a.raw)
		}
	})
}

func TestTokensEndImmediately(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(w *world, c *client, p *person, token answer){
		"signing out": func(_ *world, _ *client, p *person, _ answer) { p.ask("POST", "/session/sign-out", map[string]any{}) },
		"taking the grant back": func(_ *world, _ *client, p *person, _ answer) {
			grants := p.ask("GET", "/me/oauth-grants", nil)["data"].([]any)
			p.ask("DELETE", "/me/oauth-grants/"+grants[0].(map[string]any)["id"].(string), nil)
		},
		"revoking the refresh token": func(_ *world, c *client, _ *person, token answer) {
			if a := c.post("/revoke", url.Values{"token": {token.text("refresh_token")}}); a.status != 200 {
				c.w.T.Error(a.raw)
			}
		},
		"revoking the access token": func(_ *world, c *client, _ *person, token answer) {
			if a := c.post("/revoke", url.Values{"token": {token.text("access_token")}}); a.status != 200 {
				c.w.T.Error(a.raw)
			}
		},
		"archiving its only scope": func(w *world, _ *client, _ *person, _ answer) {
			w.DeclareOAuthScope("jobs-read", document.OAuthScope{Scope: "jobs:read", DisplayName: "x", Archived: true})
		},
		"switching the app off": func(w *world, _ *client, _ *person, _ answer) {
			w.app.Active = false
			w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
		},
		"deleting the account": func(_ *world, _ *client, p *person, _ answer) {
			p.ask("DELETE", "/me/account", map[string]any{"confirmation": "DELETE_MY_ACCOUNT"})
		},
	} {
		t.Run(what, func(t *testing.T) {
			onEngines(t, func(t *testing.T, w *world) {
				c, p := w.web("reports", nil), w.signUp("ada@example.com")
				token := c.post("/token", redeem(p.allow(c.request("jobs:read")).Get("code")))
				ask := func() answer { return c.post("/introspect", url.Values{"token": {token.text("access_token")}}) }
				if a := ask(); a.body["active"] != true || a.text("sub") != p.id {
					t.Fatalf("%s", a.raw)
				}
				end(w, c, p, token)
				w.Eventually("the token is over", func() bool { a := ask(); return a.body["active"] == false || a.text("error") == "invalid_client" })
				if a := c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.text("refresh_token")}}); a.status == 200 {
					t.Errorf("refreshed: %s", a.raw)
				}
			})
		})
	}
}
