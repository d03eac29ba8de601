package sqlstore

import (
	"errors"
	"testing"

	"github.com/cardea-iam/cardea/store"
)

// A store that lost acknowledged writes, such as a promoted asynchronous standby, fences the term that wrote them.
func TestStoreWithLostWritesFencesTerm(t *testing.T) {
	t.Parallel()
	exec := func(t *testing.T, s *Store, statements ...string) {
		t.Helper()
		for _, statement := range statements {
			if _, err := s.db.Writers.ExecContext(t.Context(), statement); err != nil {
				t.Fatalf("%s: %v", statement, err)
			}
		}
	}
	for name, c := range map[string]struct {
		change []string
		fenced bool
	}{
		"nothing lost":               {nil, false},
		"the last write lost":        {[]string{`DELETE FROM documents WHERE name = 'b'`, `DELETE FROM feed WHERE revision = 2`, `UPDATE store SET revision = 1, tag = (SELECT tag FROM feed WHERE revision = 1)`}, true},
		"another write in its place": {[]string{`UPDATE feed SET tag = 'another' WHERE revision = 2`, `UPDATE store SET tag = 'another'`}, true},
		"a commit without an answer": {[]string{`INSERT INTO feed (revision, tag, kind, namespace, name, deleted, written_at) VALUES (3, 'unanswered', 'Thing', 'ns', 'c', 0, 0)`, `UPDATE store SET revision = 3, tag = 'unanswered'`}, false},
	} {
		for _, by := range []string{"heartbeat", "put", "delete"} {
			t.Run(name+", "+by, func(t *testing.T) {
				t.Parallel()
				s := migrated(t, newSQLite(t), Options{})
				term := putNumbered(t, s, "a", 1)
				second := numbered("b", 1)
				if _, err := s.Put(t.Context(), term, second); err != nil {
					t.Fatal(err)
				}
				exec(t, s, c.change...)
				write := func(term store.Term, name string) error {
					switch by {
					case "put":
						_, err := s.Put(t.Context(), term, numbered(name, 1))
						return err
					case "delete":
						return s.Delete(t.Context(), term, numbered("a", 1).Owner)
					}
					return s.Heartbeat(t.Context(), term)
				}
				if err := write(term, "d"); errors.Is(err, store.ErrFenced) != c.fenced || !c.fenced && err != nil {
					t.Fatalf("got %v, want fenced: %v", err, c.fenced)
				}
				again, err := s.Acquire(t.Context(), "install", 0)
				if err != nil {
					t.Fatal(err)
				}
				if err := write(again, "e"); err != nil {
					t.Errorf("acquired again: %v", err)
				}
			})
		}
	}
}
