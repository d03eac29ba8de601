package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cardea-iam/cardea/internal/ids"
	"github.com/cardea-iam/cardea/store/people"
)

const (
	// groupUsers is the number of users of the group, the largest one that a group may have, and sentMembers how many a
	// request adds: more do not fit in a body.
	groupUsers, sentMembers = people.MaxSCIMMembers, 25_000
	// insertedRound is how many users a transaction inserts.
	insertedRound = 5000
)

// TestBenchGroupsOfDirectories measures a group of 100,000 users: its members are added by PATCH, listed and removed,
// while another user asks for the session. One more member is refused.
func TestBenchGroupsOfDirectories(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for minutes")
	}
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		w := newDirectoryWorld(t, engine)
		users := w.insertUsers(t, groupUsers+1)
		w.groups(t, engine, users)
	}
}

// insertUsers inserts users without an account into the directory, and returns their ids.
func (w *directoryWorld) insertUsers(t *testing.T, n int) []string {
	t.Helper()
	directory, err := ids.Parse(w.directory)
	check(t, err)
	users := make([]string, n)
	for from := 0; from < n; from += insertedRound {
		check(t, w.store.Change(t.Context(), benchDeployment, func(tx people.Tx) error {
			for i := from; i < min(from+insertedRound, n); i++ {
				id, now := int64(1)<<40+int64(i), time.Now()
				users[i] = ids.Format(id)
				name := fmt.Sprintf("m%d", i)
				u := people.SCIMUser{ID: id, Directory: directory, Name: name, Active: true, Version: 1, Document: fmt.Sprintf(`{"userName":%q}`, name), CreatedAt: now, UpdatedAt: now}
				if err := tx.SCIM().InsertSCIMUser(u); err != nil {
					return err
				}
			}
			return nil
		}))
	}
	return users
}

func (w *directoryWorld) groups(t *testing.T, engine string, users []string) {
	t.Helper()
	created := w.scim("POST", "/Groups", `{"displayName":"Everyone"}`)
	var group struct {
		ID      string
		Members []json.RawMessage
	}
	check(t, json.Unmarshal(created.Body.Bytes(), &group))
	path := "/Groups/" + group.ID
	add := func(users []string, want int) time.Duration {
		t.Helper()
		body := `{"Operations":[{"op":"add","path":"members","value":[{"value":"` + strings.Join(users, `"},{"value":"`) + `"}]}]}`
		start := time.Now()
		if got := w.scim("PATCH", path+"?excludedAttributes=members", body); got.Code != want {
			t.Fatalf("PATCH of %d members: %d %.300s", len(users), got.Code, got.Body)
		}
		return time.Since(start)
	}
	var added atomic.Bool
	var asking sync.WaitGroup
	var busy []time.Duration
	asking.Go(func() { busy = w.sessions(t, added.Load) })
	defer asking.Wait() // a refused request ends the test
	defer added.Store(true)
	var took time.Duration
	for from := 0; from < groupUsers; from += sentMembers {
		took += add(users[from:from+sentMembers], http.StatusNoContent)
	}
	added.Store(true)
	asking.Wait()
	add(users[groupUsers:], http.StatusForbidden)
	start := time.Now()
	listed := w.scim("GET", path, "")
	listing := time.Since(start)
	if check(t, json.Unmarshal(listed.Body.Bytes(), &group)); len(group.Members) != groupUsers {
		t.Fatalf("the group has %d members", len(group.Members))
	}
	start = time.Now()
	if got := w.scim("PATCH", path+"?excludedAttributes=members", `{"Operations":[{"op":"remove","path":"members"}]}`); got.Code != http.StatusNoContent {
		t.Fatalf("removal: %d %.300s", got.Code, got.Body)
	}
	what := fmt.Sprintf("%s, a group of %d users", engine, groupUsers)
	row(what+": added by PATCH of "+fmt.Sprint(sentMembers), "reported", "%s", ms(took))
	row(what+": p99 of GET /session meanwhile", "reported", "%s (p50 %s)", ms(quantile(busy, 0.99)), ms(quantile(busy, 0.5)))
	row(what+": listed, removed", "reported", "%s, %s", ms(listing), ms(time.Since(start)))
}
