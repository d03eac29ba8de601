package enduser_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/document"
	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/internal/testing/identityprovider"
	"github.com/cardea-iam/cardea/store/people"
)

// An attacker who begins an account with the address of a user keeps nothing when the user signs in by the provider of
// that address: not the password, not the waiting sign-up, and not its code.
func TestSignUpThatAnAttackerBeganEndsWithTheUsersSignIn(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		attacker := w.browser()
		attacker.ok("POST", "/auth/signup", fmt.Sprintf(`{"email":"ann@globex.example","password":%q}`, goodPassword))
		attempt, code := attacker.last.Body.Session.SignUpAttempts[0]["id"], w.CodeFor("ann@globex.example", 1)
		victim := w.browser()
		account := victim.sso(conn, p, ann).user()
		if account == "" {
			t.Fatalf("%s", victim.last.Raw)
		}
		a := attacker.refused(400, "EMAIL_EXISTS", "POST", "/auth/attempt-verification", fmt.Sprintf(`{"signup_attempt_id":%q,"code":%q}`, attempt, code))
		if a.user() != "" || attacker.isSignedIn() {
			t.Errorf("the attacker is signed in: %s", a.Raw)
		}
		if a := w.browser().password("ann@globex.example", goodPassword); a.Status == 200 || a.user() != "" {
			t.Errorf("the attacker's password signs in: %s", a.Raw)
		}
		if got := w.count("SELECT COUNT(*) FROM signins WHERE user_id = " + account); got != 1 {
			t.Errorf("the account has %d sign-ins", got)
		}
	})
}

// An attacker adds the address of a user to an own account, and stays signed in. By the provider of that address, the
// user gets another account and the address, and a code from before does not move it.
func TestAddressThatAnAttackerAddedGoesToTheUser(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		attacker := w.browser()
		own := attacker.signUp("eve@example.com")
		path := "/me/email-addresses/" + attacker.ok("POST", "/me/email-addresses", `{"email":"ann@globex.example"}`)["id"].(string)
		attacker.ok("POST", path+"/prepare-verification", `{}`)
		code := w.CodeFor("ann@globex.example", 1)
		victim := w.browser()
		account := victim.sso(conn, p, ann).user()
		if account == "" || account == own {
			t.Fatalf("%s", victim.last.Raw)
		}
		attacker.refused(404, "EMAIL_NOT_FOUND", "POST", path+"/attempt-verification", codeBody(code))
		if a := attacker.do("POST", path+"/make-primary", `{}`); a.Status < 400 {
			t.Errorf("the address is the attacker's primary one: %s", a.Raw)
		}
		for _, address := range attacker.list("/me/email-addresses") {
			if address["email"] == "ann@globex.example" {
				t.Errorf("the attacker has %v", address)
			}
		}
		if me := attacker.ok("GET", "/me", ""); me["id"] != own || len(attacker.identities()) != 0 {
			t.Errorf("the attacker is %v with %v", me, attacker.identities())
		}
		if me := victim.ok("GET", "/me", ""); me["id"] != account || me["email"] != "ann@globex.example" {
			t.Errorf("the user is %v", me)
		}
		// The address leads to the user's account alone, by code and by the provider.
		b := w.browser()
		b.otp("ann@globex.example")
		if a := b.try(b.attempt(), w.CodeFor("ann@globex.example", 2)); a.user() != account {
			t.Errorf("a code of the address signs in to another account: %s", a.Raw)
		}
		if a := w.browser().sso(conn, p, ann); a.user() != account {
			t.Errorf("%s", a.Raw)
		}
	})
}

// An attacker who got into an account once adds an identity of a provider, to stay. The user is notified, and with the
// removal of the identity, the sign-ins by it end.
func TestIdentityThatAnAttackerAddedEndsWithTheUsersRemoval(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, nil)
		victim := w.browser()
		account := victim.signUp("victim@example.com")
		attacker := w.browser()
		attacker.signIn("victim@example.com") // with a password that leaked
		if a := attacker.ssoFor(conn, p, map[string]any{"sub": "eve", "email": "eve@globex.example"}, `,"intent":"link"`); a.Status != 200 || a.user() != account {
			t.Fatalf("%s", a.Raw)
		}
		byIdentity := w.browser()
		if a := byIdentity.sso(conn, p, map[string]any{"sub": "eve"}); a.user() != account {
			t.Fatalf("%s", a.Raw)
		}
		identities := victim.identities()
		if len(identities) != 1 {
			t.Fatalf("%v", identities)
		}
		w.Eventually("the user is notified of the identity", func() bool { return len(w.Carrier.Messages("victim@example.com")) >= 2 })
		victim.ok("DELETE", "/me/identities/"+identities[0]["id"].(string), "")
		if byIdentity.isSignedIn() || !victim.isSignedIn() || !attacker.isSignedIn() {
			t.Errorf("signed in: by the identity %t, the user %t, by the password %t", byIdentity.isSignedIn(), victim.isSignedIn(), attacker.isSignedIn())
		}
		if a := w.browser().sso(conn, p, map[string]any{"sub": "eve"}); a.user() != "" {
			t.Errorf("the removed identity signs in: %s", a.Raw)
		}
		w.tx(func(tx people.Tx) error {
			left, err := tx.Identities().IdentitiesOf(parseID(account))
			if len(left) != 0 {
				t.Errorf("the account has %v", left)
			}
			return err
		})
	})
}

// Two factors that a provider states prove no factor of the account: one that another person added before the user
// proved the address ends, by the provider's authority or by a code.
func TestFactorsOfAnUnprovenAccountEndThoughTheProviderStatesTwoFactors(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		p := w.provider()
		for n, change := range []func(*document.Connection){globexDomain, nil} {
			user := int64(n + 1)
			address := fmt.Sprintf("ann%d@globex.example", user)
			conn := w.connection(fmt.Sprint("provider", user), p, func(c *document.Connection) {
				if c.AMR = []string{"mfa"}; change != nil {
					change(c)
				}
			})
			w.importUser(user, oldHash, address)
			at := w.Clock.Now().UTC().Truncate(time.Microsecond)
			w.tx(func(tx people.Tx) error {
				return errors.Join(
					tx.Factors().InsertPasskey(people.Passkey{ID: 70 + user, User: user, RelyingParty: "example.com", Credential: []byte{byte(user)}, Handle: []byte{byte(user)}, PublicKey: []byte{1}, Name: "Key", CreatedAt: at}),
					tx.Factors().InsertAuthenticator(people.Authenticator{ID: 80 + user, User: user, Sealed: "sealed", Algorithm: "SHA1", Digits: 6, Period: 30 * time.Second, Name: "App", ConfirmedAt: at, CreatedAt: at}),
				)
			})
			b := w.browser()
			a := b.sso(conn, p, identityprovider.User{"sub": fmt.Sprint(user), "email": address, "amr": []string{"mfa"}})
			if change == nil {
				a = b.verify(address, 1)
			}
			if a.user() != ids.Format(user) {
				t.Fatalf("%s", a.Raw)
			}
			w.tx(func(tx people.Tx) error {
				passkeys, err := tx.Factors().PasskeysOf(user)
				apps, more := tx.Factors().AuthenticatorsOf(user)
				if len(passkeys)+len(apps) > 0 {
					t.Errorf("%s keeps %d passkeys and %d authenticators", address, len(passkeys), len(apps))
				}
				return errors.Join(err, more)
			})
		}
	})
}
