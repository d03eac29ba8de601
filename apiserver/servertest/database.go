package servertest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
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
	content, err := migratedFile()
	path := filepath.Join(t.TempDir(), "cardea.db")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return "sqlite://" + path
}

// migratedFile is a SQLite database with its tables, made once for the test binary: to make every table anew takes many times as long as to copy
// them, and most of a test's time under the race detector.
var migratedFile = sync.OnceValues(func() ([]byte, error) {
	folder, err := os.MkdirTemp("", "cardea-tables")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "cardea.db")
	if err := migrate(context.Background(), "sqlite://"+path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

func migrate(ctx context.Context, url string) error {
	s, err := sqlstore.Open(ctx, url, sqlstore.Options{})
	if err != nil {
		return err
	}
	return errors.Join(s.Migrate(ctx), s.Close())
}
