package sqlstore

import (
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/migrations"
)

// TestFaultWhileMigrating fails each step of the migration at each of its calls. All attempts run on one database, so
// each attempt starts from the state that the previous fault left. At the end, the tables must equal those of a
// migration without faults.
func TestFaultWhileMigrating(t *testing.T) {
	t.Parallel()
	for engine, newURL := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			undisturbed := openAt(t, newURL(t), Options{})
			if err := undisturbed.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			s, failures := failEveryStep(t, newURL)
			// Attempts fail with none to all of the steps completed. With all steps completed, the insertion of the
			// store row fails.
			if got, want := len(failures), countSteps(t, undisturbed)+1; got != want {
				t.Errorf("%d steps were failed, want %d: %v", got, want, failures)
			}
			for step, n := range failures {
				if n < 3 {
					t.Errorf("after step %d there were %d faults: fewer than a transaction has calls", step, n)
				}
			}
			if got, want := tablesOf(t, s), tablesOf(t, undisturbed); !slices.Equal(got, want) {
				t.Errorf("after faults the tables are\n%s\nwithout\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// failEveryStep returns the migrated store, and the number of failed attempts by the newest completed step (0: none).
func failEveryStep(t *testing.T, newURL func(testing.TB) string) (s *Store, failures map[int64]int) {
	t.Helper()
	f := &faults{}
	open := func() *Store {
		return openAt(t, newURL(t), Options{wrapConnector: func(c driver.Connector) driver.Connector { return faultConnector{c, f} }})
	}
	s, failures = open(), map[int64]int{}
	for nth, done := int64(1), int64(0); ; nth++ {
		// goose runs the same queries before each step. The test fails these queries only before the first step.
		if done == 0 {
			f.arm(nth, errInjected)
		} else {
			f.armTransaction(nth, errInjected)
		}
		err := s.Migrate(t.Context())
		f.left.Store(0)
		if !f.fired.Load() {
			if err = errors.Join(err, s.CheckSchema(t.Context())); err != nil {
				t.Fatalf("without a fault, after step %d: %v", done, err)
			}
			return s, failures
		}
		if err != nil && (!errors.Is(err, store.ErrUnavailable) || !errors.Is(err, errInjected)) {
			t.Fatalf("call %d after step %d: %v", nth, done, err)
		}
		if err == nil && done == 0 {
			// goose retried this call itself and completed the migration. Continue with a new database.
			s = open()
			continue
		}
		failures[done]++
		// A completed step does not run again, so the count of calls restarts with the next step.
		if now := appliedSteps(t, s); now != done {
			nth, done = 0, now
		}
	}
}

func countSteps(t *testing.T, s *Store) int {
	t.Helper()
	provider, err := migrations.Provider(s.db, s.db.Writers)
	if err != nil {
		t.Fatal(err)
	}
	return len(provider.ListSources())
}

// appliedSteps returns the newest migration step that is recorded as done; 0: none.
func appliedSteps(t testing.TB, s *Store) (version int64) {
	t.Helper()
	var name string
	exists, err := s.db.Reads().Row(t.Context(), []any{&name}, s.db.Dialect.TableExists, migrations.VersionTable)
	if err == nil && exists {
		_, err = s.db.Reads().Row(t.Context(), []any{&version}, `SELECT COALESCE(MAX(version_id), 0) FROM `+migrations.VersionTable)
	}
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// tablesOf returns every column, index and constraint of the tables, one per line.
func tablesOf(t *testing.T, s *Store) []string {
	t.Helper()
	query := `SELECT type || ' ' || name || ': ' || COALESCE(sql, '') FROM sqlite_schema ORDER BY 1`
	if s.db.Dialect.Migrations == "postgres" {
		query = `SELECT 'column ' || table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable || ' ' || COALESCE(column_default, '')
				FROM information_schema.columns WHERE table_schema = 'public'
			UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'public'
			UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'public'::regnamespace
			ORDER BY 1`
	}
	rows, err := s.db.Writers.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var lines []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, line)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return lines
}
