package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
)

// The session ends while a form is open: the entered data is kept for the next sign-in of the same user, and is not
// shown to other users.
func TestDraftSurvivesSignIn(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/organizations/new")
	to, values := b.fill("create", "name", "Analytical Engines", "description", "Two\r\nlines")
	b.setCookie("__session", "")
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.at("/sign-in")
	if b.page.url.Query().Get("continue") != "/organizations/new" {
		t.Fatalf("at %s", b.page.url)
	}
	kept := b.cookie("cardea_pages")
	if strings.Contains(kept, "Analytical") || len(kept) > 3<<10 {
		t.Errorf("the cookie reveals the entered data, or is too long: %s", kept)
	}
	b.signIn("ada@example.com")
	b.at("/organizations/new")
	b.says("What you had typed was kept.")
	if b.page.value("name") != "Analytical Engines" || b.page.value("description") != "Two lines" {
		t.Errorf("given back: %q, %q", b.page.value("name"), b.page.value("description"))
	}
	b.open("/organizations/new")
	if b.page.value("name") != "" {
		t.Error("the draft is restored twice")
	}

	// The data is not shown to another user of the same browser. After ten minutes, it is not shown to the first user
	// either.
	b.open("/organizations/new")
	to, values = b.fill("create", "name", "Secret plans")
	b.setCookie("__session", "")
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.open("/sign-up?continue=%2Forganizations%2Fnew")
	b.submit("signup", "email", "eve@example.com", "password", goodPassword)
	b.submit("code", "code", w.CodeFor("eve@example.com", 1))
	b.at("/organizations/new")
	if strings.Contains(b.page.raw, "Secret plans") {
		t.Error("another person sees what was typed")
	}
	w.Clock.Advance(11 * 60e9)
	b.open("/sign-in?add=1&continue=%2Forganizations%2Fnew")
	b.signIn("ada@example.com")
	b.at("/organizations/new")
	if strings.Contains(b.page.raw, "Secret plans") {
		t.Error("what was typed is kept for longer than ten minutes")
	}
}

// Another account became active in another tab: the form of the first account is not processed for the second one.
func TestFormOfAnotherAccountIsShownAgain(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/organizations/new")
	to, values := b.fill("create", "name", "Analytical Engines")
	w.Clock.Advance(1e9)
	b.open("/sign-up")
	b.submit("signup", "email", "grace@example.com")
	b.submit("code", "code", w.CodeFor("grace@example.com", 1))
	b.send(http.MethodPost, to, values.Encode())
	b.refused(http.StatusConflict, "", "You are signed in as grace@example.com now. Nothing was changed")
	if b.page.value("name") != "Analytical Engines" {
		t.Error("what was typed is gone")
	}
	b.submit("create")
	b.at("/organizations/analytical-engines")
	b.says("Signed in as grace@example.com")
}

func TestFormSentTwiceActsOnce(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.open("/sign-up")
	b.submit("signup", "email", "ada@example.com", "password", goodPassword)
	to, values := b.fill("code", "code", w.CodeFor("ada@example.com", 1))
	first := b.send(http.MethodPost, to, values.Encode())
	if first.status != http.StatusSeeOther || first.header.Get("Location") != "/account" {
		t.Fatalf("first: %d %s", first.status, first.text())
	}
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.at("/account")
	b.says("Signed in as ada@example.com")
	b.open("/account/phones")
	to, values = b.fill("add", "phone_number", number)
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.send(http.MethodPost, to, values.Encode())
	b.refused(http.StatusBadRequest, "phone_number", "This number is in use already.")
	if n := b.phones(); n != 1 {
		t.Errorf("%d numbers", n)
	}
}

// After a sign-out, earlier pages are not shown again: neither by the back button, which loads the page again, nor by a
// request with the old cookie.
func TestSignOutClearsState(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	old := b.cookie("__session")
	b.open("/sign-out")
	b.submit("all")
	if b.cookie("__session") != "" {
		t.Error("the cookie is still there")
	}
	b.setCookie("__session", old)
	for _, path := range []string{"/account", "/organizations", "/account/phones"} {
		b.open(path)
		b.at("/sign-in")
		if strings.Contains(b.page.raw, "ada@example.com") {
			t.Errorf("%s reveals the account that was signed in", path)
		}
	}
}

