package enduser_test

import (
	"fmt"
	"testing"
	"time"
)

// A user's requests for one operation write a bounded number of rows per day.
func TestUserChangesAreBoundedPerDay(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		organization := b.organization("Org")
		last := answer{}
		for n := 0; last.Status != 429 && n <= 300; n++ {
			last = b.do("PATCH", "/organizations/"+organization, fmt.Sprintf(`{"description":"the %d."}`, n))
		}
		if last.code() != "RATE_LIMITED" || last.Header.Get("Retry-After") == "" {
			t.Fatalf("300 changes in a day: %s", last.Raw)
		}
		if n := w.audited("organization.changed"); n != 200 {
			t.Errorf("%d audit rows, want 200", n)
		}
		if a := b.do("PATCH", "/me", `{"first_name":"Ada"}`); a.Status != 200 {
			t.Errorf("another operation: %s", a.Raw)
		}
		w.Clock.Advance(24*time.Hour + time.Second)
		b.signIn("ada@example.com")
		if a := b.do("PATCH", "/organizations/"+organization, `{"description":"tomorrow"}`); a.Status != 200 {
			t.Errorf("a day later: %s", a.Raw)
		}
	})
}

// Sign-ins are never refused for their number, and write a bounded number of rows.
func TestSignInsAboveDailyNumberWriteOneRowPerHour(t *testing.T) {
	onSQLite(t, func(w *world) {
		b, _ := w.signedUp("ada@example.com")
		for range 220 {
			b.signIn("ada@example.com")
		}
		before, events := w.audited("session.signed_in"), w.count("SELECT COUNT(*) FROM events WHERE kind = 'signin'")
		for range 20 {
			b.signIn("ada@example.com")
		}
		if n, e := w.audited("session.signed_in"), w.count("SELECT COUNT(*) FROM events WHERE kind = 'signin'"); n != before || e != events || n > 205 {
			t.Errorf("twenty sign-ins more: %d audit rows, before %d; %d events, before %d", n, before, e, events)
		}
		w.Clock.Advance(time.Hour + time.Second)
		b.signIn("ada@example.com")
		if n := w.audited("session.signed_in"); n != before+1 {
			t.Errorf("an hour later: %d audit rows, before %d", n, before)
		}
	})
}
