package pages_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
)

// authorize acts as a user at the provider to which the browser was redirected, and returns to the deployment.
func (b *browser) authorize(p *identityprovider.Provider, user identityprovider.User) shown {
	b.w.T.Helper()
	if !strings.HasPrefix(b.page.url.String(), p.URL+"/authorize?") {
		b.w.T.Fatalf("the browser is at %s and not at the provider", b.page.url)
	}
	redirect, err := url.Parse(b.page.url.Query().Get("redirect_uri"))
	b.w.Must(err)
	values, err := p.Authorize(b.page.url.String(), user)
	b.w.Must(err)
	redirect.RawQuery = values.Encode()
	b.header["Sec-Fetch-Site"] = "cross-site"
	defer delete(b.header, "Sec-Fetch-Site")
	return b.follow(b.send(http.MethodGet, redirect, ""))
}

// click follows the link with a text.
func (b *browser) click(text string) shown {
	b.w.T.Helper()
	link := b.page.find(func(n *node) bool { return n.Data == "a" && strings.Contains(shown{root: n}.text(), text) })
	if link == nil {
		b.w.T.Fatalf("%s has no link %q: %s", b.page.url, text, b.page.raw)
	}
	to, err := b.page.url.Parse(attr(link, "href"))
	b.w.Must(err)
	return b.follow(b.send(http.MethodGet, to, ""))
}

func globex(c *document.Connection) {
	c.Domains, c.Name, c.Shown = []string{"globex.example"}, "Globex", true
}

var ann = identityprovider.User{"sub": "1", "email": "ann@globex.example", "given_name": "Ann"}

func TestButtonOfAConnectionSignsIn(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Provider()
	w.DeclareConnection("globex", p, globex)
	b := w.browser()
	b.open("/sign-in?continue=%2Forganizations")
	b.click("Continue with Globex")
	b.authorize(p, ann)
	b.at("/organizations")
	b.open("/account/identities")
	b.says("Globex")
	b.says("ann@globex.example")
	b.submit("remove")
	b.at("/account/identities")
	b.says("It was removed.")
	b.submit("link")
	b.authorize(p, ann)
	b.at("/account/identities")
	b.says("It was added. You can sign in with it now.")
}

func TestAddressLeadsToTheConnectionThatItsDomainRequires(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Provider()
	w.DeclareConnection("globex", p, func(c *document.Connection) { globex(c); c.Enforcement = "Domains" })
	b := w.browser()
	b.open("/sign-in")
	b.submit("email", "email", "ann@globex.example")
	if hint := b.page.url.Query().Get("login_hint"); hint != "ann@globex.example" {
		t.Errorf("the hint is %q", hint)
	}
	b.authorize(p, ann)
	b.at("/account")
	if policy := b.open("/sign-in?add=1").header.Get("Content-Security-Policy"); strings.Contains(policy, "form-action") {
		t.Errorf("the browser would not follow the redirect to the provider: %s", policy)
	}
}

func TestAddressOffersConnectionsThatAreOptional(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Provider()
	w.DeclareConnection("globex", p, globex)
	b := w.browser()
	b.open("/sign-in")
	b.submit("email", "email", "ann@globex.example")
	b.at("/sign-in/connection")
	b.says("Sign in another way")
	b.click("Sign in another way")
	b.at("/sign-in/password")
	b.open("/sign-in/connection")
	b.click("Continue with Globex")
	b.authorize(p, ann)
	b.at("/account")
}

func TestUserWithoutAnAddressProvesOneOnThePages(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Provider()
	w.DeclareConnection("any", p, func(c *document.Connection) { c.Name = "Any" })
	b := w.browser()
	b.open("/sign-in?continue=%2Faccount%2Fphones")
	b.click("Continue with Any")
	b.authorize(p, identityprovider.User{"sub": "1"})
	b.at("/sign-in/email")
	b.submit("email", "email", "no address")
	b.refused(http.StatusBadRequest, "email", "Enter an email address such as ada@example.com.")
	b.submit("email", "email", "own@example.com")
	b.at("/sign-in/code")
	b.submit("code", "code", w.CodeFor("own@example.com", 1))
	b.at("/account/phones")
}

func TestRefusedResponseIsAPage(t *testing.T) {
	w := newWorld(t, nil)
	p := w.Provider()
	id := w.DeclareConnection("globex", p, globex)
	b := w.browser()
	b.open("/sign-in")
	b.click("Continue with Globex")
	p.Lie(func(claims map[string]any) { claims["aud"] = "another" })
	if page := b.authorize(p, ann); page.status != http.StatusBadRequest {
		t.Errorf("status %d", page.status)
	}
	b.says("The response of the identity provider was not accepted.")
	if page := b.open("/sso/1/start"); page.status != http.StatusNotFound {
		t.Errorf("status %d", page.status)
	}
	p.SetDown(true)
	if page := b.open("/sso/" + id + "/callback?state=x&code=y"); page.status != http.StatusBadRequest {
		t.Errorf("status %d", page.status)
	}
}

func TestOwnPagesGetTheOutcome(t *testing.T) {
	w := newWorld(t, func(d *document.Deployment) {
		d.Pages = &document.Pages{Disabled: true, URL: "https://app.example.com/auth"}
	})
	p := w.Provider()
	id := w.DeclareConnection("globex", p, globex)
	b := w.browser()
	b.open("/sso/" + id + "/start")
	b.authorize(p, ann)
	if got := b.page.url; got.Host != "app.example.com" || got.Path != "/auth/sso" || got.Query().Get("status") != "complete" || got.Query().Get("attempt_id") == "" {
		t.Errorf("the browser is at %s", got)
	}
	b.open("/sso/" + id + "/callback?state=x&code=y")
	if got := b.page.url.Query(); got.Get("status") != "failed" || got.Get("code") != "INVALID_ATTEMPT" {
		t.Errorf("the browser is at %s", b.page.url)
	}
}
