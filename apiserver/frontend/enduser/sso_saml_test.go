package enduser_test

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
)

// lee is a user of the provider of SAML.
var lee = samlprovider.User{
	NameID: "lee", Session: "s1", Attributes: map[string][]string{"mail": {"lee@globex.example"}, "givenName": {"Lee"}, "sn": {"Ng"}, "groups": {"eng", "ops"}},
}

// samlRequest begins a sign-in by a connection of SAML, and returns the request that reaches the provider.
func (b *browser) samlRequest(conn string, p *samlprovider.Provider, more string) samlprovider.Request {
	b.w.T.Helper()
	r, err := p.ReadRedirect(b.begin(conn, more), frontendtest.SAMLKeys()[0].Parsed)
	b.w.Must(err)
	return r
}

// samlPost posts a response to the assertion consumer service as the browser of a user does, and returns the status and
// the path at which the browser continues.
func (w *world) samlPost(conn string, form url.Values) (int, string) {
	w.T.Helper()
	resp := w.post("/sso/"+conn+"/acs", form, "Accept", "text/html")
	return resp.StatusCode, resp.Header.Get("Location")
}

// saml signs in by a connection of SAML as a user of its provider.
func (b *browser) saml(conn string, p *samlprovider.Provider, user samlprovider.User) answer {
	b.w.T.Helper()
	return b.samlFor(conn, p, user, "")
}

func (b *browser) samlFor(conn string, p *samlprovider.Provider, user samlprovider.User, more string) answer {
	b.w.T.Helper()
	status, to := b.w.samlPost(conn, p.Respond(b.samlRequest(conn, p, more), user))
	if status != http.StatusSeeOther {
		b.w.T.Fatalf("the response is answered with %d: %+v", status, b.w.failures(conn))
	}
	return b.do("GET", to, "", "Sec-Fetch-Site", "cross-site")
}

// page returns a page of this server, whose status must be 200.
func (w *world) page(path string, header ...string) string {
	w.T.Helper()
	req, err := http.NewRequest(http.MethodGet, w.Server.URL+path, nil)
	w.Must(err)
	req.Host = "localhost"
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	w.Must(err)
	defer resp.Body.Close() //nolint:errcheck // it is read whole
	raw, err := io.ReadAll(resp.Body)
	w.Must(err)
	if resp.StatusCode != http.StatusOK {
		w.T.Fatalf("%s is answered with %d: %s", path, resp.StatusCode, raw)
	}
	return string(raw)
}

func globexSAML(c *document.Connection) { c.Domains = []string{"globex.example"} }

func TestSAMLSignInCreatesAnAccountAndFindsItAgain(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		b := w.browser()
		a := b.saml(conn, p, lee)
		if a.Status != 200 || a.user() == "" || a.data()["completed"] != true {
			t.Fatalf("%s", a.Raw)
		}
		if me := b.ok("GET", "/me", ""); me["email"] != "lee@globex.example" || me["first_name"] != "Lee" || me["last_name"] != "Ng" {
			t.Errorf("the account is %v", me)
		}
		moved := lee
		moved.Attributes = map[string][]string{"mail": {"other@elsewhere.example"}}
		if again := w.browser().saml(conn, p, moved); again.user() != a.user() {
			t.Errorf("the subject is not found again: %s", again.Raw)
		}
		list := b.list("/me/identities")
		if of := list[0]["connection"].(map[string]any); of["type"] != "SAML" {
			t.Errorf("the identity is %v", list)
		}
	})
}

func TestSAMLAddressOutsideTheDomainsIsProvenByACode(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, func(c *document.Connection) { c.TrustsEmail = true })
		victim := w.browser().signUp("bob@example.com")
		thief := w.browser()
		a := thief.saml(conn, p, samlprovider.User{NameID: "bob@example.com", Format: "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"})
		if a.user() != "" || a.attempt()["current_step"] != "verify_email" {
			t.Fatalf("%s", a.Raw)
		}
		done := thief.do("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, a.attempt()["id"], w.CodeFor("bob@example.com", 2)))
		if done.user() != victim {
			t.Errorf("%s", done.Raw)
		}
	})
}