func TestTwoSessionCookiesAreTakenAway(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.header = map[string]string{"Cookie": "__session=a; __session=b"}
	b.open("/account/phones")
	if b.page.status != http.StatusUnauthorized {
		t.Fatalf("%d %s", b.page.status, b.page.text())
	}
	b.says("Please sign in again")
	cleared := strings.Join(b.page.header.Values("Set-Cookie"), "\n")
	for _, path := range []string{"Path=/;", "Path=/account;", "Path=/account/phones;"} {
		if !strings.Contains(cleared, path) {
			t.Errorf("a cookie for %s stays: %s", path, cleared)
		}
	}
}

func TestStoreUnavailable(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/organizations/new")
	to, values := b.fill("create", "name", "Analytical Engines")
	w.Must(w.Store.Close())
	for _, at := range []shown{b.send(http.MethodGet, b.url("/account?x=1"), ""), b.send(http.MethodPost, to, values.Encode())} {
		b.page = at
		if at.status != http.StatusServiceUnavailable || at.header.Get("Retry-After") == "" {
			t.Fatalf("%d %s", at.status, at.text())
		}
		b.says("This does not work at the moment")
		retry := at.find(func(n *node) bool { return n.Data == "a" && strings.HasPrefix(attr(n, "href"), at.url.Path) })
		if retry == nil || (shown{root: retry}).text() != "Try again" {
			t.Errorf("no way to try again: %s", at.raw)
		}
		if id := at.header.Get("X-Request-Id"); !strings.Contains(at.text(), id) {
			t.Error("the page does not show the request's id")
		}
	}
}

func TestPagesCanBeDisabled(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) { d.Pages = &document.Pages{Disabled: true, URL: "https://acme.example"} })
	b := w.browser()
	for _, path := range []string{"/", "/sign-in", "/account", "/nothing", "/assets/style-0000000000000000.css"} {
		at := b.send(http.MethodGet, b.url(path), "")
		if at.status != http.StatusNotFound || at.header.Get("Content-Type") != "application/json" || !strings.Contains(at.raw, `"code":"NOT_FOUND"`) {
			t.Errorf("%s: %d %s", path, at.status, at.raw)
		}
	}
	if at := b.send(http.MethodPost, b.url("/sign-in"), "email=a"); at.status != http.StatusNotFound || at.header.Get("Content-Type") != "application/json" {
		t.Errorf("a form: %d %s", at.status, at.raw)
	}
	if at := b.send(http.MethodPost, b.url("/organizations"), "name=a"); at.status != http.StatusUnsupportedMediaType {
		t.Errorf("a form to the API: %d %s", at.status, at.raw)
	}
	if at := b.send(http.MethodGet, b.url("/session"), ""); at.status != http.StatusOK {
		t.Errorf("the API: %d %s", at.status, at.raw)
	}
}

// Clients of the API get the API's responses, even at paths of pages.
func TestPagesDoNotChangeTheAPI(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	for _, accept := range []string{"", "*/*", "application/json", "text/html;q=0", "text/html;q=0.0, */*", "application/xhtml+xml", "text/htm"} {
		b.header = map[string]string{"Accept": accept}
		for path, status := range map[string]int{"/": 404, "/sign-in": 404, "/nothing": 404, "/session": 200, "/me": 401, "/auth/signin": 405} {
			at := b.send(http.MethodGet, b.url(path), "")
			if at.status != status || at.header.Get("Content-Type") != "application/json" || at.header.Get("Content-Security-Policy") != "" {
				t.Errorf("Accept %q, %s: %d %s", accept, path, at.status, at.raw)
			}
		}
	}
	b.header = map[string]string{"Accept": "text/html", "Content-Type": "application/json"}
	if at := b.send(http.MethodPost, b.url("/auth/signin"), `{"strategy":"password","email":"a@b.example","password":"x"}`); at.status != 401 || at.header.Get("Content-Type") != "application/json" {
		t.Errorf("a sign-in: %d %s", at.status, at.raw)
	}
	b.header = map[string]string{}
	for path, status := range map[string]int{"/nothing": 404, "/auth/signin": 405, "/a/../b": 404} {
		at := b.send(http.MethodGet, &url.URL{Scheme: "http", Host: "localhost", Path: path}, "")
		if at.status != status || !strings.HasPrefix(at.header.Get("Content-Type"), "text/html") {
			t.Errorf("a browser at %s: %d %s", path, at.status, at.raw)
		}
	}
	for _, path := range []string{"/session", "/me"} {
		if at := b.send(http.MethodGet, b.url(path), ""); at.header.Get("Content-Type") != "application/json" {
			t.Errorf("a browser at %s: %d %s", path, at.status, at.header)
		}
	}
	b.host = "unknown.example"
	at := b.send(http.MethodGet, b.url("/sign-in"), "")
	if at.status != http.StatusNotFound || !strings.Contains(at.text(), "There is no such service") {
		t.Errorf("an unknown host: %d %s", at.status, at.text())
	}
}

