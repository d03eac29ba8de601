package oauth_test

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/users/consent"
	"github.com/cardea-iam/cardea/internal/document"
)

// scene is the setting of an attack: a web client and its user (victim), an unrelated client and an attacker.
type scene struct {
	*world
	t                *testing.T
	web, unrelated   *client
	victim, attacker *person
}

// code returns a code that the user grants to the web client.
func (s *scene) code(p *person) string {
	s.t.Helper()
	return p.allow(s.web.request("openid jobs:read")).Get("code")
}

// refused checks that a response is an error without any other data.
func (s *scene) refused(a answer, code string) {
	s.t.Helper()
	if a.status < 400 || a.text("error") != code || a.text("access_token") != "" || a.text("refresh_token") != "" {
		s.t.Errorf("%d %s, want %s", a.status, a.raw, code)
	}
}

// active reports whether a token is active.
func (s *scene) active(token string) bool {
	s.t.Helper()
	return s.web.post("/introspect", url.Values{"token": {token}}).body["active"] == true
}

// attacks are those of RFC 9700 (OAuth 2.0 Security Best Current Practice) and RFC 6819 (Threat Model), by section. The
// attacks on the implicit flow (6819 4.4.2) and on the password flow (4.4.3) are missing, because these flows are not
// served.
var attacks = map[string]func(s *scene){
	"9700 4.1 a redirect URI that is like the registered one": func(s *scene) {
		for _, uri := range []string{callback + ".evil.example", "https://client.example.evil.example/callback", "https://client.example@evil.example/callback", callback + "/../x", callback + "%2f"} {
			query := s.web.request("jobs:read")
			query.Set("redirect_uri", uri)
			if status, header, _ := s.victim.send("GET", "/oauth/portal/authorize?"+query.Encode(), nil); status != 400 || header.Get("Location") != "" {
				s.t.Errorf("%s: %d %s", uri, status, header.Get("Location"))
			}
		}
	},
	"9700 4.2 a code that leaks by the Referer header": func(s *scene) {
		_, header, _ := s.victim.send("GET", "/oauth/portal/authorize?"+s.web.request("jobs:read").Encode(), nil)
		if header.Get("Referrer-Policy") != "no-referrer" {
			s.t.Errorf("authorize: %v", header)
		}
		if policy := s.victim.page(s.victim.authorize(s.web.request("jobs:read")).Path).Get("Referrer-Policy"); policy != "same-origin" {
			s.t.Errorf("the page: %q", policy)
		}
	},
	"9700 4.3 a code and a token in the browser's history": func(s *scene) {
		code := s.code(s.victim)
		token := s.web.post("/token", redeem(code)).text("access_token")
		s.refused(s.unrelated.post("/token", redeem(code)), "invalid_grant")
		if a := s.get("/oauth/portal/userinfo?access_token=" + token); a.status != 401 {
			s.t.Errorf("a token in the query: %d %s", a.status, a.raw)
		}
	},
	"9700 4.4 a client that mixes up the authorization servers": func(s *scene) {
		if got := s.victim.allow(s.web.request("jobs:read")).Get("iss"); got != issuer {
			s.t.Errorf("an answer names %q", got)
		}
		query := s.web.request("nope")
		if got := s.victim.authorize(query).Query().Get("iss"); got != issuer {
			s.t.Errorf("an error names %q", got)
		}
		s.refused(s.unrelated.post("/token", redeem(s.code(s.victim))), "invalid_grant")
	},
	"9700 4.5 a stolen code that is put into one's own session": func(s *scene) {
		stolen := s.code(s.victim)
		own := redeem(stolen)
		own.Set("code_verifier", strings.Repeat("attackers", 5))
		s.refused(s.web.post("/token", own), "invalid_grant")
		if a := s.web.post("/token", redeem(stolen)); a.status != 200 {
			s.t.Errorf("the rightful one afterwards: %s", a.raw)
		}
	},
	"9700 4.6 an access token that is put beside another's ID token": func(s *scene) {
		a := s.web.post("/token", redeem(s.code(s.victim)))
		sum := sha256.Sum256([]byte(a.text("access_token")))
		if claims := claimsIn(s.t, s.world, a.text("id_token")); claims["at_hash"] != base64.RawURLEncoding.EncodeToString(sum[:16]) || claims["nonce"] != "no" {
			s.t.Errorf("%v", claims)
		}
	},
	"9700 4.7 an answer to a request that the browser did not make": func(s *scene) {
		if got := s.victim.allow(s.web.request("jobs:read")).Get("state"); got != "st" {
			s.t.Errorf("state %q", got)
		}
		// The decision must come from a page of the session's own site: a POST from another site is refused.
		page := s.victim.authorize(s.web.request("jobs:run"))
		r, err := http.NewRequest("POST", s.Server.URL+"/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), strings.NewReader(`{"decision":"allow"}`))
		s.Must(err)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Origin", "https://evil.example")
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if a := s.send(r); a.status != 403 {
			s.t.Errorf("from another site: %d %s", a.status, a.raw)
		}
	},
	"9700 4.8 PKCE taken out of the request or the redemption": func(s *scene) {
		query := s.web.request("jobs:read")
		query.Del("code_challenge")
		query.Del("code_challenge_method")
		if got := s.victim.authorize(query).Query().Get("error"); got != "invalid_request" {
			s.t.Errorf("without a challenge: %q", got)
		}
		form := redeem(s.code(s.victim))
		form.Del("code_verifier")
		s.refused(s.web.post("/token", form), "invalid_request")
		form.Set("code_verifier", challenge) // the challenge itself, as with the method plain
		s.refused(s.web.post("/token", form), "invalid_grant")
	},
	"9700 4.9 a token that one resource presents at another": func(s *scene) {
		query := s.web.request("jobs:read")
		query.Set("resource", "https://api.acme.example")
		token := s.web.post("/token", redeem(s.victim.allow(query).Get("code")))
		if got := fmt.Sprint(claimsIn(s.t, s.world, token.text("access_token"))["aud"]); got != "https://api.acme.example" {
			s.t.Errorf("aud %s", got)
		}
		other := s.declare("gateway", func(c *document.OAuthClient) { c.Resources = &[]string{"https://mcp.acme.example/mcp"} })
		if a := other.post("/introspect", url.Values{"token": {token.text("access_token")}}); a.body["active"] != false {
			s.t.Errorf("another resource gets %s", a.raw)
		}
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token.text("refresh_token")}, "resource": {"https://mcp.acme.example/mcp"}}
		s.refused(s.web.post("/token", form), "invalid_target")
	},
	"9700 4.10 a stolen access token goes on": func(s *scene) {
		a := s.web.post("/token", redeem(s.code(s.victim)))
		if a.body["expires_in"] != 600.0 || !s.active(a.text("access_token")) {
			s.t.Errorf("%s", a.raw)
		}
		s.Clock.Advance(10 * time.Minute)
		if s.active(a.text("access_token")) {
			s.t.Error("the access token is active after its expiry")
		}
	},
	"9700 4.11 a link to us that leads to the attacker": func(s *scene) {
		for _, query := range []url.Values{{"redirect_uri": {"https://evil.example"}}, {"client_id": {"1"}, "redirect_uri": {"https://evil.example"}, "prompt": {"none"}}} {
			if status, header, _ := s.victim.send("GET", "/oauth/portal/authorize?"+query.Encode(), nil); status != 400 || header.Get("Location") != "" {
				s.t.Errorf("authorize: %d %s", status, header.Get("Location"))
			}
		}
		if status, header, _ := s.victim.send("GET", "/oauth/portal/logout?post_logout_redirect_uri=https://evil.example", nil); status != 400 || header.Get("Location") != "" {
			s.t.Errorf("logout: %d %s", status, header.Get("Location"))
		}
	},
	"9700 4.11.2 a client of the attacker, whose bad request leads there": func(s *scene) {
		s.openToAll()
		const evil = "https://evil.example/sign-in"
		made := s.ask("POST", "/register", "", map[string]any{"client_name": "Harmless", "redirect_uris": []string{evil}, "token_endpoint_auth_method": "none"})
		own := &client{w: s.world, id: made.text("client_id")}
		for _, change := range []url.Values{{"scope": {"nope"}}, {"response_type": {"token"}}, {"code_challenge": {""}}, {"scope": {"nope"}, "prompt": {"none"}}} {
			query := own.request("jobs:read")
			query.Set("redirect_uri", evil)
			for name, values := range change {
				query[name] = values
			}
			if status, header, raw := s.victim.send("GET", "/oauth/portal/authorize?"+query.Encode(), nil); status != 400 || header.Get("Location") != "" {
				s.t.Errorf("%v: %d %s %s", change, status, header.Get("Location"), raw)
			}
			status, text := s.victim.read("/oauth/portal/authorize?" + query.Encode())
			if status != 400 || !strings.Contains(text, `href="`+evil+`?error=`) || !strings.Contains(text, "not verified by Acme") || !strings.Contains(text, "Back to evil.example") {
				s.t.Errorf("%v: %d %s", change, status, text)
			}
		}
		if status, _ := s.victim.read("/authorize?problem=app"); status != 404 {
			s.t.Errorf("a link to the page itself: %d", status)
		}
	},
	"9700 4.11.2 a client of the attacker, whose valid request or sign-out leads there without a click": func(s *scene) {
		s.openToAll()
		const evil = "https://evil.example/sign-in"
		made := s.ask("POST", "/register", "", map[string]any{
			"client_name": "Harmless", "redirect_uris": []string{evil}, "post_logout_redirect_uris": []string{evil}, "token_endpoint_auth_method": "none",
		})
		own := &client{w: s.world, id: made.text("client_id")}
		query := own.request("jobs:read")
		query.Set("redirect_uri", evil)
		query.Set("prompt", "none")
		signedOut := &person{w: s.world, client: &http.Client{CheckRedirect: s.victim.client.CheckRedirect}}
		for code, p := range map[string]*person{"login_required": signedOut, "consent_required": s.victim} {
			page := p.authorize(query)
			for range 2 { // and when the page is loaded again
				status, text := p.read(page.Path)
				if status != 400 || !strings.Contains(text, `href="`+evil+`?error=`+code) || !strings.Contains(text, "not verified by Acme") {
					s.t.Errorf("%s: %d %s", code, status, text)
				}
			}
		}
		if got := s.victim.decide(s.victim.authorize(query), map[string]any{"decision": "continue"}); got["step"] != "refused" || got["redirect_to"] != nil || !strings.HasPrefix(fmt.Sprint(got["return_to"]), evil) {
			s.t.Errorf("the API: %v", got)
		}
		query.Del("prompt")
		token := own.post("/token", redeemAt(evil, s.attacker.allow(query).Get("code")))
		if token.text("id_token") == "" {
			query.Set("scope", "openid")
			token = own.post("/token", redeemAt(evil, s.attacker.allow(query).Get("code")))
		}
		for what, more := range map[string]url.Values{"": {}, "asked": {"asked": {"1"}}, "another session's hint": {"id_token_hint": {token.text("id_token")}}} {
			leave := url.Values{"client_id": {own.id}, "post_logout_redirect_uri": {evil}, "state": {"st"}}
			for name, values := range more {
				leave[name] = values
			}
			path := "/oauth/portal/logout?" + leave.Encode()
			if status, header, raw := signedOut.send("GET", path, nil); status != 400 || header.Get("Location") != "" {
				s.t.Errorf("signed out, %s: %d %s %s", what, status, header.Get("Location"), raw)
			}
			if status, text := signedOut.read(path); status != 200 || !strings.Contains(text, `href="`+evil+`?state=st"`) || !strings.Contains(text, "not verified by Acme") {
				s.t.Errorf("signed out, %s: %d %s", what, status, text)
			}
			if _, header, _ := s.victim.send("GET", path, nil); strings.HasPrefix(header.Get("Location"), evil) {
				s.t.Errorf("signed in, %s: led to %s", what, header.Get("Location"))
			}
		}
		if status, header, raw := s.attacker.send("GET", "/oauth/portal/logout?"+url.Values{"id_token_hint": {token.text("id_token")}, "post_logout_redirect_uri": {evil}}.Encode(), nil); status != 303 || header.Get("Location") != evil {
			s.t.Errorf("with the session's own ID token: %d %s %s", status, header.Get("Location"), raw)
		}
		s.attacker = s.signUp(fmt.Sprintf("eve%d@example.com", s.count("SELECT count(*) FROM users")))
	},
	"9700 4.12 a form with a password that is sent on by a redirect": func(s *scene) {
		status, _, _ := s.victim.send("GET", "/oauth/portal/authorize?"+s.web.request("jobs:read").Encode(), nil)
		if status != http.StatusSeeOther { // after a 303, the browser sends a GET without the body
			s.t.Errorf("%d", status)
		}
	},
	"9700 4.13 forged headers of a proxy": func(s *scene) {
		r, err := http.NewRequest("GET", s.Server.URL+"/oauth/portal/.well-known/openid-configuration", nil)
		s.Must(err)
		r.Header.Set("X-Forwarded-Host", "evil.example")
		r.Header.Set("X-Forwarded-Proto", "https")
		r.Header.Set("Forwarded", "host=evil.example;proto=https")
		if a := s.send(r); strings.Contains(a.raw, "evil.example") || a.text("issuer") != issuer {
			s.t.Errorf("%s", a.raw)
		}
	},
	"9700 4.14 a refresh token that two use": func(s *scene) {
		refresh := func(token string) answer {
			return s.web.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
		}
		stolen := s.web.post("/token", redeem(s.code(s.victim))).text("refresh_token")
		thief := refresh(refresh(stolen).text("refresh_token"))
		s.Clock.Advance(11 * time.Second)
		s.refused(refresh(stolen), "invalid_grant")
		s.refused(refresh(thief.text("refresh_token")), "invalid_grant")
		if s.active(thief.text("access_token")) || s.audited("oauth.refresh_token_reused") == 0 {
			s.t.Errorf("the thief's token is still active, or the audit has no record")
		}
	},
	"9700 4.15 a client that passes as a person": func(s *scene) {
		machine := s.declare("machine", func(c *document.OAuthClient) { c.Scopes = &[]string{"jobs:run"} })
		token := machine.post("/token", url.Values{"grant_type": {"client_credentials"}}).text("access_token")
		if claims := claimsIn(s.t, s.world, token); claims["sub"] != machine.id || claims["client_id"] != machine.id {
			s.t.Errorf("%v", claims)
		}
		r, err := http.NewRequest("GET", s.Server.URL+"/oauth/portal/userinfo", nil)
		s.Must(err)
		r.Header.Set("Authorization", "Bearer "+token)
		if a := s.send(r); a.status != 401 {
			s.t.Errorf("userinfo: %d %s", a.status, a.raw)
		}
		s.refused(machine.post("/token", url.Values{"grant_type": {"client_credentials"}, "scope": {"openid"}}), "invalid_scope")
	},
	"9700 4.16 the page in a frame of another": func(s *scene) {
		header := s.victim.page(s.victim.authorize(s.web.request("jobs:run")).Path)
		if !strings.Contains(header.Get("Content-Security-Policy"), "frame-ancestors 'none'") || header.Get("X-Frame-Options") != "DENY" {
			s.t.Errorf("%v", header)
		}
	},
	"9700 4.17 an answer posted to another window": func(s *scene) {
		for _, mode := range []string{"web_message", "form_post", "fragment"} {
			query := s.web.request("jobs:read")
			query.Set("response_mode", mode)
			if got := s.victim.authorize(query).Query().Get("error"); got != "invalid_request" {
				s.t.Errorf("%s: %q", mode, got)
			}
		}
	},
	"6819 4.1.1 a secret from the logs, or from the store": func(s *scene) {
		token := s.web.post("/token", redeem(s.code(s.victim)))
		for what, secret := range map[string]string{"the client's secret": s.web.secret, "an access token": token.text("access_token"), "a refresh token": token.text("refresh_token")} {
			if strings.Contains(s.Logs.String(), secret) {
				s.t.Errorf("%s is in the log", what)
			}
			if s.stored(secret) {
				s.t.Errorf("%s is in the store", what)
			}
		}
	},
	"6819 4.1.2 a refresh token without its client": func(s *scene) {
		token := s.web.post("/token", redeem(s.code(s.victim))).text("refresh_token")
		form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
		s.refused(s.unrelated.post("/token", form), "invalid_grant")
		s.refused((&client{w: s.world, id: s.web.id}).post("/token", form), "invalid_client")
		if a := s.web.post("/token", form); a.status != 200 {
			s.t.Errorf("the rightful client afterwards: %s", a.raw)
		}
	},
	"6819 4.2.2 more scope than the person saw": func(s *scene) {
		code := s.victim.allow(s.web.request("jobs:read")).Get("code")
		form := redeem(code)
		form.Set("scope", "jobs:read jobs:run")
		s.refused(s.web.post("/token", form), "invalid_scope")
		token := s.web.post("/token", redeem(code)).text("refresh_token")
		s.refused(s.web.post("/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "scope": {"jobs:run"}}), "invalid_scope")
	},
	"6819 4.4.1.3 codes that are guessed": func(s *scene) {
		code := s.code(s.victim)
		if len(code) != 43 {
			s.t.Errorf("%d characters", len(code))
		}
		for range 50 {
			s.refused(s.web.post("/token", redeem(code[:42]+"_")), "invalid_grant")
		}
		if a := s.web.post("/token", redeem(code)); a.status != 200 {
			s.t.Errorf("the rightful one afterwards: %s", a.raw)
		}
	},
	"6819 4.4.1.4 a program of the machine that passes as a client": func(s *scene) {
		local := s.declarePublic("terminal", "http://127.0.0.1/callback")
		query := local.request("jobs:read")
		query.Set("redirect_uri", "http://127.0.0.1:4000/callback")
		s.victim.allow(query)
		if got := s.victim.decide(s.victim.authorize(query), map[string]any{"decision": "continue"}); got["step"] != "decide" {
			s.t.Errorf("granted before: %v", got)
		}
	},
	"6819 4.4.1.7 a code given out for another redirect URI": func(s *scene) {
		form := redeem(s.code(s.victim))
		form.Set("redirect_uri", "https://evil.example/callback")
		s.refused(s.web.post("/token", form), "invalid_grant")
	},
	"6819 4.4.1.11 requests without end": func(s *scene) {
		query := s.web.request("jobs:read")
		for range consent.MaxRequests + 5 {
			s.attacker.authorize(query)
		}
		if n := s.count("SELECT count(*) FROM oauth_requests WHERE network_block = '127.0.0.0/24'"); n > consent.MaxRequests {
			s.t.Errorf("%d requests wait", n)
		}
	},
	"6819 4.4.1.11 requests without end, from every address of a network": func(s *scene) {
		public := s.declarePublic("spa", callback)
		before := s.count("SELECT count(*) FROM oauth_requests")
		for n := range consent.MaxOfNetwork + 50 {
			from := func(r *http.Request) { r.Header.Set("X-Forwarded-For", fmt.Sprintf("2001:db8:7:%x::1", n)) }
			r, err := http.NewRequest("GET", s.Server.URL+"/oauth/portal/authorize?"+public.request("jobs:read").Encode(), nil)
			s.Must(err)
			if n%2 == 0 {
				from(r)
				response, err := http.DefaultTransport.RoundTrip(s.at(r))
				s.Must(err)
				s.Must(response.Body.Close())
				if response.StatusCode != 303 {
					s.t.Fatal(response.Status)
				}
			} else if a := public.post("/par", public.request("jobs:read"), from); a.status != 201 {
				s.t.Fatal(a.raw)
			}
		}
		if n := s.count("SELECT count(*) FROM oauth_requests") - before; n > consent.MaxOfNetwork {
			s.t.Errorf("%d requests of one network wait", n)
		}
		long := public.request("jobs:read")
		long.Set("state", strings.Repeat("x", 1100))
		long.Set("nonce", strings.Repeat("x", 1000))
		if got := s.victim.authorize(long).Query().Get("error"); got != "invalid_request" {
			s.t.Errorf("state and nonce of 2,100 bytes: %q", got)
		}
	},
	"6819 4.4.1.12 manufactured codes": func(s *scene) {
		before := s.count("SELECT count(*) FROM oauth_codes")
		for i := range 20 {
			s.refused(s.web.post("/token", redeem(fmt.Sprintf("%043d", i))), "invalid_grant")
		}
		if after := s.count("SELECT count(*) FROM oauth_codes"); after != before {
			s.t.Errorf("%d rows were added", after-before)
		}
	},
	"6819 4.4.1.13 the attacker's code in the victim's browser": func(s *scene) {
		a := s.web.post("/token", redeem(s.code(s.attacker)))
		if claims := claimsIn(s.t, s.world, a.text("id_token")); claims["sub"] != s.attacker.id {
			s.t.Errorf("%v", claims)
		}
	},
	"6819 4.6.1 a token that is changed, and one that is made up": func(s *scene) {
		token := s.web.post("/token", redeem(s.code(s.victim))).text("access_token")
		head, rest, _ := strings.Cut(token, ".")
		body, _, _ := strings.Cut(rest, ".")
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt"}`))
		for what, bad := range map[string]string{"torn": token[:len(token)-8], "unsigned": head + "." + body + ".", "of no algorithm": none + "." + body + "."} {
			if s.active(bad) {
				s.t.Errorf("%s is active", what)
			}
		}
		for what, kind := range map[string]string{"an ID token": "id_token", "a refresh token of another client": "refresh_token"} {
			a := s.unrelated.post("/token", redeem(s.victim.allow(s.unrelated.request("openid jobs:read")).Get("code")))
			if s.active(a.text(kind)) {
				s.t.Errorf("%s passes as an access token", what)
			}
		}
	},
}

func TestKnownAttacks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := scene{world: w, web: w.web("reports", nil), unrelated: w.web("unrelated", nil), victim: w.signUp("ada@example.com"), attacker: w.signUp("eve@example.com")}
	for what, attack := range attacks { // one after another, in any order
		t.Run(what, func(t *testing.T) {
			s.t = t
			attack(&s)
		})
	}
}

