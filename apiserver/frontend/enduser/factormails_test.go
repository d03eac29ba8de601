package enduser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// addAddress adds an address to the signed-in account and, with verified, verifies it by the nth code that it gets.
func (b *browser) addAddress(email string, verified bool) string {
	b.w.T.Helper()
	id := b.ok("POST", "/me/email-addresses", fmt.Sprintf(`{"email":%q}`, email))["id"].(string)
	if verified {
		b.ok("POST", "/me/email-addresses/"+id+"/prepare-verification", `{}`)
		b.ok("POST", "/me/email-addresses/"+id+"/attempt-verification", codeBody(b.w.CodeFor(email, 1)))
	}
	return id
}

// mailsWith returns how many mails to an address have a text.
func (w *world) mailsWith(to, text string) (n int) {
	for _, m := range w.Carrier.Messages(to) {
		if strings.Contains(strings.Join(strings.Fields(m.Body), " "), text) {
			n++
		}
	}
	return n
}

// mails runs a change, and waits until each address has a mail more with the text.
func (w *world) mails(text string, to []string, change func()) {
	w.T.Helper()
	before := map[string]int{}
	for _, address := range to {
		before[address] = w.mailsWith(address, text)
	}
	change()
	w.Eventually("mails to "+strings.Join(to, " and ")+": "+text, func() bool {
		w.Clock.Advance(time.Millisecond) // a send that failed on a busy machine is retried
		for _, address := range to {
			if w.mailsWith(address, text) == before[address] {
				return false
			}
		}
		return true
	})
}

// Every change of factors is mailed to every verified address of the account, and to no other.
func TestChangesOfFactorsAreMailedToEveryAddress(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		id := ada.signUp("ada@example.com")
		second := ada.addAddress("second@example.com", true)
		ada.addAddress("unverified@example.com", false)
		primary, phone := ada.addPhone("+12025550124"), ada.addPhone(number)
		ada.ok("POST", verifyPath(primary), codeBody(ada.prepare(primary, "+12025550124", 1)))
		ada.ok("POST", verifyPath(phone), codeBody(ada.prepare(phone, number, 1)))
		both := []string{"ada@example.com", "second@example.com"}
		var a *app
		var codes []any
		var key string
		d, help := w.device(), w.helpDesk()
		text := fmt.Sprintf(`{"phone_number_id":%q}`, phone)
		temporary := ""
		secondStepBy := func(code string) {
			b := w.browserAt(ada.address)
			b.ok("POST", "/auth/attempt-second-factor", secondStep(b.firstStep("ada@example.com"), "recovery_code", code))
		}
		for _, change := range []struct {
			says string
			do   func()
		}{
			{"An authenticator app was added", func() { a, codes = ada.addApp() }},
			{"A passkey was added", func() { key = ada.addPasskey(d) }},
			{"A phone number was added to your account as a second factor", func() { ada.ok("POST", "/me/second-factors/sms", text) }},
			{"turned off for your account", func() { ada.ok("PATCH", "/me/second-factors", `{"two_step":false}`) }},
			{"turned on for your account.", func() { ada.ok("PATCH", "/me/second-factors", `{"two_step":true}`) }},
			{"New recovery codes were made", func() { codes = ada.ok("POST", "/me/second-factors/recovery-codes", `{}`)["codes"].([]any) }},
			{"9 are left", func() { secondStepBy(codes[0].(string)) }},
			{"8 are left", func() {
				ada.ok("POST", "/session/reauthenticate", fmt.Sprintf(`{"strategy":"recovery_code","code":%q}`, codes[1]))
			}},
			{"made a temporary code", func() {
				temporary = help.expect(200, "POST", "/users/"+id+"/temporary-code", `{}`)["code"].(string)
			}},
			{"The temporary code of your account was used", func() { secondStepBy(temporary) }},
			{"is no longer a second factor", func() { ada.ok("DELETE", "/me/second-factors/sms/"+phone, "") }},
			{"A passkey was removed", func() { ada.ok("DELETE", "/me/passkeys/"+key, "") }},
			{"An authenticator app was removed", func() { ada.ok("DELETE", "/me/second-factors/totp/"+a.id, "") }},
			{"turned on for your account, and recovery codes were made", func() { ada.ok("POST", "/me/second-factors/sms", text) }},
			{"is no longer a second factor", func() { ada.ok("DELETE", "/me/phone-numbers/"+phone, "") }},
			{"The support of the service removed an authenticator app", func() {
				w.Clock.Advance(31 * time.Second)
				ada.ok("POST", "/session/reauthenticate", `{"strategy":"email_otp"}`)
				attempt := ada.last.Body.Session.SignInAttempts[0]["id"].(string)
				ada.ok("POST", "/auth/attempt-verification", fmt.Sprintf(`{"signin_attempt_id":%q,"code":%q}`, attempt, w.CodeFor("ada@example.com", 2)))
				a, _ = ada.addApp()
				help.expect(204, "DELETE", "/users/"+id+"/second-factors/totp/"+a.id, "")
			}},
			{"The support of the service removed a passkey", func() {
				help.expect(204, "DELETE", "/users/"+id+"/passkeys/"+ada.addPasskey(w.device()), "")
			}},
			{"another person knows your password", func() {
				a, _ = ada.addApp()
				w.Clock.Advance(31 * time.Second)
				w.browser().failSecondStep(a, "ada@example.com", 5)
			}},
			{"it was used in a way that can mean that it was copied", func() {
				copied := w.device()
				copied.auth.Options.BackupEligible, copied.auth.Options.BackupState = false, false
				copied.key.Counter = 5
				ada.addPasskey(copied)
				copied.key.Counter = 1
				w.browser().refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", copied.signInBody(ada.ok("POST", "/auth/passkey-options", `{}`)))
			}},
			{"removed all second factors and passkeys", func() { help.expect(200, "POST", "/users/"+id+"/second-factors/reset", `{}`) }},
		} {
			w.mails(change.says, both, change.do)
		}
		ada.signIn("ada@example.com")
		w.mails("second@example.com was removed from your account", both, func() { ada.ok("DELETE", "/me/email-addresses/"+second, "") })
		if n := w.mailsWith("unverified@example.com", ""); n != 0 {
			t.Errorf("%d mails went to an address that is not verified", n)
		}
	})
}
