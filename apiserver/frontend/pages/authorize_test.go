package pages_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
)

// client declares a client of the app. It returns a function that returns the path of an authorization request for
// scopes.
func (w *world) client(name string, change func(*document.OAuthClient)) func(scope string, pairs ...string) string {
	w.T.Helper()
	content := document.OAuthClient{
		App: "portal", Name: name, Authentication: string(v1alpha1.ClientAuthenticationSecretBasic), GrantTypes: []string{string(v1alpha1.GrantTypeAuthorizationCode)},
		RedirectURIs: []string{"https://client.example/callback"}, AccessTokenSeconds: 600, Active: true,
	}
	if change != nil {
		change(&content)
	}
	id := w.Put(v1alpha1.KindOAuthClient, strings.ToLower(strings.ReplaceAll(name, " ", "-")), frontendtest.Deployment, "", content)
	return func(scope string, pairs ...string) string {
		query := url.Values{
			"client_id": {ids.Format(id)}, "redirect_uri": {"https://client.example/callback"}, "response_type": {"code"}, "scope": {scope}, "state": {"st"},
			"code_challenge": {"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"}, "code_challenge_method": {"S256"},
		}
		for ; len(pairs) > 1; pairs = pairs[2:] {
			query.Set(pairs[0], pairs[1])
		}
		return "/oauth/portal/authorize?" + query.Encode()
	}
}

// authorizing returns a world with an authorization server.
func authorizing(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, nil)
	w.DeclareOAuthApp("http://localhost")
	w.DeclareOAuthScope("orders", document.OAuthScope{Scope: "orders:read", DisplayName: "Read orders", Description: "All of them."})
	return w
}

// comes opens an authorization request, as a link of the client does, and follows the redirects to a page.
func (b *browser) comes(path string) shown {
	b.w.T.Helper()
	to := ""
	b.w.Eventually("the client is known", func() bool {
		r, err := http.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		b.w.Must(err)
		r.Header.Set("Accept", "text/html")
		response, err := b.client.Do(r)
		b.w.Must(err)
		_ = response.Body.Close()
		to = response.Header.Get("Location")
		return response.StatusCode == http.StatusSeeOther
	})
	u, err := url.Parse(to)
	b.w.Must(err)
	return b.follow(b.send(http.MethodGet, u, ""))
}

// answered checks that the browser was redirected to the client, and returns the query of the redirect.
func (b *browser) answered() url.Values {
	b.w.T.Helper()
	if b.page.url.Host != "client.example" || b.page.url.Path != "/callback" {
		b.w.T.Fatalf("at %s: %s", b.page.url, b.page.text())
	}
	return b.page.url.Query()
}

func TestGrantOnAuthorizePage(t *testing.T) {
	w := authorizing(t)
	asks := w.client("Reports", nil)
	w.browser().signUp("ada@example.com")
	b := w.browser()
	b.comes(asks("openid orders:read", "login_hint", "ada@example.com"))
	b.at("/sign-in")
	if got := b.page.value("email"); got != "ada@example.com" {
		t.Errorf("the login hint is filled in as %q", got)
	}
	if policy := b.page.header.Get("Content-Security-Policy"); strings.Contains(policy, "form-action") {
		t.Errorf("the policy %s forbids the redirect to the client after the sign-in", policy)
	}
	b.signIn("ada@example.com")
	if !strings.HasPrefix(b.page.url.Path, "/authorize/") || b.page.status != 200 {
		t.Fatalf("at %s: %s", b.page.url, b.page.text())
	}
	for _, what := range []string{"Reports would like access", "Read orders", "All of them.", "Know who you are here", "client.example", "ada@example.com"} {
		b.says(what)
	}
	w.DeclareOAuthScope("orders", document.OAuthScope{Scope: "orders:read", DisplayName: "See what you bought"})
	w.Eventually("the page says what the scope is called now", func() bool { return strings.Contains(b.open(b.page.url.Path).text(), "See what you bought") })
	b.submit("deny")
	if told := b.answered(); told.Get("error") != "access_denied" || told.Get("state") != "st" || told.Has("code") {
		t.Errorf("denied: %v", told)
	}

	b.comes(asks("openid orders:read"))
	b.submit("allow")
	if told := b.answered(); told.Get("code") == "" || told.Get("state") != "st" || told.Get("iss") != "http://localhost/oauth/portal" {
		t.Errorf("allowed: %v", told)
	}
	b.comes(asks("orders:read"))
	if told := b.answered(); told.Get("code") == "" {
		t.Errorf("granted before: %v", told)
	}
	b.open("/account")
	b.says("Apps")
	b.open("/account/apps")
	b.says("Reports")
	b.says("See what you bought")
	w.Clock.Advance(time.Second)
	b.comes(asks("orders:read", "prompt", "login"))
	b.at("/reauthenticate")
	b.submit("password", "password", goodPassword)
	if told := b.answered(); told.Get("code") == "" {
		t.Errorf("authenticated again: %v", told)
	}
	b.open("/account/apps")
	b.submit("disconnect")
	b.says("The access was removed.")
	b.says("No app has access")
}

