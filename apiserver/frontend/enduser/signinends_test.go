package enduser_test

import (
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

// endsAt sets when the last sign-in of a user ends, as the settings of a connection do.
func (w *world) endsAt(user string, at time.Time) {
	w.T.Helper()
	id, err := ids.Parse(user)
	w.Must(err)
	w.tx(func(tx people.Tx) error {
		of, err := tx.Sessions().SignInsOf(id)
		if err != nil {
			return err
		}
		g := of[len(of)-1]
		return tx.Sessions().SetUpstream(g.ID, people.Upstream{Connection: 1, EndsAt: at.UTC().Truncate(time.Microsecond)})
	})
}

func TestSignInEndsBeforeItsSession(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, user := w.signedUp("ada@example.com")
		end := w.Clock.Now().Add(10 * time.Minute)
		w.endsAt(user, end)
		if shown := b.list("/me/signins"); len(shown) != 1 || shown[0]["expires_at"] != end.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano) {
			t.Errorf("%v, want the end %s", shown, end)
		}
		w.Clock.Advance(10*time.Minute - time.Second)
		b.ok("GET", "/me", "")
		w.Clock.Advance(time.Second)
		b.refused(401, "NOT_AUTHENTICATED", "PATCH", "/me", `{"first_name":"Ada"}`)
		if b.alive() || b.cookie() != "" {
			t.Errorf("alive %t, cookie %q", b.alive(), b.cookie())
		}
		b.signIn("ada@example.com")
		if !b.alive() {
			t.Error("no sign-in after the end of the last one")
		}
	})
}

func TestSignInThatEndsLeavesOtherAccountsOfItsSession(t *testing.T) {
	onOneEngine(t, func(t *testing.T, w *world) {
		b, first := w.signedUp("ada@example.com")
		second := b.signUp("eve@example.com")
		w.endsAt(second, w.Clock.Now().Add(time.Minute))
		w.Clock.Advance(time.Minute)
		if got := b.ok("GET", "/me", "")["id"]; got != first {
			t.Errorf("user %v is active, want %s", got, first)
		}
		if left := b.last.Body.Session.SignIns; len(left) != 1 || left[0]["user_id"] != first {
			t.Errorf("sign-ins %v", left)
		}
		b.ok("PATCH", "/me", `{"first_name":"Ada"}`)
		b.signIn("eve@example.com")
		if left := b.last.Body.Session.SignIns; len(left) != 2 {
			t.Errorf("sign-ins %v after another sign-in", left)
		}
	})
}
