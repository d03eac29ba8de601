//go:build !linux

package db

import (
	"net"
	"time"
)

// dialer returns a dialer to PostgreSQL. Only Linux bounds how long sent data stays unacknowledged; on other systems
// the probes of a silent connection detect a lost host. timeout bounds the dial.
func dialer(timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 5 * time.Second, Interval: time.Second, Count: 3}}
}
