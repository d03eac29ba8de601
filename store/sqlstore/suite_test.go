package sqlstore

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/storetest"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
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

func newSQLite(t testing.TB) string { return "sqlite://" + filepath.Join(t.TempDir(), "cardea.db") }

// engines names a URL of a new database on each engine.
var engines = map[string]func(t testing.TB) string{"sqlite": newSQLite, "postgres": pgtest.ForTest}

func TestConformanceSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store { return openAt(t, newSQLite(t), Options{}) })
}

// urlStore remembers where it was opened, for a second handle.
type urlStore struct {
	*Store
	url string
}

func TestConformancePostgres(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) store.Store {
		url := pgtest.ForTest(t)
		return urlStore{openAt(t, url, Options{}), url}
	}, storetest.WithSecond(func(t *testing.T, first store.Store) store.Store {
		return openAt(t, first.(urlStore).url, Options{})
	}))
}
