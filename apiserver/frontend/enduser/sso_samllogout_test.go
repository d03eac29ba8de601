package enduser_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/connection/saml"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/samlprovider"
)

// signedIn reports whether a browser is signed in.
func (b *browser) signedIn() bool {
	b.w.T.Helper()
	return b.do("GET", "/me", "").Status == http.StatusOK
}

func TestSAMLLogoutEndsTheNamedSignIns(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn, other := w.DeclareSAML("globex", p, globexSAML), w.DeclareSAML("initech", p, nil)
		slo := "http://localhost/sso/" + conn + "/slo"
		bob := samlprovider.User{NameID: "bob", Session: "s1", Attributes: map[string][]string{"mail": {"bob@globex.example"}}}
		second := lee
		second.Session = "s2"
		first, next, another := w.browser(), w.browser(), w.browser()
		first.saml(conn, p, lee)
		next.saml(conn, p, second)
		another.saml(conn, p, bob)
		post := func(to string, form url.Values) int {
			return w.post("/sso/"+to+"/slo", form, "Accept", "text/html").StatusCode
		}
		for name, form := range map[string]url.Values{
			"unsigned": {"SAMLRequest": {"PHNhbWxwOkxvZ291dFJlcXVlc3QvPg=="}}, "for another address": p.Logout(slo+"/x", lee), "of another provider": w.SAMLProvider().Logout(slo, lee), "empty": {},
		} {
			if status := post(conn, form); status != http.StatusBadRequest {
				t.Errorf("a request %s is answered with %d", name, status)
			}
		}
		if status := post(other, p.Logout(slo, lee)); status != http.StatusBadRequest {
			t.Errorf("another connection answers with %d", status)
		}
		if !first.signedIn() || !next.signedIn() || !another.signedIn() {
			t.Fatal("a refused request ended a sign-in")
		}
		form := p.Logout(slo, lee, "s1")
		resp := w.post("/sso/"+conn+"/slo", form, "Accept", "text/html")
		if policy := resp.Header.Get("Content-Security-Policy"); resp.StatusCode != http.StatusOK || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%d %s", resp.StatusCode, policy)
		}
		if first.signedIn() || !next.signedIn() || !another.signedIn() {
			t.Error("not exactly the named session ended")
		}
		if status := post(conn, form); status != http.StatusBadRequest {
			t.Errorf("the request is accepted again: %d", status)
		}
		if status := post(conn, p.Logout(slo, lee)); status != http.StatusOK || next.signedIn() || !another.signedIn() {
			t.Errorf("not exactly the sign-ins of the user ended: %d", status)
		}
		if status := post(conn, url.Values{"SAMLResponse": {"x"}}); status != http.StatusSeeOther || !another.signedIn() {
			t.Errorf("a response is answered with %d", status)
		}
		another.refused(400, "SSO_RESPONSE_INVALID", "GET", "/sso/"+conn+"/slo?SAMLRequest=x", "")
	})
}

func TestSAMLLogoutByAttributeNeedsASession(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, func(c *document.Connection) { globexSAML(c); c.SAML.Subject = "employee" })
		user := lee
		user.NameID, user.Format = "changing", "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
		user.Attributes = map[string][]string{"employee": {"17"}, "mail": {"lee@globex.example"}}
		b := w.browser()
		if a := b.saml(conn, p, user); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		slo := "http://localhost/sso/" + conn + "/slo"
		if resp := w.post("/sso/"+conn+"/slo", p.Logout(slo, user)); resp.StatusCode != http.StatusBadRequest || !b.signedIn() {
			t.Errorf("a request without a session is answered with %d", resp.StatusCode)
		}
		if resp := w.post("/sso/"+conn+"/slo", p.Logout(slo, user, "s1")); resp.StatusCode != http.StatusOK || b.signedIn() {
			t.Errorf("a request with the session is answered with %d", resp.StatusCode)
		}
	})
}