func TestSAMLResponseSignsInOnlyTheBrowserThatBeganAndPosted(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		b := w.browser()
		form := p.Respond(b.samlRequest(conn, p, ""), lee)
		status, to := w.samlPost(conn, form)
		if status != http.StatusSeeOther || !strings.HasPrefix(to, "/sso/"+conn+"/callback?attempt_id=") {
			t.Fatal(status, to)
		}
		w.browser().refused(400, "INVALID_ATTEMPT", "GET", to, "")
		without, _, _ := strings.Cut(to, "&receipt=")
		b.refused(400, "INVALID_ATTEMPT", "GET", without, "")
		if a := b.do("GET", to, ""); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		b.refused(400, "INVALID_ATTEMPT", "GET", to, "")
		if status, _ := w.samlPost(conn, form); status != http.StatusBadRequest {
			t.Errorf("the response is accepted again: %d", status)
		}
	})
}

func TestSAMLResponseOfAnotherAttemptOrConnectionIsRefused(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p, other := w.SAMLProvider(), w.SAMLProvider()
		conn, second := w.DeclareSAML("globex", p, globexSAML), w.DeclareSAML("initech", other, nil)
		b := w.browser()
		first := b.samlRequest(conn, p, "")
		next := b.samlRequest(conn, p, "")
		mixed := first
		mixed.ID = next.ID
		foreign := first
		foreign.Issuer = "https://another.example/sp"
		elsewhere := first
		elsewhere.ACSURL += "/2"
		for name, form := range map[string]url.Values{
			"of another request": p.Respond(mixed, lee), "for another audience": p.Respond(foreign, lee), "of another provider": other.Respond(first, lee),
		} {
			if status, _ := w.samlPost(conn, form); status != http.StatusBadRequest {
				t.Errorf("a response %s is answered with %d", name, status)
			}
		}
		if status, _ := w.samlPost(second, p.Respond(next, lee)); status != http.StatusBadRequest {
			t.Errorf("another connection answers with %d", status)
		}
		if status, _ := w.samlPost(conn, p.Respond(func() samlprovider.Request { r := next; r.ACSURL = elsewhere.ACSURL; return r }(), lee)); status != http.StatusBadRequest {
			t.Errorf("a response for another address is answered with %d", status)
		}
		status, to := w.samlPost(conn, p.Respond(next, lee))
		if a := b.do("GET", to, ""); status != http.StatusSeeOther || a.user() == "" {
			t.Errorf("the right response is answered with %d: %s", status, a.Raw)
		}
		reasons := map[string]bool{}
		for _, f := range w.failures(conn) {
			reasons[f.Reason] = true
		}
		if !reasons["in_response_to"] || !reasons["audience"] || !reasons["issuer"] || !reasons["destination"] {
			t.Errorf("the failures are %v", reasons)
		}
	})
}

func TestUnsolicitedSAMLResponseBeginsASignInAtMost(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		refuses := w.DeclareSAML("globex", p, globexSAML)
		restarts := w.DeclareSAML("tiles", p, func(c *document.Connection) { c.SAML.Restarts = true })
		unsolicited := func(conn, relay string) url.Values {
			return p.Respond(samlprovider.Request{Issuer: frontendtest.SAMLEntityID, ACSURL: "http://localhost/sso/" + conn + "/acs", RelayState: relay}, lee)
		}
		if status, _ := w.samlPost(refuses, unsolicited(refuses, "")); status != http.StatusBadRequest {
			t.Errorf("an unsolicited response is answered with %d", status)
		}
		for relay, want := range map[string]string{"": "", "/organizations": "?continue=%2Forganizations", "https://evil.example/": "", "//evil.example": ""} {
			if status, to := w.samlPost(restarts, unsolicited(restarts, relay)); status != http.StatusSeeOther || to != "/sso/"+restarts+"/start"+want {
				t.Errorf("RelayState %q leads with %d to %q", relay, status, to)
			}
		}
		foreign := w.SAMLProvider().Respond(samlprovider.Request{Issuer: frontendtest.SAMLEntityID}, lee)
		if status, to := w.samlPost(restarts, foreign); status != http.StatusBadRequest {
			t.Errorf("the response of another provider leads with %d to %q", status, to)
		}
	})
}

func TestSAMLProviderWithoutRedirectsGetsAForm(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		p.PostOnly()
		conn := w.DeclareSAML("globex", p, globexSAML)
		b := w.browser()
		at, err := url.Parse(b.begin(conn, ""))
		w.Must(err)
		page := w.page(at.RequestURI(), "Accept-Language", "de")
		if !strings.Contains(page, "Weiter zu globex") || !strings.Contains(page, `action="`+p.URL+`/sso"`) {
			t.Fatal(page)
		}
		r, err := p.ReadForm(page)
		w.Must(err)
		_, to := w.samlPost(conn, p.Respond(r, lee))
		if a := b.do("GET", to, ""); a.user() == "" {
			t.Errorf("%s", a.Raw)
		}
		b.refused(400, "INVALID_ATTEMPT", "GET", "/sso/"+conn+"/request?state=x", "")
	})
}

