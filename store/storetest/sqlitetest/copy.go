// Package sqlitetest makes SQLite databases for tests, as pgtest does on PostgreSQL.
package sqlitetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// ForTest returns the URL of a new empty database in a folder of the test.
func ForTest(t testing.TB) string { return url(t.TempDir()) }

func url(folder string) string { return "sqlite://" + filepath.Join(folder, "cardea.db") }

// filled is the content of the database that Copy copies, filled once for the test binary.
var filled struct {
	once    sync.Once
	content []byte
	err     error
}

// Copy returns the URL of a new database in a folder of the test. It is a copy of a database that fill fills once for
// the test binary. Creating every table for each test takes many times as long, and most of a test's time under the
// race detector. fill must close what it opens.
func Copy(t testing.TB, fill func(ctx context.Context, url string) error) string {
	t.Helper()
	filled.once.Do(func() { filled.content, filled.err = contentOf(fill) })
	folder, err := t.TempDir(), filled.err
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "cardea.db"), filled.content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return url(folder)
}

func contentOf(fill func(ctx context.Context, url string) error) ([]byte, error) {
	folder, err := os.MkdirTemp("", "cardea-tables")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if err := fill(context.Background(), url(folder)); err != nil { // the content outlives the first test
		return nil, err
	}
	return os.ReadFile(filepath.Join(folder, "cardea.db"))
}
