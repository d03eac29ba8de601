package pages_test

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
)

// phones counts the numbers of a user.
func (b *browser) phones() int {
	b.w.T.Helper()
	b.open("/account/phones")
	return strings.Count(b.page.text(), "Not verified")
}

func TestForeignFormIsRefused(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/account/phones")
	to, values := b.fill("add", "phone_number", number)
	for name, header := range map[string]map[string]string{
		"another site":                   {"Origin": "https://evil.example"},
		"null":                           {"Origin": "null"},
		"another host of the deployment": {"Origin": "http://app.localhost:99"},
		"a declared origin":              {"Origin": "https://app.example.com"}, // a declared origin may call the API, but not send forms
		"no origin, but from elsewhere":  {"Origin": "", "Sec-Fetch-Site": "cross-site"},
		"a sibling":                      {"Origin": "", "Sec-Fetch-Site": "same-site"},
	} {
		b.header = header
		b.send(http.MethodPost, to, values.Encode())
		if b.page.status != http.StatusForbidden || !strings.Contains(b.page.text(), "This form came from elsewhere") {
			t.Errorf("%s: %d %s", name, b.page.status, b.page.text())
		}
	}
	b.header = map[string]string{}
	for name, change := range map[string]func(url.Values){
		"no token":           func(v url.Values) { v.Del("form_token") },
		"an empty token":     func(v url.Values) { v.Set("form_token", "") },
		"another's token":    func(v url.Values) { v.Set("form_token", strings.Repeat("A", 43)) },
		"a token of no user": func(v url.Values) { v.Set("form_user", "") },
		"a token of a user":  func(v url.Values) { v.Set("form_user", "1") },
		"not base64":         func(v url.Values) { v.Set("form_token", "!!") },
	} {
		forged := url.Values{}
		for member, value := range values {
			forged[member] = slices.Clone(value)
		}
		change(forged)
		b.send(http.MethodPost, to, forged.Encode())
		b.refused(http.StatusForbidden, "", "This page had been open for too long.")
		if b.page.value("phone_number") != number {
			t.Errorf("%s: what was typed is gone", name)
		}
	}
	// A token of another browser is refused, for any account.
	other := w.browser()
	other.open("/sign-in")
	other.signIn("ada@example.com")
	other.open("/account/phones")
	_, theirs := other.fill("add", "phone_number", number)
	b.send(http.MethodPost, to, theirs.Encode())
	b.refused(http.StatusForbidden, "", "This page had been open for too long.")
	if n := b.phones(); n != 0 {
		t.Fatalf("%d numbers were added", n)
	}
	// A form that is shown again can be sent again.
	b.send(http.MethodPost, to, theirs.Encode())
	b.submit("add")
	if n := b.phones(); n != 1 {
		t.Errorf("%d numbers", n)
	}
}

func TestContinueOnlyLeadsToOwnPages(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/sign-out")
	b.submit("all")
	for target, want := range map[string]string{
		"/organizations":                            "http://localhost/organizations",
		"/account/phones?x=1":                       "http://localhost/account/phones?x=1",
		"https://app.example.com/back?a=b":          "https://app.example.com/back?a=b",
		"https://app.example.com":                   "https://app.example.com",
		"//evil.example/":                           "",
		"///evil.example/":                          "",
		`/\evil.example/`:                           "",
		`\\evil.example`:                            "",
		"/\t/evil.example":                          "",
		"\t//evil.example":                          "",
		"/\n/evil.example":                          "",
		"https://evil.example/":                     "",
		"https:evil.example":                        "",
		"https:/evil.example":                       "",
		"https://app.example.com.evil.example/":     "",
		"https://app.example.com@evil.example/":     "",
		`https://app.example.com\@evil.example/`:    "",
		"https://app.example.com:8443/":             "",
		"http://app.example.com/":                   "",
		"https://user@app.example.com/":             "",
		"HTTPS://APP.EXAMPLE.COM/":                  "",
		"javascript:alert(1)":                       "",
		"data:text/html,x":                          "",
		"evil.example":                              "",
		"":                                          "",
		"/" + strings.Repeat("a", 3000):             "",
		"/é":                                        "",
		"https://app.example.com\r\nX-Header: x":    "",
		"/account\r\nSet-Cookie: __session=evil":    "",
		"%2F%2Fevil.example":                        "",
		"https://[::1":                              "",
		"/account/phones#<script>alert(1)</script>": "",
	} {
		b.open("/sign-in?continue=" + url.QueryEscape(target))
		if strings.Contains(b.page.raw, "<script>alert") {
			t.Fatalf("%q is rendered as markup", target)
		}
		to, values := b.fill("email", "email", "ada@example.com")
		at := b.send(http.MethodPost, to, values.Encode())
		b.follow(at)
		to, values = b.fill("password", "password", goodPassword)
		at = b.send(http.MethodPost, to, values.Encode())
		got, err := to.Parse(at.header.Get("Location"))
		w.Must(err)
		if want == "" {
			want = "http://localhost/account"
		}
		if got.String() != want && !(strings.HasPrefix(target, "/account/phones#") && got.Host == "localhost") {
			t.Errorf("%q leads to %s, want %s", target, got, want)
		}
		b.open("/sign-out?continue=" + url.QueryEscape(target))
		to, values = b.fill("all")
		at = b.send(http.MethodPost, to, values.Encode())
		if got, err := to.Parse(at.header.Get("Location")); err != nil || got.Host != "localhost" && got.Host != "app.example.com" {
			t.Errorf("after the sign-out %q leads to %s", target, got)
		}
	}
}