func TestSAMLReauthenticationNeedsANewAuthentication(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		b := w.browser()
		b.saml(conn, p, lee)
		w.Clock.Advance(w.reauthenticateAfter() + time.Minute)
		old := lee
		old.AuthenticatedAgo = 10 * time.Minute
		r := b.samlRequest(conn, p, `,"intent":"reauthenticate"`)
		if !r.ForceAuthn {
			t.Error("the request does not force an authentication")
		}
		if status, _ := w.samlPost(conn, p.Respond(r, old)); status != http.StatusBadRequest {
			t.Errorf("an old authentication is answered with %d", status)
		}
		if a := b.samlFor(conn, p, lee, `,"intent":"reauthenticate"`); a.data()["completed"] != true {
			t.Errorf("%s", a.Raw)
		}
	})
}

func TestSAMLSessionEndsWhenTheProviderSays(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, func(c *document.Connection) { globexSAML(c); c.SessionSeconds = 3600 })
		short := lee
		short.SessionFor = 20 * time.Minute
		b := w.browser()
		b.saml(conn, p, short)
		w.Clock.Advance(19 * time.Minute)
		if a := b.do("GET", "/me", ""); a.Status != 200 {
			t.Fatalf("%s", a.Raw)
		}
		w.Clock.Advance(2 * time.Minute)
		if a := b.do("GET", "/me", ""); a.Status != 401 {
			t.Errorf("the sign-in has not ended: %s", a.Raw)
		}
	})
}

func TestOpenIDEndpointsOfASAMLConnectionRefuse(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p, oidc := w.SAMLProvider(), w.provider()
		conn, other := w.DeclareSAML("globex", p, globexSAML), w.connection("oidc", oidc, globexDomain)
		b := w.browser()
		r := b.samlRequest(conn, p, "")
		b.refused(400, "INVALID_ATTEMPT", "GET", callback(conn, url.Values{"state": {r.RelayState}, "code": {"x"}}), "")
		if resp := w.post("/sso/"+conn+"/callback", url.Values{"state": {r.RelayState}, "code": {"x"}}); resp.StatusCode != 400 {
			t.Errorf("a posted code is answered with %d", resp.StatusCode)
		}
		if resp := w.post("/sso/"+conn+"/backchannel-logout", url.Values{"logout_token": {"x"}}); resp.StatusCode != 404 {
			t.Errorf("a logout token is answered with %d", resp.StatusCode)
		}
		for _, path := range []string{"acs", "slo"} {
			if resp := w.post("/sso/"+other+"/"+path, url.Values{"SAMLResponse": {"x"}, "SAMLRequest": {"x"}}); resp.StatusCode/100 != 4 {
				t.Errorf("%s of a connection of OpenID Connect answers with %d", path, resp.StatusCode)
			}
		}
		b.refused(404, "CONNECTION_NOT_FOUND", "GET", "/sso/"+other+"/metadata", "")
	})
}

func TestSAMLFormsAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		for size, want := range map[int]int{300 << 10: http.StatusBadRequest, 400 << 10: http.StatusRequestEntityTooLarge} {
			resp := w.post("/sso/"+conn+"/acs", url.Values{"SAMLResponse": {strings.Repeat("A", size)}})
			if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != want {
				t.Errorf("a form of %d bytes is answered with %d (%v), want %d", size, resp.StatusCode, err, want)
			}
		}
	})
}

func TestSAMLResponseIsAcceptedOnceByAllServers(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		second := w.serve(w.Store).URL
		b := w.browser()
		form := p.Respond(b.samlRequest(conn, p, ""), lee)
		var paths []string
		for _, base := range []string{w.Server.URL, second} {
			paths = append(paths, w.postTo(base, "/sso/"+conn+"/acs", form, "Accept", "text/html").Header.Get("Location"))
		}
		completed := 0
		for range 2 {
			for _, path := range paths {
				if a := b.do("GET", path, ""); a.Status == http.StatusOK {
					completed++
				}
			}
		}
		if completed != 1 || !b.signedIn() {
			t.Errorf("%d requests complete the sign-in", completed)
		}
		if status := w.postTo(second, "/sso/"+conn+"/acs", form).StatusCode; status != http.StatusBadRequest {
			t.Errorf("the response is accepted after the sign-in: %d", status)
		}
	})
}
