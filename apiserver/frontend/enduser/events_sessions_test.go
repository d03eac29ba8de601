package enduser_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/apiserver/events"
	"github.com/cardea-iam/cardea/apiserver/users/session"
	"github.com/cardea-iam/cardea/store/people"
)

// activeSignIn returns the id of the active sign-in after the last response with a session.
func (b *browser) activeSignIn() string { return b.last.Body.Session.ActiveSignIn["id"].(string) }

// ended reports whether an event says that a sign-in ended for a reason.
func ended(e people.LoggedEvent, signIn string, why events.Reason) bool {
	return e.SubjectType == "session" && strings.Contains(e.Data, fmt.Sprintf(`"reason":%q,"signin_id":%q`, why, signIn))
}

func TestSignInsAndSignOutsLogEvents(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b := w.browser()
		var user string
		created := w.happens(func() { user = b.signUp("ada@example.com") }, events.UserCreated, events.SessionCreated)[1]
		first := b.activeSignIn()
		if want := fmt.Sprintf(`{"method":"password","signin_id":%q,"user_id":%q}`, first, user); created.Data != want || created.Actor != "user:"+user || created.SubjectType != "session" {
			t.Errorf("%+v, want %s", created, want)
		}
		again := w.happens(func() { b.signIn("ada@example.com") }, events.SessionEnded, events.SessionCreated)
		if !ended(again[0], first, events.Replaced) || again[0].SubjectID != created.SubjectID || again[1].SubjectID != created.SubjectID || !strings.Contains(again[1].Data, `"method":"password"`) {
			t.Errorf("%+v", again)
		}
		second := b.activeSignIn()
		w.happens(func() { w.browser().do("POST", "/auth/signin", byPassword("ada@example.com", "wrong password 1")) })
		other := w.browser()
		bob := w.happens(func() { other.signUp("bob@example.com") }, events.UserCreated, events.SessionCreated)[1]
		w.happens(func() { other.signIn("ada@example.com") }, events.SessionCreated)
		joined := other.activeSignIn()
		one := w.happens(func() { other.ok("POST", "/session/sign-out", fmt.Sprintf(`{"signin_id":%q}`, joined)) }, events.SessionEnded)[0]
		if !ended(one, joined, events.SignedOut) || one.Actor != "user:"+user || one.SubjectID != bob.SubjectID {
			t.Errorf("%+v", one)
		}
		w.happens(func() { other.signIn("ada@example.com") }, events.SessionCreated)
		w.happens(func() { other.ok("POST", "/session/sign-out", `{}`) }, events.SessionEnded, events.SessionEnded)
		third := w.browser()
		third.signIn("ada@example.com")
		elsewhere := w.happens(func() { third.ok("PATCH", "/me/signins/"+second+"/signout", `{}`) }, events.SessionEnded)[0]
		if !ended(elsewhere, second, events.SignedOut) {
			t.Errorf("%+v", elsewhere)
		}
		w.browser().signIn("ada@example.com")
		w.browser().signIn("ada@example.com")
		w.happens(func() { third.ok("POST", "/me/signins/signout-others", `{}`) }, events.SessionEnded, events.SessionEnded)
		w.happens(func() { third.ok("POST", "/me/update-password", updateBody(goodPassword, newPassword, "")) }, events.UserPasswordChanged)
	})
}

func TestServersLogTheSignInsThatTheyEnd(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		oldest := b.activeSignIn()
		for range session.MaxPerUser - 1 {
			w.Clock.Advance(time.Second)
			w.browser().signIn("ada@example.com")
		}
		w.Clock.Advance(time.Second)
		evicted := w.happens(func() { w.browser().signIn("ada@example.com") }, events.SessionRevoked, events.SessionCreated)[0]
		if !ended(evicted, oldest, events.Evicted) || evicted.Actor != "system" {
			t.Errorf("%+v", evicted)
		}
		copied, _ := w.signedUp("bob@example.com")
		bob := copied.activeSignIn()
		old := copied.cookie()
		one, two := copied.organization("One"), copied.organization("Two")
		switched := w.happens(func() { copied.switchTo(one) }, events.SessionSwitched)[0]
		if fmt.Sprint(switched.Organization) != one || switched.Workspace == 0 || !strings.Contains(switched.Data, fmt.Sprintf(`"signin_id":%q`, bob)) {
			t.Errorf("%+v", switched)
		}
		w.happens(func() { copied.switchTo(one) })
		w.happens(func() { copied.switchTo(two) }, events.SessionSwitched)
		copied.alive()
		w.Clock.Advance(session.Grace + time.Second)
		reused := w.happens(func() { copied.as(old).do("GET", "/me", "") }, events.SessionRevoked)[0]
		if !ended(reused, bob, events.TokenReused) || reused.Actor != "system" {
			t.Errorf("%+v", reused)
		}
	})
}

