package servertest

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"github.com/cardea-iam/cardea/internal/seal"
	"github.com/cardea-iam/cardea/store"
	"github.com/cardea-iam/cardea/store/sqlstore"
)

const (
	// killedURLEnv makes a test binary a server with the store of that URL. The other variables give the server's time
	// and root key.
	killedURLEnv, killedClockEnv, killedKeyEnv = "CARDEA_TEST_KILLED_URL", "CARDEA_TEST_KILLED_CLOCK", "CARDEA_TEST_KILLED_KEY"
	// KillAtHeader names the statement before which that server kills itself, from 1.
	KillAtHeader = "X-Kill-At"
)

// KilledProcess is what a server that kills itself serves with.
type KilledProcess struct {
	Store   store.Store
	Keyring *seal.Keyring
	Clock   func() time.Time
}

// IsKillable reports whether this process is one that Killable started: its TestMain calls ServeUntilKilled.
func IsKillable() bool { return os.Getenv(killedURLEnv) != "" }

// ServeUntilKilled serves a store, and kills itself at the point that a request names: before a statement on users'
// rows or, after all statements, before the response. It prints its address, and "answered" if it dies with a complete
// response. Only the request may run statements: handler returns a server without background work.
func ServeUntilKilled(handler func(KilledProcess) (http.Handler, error)) error {
	micros, err := strconv.ParseInt(os.Getenv(killedClockEnv), 10, 64)
	if err != nil {
		return err
	}
	p := KilledProcess{Clock: func() time.Time { return time.UnixMicro(micros).UTC() }}
	if p.Keyring, err = seal.Load([]string{os.Getenv(killedKeyEnv)}); err != nil {
		return err
	}
	var left atomic.Int64
	die := func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }
	p.Store, err = sqlstore.Open(context.Background(), os.Getenv(killedURLEnv), sqlstore.Options{
		Clock: p.Clock, Logger: logr.Discard(), Trace: func(string, []any) {
			if left.Add(-1) == 0 {
				die()
			}
		},
	})
	if err != nil {
		return err
	}
	inner, err := handler(p)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		nth, err := strconv.ParseInt(r.Header.Get(KillAtHeader), 10, 64)
		if err != nil {
			inner.ServeHTTP(w, r)
			return
		}
		left.Store(nth)
		inner.ServeHTTP(httptest.NewRecorder(), r)
		fmt.Println("answered")
		die()
	})
	fmt.Println(listener.Addr())
	return http.Serve(listener, served) //nolint:gosec // a test's, on loopback
}

// Killable is a server in its own process: this test binary again.
type Killable struct {
	// URL is where the process serves.
	URL     string
	t       testing.TB
	env     []string
	clock   *Clock
	running *exec.Cmd
	said    *bufio.Scanner
}

// Killable returns a server for the world's store, which is not running yet. It closes the world's store, because only
// the process may use it.
func (w *World) Killable() *Killable {
	w.T.Helper()
	w.Must(w.Store.Close())
	key := filepath.Join(w.T.TempDir(), "root.key")
	w.Must(os.WriteFile(key, RootKey, 0o600))
	return &Killable{t: w.T, clock: w.Clock, env: []string{"GOGC=off", killedURLEnv + "=" + w.URL, killedKeyEnv + "=" + key}}
}

// Start starts the process, whose clock stands still at the world's time. It lives too shortly to collect garbage.
func (k *Killable) Start() {
	k.t.Helper()
	k.running = exec.Command(os.Args[0])
	now := killedClockEnv + "=" + strconv.FormatInt(k.clock.Now().UnixMicro(), 10)
	k.running.Env, k.running.Stderr = append(append(os.Environ(), k.env...), now), os.Stderr
	out, err := k.running.StdoutPipe()
	if err != nil {
		k.t.Fatal(err)
	}
	if err := k.running.Start(); err != nil {
		k.t.Fatal(err)
	}
	process := k.running.Process
	k.t.Cleanup(func() { _ = process.Kill() })
	if k.said = bufio.NewScanner(out); !k.said.Scan() {
		k.t.Fatal("the server did not start")
	}
	k.URL = "http://" + k.said.Text()
}

// Killed waits for the process to end, and reports whether its response was complete.
func (k *Killable) Killed() (answered bool) {
	k.t.Helper()
	for k.said.Scan() {
		answered = answered || k.said.Text() == "answered"
	}
	_ = k.running.Wait() // the error is that the process was killed
	if status, ok := k.running.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		k.t.Fatalf("the server ended by itself: %v", k.running.ProcessState)
	}
	return answered
}

// Stop kills the process.
func (k *Killable) Stop() {
	k.t.Helper()
	if err := k.running.Process.Kill(); err != nil {
		k.t.Fatal(err)
	}
	k.Killed()
}
