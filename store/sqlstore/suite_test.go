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

// testConns keeps the many stores of a parallel run within the server's connections.
const testConns = 5

// openAt opens a store that ends with the test.
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

// migrate gives a new database its tables.
func migrate(ctx context.Context, url string) error {
	s, err := Open(ctx, url, Options{MaxConns: testConns})
	if err != nil {
		return err
	}
	return errors.Join(s.Migrate(ctx), s.Close())
}

// migratedSQLite is newSQLite with the tables there already.
func migratedSQLite(t testing.TB) string { return sqlitetest.Copy(t, migrate) }

// engines names a URL of a new database on each engine.
var engines = map[string]func(t testing.TB) string{"sqlite": newSQLite, "postgres": pgtest.ForTest}

// tabled is engines with the tables there already, for what is not about how they come about.
var tabled = map[string]func(t testing.TB) string{"sqlite": migratedSQLite, "postgres": func(t testing.TB) string { return pgtest.Copy(t, migrate) }}

func TestConformanceSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return openAt(t, newSQLite(t), Options{}) },
		storetest.WithTables(func(t *testing.T) store.Store { return openAt(t, migratedSQLite(t), Options{}) }))
}

// urlStore remembers where it was opened, for a second handle.
type urlStore struct {
	*Store
	url string
}

func TestConformancePostgres(t *testing.T) {
	t.Parallel()
	at := func(t *testing.T, url string) store.Store { return urlStore{openAt(t, url, Options{}), url} }
	storetest.Run(t, func(t *testing.T) store.Store { return at(t, pgtest.ForTest(t)) }, storetest.WithTables(func(t *testing.T) store.Store {
		return at(t, pgtest.Copy(t, migrate))
	}), storetest.WithSecond(func(t *testing.T, first store.Store) store.Store {
		return openAt(t, first.(urlStore).url, Options{})
	}))
}
