package db

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// If a host vanishes (power, network), its connections stay open, because no packet arrives. These constants bound how
// long such a connection seems alive: 5 s of unacknowledged data, or 5 s of silence and three probes a second apart.
const (
	unacknowledgedAfter = 5 * time.Second
	silentAfter         = 5 * time.Second
	probeInterval       = time.Second
	probes              = 3
)

// dialer returns a dialer to PostgreSQL. Its connections end within unacknowledgedAfter, or silentAfter and the probes,
// after their host is lost. timeout bounds the dial.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silentAfter, Interval: probeInterval, Count: probes},
		Control: func(network, _ string, conn syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			var failed error
			err := conn.Control(func(fd uintptr) {
				failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(unacknowledgedAfter.Milliseconds()))
			})
			if err != nil {
				return err
			}
			return failed
		},
	}
}
