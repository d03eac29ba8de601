package servertest

import (
	"context"
	"errors"
	"testing"

	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/store/storetest/sqlitetest"
)

// Engines are the stores a story runs on, each by what makes one for a test.
var Engines = map[string]func(testing.TB) string{"sqlite": SQLite, "postgres": Postgres}

// Postgres returns the URL of a store on the test binary's PostgreSQL that has its tables already.
func Postgres(t testing.TB) string {
	t.Helper()
	return pgtest.Copy(t, migrate)
}

// SQLite returns the URL of a store in a folder of the test that has its tables already.
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
