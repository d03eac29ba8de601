package oauth_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

const goodPassword = "correct horse battery staple"

// callback is the redirect URI of the tests' web client.
const callback = "https://client.example/callback"

// web declares a confidential client that signs users in.
func (w *world) web(name string, change func(*document.OAuthClient)) *client {
	w.T.Helper()
	return w.declare(name, func(c *document.OAuthClient) {
		c.GrantTypes = []string{string(v1alpha1.GrantTypeAuthorizationCode), string(v1alpha1.GrantTypeRefreshToken)}
		c.RedirectURIs, c.MachinePermissions = []string{callback}, nil
		c.RefreshTokenSeconds, c.RefreshIdleSeconds = 2592000, 604800
		if change != nil {
			change(c)
		}
	})
}

// person is a user with a browser.
type person struct {
	w      *world
	client *http.Client
	id     string
}

// anonymous returns a browser without a sign-in.
func (w *world) anonymous() *person {
	w.T.Helper()
	jar, err := cookiejar.New(nil)
	w.Must(err)
	return &person{w: w, client: &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// signUp creates an account, which is signed in.
func (w *world) signUp(email string) *person {
	w.T.Helper()
	p := w.anonymous()
	begun := p.ask("POST", "/auth/signup", map[string]any{"email": email, "password": goodPassword})
	attempts := begun["session"].(map[string]any)["signup_attempts"].([]any)
	done := p.ask("POST", "/auth/attempt-verification", map[string]any{"signup_attempt_id": attempts[0].(map[string]any)["id"], "code": w.CodeFor(email, 1)})
	p.id = done["session"].(map[string]any)["active_signin"].(map[string]any)["user_id"].(string)
	return p
}

// send sends a request to the end-user listener.
func (p *person) send(method, path string, body any) (int, http.Header, []byte) {
	p.w.T.Helper()
	var raw []byte
	if body != nil {
		var err error
		raw, err = json.Marshal(body)
		p.w.Must(err)
	}
	port := p.w.Server.Listener.Addr().String()
	r, err := http.NewRequest(method, "http://localhost"+port[strings.LastIndex(port, ":"):]+path, bytes.NewReader(raw))
	p.w.Must(err)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := p.client.Do(r)
	p.w.Must(err)
	defer response.Body.Close() //nolint:errcheck // read whole
	out, err := io.ReadAll(response.Body)
	p.w.Must(err)
	return response.StatusCode, response.Header, out
}

// ask sends a request that must succeed.
func (p *person) ask(method, path string, body any) map[string]any {
	p.w.T.Helper()
	status, _, raw := p.send(method, path, body)
	if status != 200 {
		p.w.T.Fatalf("%s %s: %d %s", method, path, status, raw)
	}
	out := map[string]any{}
	p.w.Must(json.Unmarshal(raw, &out))
	return out
}

const (
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// request returns the parameters of a valid authorization request.
func (c *client) request(scope string) url.Values {
	return url.Values{
		"client_id": {c.id}, "redirect_uri": {callback}, "response_type": {"code"}, "scope": {scope}, "state": {"st"}, "nonce": {"no"},
		"code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
}

// authorize sends the browser to the app, and returns where it is redirected.
func (p *person) authorize(request url.Values) *url.URL {
	p.w.T.Helper()
	status, header, raw := p.send("GET", "/oauth/portal/authorize?"+request.Encode(), nil)
	if status != http.StatusSeeOther {
		p.w.T.Fatalf("%d %s", status, raw)
	}
	to, err := url.Parse(header.Get("Location"))
	p.w.Must(err)
	return to
}

// decide decides an authorization request through the end-user API.
func (p *person) decide(page *url.URL, decision map[string]any) (data map[string]any) {
	p.w.T.Helper()
	answer := p.ask("POST", "/session/authorizations/"+strings.TrimPrefix(page.Path, "/authorize/"), decision)
	return answer["data"].(map[string]any)
}

// allow runs a whole authorization: the browser requests it, the user allows it. It returns the query of the client's
// redirect URI.
func (p *person) allow(request url.Values) url.Values {
	p.w.T.Helper()
	data := p.decide(p.authorize(request), map[string]any{"decision": "allow"})
	to, err := url.Parse(fmt.Sprint(data["redirect_to"]))
	p.w.Must(err)
	if got := to.Scheme + "://" + to.Host + to.Path; got != request.Get("redirect_uri") {
		p.w.T.Fatalf("led to %s", to)
	}
	return to.Query()
}

// redeem returns the form that redeems a code.
func redeem(code string) url.Values {
	return url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {callback}, "code_verifier": {verifier}}
}
