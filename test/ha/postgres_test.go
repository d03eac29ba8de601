package ha

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/cardea-iam/cardea/store/storetest/pgtest"
	"github.com/cardea-iam/cardea/test/testkit"
)

// TestConnectionsToVanishedHostAreAbandoned drops every packet of the primary's host, as when its power fails, and
// promotes the standby.
func TestConnectionsToVanishedHostAreAbandoned(t *testing.T) {
	if os.Getenv("CARDEA_HA") == "" {
		t.Skip("takes minutes: make ha")
	}
	host, err := pgtest.NewHost(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	w := newWorld(t, host)
	revoked := w.addKey("revoked")
	w.must(host.Vanish(t.Context()))
	w.must(w.standby.Promote(t.Context()))
	w.deleteKey("revoked")
	w.until("from the host's end until a deleted key is refused", w.everywhere(answers(revoked, schemes, http.StatusUnauthorized)))
	n := 0
	w.until("then until people sign up", w.everywhere(func(*testkit.Cardea) error {
		n++
		return w.SignUp(testkit.NewVisitor(w.Host, fmt.Sprintf("after-%d@example.com", n), fmt.Sprintf("31.0.%d.1", n)))
	}))
}

// TestStandbyThatMissedWritesConverges promotes an asynchronous standby that lacks acknowledged writes. No process is
// restarted.
func TestStandbyThatMissedWritesConverges(t *testing.T) {
	w := newWorld(t, nil)
	revoked := w.addKey("revoked")
	w.must(testkit.Until(t.Context(), "the standby has the key", func() error {
		return w.standby.Do(t.Context(), "cardea", "SELECT 1 / count(*) FROM documents WHERE kind = 'APIKey' AND name = 'revoked'")
	}))
	w.must(w.standby.StopReceiving(t.Context()))
	w.must(testkit.Until(t.Context(), "the standby receives nothing", func() error {
		return w.standby.Do(t.Context(), "postgres", "SELECT 1 / (SELECT 1 - count(*) FROM pg_stat_wal_receiver)")
	}))
	w.deleteKey("revoked")
	issued := w.addKey("issued")
	w.must(testkit.Until(t.Context(), "the deleted key is refused", w.everywhere(answers(revoked, schemes, http.StatusUnauthorized))))
	w.must(w.primary.Kill())
	w.must(w.standby.Promote(t.Context()))
	// A loss shows only once the servers follow the promoted standby, which is when they serve a new scheme.
	w.until("from the promotion until a scheme that is made now is served", func() error {
		w.addScheme("after")
		return w.everywhere(answers(w.Key, schemes+"/after", http.StatusOK))()
	})
	w.until("then until what is declared is active again", w.everywhere(func(server *testkit.Cardea) error {
		if err := answers(issued, schemes, http.StatusOK)(server); err != nil {
			return err
		}
		return answers(revoked, schemes, http.StatusUnauthorized)(server)
	}))
}

// TestASynchronousStandbyLosesNothing kills the primary under writes, and promotes its synchronous standby.
func TestASynchronousStandbyLosesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.must(w.primary.Do(t.Context(), "postgres", "ALTER SYSTEM SET synchronous_standby_names = 'standby'", "SELECT pg_reload_conf()"))
	found := w.write()
	w.must(testkit.Until(t.Context(), "writes are acknowledged", func() error {
		return w.primary.Do(t.Context(), "cardea", "SELECT 1 / (count(*) / 5) FROM documents WHERE kind = 'RateLimitScheme'")
	}))
	w.must(w.primary.Kill())
	w.must(w.standby.Do(t.Context(), "postgres", "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()"))
	w.must(w.standby.Promote(t.Context()))
	w.until("from the promotion until a write is acknowledged", func() error {
		if !w.addScheme("after") && answers(w.Key, schemes+"/after", http.StatusOK)(w.Servers[0]) != nil {
			return fmt.Errorf("not acknowledged")
		}
		return nil
	})
	found.end()
	w.expectAll(found)
}

// TestABackupFindsThePrimary makes a backup with the URL of both hosts, before and after a failover.
func TestABackupFindsThePrimary(t *testing.T) {
	w := newWorld(t, nil)
	backup := func(name string) {
		t.Helper()
		command := exec.CommandContext(t.Context(), w.Processes.Binary(), "backup", filepath.Join(t.TempDir(), name), "--root-key="+w.Processes.Path("root.key"))
		command.Env = append(os.Environ(), "CARDEA_STORE="+w.url)
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", name, err, out)
		}
	}
	backup("before")
	w.must(w.primary.Kill())
	w.must(w.standby.Promote(t.Context()))
	backup("after")
}