func TestSignOutContinuesAtTheSAMLProvider(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		local, upstream := w.DeclareSAML("local", p, globexSAML), w.DeclareSAML("globex", p, func(c *document.Connection) { globexSAML(c); c.SignOutUpstream = true })
		b := w.browser()
		b.saml(local, p, lee)
		if out := b.ok("POST", "/session/sign-out", `{}`); out["end_session_url"] != nil && out["end_session_url"] != "" {
			t.Errorf("a local sign-out continues at %v", out)
		}
		b.saml(upstream, p, lee)
		to, _ := b.ok("POST", "/session/sign-out", `{}`)["end_session_url"].(string)
		if !strings.HasPrefix(to, p.URL+"/slo?SAMLRequest=") {
			t.Fatalf("the sign-out continues at %q", to)
		}
		if r, err := p.ReadRedirect(to, frontendtest.SAMLKeys()[0].Parsed); err != nil || r.Issuer != frontendtest.SAMLEntityID {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

func TestSAMLMetadataHaveBothKeysOfARotation(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, func(c *document.Connection) {
			c.SAML.Keys = append(c.SAML.Keys, w.SealSAMLKey(ids.Derive(v1alpha1.KindConnection, "acme", "globex"), frontendtest.SAMLKeys()[1]))
		})
		page := w.page("/sso/" + conn + "/metadata")
		for _, part := range []string{`entityID="` + frontendtest.SAMLEntityID + `"`, `/sso/` + conn + `/acs"`, `/sso/` + conn + `/slo"`, `WantAssertionsSigned="true"`} {
			if !strings.Contains(page, part) {
				t.Errorf("the metadata lack %s: %s", part, page)
			}
		}
		if n := strings.Count(page, "<ds:X509Certificate>"); n != 4 { // each key signs and encrypts
			t.Errorf("%d certificates", n)
		}
	})
}

func TestSAMLProviderChangesItsKey(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		if a := w.browser().saml(conn, p, lee); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		w.Clock.Advance(31 * time.Second)
		p.Rotate() // without notice
		if a := w.browser().saml(conn, p, lee); a.user() == "" {
			t.Errorf("%s", a.Raw)
		}
		forged := w.SAMLProvider()
		forged.URL = p.URL // the entity ID, with another key
		for _, want := range []int{0, 1} {
			fetched := p.Fetched()
			for range 3 {
				if status, _ := w.samlPost(conn, forged.Respond(w.browser().samlRequest(conn, p, ""), lee)); status != http.StatusBadRequest {
					t.Errorf("a forged response is answered with %d", status)
				}
			}
			if more := p.Fetched() - fetched; more != want {
				t.Errorf("forged responses cause %d fetches, want %d", more, want)
			}
			w.Clock.Advance(31 * time.Second)
		}
	})
}

func TestSAMLProviderIsUnreachable(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		if a := w.browser().saml(conn, p, lee); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		p.SetDown(true)
		w.Clock.Advance(6 * 24 * time.Hour)
		if a := w.browser().saml(conn, p, lee); a.user() == "" {
			t.Errorf("the metadata that were fetched are not used: %s", a.Raw)
		}
		w.Clock.Advance(2 * 24 * time.Hour)
		w.browser().refused(503, "CONNECTION_UNAVAILABLE", "POST", "/auth/sso", `{"connection_id":"`+conn+`"}`)
	})
}

func TestInvalidSAMLMetadataLeaveTheLastGoodOnes(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p, other := w.SAMLProvider(), w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		if a := w.browser().saml(conn, p, lee); a.user() == "" {
			t.Fatalf("%s", a.Raw)
		}
		for _, body := range []string{"<!DOCTYPE x><x/>", "<x/>", other.Metadata()} {
			p.ServeMetadata(body)
			fetched := p.Fetched()
			w.Clock.Advance(25 * time.Hour)
			w.Eventually("the metadata are fetched", func() bool {
				if a := w.browser().saml(conn, p, lee); a.user() == "" {
					t.Errorf("with %.40s: %s", body, a.Raw)
				}
				return p.Fetched() > fetched
			})
			if a := w.browser().saml(conn, p, lee); a.user() == "" {
				t.Errorf("after %.40s: %s", body, a.Raw)
			}
		}
	})
}