const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(1)>{{.}}`

func TestMarkupInNamesIsText(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) { d.DisplayName = hostile })
	b := w.browser()
	check := func(where string) {
		t.Helper()
		if b.page.find(func(n *node) bool { return n.Data == "img" && attr(n, "src") == "x" || hasAttr(n, "onerror") }) != nil ||
			strings.Contains(b.page.raw, "<script>alert") {
			t.Errorf("%s: %s", where, b.page.raw)
		}
	}
	b.open("/sign-up?ui_locales=" + url.QueryEscape(hostile))
	check("sign-up")
	b.submit("signup", "email", "ada@example.com", "first_name", hostile, "last_name", `"><script>alert(1)</script>`, "password", goodPassword)
	check("code")
	b.submit("code", "code", w.CodeFor("ada@example.com", 1))
	b.at("/account")
	check("account")
	b.says("<script>alert(1)</script>")
	b.open("/organizations/new")
	b.submit("create", "name", hostile[:60], "description", hostile)
	check("organization")
	created := b.page.url.Path
	b.open(b.link(created + "/members/"))
	check("member")
	b.says("<script>alert(1)</script>")
	b.open(created)
	b.submit("workspace", "name", hostile[:60])
	check("workspace")
	b.says(hostile[:60])
	b.open("/organizations")
	check("organizations")
	b.open("/sign-in")
	check("choose")
	for _, path := range []string{"/account", "/account/phones", "/account/emails", "/account/password", "/account/delete", "/organizations/new", "/sign-in?add=1", "/sign-up", "/forgot-password"} {
		b.open(path)
		for _, n := range b.forms() {
			b.open(path)
			_, values := b.page.form(n)
			for name := range values {
				if !strings.HasPrefix(name, "form_") && name != "action" {
					values.Set(name, hostile)
				}
			}
			to, _ := b.fill(n)
			b.send(http.MethodPost, to, values.Encode())
			check(path + " " + n)
		}
	}
	for _, path := range []string{
		"/nothing/" + url.PathEscape(hostile), "/invitations/" + url.PathEscape(hostile), "/organizations/" + url.PathEscape(hostile),
		"/sign-in/code?attempt=" + url.QueryEscape(hostile), "/sign-up?invitation=" + url.QueryEscape(hostile), "/sign-in?continue=" + url.QueryEscape(hostile),
	} {
		b.open(path)
		check(path)
	}
	b.header = map[string]string{"X-Request-Id": "<script>alert(1)</script>"}
	b.open("/nothing")
	check("request id")
}

// forms returns the actions of the page's forms.
func (b *browser) forms() (actions []string) {
	for n := range b.page.root.Descendants() {
		if n.Data == "button" && attr(n, "name") == "action" && !slices.Contains(actions, attr(n, "value")) && attr(n, "value") != "one" {
			actions = append(actions, attr(n, "value"))
		}
	}
	return actions
}

