package pgtest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Pooled starts a PgBouncer in transaction mode in front of the database of a URL, with two connections to it. It
// returns the database's URL through the pooler, which runs until the test ends.
func Pooled(t testing.TB, to string) string {
	t.Helper()
	through, err := startPooler(t, to)
	if err != nil {
		t.Fatal(err)
	}
	return through
}

func startPooler(t testing.TB, to string) (string, error) {
	server, err := url.Parse(to)
	if err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	folder, err := os.MkdirTemp("", "pgbouncer-")
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	settings := fmt.Sprintf(`[databases]
* = host=%s port=%s
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = trust
auth_file = %s
pool_mode = transaction
default_pool_size = 2
ignore_startup_parameters = statement_timeout,lock_timeout,idle_in_transaction_session_timeout,jit,extra_float_digits
`, server.Hostname(), server.Port(), port, filepath.Join(folder, "users"))
	files := map[string]string{"settings.ini": settings, "users": strconv.Quote(server.User.Username()) + ` ""` + "\n"}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	credential, err := giveAway(folder)
	if err != nil {
		return "", err
	}
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		program = "/usr/sbin/pgbouncer" // Debian installs it outside of PATH
	}
	var said strings.Builder
	command := exec.Command(program, filepath.Join(folder, "settings.ini"))
	command.Stdout, command.Stderr = &said, &said
	command.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if err := command.Start(); err != nil {
		return "", fmt.Errorf("start PgBouncer (hack/install-deps.sh installs it): %w", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	server.Host = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	return server.String(), answers(t.Context(), server.Host)
}

// answers waits until a process listens at an address, for at most a minute.
func answers(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("PgBouncer does not listen: %w", err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
