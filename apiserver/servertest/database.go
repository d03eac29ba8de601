package servertest

import (
	"context"
	"errors"
	"testing"

	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/store/storetest/sqlitetest"
)

// Engines are the database engines of tests, each with the function that makes a store for a test.
var Engines = map[string]func(testing.TB) string{"sqlite": SQLite, "postgres": Postgres}

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
