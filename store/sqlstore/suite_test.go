package sqlstore

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/storetest"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/store/storetest/sqlitetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(crashChildEnv) != "" {
		os.Exit(crashChild())
	}
	os.Exit(pgtest.Main(m))
}

// testConns keeps the many stores of a parallel run within the server's connection limit.
const testConns = 5

// openAt opens a store that is closed when the test ends.
func openAt(t testing.TB, url string, opts Options) *Store {
	t.Helper()
	opts.MaxConns = testConns
	s, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func newSQLite(t testing.TB) string { return sqlitetest.ForTest(t) }

// migrate creates the tables of a new database.
func migrate(ctx context.Context, url string) error {
	s, err := Open(ctx, url, Options{MaxConns: testConns})
	if err != nil {
		return err
	}
	return errors.Join(s.Migrate(ctx), s.Close())
}

// migratedSQLite returns the URL of a new SQLite database that already has its tables.
func migratedSQLite(t testing.TB) string { return sqlitetest.Copy(t, migrate) }

// engines maps each engine to a function that returns the URL of a new, empty database.
var engines = map[string]func(t testing.TB) string{"sqlite": newSQLite, "postgres": pgtest.ForTest}

// tabled is like engines, but the databases already have their tables. It is for tests that do not test the migration.
var tabled = map[string]func(t testing.TB) string{"sqlite": migratedSQLite, "postgres": func(t testing.TB) string { return pgtest.Copy(t, migrate) }}

// conformance is one of the suites of storetest.
type conformance func(t *testing.T, open func(t *testing.T) store.Store, options ...storetest.Option)

func TestConformanceSQLite(t *testing.T)   { conformsSQLite(t, storetest.Run) }
func TestConformancePostgres(t *testing.T) { conformsPostgres(t, storetest.Run) }

// make test runs these two without the race detector.
func TestEveryMethodOfATxSQLite(t *testing.T)   { conformsSQLite(t, storetest.RunEveryMethod) }
func TestEveryMethodOfATxPostgres(t *testing.T) { conformsPostgres(t, storetest.RunEveryMethod) }

func conformsSQLite(t *testing.T, suite conformance) {
	t.Parallel()
	suite(t, func(t *testing.T) store.Store { return openAt(t, newSQLite(t), Options{}) },
		storetest.WithTables(func(t *testing.T) store.Store { return openAt(t, migratedSQLite(t), Options{}) }))
}

// urlStore keeps the URL at which it was opened, to open the same database a second time.
type urlStore struct {
	*Store
	url string
}

func conformsPostgres(t *testing.T, suite conformance) {
	t.Parallel()
	at := func(t *testing.T, url string) store.Store { return urlStore{openAt(t, url, Options{}), url} }
	suite(t, func(t *testing.T) store.Store { return at(t, pgtest.ForTest(t)) }, storetest.WithTables(func(t *testing.T) store.Store {
		return at(t, pgtest.Copy(t, migrate))
	}), storetest.WithSecond(func(t *testing.T, first store.Store) store.Store {
		return openAt(t, first.(urlStore).url, Options{})
	}))
}
