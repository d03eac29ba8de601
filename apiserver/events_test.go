package apiserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/apiserver/servertest"
	backendapi "github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/store/backup"
	"github.com/cardea-iam/cardea/store/storetest/pgtest"
)

// restorable has a URL of an empty store by engine.
var restorable = map[string]func(t *testing.T) string{
	"sqlite":   func(t *testing.T) string { return "sqlite://" + filepath.Join(t.TempDir(), "restored.db") },
	"postgres": func(t *testing.T) string { return pgtest.ForTest(t) },
}

// adds creates users, and returns the cursor after their events.
func (w *replicas) adds(cursor string, users ...string) string {
	w.T.Helper()
	for _, name := range users {
		if status, answer := w.ask(0, w.admin, "POST", "/users", fmt.Sprintf(`{"email":"%s@person.example"}`, name)); status != http.StatusOK {
			w.T.Fatalf("%d %s", status, answer)
		}
	}
	for range users {
		list := w.events(cursor, 1)
		if len(list.Data) != 1 {
			w.T.Fatalf("%d events after %s", len(list.Data), cursor)
		}
		cursor = list.NextCursor
	}
	return cursor
}

// events waits for events after a cursor.
func (w *replicas) events(cursor string, limit int) (list backendapi.EventList) {
	w.T.Helper()
	status, answer := w.ask(0, w.admin, "GET", fmt.Sprintf("/events?wait=30&limit=%d&after=%s", limit, cursor), "")
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != http.StatusOK {
		w.T.Fatalf("after %s: %d %s", cursor, status, answer)
	}
	return list
}

// TestCursorsAfterTheBackupAreGoneInARestoredStore: a reader that has events which the restored store does not have is
// answered with 410, also when the store has as many events again. A reader from before the backup misses none.
func TestCursorsAfterTheBackupAreGoneInARestoredStore(t *testing.T) {
	t.Parallel()
	for engine, empty := range restorable {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			w := newReplicated(t, servertest.Engines[engine](t))
			w.servers = append(w.servers, w.start(w.Store))
			kept := w.adds("0-0", "ann", "bob")
			file := filepath.Join(t.TempDir(), "cardea.backup")
			_, err := backup.Take(t.Context(), w.URL, file, "test", w.Keyring)
			w.Must(err)
			third := w.adds(kept, "cem")
			fourth := w.adds(third, "dan")

			url := empty(t)
			_, err = backup.Restore(t.Context(), url, file, w.Keyring, false)
			w.Must(err)
			restored := &replicas{World: servertest.New(t, url, nil), admin: w.admin}
			restored.servers = append(restored.servers, restored.start(restored.Store))
			expectGone := func() {
				t.Helper()
				for _, cursor := range []string{third, fourth} {
					if status, answer := restored.ask(0, w.admin, "GET", "/events?wait=30&after="+cursor, ""); status != http.StatusGone || !strings.Contains(answer, `"earliest_cursor":"0-0"`) {
						t.Errorf("after %s: %d %s", cursor, status, answer)
					}
				}
			}
			expectGone()
			last := restored.adds(kept, "eve", "fay", "guy")
			expectGone()
			all := restored.events("0-0", 100)
			if len(all.Data) != 5 || all.NextCursor != last {
				t.Errorf("%d events, up to %s", len(all.Data), all.NextCursor)
			}
			for i, e := range all.Data {
				if e.Sequence != fmt.Sprint(i+1) {
					t.Errorf("the number of event %d is %s", i+1, e.Sequence)
				}
			}
		})
	}
}
