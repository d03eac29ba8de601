package shared

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/cardea-iam/cardea/internal/scheme"
)

// newSentinel starts a Sentinel for the master at a port, under the name limits. It regards half a second of silence as
// an outage, and needs no other Sentinel to agree.
func newSentinel(t *testing.T, master int) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, port: listener.Addr().(*net.TCPAddr).Port}
	settings := filepath.Join(t.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor limits 127.0.0.1 %d 1\nsentinel down-after-milliseconds limits 500\nsentinel failover-timeout limits 3000\n", s.port, master)
	if err := errors.Join(listener.Close(), os.WriteFile(settings, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command("redis-server", settings, "--sentinel")
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

// replicas returns how many replicas a Sentinel knows, -1 if it does not answer yet.
func (s *server) replicas() int {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{fmt.Sprintf("127.0.0.1:%d", s.port)}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		return -1
	}
	defer client.Close()
	known, err := client.Do(s.t.Context(), client.B().Arbitrary("SENTINEL", "replicas", "limits").Build()).ToArray()
	if err != nil {
		return -1
	}
	return len(known)
}

// replicated waits until a master's replica has everything that was counted so far. Replication is asynchronous: counts
// that the replica lacks when it is promoted are lost, and a window may admit as many more.
func (s *server) replicated() {
	s.t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{fmt.Sprintf("127.0.0.1:%d", s.port)}, DisableCache: true, ForceSingleClient: true})
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	err = client.Dedicated(func(one rueidis.DedicatedClient) error {
		written := one.Do(s.t.Context(), one.B().Arbitrary("SET", "waited-for", "1").Build()).Error()
		has, err := one.Do(s.t.Context(), one.B().Arbitrary("WAIT", "1", "10000").Build()).AsInt64()
		if err == nil && has != 1 {
			err = fmt.Errorf("%d replicas have what was written", has)
		}
		return errors.Join(written, err)
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// TestSentinelsPromoteAReplicaUnderLoad: the master is killed when its replica has everything that was counted, and
// Sentinel promotes the replica. The servers continue with their parts, find the new master by themselves, and stay
// near the limit.
func TestSentinelsPromoteAReplicaUnderLoad(t *testing.T) {
	if os.Getenv("CARDEA_HA") == "" {
		t.Skip("takes half a minute: make ha")
	}
	master := newServer(t)
	newServer(t, "--replicaof", "127.0.0.1", strconv.Itoa(master.port), "--repl-diskless-sync-delay", "0")
	sentinel := newSentinel(t, master.port)
	eventually(t, "Sentinel knows the replica", func() bool { return sentinel.replicas() == 1 })

	const limit, window = 3000, 5 * time.Second
	all := replicas(t, fmt.Sprintf("redis://127.0.0.1:%d/0?master_set=limits", sentinel.port), 2, scheme.Rule{Unit: "second", Duration: 5, MaxRequests: limit})
	shared(t, all)
	log, slowest, stop := load(all, 2, 1)
	eventually(t, "half is used", func() bool { return log.count() > limit/2 })
	master.replicated()
	killed := time.Now()
	master.kill()
	eventually(t, "every server noticed", func() bool { return all[0].Degraded() && all[1].Degraded() })
	shared(t, all)
	took := time.Since(killed)
	began := time.Now()
	eventually(t, "they share for a window", func() bool { return time.Since(began) > window })
	stop()
	most := log.most(window)
	t.Logf("at most %d in a window of %d; shared again %v after the kill; the slowest decision took %v", most, limit, took, time.Duration(slowest.Load()))
	if most > limit*outageMost/10 {
		t.Errorf("%d within one window, the limit is %d", most, limit)
	}
	if time.Duration(slowest.Load()) > time.Second {
		t.Errorf("a decision took %v", time.Duration(slowest.Load()))
	}
}
