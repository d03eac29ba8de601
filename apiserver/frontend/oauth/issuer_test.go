package oauth_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
)

// The app's document in the store has the issuer that is in effect, in addition to the currently declared hosts.
func TestFormerIssuerServesUntilTheChangeTakesEffect(t *testing.T) {
	t.Parallel()
	type at struct{ host, base, issuer string }
	path, own := at{"localhost", "/oauth/portal", issuer}, at{"id.acme.example", "", "https://id.acme.example"}
	ownBefore := at{"old.acme.example", "", "https://old.acme.example"}
	elsewhere := at{"app.localhost", "/oauth/portal", "http://app.localhost:8081/oauth/portal"}
	left := at{"left.example", "/oauth/portal", "https://left.example/oauth/portal"}
	for what, tt := range map[string]struct {
		before, after at
		// fqdn and frontend are the currently declared hosts; asked is where users are asked until the change takes effect.
		fqdn, frontend, asked string
	}{
		"a path becomes a host":          {path, own, own.host, "http://localhost:8081", "http://localhost:8081"},
		"a host becomes a path":          {own, path, "", "http://localhost:8081", "http://localhost:8081"},
		"a host becomes another":         {ownBefore, own, own.host, "http://localhost:8081", "http://localhost:8081"},
		"another host becomes the first": {elsewhere, path, "", "http://localhost:8081", "http://app.localhost:8081"},
		"the deployment leaves its host": {left, path, "", "http://localhost:8081", "http://localhost:8081"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.declare("machine", nil)
			key := w.apiKey("reader", frontendtest.Deployment, "oauth_clients:read")
			declare := func(issuer, frontend string) {
				w.app.FQDN, w.app.Issuer, w.app.FrontendURL = tt.fqdn, issuer, frontend
				w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
			}
			ask := func(to at, path string, form url.Values) answer {
				r, err := http.NewRequest(http.MethodPost, w.Server.URL+to.base+path, strings.NewReader(form.Encode()))
				w.Must(err)
				r.Host = to.host
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				if path == "/introspect" {
					r.Header.Set("Authorization", "Bearer "+key)
				} else {
					r.SetBasicAuth(c.id, c.secret)
				}
				return w.sendTo(r)
			}
			token := func(to at) string {
				return ask(to, "/token", url.Values{"grant_type": {"client_credentials"}}).text("access_token")
			}
			metadata := func(to at) answer {
				r, err := http.NewRequest(http.MethodGet, w.Server.URL+to.base+"/.well-known/openid-configuration", nil)
				w.Must(err)
				r.Host = to.host
				return w.sendTo(r)
			}
			declare(tt.before.issuer, tt.asked)
			w.Eventually("the issuer of before answers", func() bool { return metadata(tt.before).text("issuer") == tt.before.issuer })
			given := token(tt.before)
			if introspected := ask(tt.before, "/introspect", url.Values{"token": {given}}); introspected.body["active"] != true || introspected.text("iss") != tt.before.issuer {
				t.Errorf("at the issuer of before a token is %s", introspected.raw)
			}
			if authorize := metadata(tt.before).text("authorization_endpoint"); authorize != tt.asked+"/oauth/portal/authorize" {
				t.Errorf("people are asked at %s", authorize)
			}
			if got := token(tt.after); got != "" {
				t.Error("the next issuer issues tokens before the change takes effect")
			}
			asked, err := url.Parse(tt.asked)
			w.Must(err)
			browser, err := http.NewRequest(http.MethodGet, w.Server.URL+"/oauth/portal/authorize?client_id=1", nil)
			w.Must(err)
			browser.Host = asked.Host
			if a := w.sendTo(browser); a.text("error") != "invalid_client" {
				t.Errorf("where people are asked: %d %s", a.status, a.raw)
			}

			declare(tt.after.issuer, tt.frontend)
			w.Eventually("the next issuer answers", func() bool { return metadata(tt.after).text("issuer") == tt.after.issuer })
			if got := token(tt.before); got != "" {
				t.Error("the former issuer still issues tokens")
			}
			if introspected := ask(tt.after, "/introspect", url.Values{"token": {token(tt.after)}}); introspected.body["active"] != true {
				t.Errorf("at the next issuer a token is %s", introspected.raw)
			}
		})
	}
}

// While an issuer's change propagates, another tenant declares its former host.
func TestFormerIssuerHostBelongsToItsNewOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const host = "left.example"
	status := func() int {
		r, err := http.NewRequest(http.MethodGet, w.Server.URL+"/jwks", nil)
		w.Must(err)
		r.Host = host
		return w.sendTo(r).status
	}
	w.app.FQDN, w.app.Issuer = "next.example", "https://"+host
	w.Put(v1alpha1.KindOAuthApp, "portal", frontendtest.Deployment, "portal", w.app)
	w.Eventually("the issuer of before answers", func() bool { return status() == 200 })
	w.Put(v1alpha1.KindIdentityDeployment, "foreign", "foreign/foreign", "foreign", document.Deployment{FrontendHosts: []string{host}, ManagementWrites: "Enabled", FieldConflicts: "Reject"})
	w.Eventually("the host is another tenant's", func() bool { return status() == 404 })
}

// sendTo sends a request to the host in its URL.
func (w *world) sendTo(r *http.Request) answer {
	w.T.Helper()
	a, err := tryAt(r, r.Host)
	w.Must(err)
	return a
}
