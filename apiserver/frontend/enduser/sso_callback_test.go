package enduser_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

var ann = identityprovider.User{"sub": "1", "email": "ann@globex.example"}

// authorized begins a sign-in by a connection and returns the response of its provider.
func (b *browser) authorized(conn string, p *identityprovider.Provider, user identityprovider.User) url.Values {
	b.w.T.Helper()
	values, err := p.Authorize(b.begin(conn, ""), user)
	b.w.Must(err)
	return values
}

func with(values url.Values, name, value string) url.Values {
	out := url.Values{}
	for k, v := range values {
		out[k] = v
	}
	if value == "" {
		out.Del(name)
		return out
	}
	out.Set(name, value)
	return out
}

func TestForeignResponsesSignNobodyInAndLeaveTheAttempt(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn, second := w.connection("globex", p, globexDomain), w.connection("other", p, nil)
		owner := w.browser()
		values := owner.authorized(conn, p, ann)
		attacker := w.browser()
		theirs := attacker.authorized(conn, p, identityprovider.User{"sub": "attacker", "email": "eve@globex.example"})
		for name, try := range map[string]struct {
			b    *browser
			path string
			code string
		}{
			"without a session":         {w.browser(), callback(conn, values), "INVALID_ATTEMPT"},
			"in another browser":        {attacker, callback(conn, values), "INVALID_ATTEMPT"},
			"another browser's":         {owner, callback(conn, theirs), "INVALID_ATTEMPT"},
			"on another path":           {owner, callback(second, values), "INVALID_ATTEMPT"},
			"on an unknown path":        {owner, callback("1", values), "INVALID_ATTEMPT"},
			"without a state":           {owner, callback(conn, with(values, "state", "")), "INVALID_ATTEMPT"},
			"with another state":        {owner, callback(conn, with(values, "state", values.Get("state")+"x")), "INVALID_ATTEMPT"},
			"with a foreign attempt_id": {attacker, "/sso/" + conn + "/callback?attempt_id=" + owner.last.attempt()["id"].(string), "INVALID_ATTEMPT"},
		} {
			if a := try.b.do("GET", try.path, ""); a.Status != 400 || a.code() != try.code || a.user() != "" {
				t.Errorf("%s: %s", name, a.Raw)
			}
		}
		other := owner.host
		owner.host = "app.localhost"
		if a := owner.do("GET", callback(conn, values), ""); a.user() != "" {
			t.Errorf("on another host: %s", a.Raw)
		}
		owner.host = other
		if p.Redeemed() != 0 {
			t.Errorf("%d codes were redeemed", p.Redeemed())
		}
		if a := owner.do("GET", callback(conn, values), ""); a.user() == "" {
			t.Errorf("the rightful response is refused: %s", a.Raw)
		}
		if a := owner.do("GET", callback(conn, values), ""); a.code() != "INVALID_ATTEMPT" {
			t.Errorf("the response works twice: %s", a.Raw)
		}
	})
}

func TestResponseIsRefusedUnlessItIsWhole(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		for name, change := range map[string]func(url.Values){
			"without the promised iss": func(v url.Values) { v.Del("iss") },
			"with another iss":         func(v url.Values) { v.Set("iss", "https://evil.example") },
			"with a doubled code":      func(v url.Values) { v.Add("code", "x") },
			"without a code":           func(v url.Values) { v.Del("code") },
			"with a code and an error": func(v url.Values) { v.Set("error", "access_denied") },
			"with an unknown code":     func(v url.Values) { v.Set("code", "x") },
		} {
			b := w.browser()
			values := b.authorized(conn, p, ann)
			change(values)
			if a := b.do("GET", callback(conn, values), ""); a.Status != 400 || a.code() != "SSO_RESPONSE_INVALID" || a.user() != "" {
				t.Errorf("%s: %s", name, a.Raw)
			}
		}
		for code, reason := range map[string]string{"access_denied": "access_denied", "<script>": "error"} {
			b := w.browser()
			values := b.authorized(conn, p, ann)
			values.Del("code")
			values.Set("error", code)
			values.Set("error_description", "the text of the provider")
			a := b.do("GET", callback(conn, values), "")
			if a.code() != "SSO_FAILED" || !strings.Contains(a.Raw, fmt.Sprintf(`"reason":%q`, reason)) || strings.Contains(a.Raw, "the text of the provider") {
				t.Errorf("%s: %s", code, a.Raw)
			}
		}
	})
}

