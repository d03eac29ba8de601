package sqlstore

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore/config"
)

// crashChildEnv is an environment variable with the URL of a store. It makes this test binary a writer on that store.
const crashChildEnv = "CARDEA_TEST_CRASH_URL"

func numbered(name string, n int64) store.Put {
	return store.Put{
		Document: store.Document{
			Owner:      store.Owner{Identity: store.Identity{Kind: "Role", Namespace: "apps", Name: name}, UID: "u"},
			Generation: n, Deployment: "apps/main", ID: n + 1, Key: name, Hash: fmt.Sprint(n), Payload: []byte(`{"v":1}`),
		},
		Reservations: []string{"slug/" + name},
	}
}

// crashRollUpEnv is an environment variable that makes the child process roll up events instead.
const crashRollUpEnv = "CARDEA_TEST_CRASH_ROLLUP"

// crashChild writes from several goroutines until it is killed, and prints the name of each acknowledged document.
func crashChild() int {
	ctx := context.Background()
	s, err := Open(ctx, os.Getenv(crashChildEnv), Options{})
	if err == nil {
		err = s.Migrate(ctx)
	}
	if err == nil && os.Getenv(crashRollUpEnv) != "" {
		return rollUpUntilNothingWaits(ctx, s, os.Stdout)
	}
	var term store.Term
	if err == nil {
		term, err = s.Acquire(ctx, "install", 0)
	}
	var group sync.WaitGroup
	for writer := range 8 {
		group.Go(func() {
			for n := int64(0); err == nil; n++ {
				name := fmt.Sprintf("w%d-%d", writer, n)
				if _, failed := s.Put(ctx, term, numbered(name, n)); failed != nil {
					fmt.Fprintln(os.Stderr, failed)
					return
				}
				fmt.Println(name)
			}
		})
	}
	group.Wait()
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestKilledProcessLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	url := newSQLite(t)
	for round := range 3 {
		t.Run(fmt.Sprint("round ", round), func(t *testing.T) {
			acknowledged := runUntilKilled(t, url, 150)
			s := openAt(t, url, Options{})
			documents, position, err := s.Load(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			held := map[string]bool{}
			for _, document := range documents {
				held[document.Name] = true
				if document.Revision > position.Revision {
					t.Errorf("%s has revision %d, above the feed's %d", document.Name, document.Revision, position.Revision)
				}
				whole, err := s.Stored(t.Context(), document.Identity)
				if err != nil || len(whole.Reservations) != 1 {
					t.Errorf("%s is half written: reservations %v, %v", document.Name, whole.Reservations, err)
				}
			}
			for _, name := range acknowledged {
				if !held[name] {
					t.Errorf("%s was acknowledged and is gone", name)
				}
			}
			term, err := s.Acquire(t.Context(), "install", 0)
			if err != nil {
				t.Fatal(err)
			}
			deleteAll(t, s, term, contentOf(t, s))
		})
	}
}

// runUntilKilled starts a child process, kills it after it has printed the given number of lines, and returns all the
// lines it printed.
func runUntilKilled(t *testing.T, url string, after int, env ...string) []string {
	child := exec.Command(os.Args[0])
	child.Env = append(append(os.Environ(), crashChildEnv+"="+url), env...)
	child.Stderr = os.Stderr
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for lines := bufio.NewScanner(output); lines.Scan(); {
		names = append(names, lines.Text())
		if len(names) == after {
			if err := child.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	// Wait returns an error, because the child was killed.
	_ = child.Wait()
	if len(names) < after {
		t.Fatalf("the child ended by itself after %d writes", len(names))
	}
	return names
}

// deleteAll deletes the documents of a store.
func deleteAll(t *testing.T, s *Store, term store.Term, held content) {
	t.Helper()
	var ops []config.Op
	for _, h := range held.documents {
		ops = append(ops, config.Op{Verb: config.VerbDelete, Term: term, Put: store.Put{Document: h.Document}})
	}
	for _, r := range config.CommitBatch(t.Context(), s.Documents, ops) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
}