// TestSwitchesOfOrganizationsLogBoundedEvents: of the switches of a session, 60 an hour have events.
func TestSwitchesOfOrganizationsLogBoundedEvents(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, _ := w.signedUp("ada@example.com")
		in := []string{b.organization("One"), b.organization("Two")}
		before := len(w.logged(0))
		for n := range 70 {
			b.switchTo(in[n%2])
		}
		if n := len(w.logged(0)) - before; n != 60 {
			t.Errorf("70 switches logged %d events", n)
		}
	})
}

func TestExpiredSignInsLogEventsWhenTheyEnd(t *testing.T) {
	onEngines(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		kept, over := w.browser(), w.browser()
		kept.signUp("bob@example.com")
		joined := b.activeSignIn()
		over.signIn("ada@example.com")
		left := over.activeSignIn()
		w.tx(func(tx people.Tx) error {
			return tx.Sessions().SetUpstream(parseID(joined), people.Upstream{Connection: 1, EndsAt: w.Clock.Now().Add(time.Minute).UTC().Truncate(time.Microsecond)})
		})
		w.Clock.Advance(2 * time.Minute)
		expired := w.happens(func() { w.purge(w.Clock.Now()) }, events.SessionEnded)[0]
		if !ended(expired, joined, events.Expired) || expired.Actor != "system" || !strings.Contains(expired.Data, user) {
			t.Errorf("%+v", expired)
		}
		w.happens(func() { kept.ok("POST", "/session/sign-out", `{}`) }, events.SessionEnded)
		w.Clock.Advance(400 * 24 * time.Hour)
		last := w.happens(func() { w.purge(w.Clock.Now()) }, events.SessionEnded)[0]
		if !ended(last, left, events.Expired) || !last.At.Equal(w.Clock.Now().UTC().Truncate(time.Microsecond)) {
			t.Errorf("%+v", last)
		}
		w.happens(func() { w.purge(w.Clock.Now()) })
	})
}

// purge ends what expired, as upkeep does.
func (w *world) purge(now time.Time) {
	w.T.Helper()
	keep := people.Retention{Audit: 10_000 * time.Hour, ToolCalls: 10_000 * time.Hour, Events: events.Expiry{At: now.UTC().Truncate(time.Microsecond)}}
	_, err := w.Store.Purge(w.T.Context(), now, keep, 100)
	w.Must(err)
}

func TestProvidersAndDirectoriesLogTheSignInsThatTheyEnd(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		p := w.provider()
		conn := w.connection("globex", p, globexDomain)
		b := w.browser()
		w.happens(func() { b.sso(conn, p, ann) }, events.UserCreated, events.SessionCreated)
		form := url.Values{"logout_token": {p.LogoutToken(map[string]any{"sub": "1"})}}
		out := w.happens(func() {
			if status := w.post("/sso/"+conn+"/backchannel-logout", form).StatusCode; status != http.StatusOK {
				t.Fatalf("status %d", status)
			}
		}, events.SessionRevoked)[0]
		if !strings.Contains(out.Data, `"reason":"connection"`) || out.Actor != "connection:globex" || !strings.Contains(out.Data, `"method":"sso"`) {
			t.Errorf("%+v", out)
		}
		g := w.globex(mapped)
		user, _ := w.signedUp("carl@globex.example")
		signIn := user.activeSignIn()
		id := g.adds("carl@globex.example")
		w.browser().do("GET", "/me", "")
		gone := w.happens(func() { g.activates(id, false) }, events.SessionRevoked, events.MembershipDeleted, events.UserDisabled)[0]
		if !ended(gone, signIn, events.ByDirectory) || !strings.HasPrefix(gone.Actor, "directory:") {
			t.Errorf("%+v", gone)
		}
	})
}