// Each lie is about the claims of an ID token with a right signature; apiserver/connection has the others.
func TestIDTokenOfAnotherAttemptOrAudienceIsRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		for name, lie := range map[string]func(map[string]any){
			"no nonce":         func(c map[string]any) { delete(c, "nonce") },
			"another nonce":    func(c map[string]any) { c["nonce"] = "x" },
			"another audience": func(c map[string]any) { c["aud"] = "x" },
			"another issuer":   func(c map[string]any) { c["iss"] = "https://evil.example" },
			"expired":          func(c map[string]any) { c["exp"] = w.Clock.Now().Add(-2 * time.Minute).Unix() },
			"no subject":       func(c map[string]any) { delete(c, "sub") },
		} {
			p.Lie(lie)
			a := w.browser().sso(conn, p, ann)
			if a.Status != 400 || a.code() != "SSO_RESPONSE_INVALID" || a.user() != "" {
				t.Errorf("%s: %s", name, a.Raw)
			}
		}
		p.Lie(nil)
		if a := w.browser().sso(conn, p, ann); a.user() == "" {
			t.Errorf("%s", a.Raw)
		}
	})
}

func TestCodeOfAnotherSessionIsRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		victim, attacker := w.browser(), w.browser()
		stolen := victim.authorized(conn, p, ann)
		own := attacker.authorized(conn, p, identityprovider.User{"sub": "eve"})
		if a := attacker.do("GET", callback(conn, with(own, "code", stolen.Get("code"))), ""); a.user() != "" || a.code() != "SSO_RESPONSE_INVALID" {
			t.Errorf("%s", a.Raw)
		}
	})
}

func TestConcurrentCallbacksSignInOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		path := callback(conn, b.authorized(conn, p, ann))
		var signedIn atomic.Int64
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				resp, err := b.raw(http.MethodGet, path, "")
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = resp.Body.Close() }()
				raw, _ := io.ReadAll(resp.Body)
				if resp.StatusCode == http.StatusOK {
					signedIn.Add(1)
				} else if resp.StatusCode >= 500 {
					t.Errorf("%s", raw)
				}
			})
		}
		all.Wait()
		if signedIn.Load() != 1 || p.Redeemed() > 3 {
			t.Errorf("%d callbacks signed in, %d codes were redeemed", signedIn.Load(), p.Redeemed())
		}
	})
}

func TestStartRedirectsToTheProviderAndLinksNothing(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		b.signUp("owner@example.com")
		plain := *b.client
		plain.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		b.client = &plain
		start := func(query string) *http.Response {
			t.Helper()
			resp, err := b.raw(http.MethodGet, "/sso/"+conn+"/start"+query, "")
			w.Must(err)
			t.Cleanup(func() { _ = resp.Body.Close() })
			return resp
		}
		resp := start("?intent=link&continue=//evil.example&target_link_uri=/orders&login_hint=ann@globex.example")
		to := resp.Header.Get("Location")
		if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, p.URL+"/authorize?") || !strings.Contains(to, "login_hint=ann%40globex.example") {
			t.Fatalf("%d %s", resp.StatusCode, to)
		}
		values, err := p.Authorize(to, ann)
		w.Must(err)
		a := b.do("GET", callback(conn, values), "")
		if a.Status != 200 || a.data()["intent"] != "sign_in" || a.data()["continue"] != "/orders" {
			t.Errorf("%s", a.Raw)
		}
		if a.Body.Session.SignIns == nil || len(a.Body.Session.SignIns) != 2 {
			t.Errorf("the other account was not added to the session: %s", a.Raw)
		}
		if resp := start("?iss=https://evil.example"); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("another issuer begins a sign-in: %d", resp.StatusCode)
		}
		if resp := start("?iss=" + url.QueryEscape(p.URL)); resp.StatusCode != http.StatusSeeOther {
			t.Errorf("the issuer's own link: %d", resp.StatusCode)
		}
		w.connection("globex", p, func(c *document.Connection) { c.Active = false })
		if resp := start(""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("an inactive connection: %d", resp.StatusCode)
		}
	})
}

