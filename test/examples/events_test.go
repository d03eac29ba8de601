package examples

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cardea-iam/cardea/client"
	"github.com/cardea-iam/cardea/client/backend"
	"github.com/cardea-iam/cardea/internal/testing/process"
)

// readModel is the file of the page's program.
type readModel struct {
	Cursor  string
	Members map[string]struct{ Organization, User string }
}

func TestReadModelIsRebuiltFromTheEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.numbers()
	application := built(t, block(t, eventsPage, "go", 0))
	dir := t.TempDir()
	file := filepath.Join(dir, "members.json")
	run := func(name string) (stop func()) {
		t.Helper()
		started, err := w.group.Start(process.Spec{Name: name, Path: application, Dir: dir, Env: []string{"CARDEA_BASE_URL=" + w.backend, "CARDEA_API_KEY=" + w.manager}, Ends: true})
		w.Must(err)
		stop = func() { started.Kill() }
		t.Cleanup(stop)
		return stop
	}
	read := func() (m readModel) {
		raw, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(raw, &m)
		}
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return m
	}
	stop := run("first")
	w.Eventually("the file has the member", func() bool { return len(read().Members) == 1 })
	before := read()
	stop()
	w.Must(os.Remove(file))
	stop = run("again")
	w.Eventually("the file is the same after it was deleted", func() bool { return len(read().Members) == 1 })
	for id, one := range before.Members {
		if read().Members[id] != one || one.Organization == "" || one.User == "" {
			t.Errorf("%+v, then %+v", before, read())
		}
	}
	stop()
	manager, err := backend.New(w.backend, client.WithToken(w.manager))
	w.Must(err)
	for _, one := range before.Members {
		w.Must(manager.DeleteUser(t.Context(), one.User))
	}
	w.numbers()
	run("later")
	w.Eventually("the program continues at its cursor, and deletes the member", func() bool {
		m := read()
		return len(m.Members) == 0 && m.Cursor != before.Cursor
	})
}

func TestScriptFeedsASIEM(t *testing.T) {
	t.Parallel()
	program(t, "jq", "install jq")
	w := newWorld(t)
	w.numbers()
	dir := t.TempDir()
	script := strings.Replace(block(t, eventsPage, "sh", 1), "wait=30", "wait=0", 1)
	feed := func() (lines []string) {
		w.run(dir, "sh", "-euc", script)
		raw, err := os.ReadFile(filepath.Join(dir, "siem.jsonl"))
		w.Must(err)
		return strings.Split(strings.TrimSpace(string(raw)), "\n")
	}
	first := feed()
	if all := strings.Join(first, ""); !strings.Contains(all, `"type":"user.created"`) || !strings.Contains(all, `"personal":{"email":"ada@example.com"`) {
		t.Errorf("the file has %s", all)
	}
	seen := map[string]bool{}
	for _, line := range feed() {
		var e backend.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || seen[e.Id] {
			t.Errorf("%s: again %t, %v", line, seen[e.Id], err)
		}
		seen[e.Id] = true
	}
	if len(seen) != len(first) {
		t.Errorf("%d events, then %d", len(first), len(seen))
	}
}
