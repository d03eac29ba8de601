package enduser_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
)

// A few networks use up their codes for an address that has no account. A new user in another network can still sign up
// with it.
func TestFewNetworksCannotBlockSignUps(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		sent := map[int]int{}
		for neighborhood := range 4 {
			for host := range 15 {
				w.Clock.Advance(time.Minute)
				attacker := w.browserAt(fmt.Sprintf("100.64.%d.%d", neighborhood, host+1))
				if a := attacker.do("POST", "/auth/signup", `{"email":"new@example.com"}`); a.Status == 200 {
					sent[neighborhood]++
				} else if a.code() != "RATE_LIMITED" {
					t.Fatal(a.Raw)
				}
			}
		}
		if fmt.Sprint(sent) != "map[0:10 1:10 2:2 3:2]" {
			t.Errorf("mails by network: %v, want 10, 10, 2, 2", sent)
		}
		newcomer := w.browserAt("100.65.0.1")
		if a := newcomer.do("POST", "/auth/signup", `{"email":"new@example.com"}`); a.Status != 200 {
			t.Errorf("a newcomer at another network: %s", a.Raw)
		}
	})
}

// Pending sign-ins of other clients at an address do not affect a user whose account knows the address.
func TestPendingSignInsDoNotBlockKnownClients(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		home := w.browserAt("100.66.0.1")
		home.signUp("ada@example.com")
		w.Clock.Advance(2 * time.Minute)
		for n := range 25 {
			w.browserAt("100.66.0.1").otp(fmt.Sprintf("nobody%d@example.com", n))
		}
		if a := w.browserAt("100.66.0.1").otp("nobody@example.com"); a.code() != "RATE_LIMITED" {
			t.Fatalf("a sign-in beyond the bound of pending ones: %s", a.Raw)
		}
		if a := w.browserAt("100.66.0.1").otp("ada@example.com"); a.Status != 200 {
			t.Errorf("the owner, whose account knows the address: %s", a.Raw)
		}
	})
}

// One number gets few texts per day over all accounts; the user who verified it is not affected.
func TestTextsToOneNumberAreBounded(t *testing.T) {
	onSQLite(t, func(w *world) {
		const number = "+12025550123"
		text := func(b *browser, id string) answer {
			return b.do("POST", "/me/phone-numbers/"+id+"/prepare-verification", `{}`)
		}
		holder, _ := w.signedUp("holder@example.com")
		held := holder.addPhone(number)
		if a := text(holder, held); a.Status != 200 {
			t.Fatal(a.Raw)
		}
		w.Clock.Advance(time.Minute)
		sent := 1
		for n := range 15 {
			b, _ := w.signedUp(fmt.Sprintf("user%d@example.com", n))
			if a := text(b, b.addPhone(number)); a.Status == 200 {
				sent++
			} else if a.code() != "RATE_LIMITED" {
				t.Fatal(a.Raw)
			}
		}
		if sent != 10 {
			t.Errorf("%d texts went to one number in a day, want 10", sent)
		}
		w.tx(func(tx people.Tx) error { return tx.Phones().VerifyPhone(parseID(held), w.Clock.Now()) })
		if a := text(holder, held); a.code() == "RATE_LIMITED" {
			t.Errorf("the user who verified the number: %s", a.Raw)
		}
	})
}

// Mails and wrong codes of a provider's address block are bounded over all emails.
func TestMailsAndWrongCodesAreBoundedPerBlock(t *testing.T) {
	onSQLite(t, func(w *world) {
		fill := func(scope string, count int) {
			w.tx(func(tx people.Tx) error {
				for range count {
					if _, err := tx.Limits().Count(scope, "100.67.0.0/16", w.Clock.Now(), w.Clock.Now().Add(time.Hour)); err != nil {
						return err
					}
				}
				return nil
			})
		}
		begun := w.browserAt("100.67.8.1")
		begun.otp("ada@example.com")
		fill("codes-block", 10_000)
		if a := begun.try(begun.attempt(), "000000"); a.code() != "TOO_MANY_ATTEMPTS" {
			t.Errorf("a code from a block that tried 10,000: %s", a.Raw)
		}
		fill("mails-block", 3_000)
		if a := w.browserAt("100.67.9.1").otp("bob@example.com"); a.code() != "RATE_LIMITED" {
			t.Errorf("a mail for a block that asked for 3,000: %s", a.Raw)
		}
		if a := w.browserAt("100.68.9.1").otp("bob@example.com"); a.Status != 200 {
			t.Errorf("another block: %s", a.Raw)
		}
		w.Clock.Advance(time.Hour)
		if a := w.browserAt("100.67.9.1").otp("carol@example.com"); a.Status != 200 {
			t.Errorf("an hour later: %s", a.Raw)
		}
	})
}
