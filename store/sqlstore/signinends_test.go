package sqlstore

import (
	"errors"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

// TestPurgeKeepsSignInsProlongedConcurrently: a sign-in that is prolonged while the purge waits for its session stays.
func TestPurgeKeepsSignInsProlongedConcurrently(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.Copy(t, migrate), Options{})
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	ends := people.Upstream{Connection: 1, EndsAt: now.Add(-time.Second)}
	err := s.Change(t.Context(), "acme/home", func(tx people.Tx) error {
		return errors.Join(
			tx.Sessions().InsertSession(people.Session{ID: 1, CreatedAt: now, UsedAt: now, ExpiresAt: now.Add(time.Hour)}),
			tx.Sessions().InsertToken(people.Token{Hash: []byte{1}, Session: 1, CreatedAt: now}),
			tx.Sessions().InsertSignIn(people.SignIn{ID: 1, Session: 1, User: 7, CreatedAt: now, Upstream: ends}))
	})
	if err != nil {
		t.Fatal(err)
	}
	purged := make(chan error, 1)
	err = s.Change(t.Context(), "acme/home", func(tx people.Tx) error {
		if _, _, err := tx.Sessions().LockSession([]byte{1}); err != nil {
			return err
		}
		ends.EndsAt = now.Add(time.Minute)
		if err := tx.Sessions().SetUpstream(1, ends); err != nil {
			return err
		}
		go func() {
			_, err := s.Purge(t.Context(), now, people.Retention{Audit: time.Hour, ToolCalls: time.Hour}, 100)
			purged <- err
		}()
		for waiting := int64(0); waiting == 0; {
			if _, err := s.db.Reads().Row(t.Context(), []any{&waiting}, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = <-purged
	}
	if err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), "acme/home", func(tx people.Tx) error {
		kept, err := tx.Sessions().SignInsOf(7)
		if len(kept) != 1 {
			t.Errorf("sign-ins %+v", kept)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