// at sets the app's host in a request.
func (s *scene) at(r *http.Request) *http.Request {
	r.Host = "localhost"
	return r
}

// redeemAt is redeem for a code of another redirect URI.
func redeemAt(uri, code string) url.Values {
	form := redeem(code)
	form.Set("redirect_uri", uri)
	return form
}

// page requests a page, and returns the headers of its response.
func (p *person) page(path string) http.Header {
	p.w.T.Helper()
	response, _ := p.visit(path)
	return response.Header
}

// read requests a page, and returns its text.
func (p *person) read(path string) (status int, text string) {
	p.w.T.Helper()
	response, text := p.visit(path)
	return response.StatusCode, text
}

// visit requests a page as a browser does.
func (p *person) visit(path string) (*http.Response, string) {
	p.w.T.Helper()
	address := p.w.Server.Listener.Addr().String()
	r, err := http.NewRequest("GET", "http://localhost"+address[strings.LastIndex(address, ":"):]+path, nil)
	p.w.Must(err)
	r.Header.Set("Accept", "text/html")
	response, err := p.client.Do(r)
	p.w.Must(err)
	defer response.Body.Close() //nolint:errcheck // read whole
	raw, err := io.ReadAll(response.Body)
	p.w.Must(err)
	return response, string(raw)
}

// declarePublic declares a client without a secret.
func (w *world) declarePublic(name string, redirectURIs ...string) *client {
	w.T.Helper()
	return w.web(name, func(c *document.OAuthClient) {
		c.Authentication, c.Verifiers, c.RedirectURIs = string(v1alpha1.ClientAuthenticationNone), nil, redirectURIs
	})
}

// count counts rows of the store.
func (w *world) count(query string, args ...any) (n int) {
	w.T.Helper()
	db := w.Open()
	defer db.Close() //nolint:errcheck // only read
	w.Must(db.QueryRowContext(w.T.Context(), query, args...).Scan(&n))
	return n
}

// audited counts the audit records of an action.
func (w *world) audited(action string) int {
	w.T.Helper()
	return w.count("SELECT count(*) FROM audit WHERE action = $1", action)
}

// stored reports whether a text is in any of the store's files.
func (w *world) stored(text string) bool {
	w.T.Helper()
	path := strings.TrimPrefix(w.URL, "sqlite://")
	read := 0
	for _, file := range []string{path, path + "-wal"} {
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		w.Must(err)
		if read += len(raw); strings.Contains(string(raw), text) {
			return true
		}
	}
	if read == 0 {
		w.T.Fatal("the store has no file")
	}
	return false
}
