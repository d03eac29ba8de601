package sqlstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/internal/db"
)

func TestOpenRefusesUnknownURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"mysql://me:hunter2@host/db":         `scheme "mysql" is not supported`,
		"me:hunter2@host/db":                 "no scheme",
		"host=db password=hunter2":           "no scheme",
		"":                                   "no scheme",
		"postgres://me:hunter2%zz@host/db":   "cannot be parsed",
		"postgres://me:hunter2@host:port/db": "cannot be parsed",
		"sqlite:":                            "names no file",
		"sqlite::memory:":                    "names no file",
		"sqlite://folder/":                   "sqlite:///absolute/path.db",
		"sqlite:///tmp/":                     "names no file",
		"sqlite:///tmp/a.db?mode=ro":         "no options",
	} {
		_, err := Open(t.Context(), url, Options{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

func TestPasswordsAreNotInErrorsOrLogs(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 64)
	logger := funcr.New(func(_, args string) {
		select {
		case lines <- args:
		default:
		}
	}, funcr.Options{Verbosity: 9})
	// Port 1 refuses connections.
	s := openAt(t, "postgres://me:hunter2@127.0.0.1:1/db?sslmode=disable", Options{Logger: logger})
	s.Signals(t.Context())
	_, _, err := s.Load(t.Context())
	if !errors.Is(err, store.ErrUnavailable) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	for range 2 {
		if line := <-lines; strings.Contains(line, "hunter2") {
			t.Errorf("logged %s", line)
		}
	}
}

func TestSQLiteFileIsPrivateAndLocked(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "new", "deep")
	// The path has characters with a special meaning in SQLite's file: URIs.
	path := filepath.Join(folder, "car%20dea&x=1 .db")
	s := openAt(t, "sqlite://"+path, Options{})
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + ".lock", path + "-wal", path + "-shm"} {
		expectMode(t, name, 0o600)
	}
	expectMode(t, folder, fs.ModeDir|0o700)

	link := filepath.Join(folder, "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{path, link} {
		_, err := Open(t.Context(), "sqlite:"+other, Options{})
		if err == nil || !strings.Contains(err.Error(), path+" is in use by another process: stop that one") {
			t.Errorf("%s: got %v", other, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := openAt(t, "sqlite:"+link, Options{}).CheckSchema(t.Context()); err != nil {
		t.Error(err)
	}
}

func expectMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != want {
		t.Errorf("%s has mode %v, want %v", path, info.Mode(), want)
	}
}

func TestSQLiteConnectionsAreDurableAndReadersOnlyRead(t *testing.T) {
	t.Parallel()
	s := openAt(t, newSQLite(t), Options{})
	for pragma, want := range map[string]string{
		"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "10000",
	} {
		var got string
		if err := s.db.Writers.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s is %q, want %q (%v)", pragma, got, want, err)
		}
	}
	if _, err := s.db.Readers.ExecContext(t.Context(), "CREATE TABLE x (y TEXT)"); err == nil {
		t.Error("a reader wrote")
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Readers go on while a write transaction is open.
	err := s.db.Write(t.Context(), func(db.Session, db.StoreRow) (bool, error) {
		_, _, err := s.Load(t.Context())
		return false, err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFeedDetectsRestoredBackup replaces the file by an earlier copy and writes other content to it.
func TestFeedDetectsRestoredBackup(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cardea.db")
	first := migrated(t, "sqlite:"+path, Options{})
	putNumbered(t, first, "a", 1)
	_, saved, err := first.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	backup, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	second := openAt(t, "sqlite:"+path, Options{})
	putNumbered(t, second, "b", 1)
	_, lost, err := second.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, backup, 0o600); err != nil {
		t.Fatal(err)
	}
	restored := openAt(t, "sqlite:"+path, Options{})
	for _, name := range []string{"c", "d"} {
		if _, _, err := restored.Changes(t.Context(), lost); !errors.Is(err, store.ErrFeedLost) {
			t.Errorf("the position of the lost history: %v", err)
		}
		if _, _, err := restored.Changes(t.Context(), saved); err != nil {
			t.Errorf("the position of the backup: %v", err)
		}
		// After this put, the revision of the lost position exists again, with another tag.
		putNumbered(t, restored, name, 1)
	}
}

// TestPruneLeavesNoHole writes with a clock that was set back: the newer entry looks older.
func TestPruneLeavesNoHole(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	s := migrated(t, newSQLite(t), Options{Clock: func() time.Time { return now }})
	putNumbered(t, s, "a", 1)
	_, reader, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(-2 * time.Hour)
	term := putNumbered(t, s, "b", 1)
	if err := s.Delete(t.Context(), term, numbered("b", 1).Owner); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	if err := s.Prune(t.Context(), term, time.Hour); err != nil {
		t.Fatal(err)
	}
	changes, _, err := s.Changes(t.Context(), reader)
	if err != nil || len(changes) != 1 || !changes[0].Deleted {
		t.Errorf("got %v, %v: the deletion was pruned although the log still has the reader's position", changes, err)
	}
}

func TestNewerSchemaIsAccepted(t *testing.T) {
	t.Parallel()
	for engine, newURL := range tabled {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			s := migrated(t, newURL(t), Options{})
			on := s.db.Writes()
			for _, c := range []struct {
				statement string
				want      error
			}{
				{`UPDATE schema_version SET version_id = version_id + 100 WHERE version_id > 0`, nil},
				{`DELETE FROM schema_version WHERE version_id > 0`, store.ErrSchema},
			} {
				if _, err := on.Exec(t.Context(), c.statement); err != nil {
					t.Fatal(err)
				}
				if err := s.CheckSchema(t.Context()); !errors.Is(err, c.want) {
					t.Errorf("after %s: %v", c.statement, err)
				}
			}
		})
	}
}

func migrated(t testing.TB, url string, opts Options) *Store {
	t.Helper()
	s := openAt(t, url, opts)
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// putNumbered puts a new document under a new term, which it returns.
func putNumbered(t testing.TB, s *Store, name string, n int64) store.Term {
	t.Helper()
	term, err := s.Acquire(context.Background(), "install", 0)
	if err == nil {
		_, err = s.Put(context.Background(), term, numbered(name, n))
	}
	if err != nil {
		t.Fatal(err)
	}
	return term
}
