package pages_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/people"
)

// between is a store that runs the function armed, if any, once before its next transaction.
type between struct {
	store.Store
	armed atomic.Pointer[func()]
}

func (s *between) Change(ctx context.Context, deployment string, do func(people.Tx) error) error {
	if first := s.armed.Swap(nil); first != nil {
		(*first)()
	}
	return s.Store.Change(ctx, deployment, do)
}

// signInOf returns the id of an account's sign-in, which it reads on the account page.
func (b *browser) signInOf(email string) string {
	b.w.T.Helper()
	b.open("/account")
	for n := range b.page.root.Descendants() {
		if n.Data != "li" {
			continue
		}
		row := shown{root: n}
		if row.find(func(n *node) bool { return n.Data == "strong" && (shown{root: n}).text() == email }) != nil {
			return attr(row.find(func(n *node) bool { return attr(n, "name") == "signin_id" }), "value")
		}
	}
	b.w.T.Fatalf("no account %s: %s", email, b.page.raw)
	return ""
}

// twoAccounts returns a browser with two accounts, of which the second is active.
func (w *world) twoAccounts() *browser {
	w.T.Helper()
	b := w.browser()
	b.signUp("work@example.com")
	w.Clock.Advance(1e9)
	b.open("/sign-up")
	b.submit("signup", "email", "home@example.com", "password", goodPassword)
	b.submit("code", "code", w.CodeFor("home@example.com", 1))
	return b
}

// switchTo makes an account active, as another tab of the browser does.
func (b *browser) switchTo(email string) {
	b.w.T.Helper()
	id := b.signInOf(email)
	to := b.url("/account")
	_, values := b.page.form("rename")
	values.Set("action", "switch")
	values.Set("signin_id", id)
	b.follow(b.send(http.MethodPost, to, values.Encode()))
	b.says("Signed in as " + email)
}

func TestStaleTabCannotDeleteAnotherAccount(t *testing.T) {
	w := newWorld(t, nil)
	b := w.twoAccounts()
	b.open("/account/delete")
	to, values := b.fill("delete", "confirmation", "home@example.com")
	b.switchTo("work@example.com")
	b.send(http.MethodPost, to, values.Encode())
	b.refused(http.StatusConflict, "", "You are signed in as work@example.com now. Nothing was changed")
	b.signInOf("home@example.com")
	b.signInOf("work@example.com")
}

// Another tab switches the account after the page's own check. The operations assert the account for which the form was
// made.
func TestFormIsBoundToItsAccount(t *testing.T) {
	w := newWorld(t, nil)
	over := &between{Store: w.Store}
	calm := w.Server
	w.Server, _ = w.Serve(w.Store, over)
	b := w.twoAccounts()
	tab := &browser{w: w, host: b.host, address: b.address, header: map[string]string{}, client: &http.Client{
		Jar: b.client.Jar, CheckRedirect: b.client.CheckRedirect, Transport: w.transport(calm),
	}}
	for _, tt := range []struct {
		path, action, from string
		members            []string
	}{
		{"/account", "rename", "home@example.com", []string{"first_name", "Stolen"}},
		{"/account/delete", "delete", "work@example.com", []string{"confirmation", "work@example.com"}},
		{"/organizations/new", "create", "home@example.com", []string{"name", "Engines"}},
		{"/account/emails", "add", "work@example.com", []string{"email", "more@example.com"}},
	} {
		other := map[string]string{"home@example.com": "work@example.com", "work@example.com": "home@example.com"}[tt.from]
		tab.switchTo(tt.from)
		b.open(tt.path)
		to, values := b.fill(tt.action, tt.members...)
		meanwhile := func() { tab.switchTo(other) }
		over.armed.Store(&meanwhile)
		b.send(http.MethodPost, to, values.Encode())
		b.refused(http.StatusConflict, "", "You are signed in as "+other+" now. Nothing was changed")
	}
	for _, email := range []string{"home@example.com", "work@example.com"} {
		tab.switchTo(email)
		if name := tab.page.value("first_name"); name != "" {
			t.Errorf("%s is called %s", email, name)
		}
		if tab.open("/organizations"); tab.links("/organizations/engines") {
			t.Errorf("%s has the organization of a form for another account", email)
		}
	}
}
