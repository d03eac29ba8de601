package enduser_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

// foreignTargets are addresses to which no response may lead.
func foreignTargets() []string {
	return []string{
		"https://evil.example/", "//evil.example", `/\evil.example`, `\\evil.example`, "javascript:alert(1)", "https://localhost.evil.example/", "/ok\r\nLocation: https://evil.example",
		"https://evil.example/" + strings.Repeat("a", 4<<10),
	}
}

func TestSignOutAtTheProviderLeadsBackToTheSignInPage(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) { globexDomain(c); c.SignOutUpstream = true })
		for _, target := range foreignTargets() {
			b := w.browser()
			b.sso(conn, p, ann)
			query := url.Values{"continue": {target}, "post_logout_redirect_uri": {target}, "redirect_uri": {target}, "state": {target}}.Encode()
			a := b.do("POST", "/session/sign-out?"+query, `{}`, "Referer", "https://evil.example/", "X-Forwarded-Host", "evil.example")
			to, err := url.Parse(a.data()["end_session_url"].(string))
			w.Must(err)
			sent := to.Query()
			if back := sent["post_logout_redirect_uri"]; a.Status != 200 || len(back) != 1 || back[0] != "http://localhost/sign-in" || strings.Contains(to.String(), "evil") {
				t.Errorf("%.40q: the provider leads back to %v: %.500s", target, back, a.Raw)
			}
		}
	})
}

func TestReturnFromASAMLSignOutLeadsToTheSignInPage(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.SAMLProvider()
		path := "/sso/" + w.DeclareSAML("globex", p, globexSAML) + "/slo"
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		for _, target := range foreignTargets() {
			values := url.Values{"SAMLResponse": {"PHNhbWxwOkxvZ291dFJlc3BvbnNlLz4="}, "RelayState": {target}}
			request, err := http.NewRequest(http.MethodGet, w.Server.URL+path+"?"+values.Encode(), nil)
			w.Must(err)
			request.Host = "localhost"
			request.Header.Set("Accept", "text/html")
			byRedirect, err := client.Do(request)
			w.Must(err)
			w.Must(byRedirect.Body.Close())
			for binding, got := range map[string]*http.Response{"redirect": byRedirect, "form": w.post(path, values, "Accept", "text/html")} {
				if to := got.Header["Location"]; got.StatusCode != http.StatusSeeOther || len(to) != 1 || to[0] != "/sign-in" {
					t.Errorf("%s, RelayState %.40q: %d to %v", binding, target, got.StatusCode, to)
				}
			}
		}
	})
}
