package pages_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/api/v1alpha1"
	"github.com/cardea-iam/cardea/internal/document"
)

func TestSignUpSignOutSignInPages(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.open("/")
	b.at("/sign-in")
	b.open("/sign-up?continue=%2Forganizations")
	b.submit("signup", "email", "Ada@example.com", "first_name", "Ada", "last_name", "Lovelace", "password", goodPassword)
	b.at("/sign-up/code")
	b.says("Ada@example.com")
	if code := b.page.find(func(n *node) bool { return attr(n, "name") == "code" }); attr(code, "autocomplete") != "one-time-code" || attr(code, "inputmode") != "numeric" {
		t.Error("the code field lacks autocomplete or inputmode")
	}
	code := w.CodeFor("Ada@example.com", 1)
	b.submit("code", "code", " "+code[:3]+" - "+code[3:]+"\n")
	b.at("/organizations")
	b.open("/")
	b.at("/account")
	b.says("Ada Lovelace")
	b.submit("all")
	b.at("/sign-in")
	b.says("You are signed out.")
	b.open("/account/phones")
	b.at("/sign-in")
	if got := b.page.url.Query().Get("continue"); got != "/account/phones" {
		t.Errorf("the sign-in continues at %q", got)
	}
	b.submit("email", "email", "ada@example.com")
	b.at("/sign-in/password")
	b.submit("password", "password", "not the password at all")
	b.refused(http.StatusUnauthorized, "", "The email address or the password is wrong.")
	if strings.Contains(b.page.raw, "not the password") || b.page.value("email") != "ada@example.com" {
		t.Errorf("what was typed: %s", b.page.raw)
	}
	b.submit("password", "password", goodPassword)
	b.at("/account/phones")
}

func TestSignInByCodePage(t *testing.T) {
	w := newWorld(t, nil)
	w.browser().signUp("ada@example.com")
	b := w.browser()
	b.open("/sign-in")
	b.submit("email", "email", "ada@example.com")
	b.submit("code")
	b.at("/sign-in/code")
	right := w.CodeFor("ada@example.com", 2)
	b.submit("code", "code", wrong(right))
	b.refused(http.StatusBadRequest, "code", "This is not the code that we sent. Look at the newest message. 4 tries are left.")
	if b.page.value("code") != "" {
		t.Error("a code is shown again")
	}
	b.submit("code", "code", "12345")
	b.refused(http.StatusBadRequest, "code", "Enter the six digits of the message.")
	b.submit("resend")
	b.refused(http.StatusTooManyRequests, "", "Please wait 30 seconds.")
	w.Clock.Advance(31e9)
	b.submit("resend")
	b.at("/sign-in/code")
	b.says("A code is on its way.")
	newest := w.CodeFor("ada@example.com", 3)
	b.submit("code", "code", newest)
	b.at("/account")
}

// wrong returns a code that differs from the given one.
func wrong(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return string(code[0]+1) + code[1:]
}

// An unknown address gets the same pages as a known one.
func TestUnknownAddressGetsTheSamePage(t *testing.T) {
	w := newWorld(t, nil)
	w.browser().signUp("ada@example.com")
	see := func(email string) (texts []string) {
		b := w.browser()
		note := func() { texts = append(texts, strings.ReplaceAll(b.page.text(), email, "EMAIL")) }
		b.open("/sign-in")
		b.submit("email", "email", email)
		note()
		b.submit("password", "password", "wrong wrong wrong wrong")
		note()
		b.submit("code")
		b.at("/sign-in/code")
		note()
		b.submit("code", "code", "000000")
		note()
		c := w.browser()
		c.open("/sign-up")
		c.submit("signup", "email", email, "password", goodPassword)
		c.at("/sign-up/code")
		return append(texts, strings.ReplaceAll(c.page.text(), email, "EMAIL"))
	}
	known, unknown := see("ada@example.com"), see("eve@example.com")
	for i := range known {
		if known[i] != unknown[i] {
			t.Errorf("step %d:\n%s\n%s", i, known[i], unknown[i])
		}
	}
}

func TestSeveralAccounts(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	w.Clock.Advance(1e9)
	b.open("/sign-in")
	b.says("Choose an account")
	b.open("/sign-in?add=1")
	b.at("/sign-in")
	b.open("/sign-up")
	b.submit("signup", "email", "grace@example.com")
	b.submit("code", "code", w.CodeFor("grace@example.com", 1))
	b.at("/account")
	b.open("/sign-in?continue=%2Faccount%2Fphones")
	b.says("ada@example.com")
	b.says("grace@example.com")
	b.submit("choose") // the first: Ada
	b.at("/account/phones")
	b.says("Signed in as ada@example.com")
	b.open("/sign-out")
	b.submit("one")
	b.at("/sign-in")
	b.says("grace@example.com")
	if strings.Contains(b.page.text(), "ada@example.com") {
		t.Error("an account that was signed out can be chosen")
	}
}

const number = "+12025550123"

