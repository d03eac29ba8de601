package sqlstore

import (
	"maps"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
	"github.com/cardea-iam/cardea/store/sqlstore/migrations"
	"github.com/cardea-iam/cardea/store/sqlstore/users"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

// migratedTo opens a store with the tables of an earlier version.
func migratedTo(t testing.TB, url string, version int64) *Store {
	t.Helper()
	s := openAt(t, url, Options{})
	db := s.db.Writers
	if s.db.OpenMigrate != nil {
		db = s.db.OpenMigrate()
		defer func() { _ = db.Close() }()
	}
	provider, err := migrations.Provider(s.db, db)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
	if applied := appliedSteps(t, s); applied != version {
		t.Fatalf("the tables are those of version %d, want %d: use a database without tables", applied, version)
	}
	return s
}

// TestLimitsContinueAfterUpgrade: the rows of the previous version still count after the upgrade. They are the codes
// that it sent, and the clients from which accounts signed in. Without the clients, an account's owner would fall under
// the limits for unknown clients.
func TestLimitsContinueAfterUpgrade(t *testing.T) {
	t.Parallel()
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := migratedTo(t, url(t), 2)
			now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
			on := s.db.Writes()
			for _, row := range []struct {
				statement string
				args      []any
			}{
				{`INSERT INTO events (deployment, kind, at, id, user_id, method, address, user_agent) VALUES (?, 'signin', ?, 1, 7, 'password', '192.0.2.1', '')`,
					[]any{"acme/home", db.Micros(now.Add(-time.Hour))}},
				{`INSERT INTO events (deployment, kind, at, id, user_id, method, address, user_agent) VALUES (?, 'signin', ?, 2, 7, 'password', '192.0.2.2', '')`,
					[]any{"acme/home", db.Micros(now.Add(-91 * 24 * time.Hour))}},
				{`INSERT INTO events (deployment, kind, at, id, user_id, method, address, user_agent) VALUES (?, 'signin', ?, 3, 7, 'password', '2001:db8::1', '')`,
					[]any{"acme/home", db.Micros(now)}},
				{`INSERT INTO events (deployment, kind, at, id, user_id, method, address, user_agent) VALUES (?, 'signup', ?, 4, 7, 'password', '192.0.2.3', '')`,
					[]any{"acme/home", db.Micros(now)}},
				{`INSERT INTO sessions (deployment, id, anonymous, active_signin, attempting, address, user_agent, created_at, used_at, expires_at)
					VALUES (?, 1, 0, 1, 0, '2001:db8::/64', '', ?, ?, ?)`, []any{"acme/home", db.Micros(now), db.Micros(now), db.Micros(now.Add(time.Hour))}},
				{`INSERT INTO signins (deployment, id, session_id, user_id, method, organization_id, workspace_id, created_at) VALUES (?, 1, 1, 7, 'password', 0, 0, ?)`,
					[]any{"acme/home", db.Micros(now)}},
				{`INSERT INTO challenges (deployment, ` + users.ChallengeColumns + `, superseded, consumed_at)
					VALUES (?, 1, 'signin', 'mail', 2, 1, 0, 'ada@example.com', '', '192.0.2.9', 1, ?, ?, 'k', 0, ?, ?, 0, 0)`,
					[]any{"acme/home", []byte{1}, []byte{1}, db.Micros(now.Add(-time.Minute)), db.Micros(now)}},
			} {
				if _, err := on.Exec(t.Context(), row.statement, row.args...); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			err := s.View(t.Context(), "acme/home", func(tx people.Tx) error {
				for client, want := range map[string]bool{"192.0.2.1": true, "192.0.2.2": false, "192.0.2.3": false, "2001:db8::/64": true, "2001:db8::1": false} {
					if known, err := tx.Limits().KnownClient(7, client, now.Add(-people.KnownFor)); err != nil || known != want {
						t.Errorf("%s is known: %t, %v, want %t", client, known, err, want)
					}
				}
				sends, err := tx.Limits().Sends(people.SendFilter{Channel: "mail", Purpose: "signin", Recipient: "ada@example.com", Client: "192.0.2.9"}, now.Add(-time.Hour))
				if err != nil || len(sends) != 1 || !sends[0].Equal(now.Add(-time.Minute)) {
					t.Errorf("sends %v, %v", sends, err)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestPurgeSkipsRowsUsedConcurrently: a row that is used again while the purge waits for its lock stays.
func TestPurgeSkipsRowsUsedConcurrently(t *testing.T) {
	t.Parallel()
	s := openAt(t, pgtest.ForTest(t), Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	remember := func(tx people.Tx, at time.Time) error { return tx.Limits().RememberClient(7, "192.0.2.1", at) }
	if err := s.Change(t.Context(), "acme/home", func(tx people.Tx) error { return remember(tx, now.Add(-91*24*time.Hour)) }); err != nil {
		t.Fatal(err)
	}
	purged := make(chan error, 1)
	err := s.Change(t.Context(), "acme/home", func(tx people.Tx) error {
		if err := remember(tx, now); err != nil {
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
	if err != nil {
		t.Fatal(err)
	}
	if err := <-purged; err != nil {
		t.Fatal(err)
	}
	err = s.View(t.Context(), "acme/home", func(tx people.Tx) error {
		if known, err := tx.Limits().KnownClient(7, "192.0.2.1", now.Add(-people.KnownFor)); err != nil || !known {
			t.Errorf("known: %t, %v", known, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A migration runs while a server's transaction uses one of its tables and then reads another. The transaction
// succeeds, and the migration completes.
func TestMigrationsYieldToTableUsers(t *testing.T) {
	t.Parallel()
	s := migratedTo(t, pgtest.ForTest(t), 8)
	tx, err := s.db.Writers.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `SELECT 1 FROM signins`); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() { migrated <- s.Migrate(t.Context()) }()
	for waiting := int64(0); waiting == 0; {
		if _, err := s.db.Reads().Row(t.Context(), []any{&waiting}, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-migrated:
			t.Fatalf("the migration ended without waiting for the transaction: %v", err)
		default:
		}
	}
	// The migration has locked this table by now.
	if _, err := tx.ExecContext(t.Context(), `SELECT 1 FROM emails`); err != nil {
		t.Fatalf("the server's transaction failed: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	if err := s.CheckSchema(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestImportedRowsSurviveTheUpgradeOfTheirTable(t *testing.T) {
	t.Parallel()
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := migratedTo(t, url(t), 22)
			on := s.db.Writes()
			for i, row := range [][3]string{
				{"acme/home", "user", "u2"}, {"acme/home", "user", "u1"}, {"acme/home", "email", "u1"}, {"globex/home", "user", "u1"},
			} {
				if _, err := on.Exec(t.Context(), `INSERT INTO imported_rows (deployment, kind, external_id, id) VALUES (?, ?, ?, ?)`, row[0], row[1], row[2], int64(i+1)); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, tc := range []struct {
				deployment, kind string
				want             map[string]int64
			}{
				{"acme/home", "user", map[string]int64{"u1": 2, "u2": 1}}, {"acme/home", "email", map[string]int64{"u1": 3}},
				{"globex/home", "user", map[string]int64{"u1": 4}}, {"globex/home", "email", map[string]int64{}},
			} {
				err := s.View(t.Context(), tc.deployment, func(tx people.Tx) error {
					got, err := tx.Imports().ImportedAs(tc.kind, []string{"u1", "u2", "u3"})
					if err == nil && !maps.Equal(got, tc.want) {
						t.Errorf("%s of %s: %v, want %v", tc.kind, tc.deployment, got, tc.want)
					}
					return err
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