func TestLanguages(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.header = map[string]string{"Accept-Language": "de-DE,de;q=0.9"}
	b.open("/sign-in")
	b.says("Bei Acme anmelden")
	if root := b.page.find(func(n *node) bool { return n.Data == "html" }); attr(root, "lang") != "de" || b.page.header.Get("Content-Language") != "de" {
		t.Error("the page does not say its language")
	}
	b.submit("email", "email", "nothing")
	if b.page.status != 400 || !strings.Contains(b.page.text(), "Geben Sie eine E-Mail-Adresse wie ada@example.com ein.") {
		t.Error(b.page.text())
	}
	b.open("/sign-in?ui_locales=en&continue=%2Forganizations")
	b.says("Sign in to Acme")
	b.submit("email", "email", "ada@example.com")
	b.at("/sign-in/password")
	b.says("Enter your password")
	if q := b.page.url.Query(); q.Get("ui_locales") != "en" || q.Get("continue") != "/organizations" {
		t.Errorf("on the way: %s", b.page.url)
	}
}

func TestBrand(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		d.Pages = &document.Pages{
			LogoURL: "https://cdn.acme.example:8443/logo.svg?v=1", AccentColor: "#0f5c6e", SupportEmail: "help@acme.example", PrivacyURL: "https://acme.example/privacy",
			TermsURL: "https://acme.example/terms",
		}
	})
	b := w.browser()
	b.open("/sign-in")
	want := "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' https://cdn.acme.example:8443; form-action 'self' https://app.example.com; frame-ancestors 'none'; base-uri 'none'"
	if got := b.page.header.Get("Content-Security-Policy"); got != want {
		t.Errorf("policy %s", got)
	}
	for _, what := range []string{"mailto:help@acme.example", "https://acme.example/privacy", "https://acme.example/terms", `alt="Acme"`} {
		if !strings.Contains(b.page.raw, what) {
			t.Errorf("no %s", what)
		}
	}
	page, weight := b.page, len(b.page.raw)
	for n := range page.root.Descendants() {
		path := attr(n, "href")
		if n.Data == "script" {
			path = attr(n, "src")
		}
		if n.Data != "link" && n.Data != "script" {
			continue
		}
		b.header = map[string]string{"Accept": "text/css,*/*;q=0.1", "Accept-Encoding": "gzip"}
		at := b.send(http.MethodGet, b.url(path), "")
		weight += len(at.raw)
		if at.status != 200 || at.header.Get("Cache-Control") != "public, max-age=31536000, immutable" || at.header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d %v", path, at.status, at.header)
		}
		b.header = map[string]string{"Accept": "*/*", "Accept-Encoding": "identity"}
		at = b.send(http.MethodGet, b.url(path), "")
		if strings.Contains(path, "brand") && (!strings.Contains(at.raw, "--accent:#0f5c6e") || !strings.Contains(at.raw, "prefers-color-scheme:dark")) {
			t.Errorf("brand: %s", at.raw)
		}
		// An asset path of another server version is served with the current content, and not cached.
		cut := strings.LastIndexByte(path, '-') + 1
		old := b.send(http.MethodGet, b.url(path[:cut]+"0123456789abcdef"+path[cut+16:]), "")
		if old.status != 200 || old.raw != at.raw || old.header.Get("Cache-Control") != "no-store" {
			t.Errorf("an old %s: %d %v", path, old.status, old.header)
		}
	}
	if weight > 60<<10 {
		t.Errorf("a page weighs %d bytes", weight)
	}
}