func TestPhones(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/account/phones")
	b.submit("add", "phone_number", "hello")
	b.refused(http.StatusBadRequest, "phone_number", "This number cannot be used here.")
	if b.page.value("phone_number") != "hello" {
		t.Error("what was typed is gone")
	}
	b.submit("add", "phone_number", "+1 (202) 555-0123")
	if !strings.HasPrefix(b.page.url.Path, "/account/phones/") || b.page.status != 200 {
		t.Fatalf("at %s: %s", b.page.url, b.page.text())
	}
	b.says("A code is on its way.")
	code := w.CodeFor(number, 1)
	b.submit("code", "code", wrong(code))
	b.refused(http.StatusBadRequest, "code", "4 tries are left")
	here := b.page.url.Path
	b.submit("code", "code", code)
	b.at("/account/phones")
	b.says("Your number is verified.")
	b.says("Primary")
	b.open(here)
	b.at("/account/phones")
	b.submit("add", "phone_number", "+12025550124")
	b.open("/account/phones")
	b.submit("remove")
	b.says("The number was removed.")
	b.open("/account/phones/123")
	if b.page.status != http.StatusNotFound {
		t.Errorf("an unknown number: %d", b.page.status)
	}
}

func TestOrganizations(t *testing.T) {
	w := newWorld(t, nil)
	b := w.browser()
	b.signUp("ada@example.com")
	b.open("/organizations")
	b.says("You are not a member of any organization.")
	b.open("/organizations/new")
	b.submit("create", "name", "  ", "description", "What for")
	b.refused(http.StatusBadRequest, "name", "Enter a name of 1 to 80 characters")
	if b.page.value("description") != "What for" {
		t.Error("what was typed is gone")
	}
	b.submit("create", "name", "Analytical Engines")
	b.at("/organizations/analytical-engines")
	b.says("The organization was created.")
	b.says("Owner")
	b.submit("workspace", "name", "Research")
	b.says("Research")
	b.submit("switch-workspace")
	b.says("Switched.")
	b.submit("invite", "email", "not an address")
	b.refused(http.StatusBadRequest, "email", "Enter an email address")
	b.submit("invite", "email", "bob@example.com")
	b.at("/organizations/analytical-engines")
	b.says("bob@example.com")
	token := w.InvitationFor("bob@example.com", 1)

	bob := w.browser()
	bob.open("/invitations/" + token)
	bob.says("Join Analytical Engines")
	bob.says("ada@example.com invites bob@example.com into Analytical Engines")
	link := bob.page.find(func(n *node) bool { return n.Data == "a" && strings.HasPrefix(attr(n, "href"), "/sign-up") })
	bob.open(attr(link, "href"))
	if bob.page.value("email") != "bob@example.com" {
		t.Error("the address has to be typed")
	}
	bob.submit("signup", "password", goodPassword)
	bob.submit("code", "code", w.CodeFor("bob@example.com", 1))
	bob.at("/organizations") // where the sign-up of an invitation continues
	bob.says("Analytical Engines")
	bob.open("/organizations/analytical-engines")
	bob.at("/organizations/analytical-engines")
	bob.submit("leave")
	bob.at("/organizations")
	bob.says("You left the organization.")
	bob.open("/organizations/analytical-engines")
	if bob.page.status != http.StatusNotFound {
		t.Errorf("a former member sees the organization: %d", bob.page.status)
	}

	b.open("/organizations/analytical-engines")
	b.submit("invite", "email", "bob@example.com")
	token = w.InvitationFor("bob@example.com", 2)
	eve := w.browser()
	eve.signUp("eve@example.com")
	eve.open("/invitations/" + token)
	eve.says("The invitation is for another address. You are signed in as eve@example.com.")
	if form, _ := eve.page.form("accept"); form != nil {
		t.Error("an invitation for another address can be accepted")
	}
	bob.open("/invitations/" + token)
	bob.submit("accept")
	bob.at("/organizations/analytical-engines")
	bob.says("Welcome! You are a member now.")
	bob.says("Active")

	b.submit("invite", "email", "carol@example.com")
	b.submit("revoke")
	b.says("The invitation was revoked.")
}

func TestOwnAPIKeysPage(t *testing.T) {
	w := newWorld(t, nil)
	w.Put(v1alpha1.KindAPIAuthApp, "shop", "acme/staging", "shop", document.APIAuthApp{
		Slug: "shop", Name: "Shop", KeyPrefix: "shop", Active: true, Permissions: []string{"orders:read", "orders:write"},
		SelfService: &document.KeySelfService{MaxKeysPerUser: 2, Permissions: []string{"orders:read", "orders:delete"}},
	})
	b := w.browser()
	b.signUp("ada@example.com")
	w.Eventually("the app is offered", func() bool {
		b.open("/account/keys")
		form, _ := b.page.form("make-shop")
		return form != nil
	})
	if strings.Contains(b.page.raw, "orders:delete") {
		t.Error("a permission is offered that keys of the app cannot have")
	}
	b.submit("make-shop", "name", "")
	b.refused(http.StatusBadRequest, "name", "Enter a name")
	b.submit("make-shop", "name", "Backup", "expires", "17")
	b.refused(http.StatusBadRequest, "expires", "Choose one of the offered ends.")
	b.submit("make-shop", "name", "Backup", "expires", "720", "grant:orders:read", "1")
	b.at("/account/keys")
	secret := b.page.find(func(n *node) bool { return attr(n, "id") == "secret" })
	if secret == nil || !strings.HasPrefix((shown{root: secret}).text(), "shop_") {
		t.Fatalf("no key: %s", b.page.text())
	}
	key := (shown{root: secret}).text()
	b.open("/account/keys")
	b.says("Backup")
	b.says("orders:read")
	if strings.Contains(b.page.raw, key) || strings.Contains(w.Logs.String(), key) {
		t.Error("the key is shown a second time")
	}
	b.submit("make-shop", "name", "Second")
	b.submit("make-shop", "name", "Third")
	b.refused(http.StatusBadRequest, "", "You have as many keys as you may.")
	b.submit("delete")
	b.says("The key was deleted.")
}
