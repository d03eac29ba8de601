package servertest

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/store/storetest/sqlitetest"
)

// Engines are the database engines of tests, each with the function that makes a store for a test.
var Engines = map[string]func(testing.TB) string{"sqlite": SQLite, "postgres": Postgres}

// OnEngines runs a test on each engine, in parallel. It is for tests that depend on locks, races or statements.
func OnEngines(t *testing.T, story func(t *testing.T, url string)) {
	t.Helper()
	t.Parallel()
	for engine, open := range Engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			story(t, open(t))
		})
	}
}

// OnOneEngine runs a test on SQLite, and on each engine if CARDEA_TEST_ENGINES is all (make test-engines). It is for
// tests of rules over users, which do not depend on the engine: the conformance suite of the store proves that both
// engines fulfill its contract.
func OnOneEngine(t *testing.T, story func(t *testing.T, url string)) {
	t.Helper()
	if os.Getenv("CARDEA_TEST_ENGINES") == "all" {
		OnEngines(t, story)
		return
	}
	t.Parallel()
	story(t, SQLite(t))
}

// Postgres returns the URL of a migrated store on the test binary's PostgreSQL.
func Postgres(t testing.TB) string {
	t.Helper()
	return pgtest.Copy(t, migrate)
}

// SQLite returns the URL of a migrated store in a folder of the test.
func SQLite(t testing.TB) string {
	t.Helper()
	return sqlitetest.Copy(t, migrate)
}

func migrate(ctx context.Context, url string) error {
	s, err := sqlstore.Open(ctx, url, sqlstore.Options{})
	if err != nil {
		return err
	}
	return errors.Join(s.Migrate(ctx), s.Close())
}
