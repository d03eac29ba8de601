package backup_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store/backup"
	"github.com/cardea-iam/cardea/store/people"
	"github.com/cardea-iam/cardea/store/sqlstore"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

const home = "acme/home"

// engines maps each engine to a function that returns the URL of a new, empty store.
var engines = map[string]func(*testing.T) string{
	"sqlite":   func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "cardea.db") },
	"postgres": func(t *testing.T) string { return pgtest.ForTest(t) },
}

func open(t *testing.T, url string) *sqlstore.Store {
	t.Helper()
	st, err := sqlstore.Open(t.Context(), url, sqlstore.Options{Clock: time.Now, Logger: logr.Discard()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	return st
}

func rootKey(t *testing.T, fill byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "root.key")
	if err := os.WriteFile(file, bytes.Repeat([]byte{fill}, 32), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func ring(t *testing.T, fills ...byte) *seal.Keyring {
	t.Helper()
	var files []string
	for _, fill := range fills {
		files = append(files, rootKey(t, fill))
	}
	r, err := seal.Load(files)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// addPair adds two users, whose ids differ only in the last bit, in one transaction.
func addPair(ctx context.Context, st *sqlstore.Store, n int64) error {
	return st.Change(ctx, home, func(tx people.Tx) error {
		for _, id := range []int64{2 * n, 2*n + 1} {
			at := time.Now()
			err := tx.Users().InsertUser(people.User{ID: id, CreatedAt: at}, people.Email{ID: id, User: id, Address: fmt.Sprintf("%d@example.com", id), Primary: true, VerifiedAt: at, CreatedAt: at})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func users(t *testing.T, st *sqlstore.Store) map[int64]bool {
	t.Helper()
	ids := map[int64]bool{}
	err := st.View(t.Context(), home, func(tx people.Tx) error {
		for offset := 0; ; offset += 100 {
			page, _, err := tx.Users().ListUsers(people.UserFilter{}, 100, offset)
			if err != nil || len(page) == 0 {
				return err
			}
			for _, u := range page {
				ids[u.ID] = true
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestBackupUnderLoadRestoresOneMoment(t *testing.T) {
	t.Parallel()
	for engine, url := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			from := url(t)
			st := open(t, from)
			if err := st.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			for n := range int64(20) {
				if err := addPair(t.Context(), st, n+1); err != nil {
					t.Fatal(err)
				}
			}
			loading, end := context.WithCancel(t.Context())
			var load sync.WaitGroup
			began := make(chan struct{})
			load.Go(func() {
				for n := int64(100); loading.Err() == nil; n++ {
					err := addPair(t.Context(), st, n)
					if err != nil {
						t.Error(err)
					}
					if n == 110 || err != nil && n < 110 {
						close(began)
					}
					if err != nil {
						return
					}
				}
			})
			<-began
			file := filepath.Join(t.TempDir(), "cardea.backup")
			m, err := backup.Take(t.Context(), from, file, "v1", ring(t, 7))
			end()
			load.Wait()
			if err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v: only its owner may read it", info.Mode(), err)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(file), ".cardea-backup-*")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}

			to := url(t)
			if _, err := backup.Restore(t.Context(), to, file, ring(t, 9, 7), false); err != nil {
				t.Fatal(err)
			}
			restored := open(t, to)
			if err := restored.CheckSchema(t.Context()); err != nil {
				t.Fatal(err)
			}
			held := users(t, restored)
			if len(held) < 2*(20+11) {
				t.Errorf("%d users were restored, fewer than were acknowledged before the backup", len(held))
			}
			for id := range held {
				if !held[id^1] {
					t.Errorf("user %d was restored without the other user of its transaction", id)
				}
			}
			if m.Engine != engine || m.StoreID == "" {
				t.Errorf("%+v", m)
			}
			if _, err := backup.Restore(t.Context(), to, file, ring(t, 7), false); !errors.Is(err, sqlstore.ErrNotEmpty) && engine == "postgres" {
				t.Errorf("restored over it: %v", err)
			}
			if err := restored.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := backup.Restore(t.Context(), to, file, ring(t, 7), false); !errors.Is(err, sqlstore.ErrNotEmpty) {
				t.Errorf("restored over it: %v", err)
			}
		})
	}
}

// rewrite writes a copy of a backup with a changed manifest and with more appended to its content. It returns the
// copy's path.
func rewrite(t *testing.T, file string, change func(*backup.Manifest), more string) string {
	t.Helper()
	in, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	var out bytes.Buffer
	r, w := tar.NewReader(in), tar.NewWriter(&out)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(header.Name, ".json") {
			var m backup.Manifest
			if err := json.Unmarshal(content, &m); err != nil {
				t.Fatal(err)
			}
			change(&m)
			if content, err = json.Marshal(m); err != nil {
				t.Fatal(err)
			}
		} else {
			content = append(content, more...)
		}
		header.Size = int64(len(content))
		if err := errors.Join(w.WriteHeader(header), func() error { _, err := w.Write(content); return err }()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	written := filepath.Join(t.TempDir(), "rewritten")
	if err := os.WriteFile(written, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return written
}

func TestRestoreRefusesBeforeWriting(t *testing.T) {
	t.Parallel()
	from := engines["sqlite"](t)
	if err := open(t, from).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cardea.backup")
	if _, err := backup.Take(t.Context(), from, file, "v1", ring(t, 7)); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		file, store string
		ring        *seal.Keyring
		want        error
		says        string
	}{
		"a newer schema":       {rewrite(t, file, func(m *backup.Manifest) { m.Schema++; m.Release = "v9" }, ""), "", ring(t, 7), backup.ErrNewer, "use v9"},
		"a newer form":         {rewrite(t, file, func(m *backup.Manifest) { m.Format = 2; m.Release = "v9" }, ""), "", ring(t, 7), backup.ErrNoBackup, "cardea of v9"},
		"another root key":     {file, "", ring(t, 8), backup.ErrRootKey, "--root-key"},
		"no root key":          {file, "", ring(t), backup.ErrRootKey, "--root-key"},
		"another engine":       {file, "postgres://cardea:hunter2@127.0.0.1:1/cardea", ring(t, 7), backup.ErrEngine, "sqlite"},
		"a changed manifest":   {rewrite(t, file, func(m *backup.Manifest) { m.StoreID = "another" }, ""), "", ring(t, 7), backup.ErrOrigin, "MAC"},
		"a wrong MAC":          {rewrite(t, file, func(m *backup.Manifest) { m.MAC = strings.Repeat("00", 32) }, ""), "", ring(t, 7), backup.ErrOrigin, "MAC"},
		"a MAC that is none":   {rewrite(t, file, func(m *backup.Manifest) { m.MAC = "x" }, ""), "", ring(t, 7), backup.ErrOrigin, "MAC"},
		"a MAC without keys":   {rewrite(t, file, func(m *backup.Manifest) { m.RootKeys = nil }, ""), "", ring(t), backup.ErrOrigin, "--root-key"},
		"no MAC":               {rewrite(t, file, func(m *backup.Manifest) { m.MAC = "" }, ""), "", ring(t, 7), backup.ErrUnsigned, "--accept-unsigned"},
		"damaged":              {rewrite(t, file, func(*backup.Manifest) {}, "x"), "", ring(t, 7), backup.ErrNoBackup, "damaged"},
		"no archive":           {text, "", ring(t, 7), backup.ErrNoBackup, "archive"},
		"no file":              {filepath.Join(t.TempDir(), "none"), "", ring(t, 7), backup.ErrNoBackup, "no such file"},
		"a store that is used": {file, from, ring(t, 7), nil, "in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := c.store
			folder := t.TempDir()
			if store == "" {
				store = "sqlite://" + filepath.Join(folder, "cardea.db")
			}
			_, err := backup.Restore(t.Context(), store, c.file, c.ring, false)
			if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("%v, want %v with %q", err, c.want, c.says)
			}
			if written, _ := os.ReadDir(folder); len(written) > 0 {
				t.Errorf("%v was written", written)
			}
		})
	}
	if _, err := backup.Take(t.Context(), from, file, "v1", ring(t, 7)); err == nil || !strings.Contains(err.Error(), "is there already") {
		t.Errorf("overwrote a backup: %v", err)
	}
}

// TestUnsignedBackupNeedsAcceptUnsigned: a backup of an older release or of an install without root keys has no MAC. A
// wrong MAC is never accepted.
func TestUnsignedBackupNeedsAcceptUnsigned(t *testing.T) {
	t.Parallel()
	from := engines["sqlite"](t)
	if err := open(t, from).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	take := func(fills ...byte) string {
		file := filepath.Join(t.TempDir(), "cardea.backup")
		m, err := backup.Take(t.Context(), from, file, "v1", ring(t, fills...))
		if err != nil || (m.MAC != "") != (len(fills) > 0) {
			t.Fatalf("a MAC %q with %d root keys, %v", m.MAC, len(fills), err)
		}
		return file
	}
	signed := take(7)
	for name, c := range map[string]struct {
		file   string
		ring   *seal.Keyring
		accept bool
		want   error
	}{
		"of an older release":               {rewrite(t, signed, func(m *backup.Manifest) { m.MAC = "" }, ""), ring(t, 7), true, nil},
		"without root keys":                 {take(), ring(t), true, nil},
		"without root keys, not accepted":   {take(), ring(t), false, backup.ErrUnsigned},
		"a wrong MAC":                       {rewrite(t, signed, func(m *backup.Manifest) { m.StoreID = "another" }, ""), ring(t, 7), true, backup.ErrOrigin},
		"of the root key before a rotation": {signed, ring(t, 9, 7), false, nil},
		"in the middle of a rotation":       {take(9, 7), ring(t, 7, 9), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := backup.Restore(t.Context(), engines["sqlite"](t), c.file, c.ring, c.accept); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

// The password is in no error and on no command line, and pg_dump connects to the same host as Cardea, whatever the
// form of the URL.
func TestPostgresToolsGetPasswordByEnvironment(t *testing.T) {
	server := pgtest.ForTest(t)
	if err := open(t, server).Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	query := at.Query()
	query.Set("host", at.Hostname())
	query.Set("port", at.Port())
	hidden := url.URL{Scheme: "postgres", User: url.UserPassword(at.User.Username(), "hunter2"), Path: at.Path, RawQuery: query.Encode()}
	programs, said := t.TempDir(), filepath.Join(t.TempDir(), "said")
	script := "#!/bin/sh\n{ echo \"arguments: $*\"; echo \"$PGHOST:$PGPORT/$PGDATABASE as $PGUSER by $PGPASSWORD\"; } >" + said + "\necho no space >&2\nexit 1\n"
	if err := os.WriteFile(filepath.Join(programs, "pg_dump"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	file := filepath.Join(t.TempDir(), "cardea.backup")
	_, err = backup.Take(t.Context(), hidden.String(), file, "v1", ring(t, 7))
	if err == nil || !strings.Contains(err.Error(), "no space") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v, want the message of pg_dump, without the password", err)
	}
	told, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	arguments, environment, _ := strings.Cut(string(told), "\n")
	if strings.Contains(arguments, "hunter2") || !strings.Contains(arguments, "--no-password") {
		t.Error(arguments)
	}
	if want := fmt.Sprintf("%s:%s%s as %s by hunter2\n", at.Hostname(), at.Port(), at.Path, at.User.Username()); environment != want {
		t.Errorf("%q, want %q", environment, want)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an incomplete backup was left behind: %v", err)
	}
}

func TestUnavailablePostgresErrorHasNoPassword(t *testing.T) {
	t.Parallel()
	_, err := backup.Take(t.Context(), "postgres://cardea:hunter2@127.0.0.1:1/cardea?connect_timeout=1", filepath.Join(t.TempDir(), "b"), "v1", ring(t, 7))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Fatal(err)
	}
}
