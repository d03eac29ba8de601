package enduser_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/frontend/frontendtest"
)

// signInBody answers the options for a sign-in by passkey.
func (d *device) signInBody(options map[string]any) string {
	d.w.T.Helper()
	return fmt.Sprintf(`{"strategy":"passkey","credential":%s}`, d.shown(options))
}

// A passkey whose backup eligibility changes keeps working and counts as synced. Each change is audited once.
func TestEachChangeOfBackupEligibilityIsAuditedOnce(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada, d := w.browser(), w.device()
		ada.signUp("ada@example.com")
		d.auth.Options.BackupEligible, d.auth.Options.BackupState = false, false
		ada.addPasskey(d)
		d.key.Counter = 9
		shown := func() any {
			raw := ada.do("GET", "/me/passkeys", "")
			var listed []map[string]any
			w.Must(json.Unmarshal(raw.Body.Data, &listed))
			return listed[0]["backup_eligible"]
		}
		if shown() != false || w.audited("passkey.backup_changed") != 0 {
			t.Fatalf("a new passkey: eligible %v", shown())
		}
		for _, step := range []struct {
			eligible bool
			audited  int
		}{{true, 1}, {true, 1}, {false, 2}, {false, 2}, {false, 2}, {true, 3}} {
			d.auth.Options.BackupEligible = step.eligible
			w.browser().signInByPasskey(d) // the counter stays, which only a synced passkey may
			if got := w.audited("passkey.backup_changed"); got != step.audited || shown() != true {
				t.Errorf("after a sign-in with eligibility %t: %d audited, want %d; eligible %v", step.eligible, got, step.audited, shown())
			}
			d.key.Counter = 9
		}
	})
}

// Every refused sign-in by passkey has the same response and the same statements, whatever its credential is.
func TestRefusedPasskeysAreIndistinguishable(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada, bob := w.browser(), w.browser()
		ada.signUp("ada@example.com")
		bob.signUp("bob@example.com")
		known, bobs, removed, secondOnly := w.device(), w.device(), w.device(), w.device()
		ada.addPasskey(known)
		gone := ada.addPasskey(removed)
		ada.ok("DELETE", "/me/passkeys/"+gone, "")
		bob.addPasskey(bobs)
		credential := secondOnly.created(ada.ok("POST", "/me/passkeys/options", `{"kind":"security_key"}`))
		ada.ok("POST", "/me/passkeys", fmt.Sprintf(`{"credential":%s}`, credential))
		unknown := w.device()
		unknown.auth.Options.UserHandle = slices.Clone(known.auth.Options.UserHandle)
		forged := *known
		forged.key.Key = frontendtest.NewCredential().Key
		foreign := *known
		foreign.auth.Options.UserHandle = bobs.auth.Options.UserHandle
		unnamed := *known
		unnamed.auth.Options.UserHandle = nil
		untouched := *known
		untouched.auth.Options.UserNotVerified = true
		var statements []string
		var body string
		for name, d := range map[string]*device{
			"unknown": unknown, "forged": &forged, "foreign": &foreign, "unnamed": &unnamed, "removed": removed, "not verified": &untouched, "second factor only": secondOnly,
		} {
			b := w.browser()
			shown := d.signInBody(b.ok("POST", "/auth/passkey-options", `{}`))
			ran := w.traced.of(func() { b.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", shown) })
			if b.cookie() != "" {
				t.Errorf("%s: the refusal sets a cookie", name)
			}
			if statements == nil {
				statements, body = ran, b.last.Raw
			}
			if len(ran) == 0 || b.last.Raw != body || !slices.Equal(ran, statements) {
				t.Errorf("%s: %s after %d statements, want %s after %d: %s", name, b.last.Raw, len(ran), body, len(statements), firstDifference(ran, statements))
			}
		}
		w.browser().signInByPasskey(known)
	})
}

// A sign-in by passkey that is refused writes nothing.
func TestRefusedPasskeysWriteNothing(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		w.open(nil)
		d := w.device()
		d.auth.Options.UserHandle = []byte("a handle")
		b := w.browser()
		tables := []string{"sessions", "session_tokens", "attempts", "counters", "failures", "passkeys", "spent_challenges", "audit", "events"}
		before := w.dumpOf(tables...)
		for range 3 {
			b.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", d.signInBody(b.ok("POST", "/auth/passkey-options", `{}`)))
		}
		if w.dumpOf(tables...) != before {
			t.Error("a refused sign-in by passkey writes rows")
		}
	})
}

// The owner of a passkey whose counter goes back writes only a few rows and mails a day with it.
func TestRegressedCountersAreRecordedAFewTimesADay(t *testing.T) {
	onFactors(t, nil, func(t *testing.T, w *world) {
		ada, d := w.browser(), w.device()
		ada.signUp("ada@example.com")
		d.auth.Options.BackupEligible, d.auth.Options.BackupState = false, false
		d.key.Counter = 9
		ada.addPasskey(d)
		again := func() {
			d.key.Counter = 3
			b := w.browser()
			b.refused(401, "INVALID_CREDENTIALS", "POST", "/auth/signin", d.signInBody(b.ok("POST", "/auth/passkey-options", `{}`)))
		}
		for range 3 {
			again()
		}
		if got := w.audited("passkey.counter_regressed"); got != 3 {
			t.Errorf("%d audited, want 3", got)
		}
		for range 10 {
			again()
		}
		tables := []string{"spent_challenges", "audit", "counters", "failures"}
		before, sent := w.dumpOf(tables...), w.count("SELECT COUNT(*) FROM outbox")
		again()
		if w.dumpOf(tables...) != before || w.count("SELECT COUNT(*) FROM outbox") != sent {
			t.Error("every further refusal writes rows")
		}
		mails := w.count("SELECT COUNT(*) FROM outbox")
		w.Clock.Advance(25 * time.Hour)
		again()
		if w.count("SELECT COUNT(*) FROM outbox") == mails {
			t.Error("the next day is not recorded")
		}
	})
}