// sendWhatever sends arbitrary values in each form of the page, except in forms that end the session. Every response
// must have a text, and none may be a server error.
func (b *browser) sendWhatever() {
	t := b.w.T
	t.Helper()
	path := b.page.url.Path
	type filled struct {
		to     *url.URL
		values url.Values
	}
	forms := map[string]filled{}
	for _, action := range b.forms() {
		if slices.Contains([]string{"all", "sign-out", "leave", "one"}, action) {
			continue
		}
		form, values := b.page.form(action)
		to, err := b.page.url.Parse(attr(form, "action"))
		b.w.Must(err)
		forms[action] = filled{to, values}
	}
	for action, form := range forms {
		for name := range form.values {
			for what, change := range map[string]func(url.Values){
				"missing":   func(v url.Values) { v.Del(name) },
				"doubled":   func(v url.Values) { v.Add(name, v.Get(name)) },
				"empty":     func(v url.Values) { v.Set(name, "") },
				"too long":  func(v url.Values) { v.Set(name, strings.Repeat("x", 6000)) },
				"binary":    func(v url.Values) { v.Set(name, "\x00\x01\u202e\u200b") },
				"not UTF-8": func(v url.Values) { v.Set(name, "\xff\xfe") },
				"a number":  func(v url.Values) { v.Set(name, "-1e999") },
				"JSON":      func(v url.Values) { v.Set(name, `{"a":[1]}`) },
			} {
				sent := url.Values{}
				for member, value := range form.values {
					sent[member] = slices.Clone(value)
				}
				change(sent)
				b.send(http.MethodPost, form.to, sent.Encode())
				if s := b.page.status; s >= 500 || s == 0 {
					t.Errorf("%s %s with %s %s: %d %s", path, action, name, what, s, b.page.text())
				}
				if b.page.status >= 400 && len(b.page.text()) < 60 {
					t.Errorf("%s %s with %s %s: the page has no message", path, action, name, what)
				}
			}
		}
	}
}

// Every form of every page is sent with each member missing, doubled, empty, too long, and of the wrong kind. The
// response must be a page with the error, or the next page, never a server error.
func TestFormsAcceptArbitraryInput(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/organizations/new")
	b.submit("create", "name", "Engines")
	member, workspace := b.link("/organizations/engines/members/"), b.link("/organizations/engines/workspaces/")
	b.open("/account/phones")
	b.submit("add", "phone_number", number)
	phone := b.page.url.Path
	b.open("/account/emails")
	b.submit("add", "email", "ada@work.example")
	email := b.page.url.Path
	for _, path := range []string{"/sign-in", "/sign-in?add=1", "/sign-in/password", "/sign-up", "/forgot-password", "/account", "/account/emails", email, "/account/password", "/account/sessions", "/account/delete", "/account/phones", phone, "/account/keys", "/organizations", "/organizations/new",
		"/organizations/engines", "/organizations/engines/settings", member, workspace, "/invitations/abc"} {
		b.open(path)
		b.sendWhatever()
	}
	for _, begin := range []func(b *browser){
		func(b *browser) {
			b.open("/reauthenticate")
			b.submit("code")
			b.at("/reauthenticate/code")
		},
		func(b *browser) {
			b.open("/forgot-password")
			b.submit("forgotten", "email", "ada@example.com")
			b.at("/forgot-password/code")
		},
		func(b *browser) {
			b.open("/forgot-password")
			b.submit("forgotten", "email", "ada@example.com")
			b.submit("code", "code", w.CodeFor("ada@example.com", 4))
			b.at("/forgot-password/new")
		},
	} {
		w.Clock.Advance(2 * time.Minute) // so that no cool-down between mails is active
		begin(b)
		b.sendWhatever()
	}
	if strings.Contains(w.Logs.String(), "panic") || strings.Contains(w.Logs.String(), "A page failed") {
		t.Error(w.Logs.String())
	}
}

func TestMalformedFormsAreRefused(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.open("/sign-in")
	to, values := b.fill("email", "email", "ada@example.com")
	for name, tc := range map[string]struct {
		header map[string]string
		method string
		path   string
		body   string
		status int
	}{
		"too long":            {nil, "POST", "/sign-in", "email=" + strings.Repeat("a", 17<<10), 413},
		"broken escapes":      {nil, "POST", "/sign-in", "email=%zz", 400},
		"a semicolon":         {nil, "POST", "/sign-in", "email=a;b=c", 400},
		"a page without form": {nil, "POST", "/", values.Encode(), 405},
		"no page":             {nil, "POST", "/nothing", values.Encode(), 404},
		"several parts":       {map[string]string{"Content-Type": "multipart/form-data; boundary=x"}, "POST", "/sign-in", "--x--", 415},
		"JSON to a page":      {map[string]string{"Content-Type": "application/json"}, "POST", "/sign-in", "{}", 415},
		"another method":      {nil, "DELETE", "/sign-in", "", 404},
	} {
		b.header = tc.header
		b.send(tc.method, b.url(tc.path), tc.body)
		if b.page.status != tc.status {
			t.Errorf("%s: %d, want %d: %s", name, b.page.status, tc.status, b.page.text())
		}
		if tc.status == 405 && b.page.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: Allow %q", name, b.page.header.Get("Allow"))
		}
	}
	b.header = nil
	b.send(http.MethodHead, to, "")
	if b.page.status != 200 || b.page.raw != "" || b.page.header.Get("Content-Length") == "" {
		t.Errorf("HEAD: %d, %q", b.page.status, b.page.raw)
	}
}
