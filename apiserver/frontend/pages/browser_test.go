package pages_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/text"
)

// node is an element of a page.
type node = html.Node

// world is the deployment and its server, which a test uses.
type world struct{ *frontendtest.World }

func newWorld(t *testing.T, change func(*document.Deployment)) *world {
	t.Helper()
	t.Parallel()
	return &world{frontendtest.New(t, change)}
}

// browser is a browser without scripts: it follows redirects, keeps cookies, and sends forms as they stand on the page.
type browser struct {
	w       *world
	host    string
	address string
	client  *http.Client
	// header is sent along with every request.
	header map[string]string
	// page is the page that the browser shows.
	page shown
}

// shown is a received page or redirect.
type shown struct {
	url    *url.URL
	status int
	header http.Header
	raw    string
	root   *node
	// came are the statuses of the redirects that led to the page.
	came []int
}

var (
	addresses   sync.Mutex
	lastAddress = netip.MustParseAddr("10.0.0.0")
)

// browser returns a new browser with its own IP address.
func (w *world) browser() *browser {
	addresses.Lock()
	defer addresses.Unlock()
	lastAddress = lastAddress.Next()
	jar, err := cookiejar.New(nil)
	w.Must(err)
	return &browser{w: w, host: "localhost", address: lastAddress.String(), header: map[string]string{}, client: &http.Client{
		Jar: jar, Timeout: time.Minute, Transport: w.transport(w.Server), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// transport returns a transport that connects to a server for every host.
func (w *world) transport(to *httptest.Server) *http.Transport {
	target := to.Listener.Addr().String()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", target)
	}}
	w.T.Cleanup(transport.CloseIdleConnections)
	return transport
}

// open goes to a path and follows redirects.
func (b *browser) open(path string) shown {
	b.w.T.Helper()
	return b.follow(b.send(http.MethodGet, b.url(path), ""))
}

// numbered returns a path in which the slug of an organization's name is replaced by the actual slug of the
// organization.
func (w *world) numbered(path string) string {
	w.T.Helper()
	after, of := strings.CutPrefix(path, "/organizations/")
	slug, _, _ := strings.Cut(after, "/")
	if !of || slug == "new" || strings.Trim(slug, "abcdefghijklmnopqrstuvwxyz-") != "" {
		return path
	}
	return "/organizations/" + w.Numbered(slug) + strings.TrimPrefix(after, slug)
}

func (b *browser) url(path string) *url.URL {
	b.w.T.Helper()
	u, err := url.Parse("http://" + b.host + b.w.numbered(path))
	b.w.Must(err)
	return u
}

// send sends one request and shows the response, even if it is a redirect or an error.
func (b *browser) send(method string, to *url.URL, body string) shown {
	b.w.T.Helper()
	req, err := http.NewRequest(method, to.String(), strings.NewReader(body))
	b.w.Must(err)
	req.Header.Set("X-Forwarded-For", b.address)
	req.Header.Set("User-Agent", "test browser")
	req.Header.Set("Accept", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8")
	req.Header.Set("Accept-Language", "en-GB,en;q=0.9")
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", "http://"+to.Host)
	}
	for name, value := range b.header {
		if value == "" {
			req.Header.Del(name)
			continue
		}
		req.Header.Set(name, value)
	}
	resp, err := b.client.Do(req)
	b.w.Must(err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	b.w.Must(err)
	root, err := html.Parse(strings.NewReader(string(raw)))
	b.w.Must(err)
	b.page = shown{url: to, status: resp.StatusCode, header: resp.Header, raw: string(raw), root: root}
	if method != http.MethodHead {
		b.checkPage()
	}
	return b.page
}

// follow follows redirects to pages of the host.
func (b *browser) follow(at shown) shown {
	b.w.T.Helper()
	var came []int
	for range 10 {
		if at.status != http.StatusSeeOther {
			at.came = came
			b.page = at
			return at
		}
		came = append(came, at.status)
		to, err := at.url.Parse(at.header.Get("Location"))
		b.w.Must(err)
		if to.Host != b.host {
			at.came, at.url = came, to
			b.page = at
			return at
		}
		at = b.send(http.MethodGet, to, "")
	}
	b.w.T.Fatalf("redirects without end at %s", at.url)
	return at
}

// checkPage checks the properties that every page and redirect must have.
func (b *browser) checkPage() {
	b.w.T.Helper()
	p := b.page
	isPage := strings.HasPrefix(p.header.Get("Content-Type"), "text/html")
	if !isPage && p.status != http.StatusSeeOther {
		return
	}
	policy := p.header.Get("Content-Security-Policy")
	if p.header.Get("Cache-Control") != "no-store" || p.header.Get("X-Frame-Options") != "DENY" || p.header.Get("X-Content-Type-Options") != "nosniff" ||
		p.header.Get("Referrer-Policy") != "same-origin" || p.header.Get("Cross-Origin-Opener-Policy") != "same-origin" ||
		!strings.HasPrefix(policy, "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'") || !strings.Contains(policy, "frame-ancestors 'none'; base-uri 'none'") {
		b.w.T.Fatalf("%s: headers %v", p.url, p.header)
	}
	if p.header.Get("X-Request-Id") == "" {
		b.w.T.Fatalf("%s has no request id", p.url)
	}
	if !isPage {
		return
	}
	for _, inline := range []string{" style=", "<style", " onclick=", " onload=", "javascript:", "ZgotmplZ", "<no value>", "%!"} {
		if strings.Contains(p.raw, inline) {
			b.w.T.Fatalf("%s has %q: %s", p.url, inline, p.raw)
		}
	}
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && n.Data == "script" && attr(n, "src") == "" {
			b.w.T.Fatalf("%s has an inline script: %s", p.url, p.raw)
		}
	}
	for n := range p.root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "textarea" && text.Reorders(n.Data) {
			b.w.T.Fatalf("%s shows a name that can reorder the words around it: %q", p.url, n.Data)
		}
		for _, described := range []string{"aria-label", "alt", "title"} {
			if text.Reorders(attr(n, described)) {
				b.w.T.Fatalf("%s has a name that can reorder the words around it: %s=%q", p.url, described, attr(n, described))
			}
		}
	}
	ids := map[string]bool{}
	for n := range p.root.Descendants() {
		if id := attr(n, "id"); id != "" {
			if ids[id] {
				b.w.T.Fatalf("%s has the id %s twice", p.url, id)
			}
			ids[id] = true
		}
	}
}

