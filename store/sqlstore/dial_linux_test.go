package sqlstore

import (
	"net"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

func TestConnectionsToPostgreSQLEndSoonAfterTheirHostVanished(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	conn, err := dialer(time.Second).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	err = raw.Control(func(fd uintptr) {
		for _, option := range []struct{ name, want int }{
			{unix.TCP_USER_TIMEOUT, 5000}, {unix.TCP_KEEPIDLE, 5}, {unix.TCP_KEEPINTVL, 1}, {unix.TCP_KEEPCNT, 3},
		} {
			if got, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, option.name); err != nil || got != option.want {
				t.Errorf("option %d is %d, %v; want %d", option.name, got, err, option.want)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestBackupTriesEveryHostOfTheURL(t *testing.T) {
	t.Parallel()
	for url, want := range map[string][2]string{
		"postgres://cardea@a:5432,b:5433/cardea?target_session_attrs=read-write&sslmode=prefer": {"a,b", "5432,5433"},
		"postgres://cardea@a/cardea?sslmode=disable":                                            {"a", "5432"},
		"postgres:///cardea?host=a,b&port=1,2&user=cardea&sslmode=disable":                      {"a,b", "1,2"},
	} {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			t.Fatal(err)
		}
		if hosts, ports := hostsOf(config); hosts != want[0] || ports != want[1] {
			t.Errorf("%s: %q %q, want %q", url, hosts, ports, want)
		}
	}
}
