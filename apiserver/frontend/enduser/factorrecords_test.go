package enduser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// series returns the sum of a counter's series whose labels include the given ones, as "name=value".
func (w *world) series(name string, labels ...string) (sum float64) {
	w.T.Helper()
	families, err := w.Registry.Gather()
	w.Must(err)
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, one := range family.Metric {
			have := map[string]bool{}
			for _, pair := range one.Label {
				have[pair.GetName()+"="+pair.GetValue()] = true
			}
			matches := true
			for _, label := range labels {
				matches = matches && have[label]
			}
			if matches {
				sum += one.Counter.GetValue()
			}
		}
	}
	return sum
}

// TestFactorsAreAuditedAndCounted performs every change and use of factors that is audited or counted.
func TestFactorsAreAuditedAndCounted(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada := w.browser()
		user := ada.signUp("ada@example.com")
		a, codes := ada.addApp()
		show := func(strategy string, code any) string {
			return fmt.Sprintf(`{"strategy":%q,"code":%q}`, strategy, code)
		}
		code := a.next()
		ada.refused(400, "INVALID_CODE", "POST", "/session/reauthenticate", show("totp", wrong(code)))
		ada.ok("POST", "/session/reauthenticate", show("totp", code))
		ada.refused(400, "CODE_USED", "POST", "/session/reauthenticate", show("totp", code))
		ada.ok("POST", "/session/reauthenticate", show("recovery_code", codes[0]))
		phone := ada.addPhone(number)
		ada.ok("POST", verifyPath(phone), codeBody(ada.prepare(phone, number, 1)))
		ada.ok("POST", "/me/second-factors/sms", fmt.Sprintf(`{"phone_number_id":%q}`, phone))
		ada.ok("DELETE", "/me/second-factors/sms/"+phone, "")
		w.useAndRemovePasskeys(ada)
		harbour := ada.organization("Harbour")
		ada.ok("PATCH", "/organizations/"+harbour, `{"required_assurance":"two_factors"}`)
		bob := w.browser()
		bob.signUp("bob@example.com")
		bob.refused(403, "ENROLLMENT_REQUIRED", "PATCH", "/organizations/"+bob.organization("Pier"), `{"required_assurance":"two_factors"}`)
		w.browserAt(ada.address).failSecondStep(a, "ada@example.com", 20)
		w.browserAt(ada.address).lockedOut(a, "ada@example.com", w.Clock.Now().Add(time.Hour))
		ada.ok("PATCH", "/me/second-factors", `{"two_step":false}`)
		ada.ok("DELETE", "/me/second-factors/totp/"+a.id, "")
		w.helpUser(user, ada.addPasskey(w.device()))

		for _, action := range strings.Fields(`two_step.on two_step.off totp.added totp.removed sms_factor.added sms_factor.removed passkey.added passkey.renamed
			passkey.removed passkey.counter_regressed recovery_codes.created recovery_code.used second_factor.locked session.stepped_up
			organization.assurance_changed user.factors_reset user.temporary_code_created user.factor_removed`) {
			if w.audited(action) == 0 {
				t.Errorf("%s is not audited", action)
			}
		}
		w.checkFactorMetrics()
	})
}

// useAndRemovePasskeys adds a passkey, signs in with it, is refused because of its counter, and removes it.
func (w *world) useAndRemovePasskeys(b *browser) {
	w.T.Helper()
	d := w.device()
	d.auth.Options.BackupEligible, d.auth.Options.BackupState, d.key.Counter = false, false, 9
	id := b.addPasskey(d)
	b.ok("PATCH", "/me/passkeys/"+id, `{"name":"Work"}`)
	d.key.Counter = 10
	w.browser().signInByPasskey(d)
	d.key.Counter = 3
	other := w.browser()
	other.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", d.signInBody(other.ok("POST", "/auth/passkey-options", `{}`)))
	b.ok("DELETE", "/me/passkeys/"+id, "")
}

// helpUser makes every change that the help desk can make to a user's factors.
func (w *world) helpUser(user, passkey string) {
	w.T.Helper()
	desk := w.helpDesk()
	desk.expect(200, "POST", "/users/"+user+"/temporary-code", `{}`)
	if status, raw := desk.send("DELETE", "/users/"+user+"/passkeys/"+passkey, ""); status >= 300 {
		w.T.Errorf("removing a passkey: %d %s", status, raw)
	}
	desk.expect(200, "POST", "/users/"+user+"/second-factors/reset", `{}`)
}

func (w *world) checkFactorMetrics() {
	w.T.Helper()
	for _, counter := range []struct {
		name, labels string
		least        float64
	}{
		{"cardea_second_factors_total", "method=totp result=right", 1},
		{"cardea_second_factors_total", "method=totp result=wrong", 21},
		{"cardea_second_factors_total", "method=totp result=used", 1},
		{"cardea_second_factors_total", "method=totp result=locked", 1},
		{"cardea_second_factors_total", "method=recovery_code result=right", 1},
		{"cardea_passkey_ceremonies_total", "ceremony=register result=ok", 2},
		{"cardea_passkey_ceremonies_total", "ceremony=sign_in result=ok", 1},
		{"cardea_passkey_ceremonies_total", "ceremony=sign_in result=counter", 1},
		{"cardea_assurance_refusals_total", "required=two_factors", 1},
		{"cardea_factor_changes_total", "factor=totp change=added", 1},
		{"cardea_factor_changes_total", "factor=totp change=removed", 1},
		{"cardea_factor_changes_total", "factor=sms change=added", 1},
		{"cardea_factor_changes_total", "factor=sms change=removed", 1},
		{"cardea_factor_changes_total", "factor=passkey change=added", 2},
		{"cardea_factor_changes_total", "factor=passkey change=removed", 2},
	} {
		if got := w.series(counter.name, strings.Fields(counter.labels)...); got < counter.least {
			w.T.Errorf("%s{%s} is %v, want %v at least", counter.name, counter.labels, got, counter.least)
		}
	}
}