func TestUnavailableProviderIsAnOutageAndNotARefusal(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		values := b.authorized(conn, p, ann)
		p.SetDown(true)
		b.refused(503, "CONNECTION_UNAVAILABLE", "GET", callback(conn, values), "")
		never := w.connection("never", p, func(c *document.Connection) { c.Provider.Issuer = p.URL + "/other" })
		w.browser().refused(503, "CONNECTION_UNAVAILABLE", "POST", "/auth/sso", fmt.Sprintf(`{"connection_id":%q}`, never))
		p.SetDown(false)
		if a := b.do("GET", callback(conn, values), ""); a.user() == "" {
			t.Errorf("the attempt was lost: %s", a.Raw)
		}
	})
}

func TestAttemptEndsAfterTenMinutesAndThreeTries(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		values := b.authorized(conn, p, ann)
		w.Clock.Advance(10*time.Minute + time.Second)
		b.refused(400, "INVALID_ATTEMPT", "GET", callback(conn, values), "")
		if p.Redeemed() != 0 {
			t.Error("the code of a late response is redeemed")
		}
		tried := w.browser()
		values = tried.authorized(conn, p, ann)
		for range 3 {
			tried.refused(400, "SSO_RESPONSE_INVALID", "GET", callback(conn, with(values, "code", "x")), "")
		}
		tried.refused(400, "INVALID_ATTEMPT", "GET", callback(conn, values), "")
	})
}

func TestFailuresAreRecordedForAdminsWithoutTokens(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		p.Lie(func(c map[string]any) { c["aud"] = "another-client" })
		b := w.browser()
		values := b.authorized(conn, p, ann)
		b.refused(400, "SSO_RESPONSE_INVALID", "GET", callback(conn, values), "")
		failures := w.failures(conn)
		if len(failures) != 1 || failures[0].Reason != "aud" || failures[0].Expected != identityprovider.ClientID || !strings.Contains(failures[0].Got, "another-client") || failures[0].RequestID == "" {
			t.Fatalf("%+v", failures)
		}
		if kept := fmt.Sprintf("%+v", failures) + w.Logs.String(); strings.Contains(kept, values.Get("code")) || strings.Contains(kept, "eyJ") || strings.Contains(kept, values.Get("state")) {
			t.Errorf("a secret is kept: %s", kept)
		}
	})
}

func TestSignOutContinuesAtTheProviderIfTheConnectionSaysSo(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) { globexDomain(c); c.SignOutUpstream = true })
		b := w.browser()
		b.sso(conn, p, ann)
		to, ok := b.ok("POST", "/session/sign-out", `{}`)["end_session_url"].(string)
		if !ok || !strings.HasPrefix(to, p.URL+"/end?") || !strings.Contains(to, "id_token_hint=eyJ") || !strings.Contains(to, "post_logout_redirect_uri=http%3A%2F%2Flocalhost%2Fsign-in") {
			t.Errorf("%s", b.last.Raw)
		}
		local := w.connection("local", p, globexDomain)
		b.sso(local, p, ann)
		if got := b.ok("POST", "/session/sign-out", `{}`); got["end_session_url"] != nil {
			t.Errorf("%v", got)
		}
	})
}