// Over TLS, or in production, cookies are Secure, the pages' cookie has the prefix __Host-, and HSTS makes browsers use
// HTTPS only.
func TestCookiesOfProduction(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		d.Mode, d.FrontendHosts = "Production", []string{"app.acme.example"}
	})
	b := w.browser()
	b.host = "app.acme.example"
	b.open("/sign-in")
	cookies := strings.Join(b.page.header.Values("Set-Cookie"), "\n")
	if !strings.HasPrefix(cookies, "__Host-cardea_pages=") || !strings.HasSuffix(cookies, "; Path=/; HttpOnly; Secure; SameSite=Lax") {
		t.Errorf("cookies: %s", cookies)
	}
	if b.page.header.Get("Strict-Transport-Security") != "max-age=31536000" {
		t.Error("no HSTS")
	}
	b.host = "localhost"
}

func TestSignUpPageRules(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		d.SignIn = &document.SignInSettings{EmailCode: true, PasswordMinLength: 15}
	})
	w.DeclareB2B(document.B2BSettings{Enabled: true, RequireOrgForSignup: true})
	b := w.browser()
	w.Eventually("an organization is asked for", func() bool {
		b.open("/sign-up")
		return b.page.value("email") == "" && strings.Contains(b.page.text(), "Name of the organization")
	})
	if b.page.find(func(n *node) bool { return attr(n, "name") == "password" }) != nil {
		t.Error("the page asks for a password although passwords are disabled")
	}
	b.submit("signup", "email", "ada@example.com")
	b.refused(http.StatusBadRequest, "organization_name", "Enter the name of your organization")
	if b.page.value("email") != "ada@example.com" {
		t.Error("what was typed is gone")
	}
	b.submit("signup", "organization_name", "Engines")
	b.submit("code", "code", w.CodeFor("ada@example.com", 1))
	b.open("/organizations/engines")
	b.at("/organizations/engines")
	b.open("/sign-out")
	b.submit("all")
	b.submit("email", "email", "ada@example.com")
	b.at("/sign-in/code") // the only sign-in method of the deployment
}

func TestWeakPasswords(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.open("/sign-up")
	for _, weak := range []string{"short", "passwordpassword", strings.Repeat("x", 129), "ada@example.com"} {
		b.submit("signup", "email", "ada@example.com", "password", weak)
		b.refused(http.StatusBadRequest, "password", "Choose another password: at least 15 characters")
		if strings.Contains(b.page.raw, weak+`"`) && weak != "ada@example.com" {
			t.Errorf("the password is shown again: %s", b.page.raw)
		}
	}
}

// A change of a sign-in method needs an authentication within ten minutes, and continues afterwards.
func TestSensitiveChangeNeedsRecentAuthentication(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	w.Clock.Advance(11 * 60e9)
	b.open("/account/phones")
	b.submit("add", "phone_number", number)
	b.at("/reauthenticate")
	b.submit("password", "password", "")
	b.refused(http.StatusBadRequest, "password", "Enter your password.")
	b.submit("password", "password", "wrong wrong wrong wrong")
	b.refused(http.StatusUnauthorized, "", "The email address or the password is wrong.")
	b.submit("password", "password", goodPassword)
	b.at("/account/phones")
	b.says("What you had typed was kept.")
	b.submit("add")
	b.says("A code is on its way.")

	w.Clock.Advance(11 * 60e9)
	b.open("/account/phones")
	b.submit("remove")
	b.at("/reauthenticate")
	b.submit("code")
	b.at("/reauthenticate/code")
	code := w.CodeFor("ada@example.com", 2)
	b.submit("code", "code", wrong(code))
	b.refused(http.StatusBadRequest, "code", "4 tries are left")
	to, values := b.fill("code", "code", code)
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.at("/account/phones")
	b.says("Thank you. Now you can go on with what you were doing.")
	b.follow(b.send(http.MethodPost, to, values.Encode())) // the second of two clicks
	b.at("/account/phones")
	b.submit("remove")
	b.says("The number was removed.")
}