func TestAuthorizePageShowsClientErrors(t *testing.T) {
	w := authorizing(t)
	asks, b := w.client("Reports", nil), w.browser()
	b.comes(asks("orders:read"))
	for what, path := range map[string]string{
		"This app is not known here":     asks("orders:read", "client_id", "1"),
		"This app cannot be answered":    asks("orders:read", "redirect_uri", "https://evil.example"),
		"This request could not be read": asks("orders:read", "state", strings.Repeat("x", 9<<10)),
		"There is nothing here":          "/authorize?problem=<script>",
	} {
		if p := b.open(path); p.status/100 != 4 || strings.Contains(p.raw, "evil.example") {
			t.Errorf("%s: %d", what, p.status)
		}
		b.says(what)
	}
	for _, path := range []string{"/authorize/x", "/authorize/" + strings.Repeat("A", 43)} {
		if p := b.open(path); p.status != 404 {
			t.Errorf("%s: %d", path, p.status)
		}
		b.says("This request is over")
	}
}

func TestAuthorizeDecisionIsBoundToTheBrowser(t *testing.T) {
	w := authorizing(t)
	asks := w.client("Evil <script>alert(1)</script>", func(c *document.OAuthClient) { c.PolicyURI = "https://evil.example/policy" })
	b := w.browser()
	b.signUp("ada@example.com")
	b.comes(asks("orders:read"))
	if strings.Contains(b.page.raw, "<script>alert") {
		t.Error(b.page.raw)
	}
	to, form := b.fill("allow")
	for what, change := range map[string]func(){
		"another site's page":  func() { b.header["Origin"] = "https://evil.example" },
		"a page without token": func() { form.Del("form_token") },
	} {
		change()
		if p := b.send(http.MethodPost, to, form.Encode()); p.status != 403 {
			t.Errorf("%s: %d", what, p.status)
		}
		delete(b.header, "Origin")
	}
	b.open(to.Path)
	b.submit("allow", "place", "12345")
	b.refused(400, "", "You cannot grant all of this there")
	b.submit("allow")
	b.answered()
}

// TestAnotherAccountCannotDecide switches the account in another tab while the page is open.
func TestAnotherAccountCannotDecide(t *testing.T) {
	w := authorizing(t)
	asks, b := w.client("Reports", nil), w.browser()
	b.signUp("ada@example.com")
	w.browser().signUp("lady@example.com")
	b.open("/sign-in?add=1")
	b.signIn("lady@example.com")
	b.comes(asks("orders:read"))
	b.says("lady@example.com")
	to, form := b.fill("allow")
	b.open("/account")
	b.submit("switch")
	if p := b.follow(b.send(http.MethodPost, to, form.Encode())); p.status != http.StatusConflict || p.url.Host == "client.example" {
		t.Fatalf("%d at %s", p.status, p.url)
	}
	b.says("ada@example.com")
	b.submit("allow")
	b.answered()
	b.open("/account/apps")
	b.says("Reports")
}

// TestAuthorizePageForOneUser checks that only the user of an id_token_hint can decide.
func TestAuthorizePageForOneUser(t *testing.T) {
	w := authorizing(t)
	asks := w.client("Reports", func(c *document.OAuthClient) { c.Authentication = string(v1alpha1.ClientAuthenticationNone) })
	b := w.browser()
	b.signUp("ada@example.com")
	b.comes(asks("openid email"))
	b.submit("allow")
	asked, err := url.Parse(asks(""))
	w.Must(err)
	r, err := http.NewRequest(http.MethodPost, "http://localhost/oauth/portal/token", strings.NewReader(url.Values{
		"grant_type": {"authorization_code"}, "client_id": {asked.Query().Get("client_id")}, "code": {b.answered().Get("code")}, "redirect_uri": {"https://client.example/callback"},
		"code_verifier": {"dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"},
	}.Encode()))
	w.Must(err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := b.client.Do(r)
	w.Must(err)
	var given struct {
		IDToken string `json:"id_token"`
	}
	w.Must(json.NewDecoder(response.Body).Decode(&given))
	_ = response.Body.Close()

	other := w.browser()
	other.signUp("lady@example.com")
	hinted := asks("openid email", "id_token_hint", given.IDToken, "prompt", "consent")
	other.comes(hinted)
	other.at("/sign-in")
	if got := other.page.value("email"); got != "ada@example.com" {
		t.Errorf("the sign-in is for %q", got)
	}
	other.signIn("ada@example.com")
	other.says("ada@example.com")
	if strings.Contains(other.page.raw, "lady@example.com") {
		t.Error("another account is offered")
	}
	other.submit("allow")
	if told := other.answered(); told.Get("code") == "" {
		t.Errorf("%v", told)
	}

	other.open("/account")
	other.submit("switch")
	other.comes(hinted)
	other.says("ada@example.com")
	other.submit("deny")
	other.answered()
}