// attr returns an attribute of an element, "" if the element does not have it.
func attr(n *node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func hasAttr(n *node, name string) bool {
	for _, a := range n.Attr {
		if a.Key == name {
			return true
		}
	}
	return false
}

// text returns the text of a page, with white space reduced to single blanks.
func (p shown) text() string {
	var out strings.Builder
	for n := range p.root.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data != "script" {
			out.WriteString(n.Data + " ")
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// find returns the first element for which is holds, nil for none.
func (p shown) find(is func(*node) bool) *node {
	for n := range p.root.Descendants() {
		if n.Type == html.ElementNode && is(n) {
			return n
		}
	}
	return nil
}

// form returns the form that has a button with an action, and its values as they stand on the page.
func (p shown) form(action string) (form *node, values url.Values) {
	button := p.find(func(n *node) bool {
		return n.Data == "button" && attr(n, "name") == "action" && attr(n, "value") == action
	})
	if button == nil {
		return nil, nil
	}
	for form = button; form != nil && form.Data != "form"; form = form.Parent {
	}
	values = url.Values{"action": {action}}
	for n := range form.Descendants() {
		switch {
		case n.Type != html.ElementNode || attr(n, "name") == "" || hasAttr(n, "disabled"):
		case n.Data == "input" && (attr(n, "type") == "checkbox" || attr(n, "type") == "radio") && !hasAttr(n, "checked"):
		case n.Data == "input":
			values.Set(attr(n, "name"), attr(n, "value"))
		case n.Data == "textarea":
			values.Set(attr(n, "name"), strings.TrimPrefix((shown{root: n}).text(), "\n"))
		case n.Data == "select":
			values.Set(attr(n, "name"), "")
		}
	}
	return form, values
}

// value returns the value of a field.
func (p shown) value(name string) string {
	n := p.find(func(n *node) bool { return (n.Data == "input" || n.Data == "textarea") && attr(n, "name") == name })
	if n == nil {
		return ""
	}
	if n.Data == "textarea" {
		return (shown{root: n}).text()
	}
	return attr(n, "value")
}

// fill returns the address and the values that a form of the page sends. pairs are names of fields and the entered
// values.
func (b *browser) fill(action string, pairs ...string) (*url.URL, url.Values) {
	b.w.T.Helper()
	form, values := b.page.form(action)
	if form == nil {
		b.w.T.Fatalf("%s has no form %q: %s", b.page.url, action, b.page.text())
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		values.Set(pairs[i], pairs[i+1])
	}
	to, err := b.page.url.Parse(attr(form, "action"))
	b.w.Must(err)
	return to, values
}

// submit sends a form of the page and follows the redirects.
func (b *browser) submit(action string, pairs ...string) shown {
	b.w.T.Helper()
	to, values := b.fill(action, pairs...)
	return b.follow(b.send(http.MethodPost, to, values.Encode()))
}

// at expects the browser to be at a path after a success.
func (b *browser) at(path string) {
	b.w.T.Helper()
	path = b.w.numbered(path)
	if b.page.url.Path != path || b.page.status != http.StatusOK {
		b.w.T.Fatalf("at %s with status %d, want %s: %s", b.page.url, b.page.status, path, b.page.text())
	}
}

// says expects the page to contain a text.
func (b *browser) says(what string) {
	b.w.T.Helper()
	if !strings.Contains(b.page.text(), what) {
		b.w.T.Fatalf("%s does not say %q: %s", b.page.url, what, b.page.text())
	}
}

// refused expects the page again, with a status and an error of a field ("" for the whole form). The error must be
// associated with the field for screen readers.
func (b *browser) refused(status int, field, message string) {
	b.w.T.Helper()
	p := b.page
	if p.status != status {
		b.w.T.Fatalf("%s: status %d, want %d: %s", p.url, p.status, status, p.text())
	}
	summary := p.find(func(n *node) bool { return attr(n, "id") == "summary" })
	if summary == nil || attr(summary, "role") != "alert" || !hasAttr(summary, "autofocus") || !strings.Contains((shown{root: summary}).text(), message) {
		b.w.T.Fatalf("%s: the summary does not say %q: %s", p.url, message, p.text())
	}
	if title := p.find(func(n *node) bool { return n.Data == "title" }); !strings.HasPrefix((shown{root: title}).text(), "Error:") {
		b.w.T.Fatalf("%s: the title does not show the error", p.url)
	}
	if field == "" {
		return
	}
	input := p.find(func(n *node) bool { return attr(n, "name") == field && attr(n, "aria-invalid") == "true" })
	if input == nil {
		b.w.T.Fatalf("%s: %s is not marked: %s", p.url, field, p.raw)
	}
	tied := ""
	for id := range strings.FieldsSeq(attr(input, "aria-describedby")) {
		if n := p.find(func(n *node) bool { return attr(n, "id") == id }); n != nil {
			tied += (shown{root: n}).text()
		}
	}
	if !strings.Contains(tied, message) {
		b.w.T.Fatalf("%s: %s is described by %q, want %q", p.url, field, tied, message)
	}
	if p.find(func(n *node) bool { return n.Data == "a" && attr(n, "href") == "#"+attr(input, "id") }) == nil {
		b.w.T.Fatalf("%s: the summary does not lead to %s", p.url, field)
	}
}

const goodPassword = "correct horse battery staple"

// signUp signs a user up on the pages.
func (b *browser) signUp(email string) {
	b.w.T.Helper()
	b.open("/sign-up")
	b.submit("signup", "email", email, "password", goodPassword)
	b.at("/sign-up/code")
	b.submit("code", "code", b.w.CodeFor(email, 1))
	b.at("/account")
}

// signIn signs a user in on the pages, starting at the current page.
func (b *browser) signIn(email string) shown {
	b.w.T.Helper()
	b.submit("email", "email", email)
	return b.submit("password", "password", goodPassword)
}

// cookie returns the value of a cookie, "" for none.
func (b *browser) cookie(name string) string {
	for _, c := range b.client.Jar.Cookies(b.url("/")) {
		if c.Name == name {
			return c.Value
		}
	}
	return ""
}

// setCookie sets a cookie, or removes it if value is "".
func (b *browser) setCookie(name, value string) {
	c := &http.Cookie{Name: name, Value: value, Path: "/"}
	if value == "" {
		c.MaxAge = -1
	}
	b.client.Jar.SetCookies(b.url("/"), []*http.Cookie{c})
}
