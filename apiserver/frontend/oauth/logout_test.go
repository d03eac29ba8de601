package oauth_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

func TestLogoutEndsOnlyTheSessionOfTheHint(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		const back = "https://client.example/goodbye"
		with := func(c *document.OAuthClient) { c.PostLogoutURIs = []string{back} }
		c, other := w.web("reports", with), w.web("other", nil)
		p, elsewhere := w.signUp("ada@example.com"), w.signUp("eve@example.com")
		token := c.post("/token", redeem(p.allow(c.request("openid")).Get("code")))
		unrelated := c.post("/token", redeem(elsewhere.allow(c.request("openid")).Get("code")))
		visit := func(p *person, query url.Values) (int, string) {
			status, header, _ := p.send("GET", "/oauth/portal/logout?"+query.Encode(), nil)
			return status, header.Get("Location")
		}
		whoIs := func() any { return p.ask("GET", "/session", nil)["data"].(map[string]any)["user"] }

		for what, query := range map[string]url.Values{
			"where the client is not registered": {"id_token_hint": {token.text("id_token")}, "post_logout_redirect_uri": {"https://evil.example"}},
			"where another client is not":        {"client_id": {other.id}, "post_logout_redirect_uri": {back}},
			"without a client":                   {"post_logout_redirect_uri": {back}},
			"for another client":                 {"id_token_hint": {token.text("id_token")}, "client_id": {other.id}, "post_logout_redirect_uri": {back}},
			"twice":                              {"state": {"a", "b"}},
		} {
			if status, to := visit(p, query); status != 400 || to != "" {
				t.Errorf("%s: %d %s", what, status, to)
			}
		}
		for what, hint := range map[string]string{
			"without a hint": "", "with another session's": unrelated.text("id_token"), "with an access token": token.text("access_token"), "with a torn one": token.text("id_token") + "x",
		} {
			query := url.Values{"client_id": {c.id}, "post_logout_redirect_uri": {back}, "state": {"st"}}
			if hint != "" {
				query.Set("id_token_hint", hint)
			}
			status, to := visit(p, query)
			if page, err := url.Parse(to); err != nil || status != 303 || page.Path != "/sign-out" || strings.Contains(to, "eyJ") {
				t.Errorf("%s: %d %s", what, status, to)
			}
			if whoIs() == nil {
				t.Fatalf("%s: signed out unasked", what)
			}
		}
		asked := url.Values{"client_id": {c.id}, "post_logout_redirect_uri": {back}, "state": {"st"}, "asked": {"1"}}
		if status, to := visit(p, asked); status != 303 || to != back+"?state=st" || whoIs() == nil {
			t.Errorf("on the way back: %d %s", status, to)
		}
		w.Clock.Advance(time.Hour) // the ID token has expired
		if status, to := visit(p, url.Values{"id_token_hint": {token.text("id_token")}, "post_logout_redirect_uri": {back}, "state": {"st"}}); status != 303 || to != back+"?state=st" {
			t.Errorf("with its hint: %d %s", status, to)
		}
		if whoIs() != nil {
			t.Error("still signed in")
		}
		if status, to := visit(p, url.Values{"id_token_hint": {token.text("id_token")}}); status != 303 || to != "http://localhost:8081/sign-in" {
			t.Errorf("signed out already: %d %s", status, to)
		}
		if c.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.text("refresh_token")}}).status == 200 {
			t.Error("its tokens go on")
		}
	})
}

// A relative path would refer to the pages' own host.
func TestLogoutWithExternalPagesReturnsToTheSessionHost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const back = "https://client.example/goodbye"
	c, p := w.web("reports", func(d *document.OAuthClient) { d.PostLogoutURIs = []string{back} }), w.signUp("ada@example.com")
	settings := w.Settings()
	settings.Pages = &document.Pages{URL: "https://login.acme.example"}
	w.Declare(settings)
	var to *url.URL
	w.Eventually("the pages are elsewhere", func() bool {
		_, header, _ := p.send("GET", "/oauth/portal/logout?"+url.Values{"client_id": {c.id}, "post_logout_redirect_uri": {back}}.Encode(), nil)
		var err error
		to, err = url.Parse(header.Get("Location"))
		w.Must(err)
		return to.Host == "login.acme.example"
	})
	next, err := url.Parse(to.Query().Get("continue"))
	w.Must(err)
	if to.Path != "/sign-out" || next.Scheme+"://"+next.Host != "http://localhost:8081" || next.Path != "/oauth/portal/logout" {
		t.Fatalf("%s, then %s", to, next)
	}
	p.ask("POST", "/session/sign-out", map[string]any{})
	if status, header, raw := p.send("GET", next.RequestURI(), nil); status != 303 || header.Get("Location") != back {
		t.Errorf("on the way back: %d %s %s", status, header.Get("Location"), raw)
	}
}