func TestSAMLConnectionWithMetadataOfItsOwn(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		inline := func(metadata string) func(*document.Connection) {
			return func(c *document.Connection) { globexSAML(c); c.SAML.MetadataURL, c.SAML.Metadata = "", metadata }
		}
		parsed, err := saml.ParseMetadata([]byte(p.Metadata()), saml.MetadataWanted{Now: w.Clock.Now()})
		w.Must(err)
		given := parsed.Document()
		for slug, change := range map[string]func(*document.Connection){
			"configmap": inline(p.Metadata()), "given": func(c *document.Connection) { globexSAML(c); c.SAML.MetadataURL, c.SAML.Given = "", &given },
		} {
			conn := w.DeclareSAML(slug, p, change)
			if a := w.browser().saml(conn, p, lee); a.user() == "" {
				t.Errorf("%s: %s", slug, a.Raw)
			}
		}
		if p.Fetched() != 0 {
			t.Errorf("the metadata were fetched")
		}
		invalid := w.DeclareSAML("invalid", p, inline("<x/>"))
		w.browser().refused(503, "CONNECTION_UNAVAILABLE", "POST", "/auth/sso", `{"connection_id":"`+invalid+`"}`)
	})
}

func TestSAMLAuthenticationContextSelectsTheLevel(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, func(c *document.Connection) {
			globexSAML(c)
			c.ACR, c.RequestsACR = []string{"https://refeds.org/profile/mfa"}, true
		})
		b := w.browser()
		r := b.samlRequest(conn, p, "")
		if len(r.ClassRefs) != 1 || r.ClassRefs[0] != "https://refeds.org/profile/mfa" {
			t.Errorf("the request asks for %v", r.ClassRefs)
		}
		strong := lee
		strong.ClassRef = "https://refeds.org/profile/mfa"
		_, to := w.samlPost(conn, p.Respond(r, strong))
		b.do("GET", to, "")
		if level := b.level(); level != "two_factors" {
			t.Errorf("the level is %s", level)
		}
	})
}

func TestUndecryptableSAMLResponsesAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		encrypted := func(r samlprovider.Request) url.Values {
			p.Lie(func(string) string { return samlprovider.Undecryptable })
			defer p.Lie(nil)
			return p.Respond(r, lee)
		}
		status := 0
		for i := range 31 {
			status, _ = w.samlPost(conn, encrypted(w.browser().samlRequest(conn, p, "")))
			if want := map[bool]int{true: http.StatusBadRequest, false: http.StatusTooManyRequests}[i < 30]; status != want {
				t.Fatalf("response %d is answered with %d, want %d", i+1, status, want)
			}
		}
		if a := w.browser().saml(conn, p, lee); a.user() == "" {
			t.Errorf("a response that is not encrypted is refused: %s", a.Raw)
		}
		w.Clock.Advance(time.Hour + time.Second)
		if status, _ = w.samlPost(conn, encrypted(w.browser().samlRequest(conn, p, ""))); status != http.StatusBadRequest {
			t.Errorf("after the hour, a response is answered with %d", status)
		}
	})
}

func TestSAMLMessagesOfOneNetworkAreBounded(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		conn := w.DeclareSAML("globex", p, globexSAML)
		const ofNetwork = 4
		status := func() int { s, _ := w.samlPost(conn, url.Values{"SAMLResponse": {"x"}}); return s }
		w.Eventually("another message of the network is refused", func() bool {
			var end []func()
			for range ofNetwork {
				end = append(end, w.slowMessage(conn))
			}
			refused := status() == http.StatusServiceUnavailable
			for _, one := range end {
				one()
			}
			return refused
		})
		w.Eventually("the slow messages have ended", func() bool { return status() == http.StatusBadRequest })
	})
}

// slowMessage sends the header of a message of SAML, and never its body. It returns when the server reads the body.
func (w *world) slowMessage(conn string) (end func()) {
	w.T.Helper()
	slow, err := net.Dial("tcp", w.Server.Listener.Addr().String())
	w.Must(err)
	_, err = fmt.Fprintf(slow, "POST /sso/%s/acs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 300000\r\nExpect: 100-continue\r\n\r\n", conn)
	w.Must(err)
	_, err = bufio.NewReader(slow).ReadString('\n') // 100 Continue, or a refusal while earlier messages end
	w.Must(err)
	return func() { w.Must(slow.Close()) }
}
