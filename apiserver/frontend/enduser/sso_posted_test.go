package enduser_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

// post sends a form as the page of a provider does: without the cookie.
func (w *world) post(path string, form url.Values, header ...string) *http.Response {
	w.T.Helper()
	return w.postTo(w.Server.URL, path, form, header...)
}

// postTo is post to another server of the same store.
func (w *world) postTo(base, path string, form url.Values, header ...string) *http.Response {
	w.T.Helper()
	req, err := http.NewRequest(http.MethodPost, base+path, strings.NewReader(form.Encode()))
	w.Must(err)
	req.Host = "localhost"
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", "https://idp.example")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	w.Must(err)
	w.T.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func TestPostedResponseNeedsTheBrowserThatBegan(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, func(c *document.Connection) { globexDomain(c); c.Provider.FormPost = true })
		b := w.browser()
		values := b.authorized(conn, p, ann)
		resp := w.post("/sso/"+conn+"/callback", values, "Accept", "text/html")
		to := resp.Header.Get("Location")
		if resp.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/sso/"+conn+"/callback?attempt_id=") || resp.Header.Get("Set-Cookie") != "" {
			t.Fatalf("%d %v", resp.StatusCode, resp.Header)
		}
		for _, other := range []*browser{w.browser(), func() *browser { s := w.browser(); s.begin(conn, ""); return s }()} {
			other.refused(400, "INVALID_ATTEMPT", "GET", to, "")
		}
		if a := b.do("GET", to, "", "Sec-Fetch-Site", "cross-site"); a.user() == "" {
			t.Errorf("%s", a.Raw)
		}
		b.refused(400, "INVALID_ATTEMPT", "GET", to, "")
		if again := w.post("/sso/"+conn+"/callback", values); again.StatusCode != http.StatusBadRequest {
			t.Errorf("the response is taken again: %d", again.StatusCode)
		}
	})
}

func TestPostedResponseOfAnotherBrowserDoesNotSignInTheOneThatBegan(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain) // a client that begins can ask any provider for a form
		attacker := w.browser()
		values := attacker.authorized(conn, p, ann) // ann followed the attacker's link, and is signed in at the provider
		resp := w.post("/sso/"+conn+"/callback", values, "Accept", "text/html")
		if resp.StatusCode != http.StatusSeeOther {
			t.Fatal(resp.Status)
		}
		at := "/sso/" + conn + "/callback?attempt_id=" + attacker.last.attempt()["id"].(string)
		for _, to := range []string{at, at + "&receipt=", at + "&receipt=ABCDEFGHIJKLMNOPQRSTUVWXYZ"} {
			if a := attacker.refused(400, "INVALID_ATTEMPT", "GET", to, ""); a.user() != "" {
				t.Errorf("%s signs in: %s", to, a.Raw)
			}
		}
	})
}
