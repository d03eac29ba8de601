package delivery

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
)

// line is the connection that sends one mail. It is closed when its context ends, even while the mail client waits for
// the server. Send also closes it on all paths, because the mail client leaves it open on some.
type line struct {
	ctx  context.Context
	dial func(ctx context.Context, network, address string) (net.Conn, error)
	tls  *tls.Config // nil: the connection begins without TLS

	mu   sync.Mutex
	conn net.Conn
	stop func() bool
}

// open dials the connection, and performs the TLS handshake if tls is set.
func (l *line) open(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := l.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.conn = conn
	l.stop = context.AfterFunc(l.ctx, func() { _ = conn.Close() })
	l.mu.Unlock()
	if l.tls == nil {
		return conn, nil
	}
	encrypted := tls.Client(conn, l.tls)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return encrypted, nil
}

// connected reports whether the connection was made.
func (l *line) connected() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn != nil
}

func (l *line) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.stop()
		_ = l.conn.Close()
	}
}
