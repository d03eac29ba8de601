package db

import (
	"net"
	"testing"
	"time"

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
