package db

import (
	"context"
	"errors"
	"net"
	"sync"
	"syscall"
	"time"
)

const (
	// connectTimeout bounds a dial to the only host of a URL, and hostTimeout a dial to each of several: callers that wait
	// for a connection must have time left for the next host.
	connectTimeout, hostTimeout = 5 * time.Second, time.Second
	// lostTimeout bounds a dial to a host that did not answer the last dial, if the URL has other hosts.
	lostTimeout = 200 * time.Millisecond
)

// hosts dials the hosts of a URL, and remembers which of several did not answer.
type hosts struct {
	dial    func(ctx context.Context, network, address string) (net.Conn, error)
	several bool
	// ended is called when a connection ended because its host stopped answering: other connections to this host are lost
	// too.
	ended func()

	mu   sync.Mutex
	lost map[string]bool
}

// connect dials a host.
func (h *hosts) connect(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := h.reach(ctx, network, address)
	if err != nil || h.ended == nil {
		return conn, err
	}
	return &hostConn{conn, h.ended}, nil
}

func (h *hosts) reach(ctx context.Context, network, address string) (net.Conn, error) {
	if !h.several {
		return h.dial(ctx, network, address)
	}
	h.mu.Lock()
	lost := h.lost[address]
	h.mu.Unlock()
	within := ctx
	if lost {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeout(ctx, lostTimeout)
		defer cancel()
	}
	begun := time.Now()
	conn, err := h.dial(within, network, address)
	// If the caller had less time than lostTimeout, a failure proves nothing about the host.
	if silent := err != nil && time.Since(begun) >= lostTimeout; silent || err == nil {
		h.mu.Lock()
		if h.lost[address] = silent; !silent {
			delete(h.lost, address)
		}
		h.mu.Unlock()
	}
	return conn, err
}

// hostConn is a connection that reports when its host stopped answering.
type hostConn struct {
	net.Conn
	ended func()
}

// Read implements net.Conn.
func (c *hostConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	if errors.Is(err, syscall.ETIMEDOUT) {
		c.ended()
	}
	return n, err
}
